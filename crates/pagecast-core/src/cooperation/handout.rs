//! What happens to chunks: needed, handed out, given back, done; and what pages that come and go
//! change for them.

use super::chunks::{ChunkRecord, GRANTED, JOINED, NEEDED, OUT, READING, SUPERFLUOUS};
use super::members::{Member, TWINS};
use super::needs::Need;
use super::state::mistaken;
use super::units::UnitRecord;

impl<'a> ChunkRecord<'a> {
    #[inline]
    pub(super) fn need(self) -> Option<Need<'a>> {
        self.state.need(self.need_at())
    }

    fn need_and_unit(self) -> Option<(UnitRecord<'a>, Need<'a>)> {
        let need = self.need()?;
        Some((self.state.unit(need.unit())?, need))
    }

    /// Whether nothing of it is to be loaded: all of its pages are there, or a load has ended.
    #[inline]
    pub(super) fn is_complete(self) -> bool {
        self.is(GRANTED) || self.need().is_none_or(|need| need.missing() == 0)
    }
}

impl<'a> Member<'a> {
    /// Makes record `number` one of this need, and needed: a chunk, or a part of the one before.
    pub(super) fn add(self, number: u32, joined: bool, unit: UnitRecord<'a>, need: Need<'a>) {
        let Some(part) = self.chunk(number) else { return };
        let before = number.checked_sub(1).filter(|_| joined).and_then(|before| self.chunk(before));
        let first = before.map_or(number, ChunkRecord::number);
        part.begin(need.at as u32, self.slot, first);
        part.mark(JOINED, before.is_some());
        need.set_chunks(need.chunks().wrapping_add(1));
        unit.set_references(unit.references().wrapping_add(1));
        self.want_part(part);
        self.set_needed(first, true);
        self.set_ready(first, self.may_go_out(first));
    }

    /// Makes a chunk needed that is not.
    fn want(self, number: u32) {
        self.parts(number).for_each(|part| self.want_part(part));
        self.set_needed(number, true);
        self.set_ready(number, self.may_go_out(number));
    }

    fn want_part(self, part: ChunkRecord<'a>) {
        let Some((unit, need)) = part.need_and_unit() else { return };
        part.mark(NEEDED, true);
        need.set_head(part.push(need.head()));
        if unit.needs().any(|other| other.members().has(self.slot)) {
            self.flag(TWINS, true);
        }
        need.members().put(self.slot, true);
        for other in unit.needs().filter(|&other| unit.meet(other, need)) {
            other.sharers().put(self.slot, true);
        }
    }

    /// The chunk is not needed any more.
    fn unwant(self, number: u32) {
        if !mistaken!(HandedOutTwice) {
            self.set_ready(number, false);
        }
        self.set_needed(number, false);
        self.parts(number).for_each(|part| self.unwant_part(part));
    }

    fn unwant_part(self, part: ChunkRecord<'a>) {
        let Some((unit, need)) = part.need_and_unit() else { return };
        part.mark(NEEDED | GRANTED, false);
        need.set_head(part.pull(need.head()));
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

    /// Hands a needed chunk out. Pages that are missing reads the one who takes it.
    pub(super) fn hand_out(self, number: u32) {
        self.unwant(number);
        for part in self.parts(number) {
            let Some((unit, need)) = part.need_and_unit() else { continue };
            part.mark(OUT, true);
            need.set_out_head(part.push(need.out_head()));
            if need.missing() > 0 {
                part.mark(READING, true);
                unit.set_reading(unit.reading().wrapping_add(1));
                unit.set_loader(self.id().raw());
            }
        }
        self.set_out(self.out().wrapping_add(1));
    }

    /// Takes back a chunk that is out.
    fn take_back(self, number: u32) {
        for part in self.parts(number) {
            if let Some((unit, need)) = part.need_and_unit() {
                need.set_out_head(part.pull(need.out_head()));
                if part.is(READING) {
                    unit.set_reading(unit.reading().wrapping_sub(1));
                }
            }
            part.mark(OUT | READING, false);
        }
        self.set_out(self.out().wrapping_sub(1));
    }

    /// The first part of a chunk.
    fn first(self, number: u32) -> Option<ChunkRecord<'a>> {
        self.parts(number).next()
    }

    /// A chunk that is out is done, or needed again unless it became superfluous.
    pub(super) fn end_chunk(self, number: u32, consumed: bool) {
        let Some(chunk) = self.first(number).filter(|chunk| chunk.is(OUT)) else { return };
        self.take_back(number);
        if consumed || chunk.is(SUPERFLUOUS) {
            self.forget(number);
        } else {
            self.want(number);
        }
    }

    /// Nobody needs the chunk any more: now, or when it is given back.
    pub(super) fn remove_chunk(self, number: u32) {
        let Some(chunk) = self.first(number) else { return };
        if chunk.is(NEEDED) {
            self.unwant(number);
            self.forget(number);
        } else if chunk.is(OUT) {
            chunk.mark(SUPERFLUOUS, true);
        }
    }

    /// The chunk is done: its needs and its units have a reference less.
    fn forget(self, number: u32) {
        for part in self.parts(number) {
            part.mark(SUPERFLUOUS, false);
            if let Some((unit, need)) = part.need_and_unit() {
                need.set_chunks(need.chunks().saturating_sub(1));
                unit.release();
            }
        }
    }

    /// Frees all that the member's chunks hold.
    pub(super) fn drop_chunks(self) {
        for number in 0..self.chunks() {
            let Some(chunk) = self.first(number) else { continue };
            if chunk.is(OUT) {
                self.take_back(number);
                self.forget(number);
            } else {
                self.remove_chunk(number);
            }
        }
    }

    /// A load for this chunk, of this unit, has ended: that part goes out, whatever of it is
    /// resident.
    pub(super) fn grant(self, number: u32, unit: u32) {
        let is_needed = |part: &ChunkRecord<'a>| part.is(NEEDED);
        for part in self.parts(number).filter(is_needed) {
            if part.need().is_some_and(|need| need.unit() == unit) {
                part.mark(GRANTED, true);
            }
        }
        if self.first(number).is_some_and(|chunk| is_needed(&chunk)) {
            self.set_ready(number, self.may_go_out(number));
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
                    tell(need);
                }
            }
        }
    }

    /// The last missing page of a need has come.
    fn completed(self, need: Need<'a>) {
        let state = self.state;
        // The latest one to read is the first in the list.
        let readers = || state.list(need.out_head()).filter(|chunk| chunk.is(READING));
        let reader = readers().next().and_then(|chunk| state.slot(chunk.slot()));
        need.set_loader(match reader {
            Some(reader) if self.load() == 0 => reader.id().raw(),
            _ => self.loader(),
        });
        for chunk in readers() {
            chunk.mark(READING, false);
            self.set_reading(self.reading().wrapping_sub(1));
        }
        tell(need);
    }
}

/// Tells the members that need it that all pages of a need are there, or no longer.
fn tell(need: Need<'_>) {
    for part in need.state.list(need.head()) {
        if let Some(member) = need.state.slot(part.slot()) {
            member.set_ready(part.number(), member.may_go_out(part.number()));
            member.refresh();
        }
    }
}
