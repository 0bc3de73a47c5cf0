//! Loads: chosen, under way, ended; and pages that come and go.

use super::bits::numbers;
use super::layout::header;
use super::state::{State, mistaken};
use super::units::UnitRecord;
use super::{Load, Loading};
use crate::{PageId, Tick};

impl<'a> State<'a> {
    pub(super) fn next_load(self, now: Tick) -> Option<Load> {
        let Loading::Manager { outstanding } = self.loading() else { return None };
        let under_way = self.loads();
        if under_way >= outstanding {
            return None;
        }
        let (member, stroke, need) = self.choose_load(now)?;
        let unit = self.unit(need.unit())?;
        let sequence = self.words.get(header::LOADS).wrapping_add(1).max(1);
        self.words.set(header::LOADS, sequence);
        self.set_loads(under_way.wrapping_add(1));
        unit.gather(need, self.starved());
        unit.set_load(sequence);
        unit.set_loader(member.id().raw());
        unit.set_references(unit.references().wrapping_add(1));
        member.set_loads(member.loads().wrapping_add(1));
        Some(Load { member: member.id(), stroke, unit: unit.number, sequence, since: now })
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
                member.grant(load.stroke, load.unit);
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
