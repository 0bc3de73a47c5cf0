//! What happens to strokes: needed, handed out, given back, done; and what pages that come and go
//! change for them.

use super::members::{Member, TWINS};
use super::needs::Need;
use super::state::mistaken;
use super::strokes::{GRANTED, NEEDED, OUT, READING, SUPERFLUOUS, StrokeRecord};
use super::units::UnitRecord;

impl<'a> StrokeRecord<'a> {
    fn need_and_unit(self) -> Option<(UnitRecord<'a>, Need<'a>)> {
        let need = self.state.need(self.need_at())?;
        Some((self.state.unit(need.unit())?, need))
    }
}

impl<'a> Member<'a> {
    /// Makes stroke `number` one of this need, and needed.
    pub(super) fn add(self, number: u32, unit: UnitRecord<'a>, need: Need<'a>) {
        let Some(stroke) = self.stroke(number) else { return };
        stroke.begin(need.at as u32, self.slot, number);
        need.set_strokes(need.strokes().wrapping_add(1));
        unit.set_references(unit.references().wrapping_add(1));
        self.want(number);
    }

    /// Makes a stroke needed that is not.
    fn want(self, number: u32) {
        let Some(stroke) = self.stroke(number) else { return };
        let Some((unit, need)) = stroke.need_and_unit() else { return };
        stroke.mark(NEEDED, true);
        need.set_head(stroke.push(need.head()));
        if unit.needs().any(|other| other.members().has(self.slot)) {
            self.flag(TWINS, true);
        }
        need.members().put(self.slot, true);
        for other in unit.needs().filter(|&other| unit.meet(other, need)) {
            other.sharers().put(self.slot, true);
        }
        self.set_needed(number, true);
        self.set_ready(number, need.missing() == 0);
    }

    /// The stroke is not needed any more.
    fn unwant(self, number: u32) {
        let Some(stroke) = self.stroke(number) else { return };
        let Some((unit, need)) = stroke.need_and_unit() else { return };
        if !mistaken!(HandedOutTwice) {
            self.set_ready(number, false);
        }
        self.set_needed(number, false);
        stroke.mark(NEEDED | GRANTED, false);
        need.set_head(stroke.pull(need.head()));
        let twins = self.flags() & TWINS != 0;
        if twins && self.state.list(need.head()).any(|other| other.slot() == self.slot) {
            return;
        }
        need.members().put(self.slot, false);
        for other in unit.needs().filter(|&other| unit.meet(other, need)) {
            let remains = twins && unit.needs().any(|need| need.members().has(self.slot) && unit.meet(need, other));
            other.sharers().put(self.slot, remains);
        }
    }

    /// Hands a needed stroke out. `reads`: pages of it are missing, and the one who takes it reads
    /// them.
    pub(super) fn hand_out(self, number: u32, reads: bool) {
        self.unwant(number);
        let Some(stroke) = self.stroke(number) else { return };
        let Some((unit, need)) = stroke.need_and_unit() else { return };
        stroke.mark(OUT, true);
        need.set_out_head(stroke.push(need.out_head()));
        self.set_out(self.out().wrapping_add(1));
        if reads {
            stroke.mark(READING, true);
            unit.set_reading(unit.reading().wrapping_add(1));
            unit.set_loader(self.id().raw());
        }
    }

    /// Takes back a stroke that is out.
    fn take_back(self, stroke: StrokeRecord<'a>) {
        if let Some((unit, need)) = stroke.need_and_unit() {
            need.set_out_head(stroke.pull(need.out_head()));
            if stroke.is(READING) {
                unit.set_reading(unit.reading().wrapping_sub(1));
            }
        }
        stroke.mark(OUT | READING, false);
        self.set_out(self.out().wrapping_sub(1));
    }

    /// A stroke that is out is done, or needed again unless it became superfluous.
    pub(super) fn end_stroke(self, number: u32, consumed: bool) {
        let Some(stroke) = self.stroke(number).filter(|stroke| stroke.is(OUT)) else { return };
        self.take_back(stroke);
        if consumed || stroke.is(SUPERFLUOUS) {
            self.forget(stroke);
        } else {
            self.want(number);
        }
    }

    /// Nobody needs the stroke any more: now, or when it is given back.
    pub(super) fn remove_stroke(self, number: u32) {
        let Some(stroke) = self.stroke(number) else { return };
        if stroke.is(NEEDED) {
            self.unwant(number);
            self.forget(stroke);
        } else if stroke.is(OUT) {
            stroke.mark(SUPERFLUOUS, true);
        }
    }

    /// The stroke is done: its need and its unit have a reference less.
    fn forget(self, stroke: StrokeRecord<'a>) {
        stroke.mark(SUPERFLUOUS, false);
        if let Some((unit, need)) = stroke.need_and_unit() {
            need.set_strokes(need.strokes().saturating_sub(1));
            unit.release();
        }
    }

    /// Frees all that the member's strokes hold.
    pub(super) fn drop_strokes(self) {
        for number in 0..self.strokes() {
            let Some(stroke) = self.stroke(number) else { break };
            if stroke.is(OUT) {
                self.take_back(stroke);
                self.forget(stroke);
            } else {
                self.remove_stroke(number);
            }
        }
    }

    /// A load for this stroke has ended: it is handed out, whatever of it is resident.
    pub(super) fn grant(self, number: u32) {
        if let Some(stroke) = self.stroke(number).filter(|stroke| stroke.is(NEEDED)) {
            stroke.mark(GRANTED, true);
            self.set_ready(number, true);
        }
    }
}

impl<'a> UnitRecord<'a> {
    /// Block `index` has come or gone.
    pub(super) fn count(self, index: u32, present: bool) {
        for need in self.needs().filter(|&need| self.mask(need).has(index)) {
            let missing = need.missing();
            if present {
                need.set_missing(missing.saturating_sub(1));
                if missing == 1 {
                    self.completed(need);
                }
            } else {
                need.set_missing(missing.wrapping_add(1));
                if missing == 0 {
                    tell(need, false);
                }
            }
        }
    }

    /// The last missing page of a need has come.
    fn completed(self, need: Need<'a>) {
        let state = self.state;
        // The latest one to read is the first in the list.
        let readers = || state.list(need.out_head()).filter(|stroke| stroke.is(READING));
        let reader = readers().next().and_then(|stroke| state.slot(stroke.slot()));
        need.set_loader(match reader {
            Some(reader) if self.load() == 0 => reader.id().raw(),
            _ => self.loader(),
        });
        for stroke in readers() {
            stroke.mark(READING, false);
            self.set_reading(self.reading().wrapping_sub(1));
        }
        tell(need, true);
    }
}

/// Tells the members that need it whether all pages of a need are there.
fn tell(need: Need<'_>, complete: bool) {
    for stroke in need.state.list(need.head()) {
        if let Some(member) = need.state.slot(stroke.slot()) {
            member.set_ready(stroke.number(), complete || stroke.is(GRANTED));
            member.refresh();
        }
    }
}
