//! Loads: chosen, held back, under way, ended; and pages that come and go.

use super::bits::numbers;
use super::layout::header;
use super::state::{State, mistaken};
use super::units::UnitRecord;
use super::{Load, Loading};
use crate::{PageId, Tick};

/// For how long a scan that took a chunk, or began to wait for one, counts as being at work, in
/// durations of a mean load. A cursor that rests holds back nobody's loads for longer.
const PATIENCE: f64 = 64.0;
/// After how long a host that has no other cause looks again whether loads are held back.
const LOOKS_AGAIN: f64 = 8.0;

impl<'a> State<'a> {
    /// Whether the processors have so much to do that no load begins.
    fn holds_back(self, now: Tick) -> bool {
        let enough = self.words.get(header::ENOUGH_AT_WORK);
        let load_ticks = self.load_ticks();
        if enough == 0 || load_ticks == 0.0 {
            return false;
        }
        let since = now.saturating_sub((PATIENCE * load_ticks) as Tick);
        let mut at_work = 0;
        for member in self.registered().iter().filter_map(|slot| self.slot(slot)) {
            at_work += u64::from(member.at_work(since));
            if at_work >= enough {
                return true;
            }
        }
        false
    }

    /// After how many ticks the host looks again for loads, if nothing happens before.
    pub(super) fn look_again(self, now: Tick) -> Option<Tick> {
        let waits = self.waiting().iter().next().is_some();
        (waits && self.holds_back(now)).then(|| ((LOOKS_AGAIN * self.load_ticks()) as Tick).max(1))
    }

    pub(super) fn next_load(self, now: Tick) -> Option<Load> {
        let Loading::Manager { outstanding } = self.loading() else { return None };
        let under_way = self.loads();
        if under_way >= outstanding || self.holds_back(now) {
            return None;
        }
        let (member, chunk, need) = self.choose_load(now)?;
        let unit = self.unit(need.unit())?;
        let sequence = self.words.get(header::LOADS).wrapping_add(1).max(1);
        self.words.set(header::LOADS, sequence);
        self.set_loads(under_way.wrapping_add(1));
        unit.gather(need, self.starved());
        unit.set_load(sequence);
        unit.set_loader(member.id().raw());
        unit.set_references(unit.references().wrapping_add(1));
        member.set_loads(member.loads().wrapping_add(1));
        Some(Load { member: member.id(), chunk, unit: unit.number, sequence, since: now })
    }

    /// The unit of a load that is under way.
    fn unit_of(self, load: &Load) -> Option<UnitRecord<'a>> {
        self.unit(load.unit).filter(|unit| load.sequence != 0 && unit.load() == load.sequence)
    }

    pub(super) fn pages(self, load: &Load, page: impl FnMut(PageId)) {
        let Some(unit) = self.unit_of(load) else { return };
        let missing = unit.wanted().words().zip(unit.resident().words()).map(|(wanted, resident)| wanted & !resident);
        numbers(missing).map(|index| unit.page(index)).for_each(page);
    }

    pub(super) fn loaded(self, load: &Load, now: Tick) {
        let Some(unit) = self.unit_of(load) else { return };
        unit.set_load(0);
        let member = self.member(load.member);
        if !(mistaken!(EndedLoadStays) && member.is_none()) {
            self.set_loads(self.loads().saturating_sub(1));
        }
        self.learn_load_ticks(now.saturating_sub(load.since));
        if let Some(member) = member {
            member.set_loads(member.loads().saturating_sub(1));
            if !mistaken!(NotGranted) {
                member.grant(load.chunk, load.unit);
            }
            member.refresh();
        }
        unit.release();
    }

    /// Notes in all units that hold it that a page has come or gone.
    pub(super) fn note(self, page: PageId, present: bool) {
        for unit in self.units_with(page) {
            if let Some(index) = unit.note(page, present) {
                unit.count(index, present);
            }
            if mistaken!(BorderCountedOnce) {
                break;
            }
        }
    }
}
