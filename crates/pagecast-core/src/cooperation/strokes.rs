//! Strokes of members: what state each is in, and the lists that lead from a need to its strokes.
//!
//! A stroke goes from *needed* to *out* (handed out) to *done*; given back it is needed again. It is
//! in the first list of its need while it is needed, and in the second while the one who took it
//! reads pages that were not resident.

use super::layout::STROKE_WORDS;
use super::members::{Member, half};
#[cfg(pagecast_shuttle)]
use super::mistake::{Mistake, made};
use super::state::State;
use super::units::{Need, UnitRecord};
use crate::words::{NIL, join};

// Words of a stroke.
/// The unit; the need's number in it, and the state below.
const UNIT_NEED: usize = 0;
const NEXT_BEFORE: usize = 1;
const SLOT_NUMBER: usize = 2;

/// Bits of a stroke's state. None: done.
const STATE_BITS: u32 = 8;
const NEEDED: u32 = 1;
const OUT: u32 = 2;
/// Out, and pages of it are still missing.
const READING: u32 = 4;
/// Out, and not needed again if it is given back.
const SUPERFLUOUS: u32 = 8;
/// Needed, and handed out even if pages are missing: a load for it has ended.
const GRANTED: u32 = 16;

/// A stroke's record.
#[derive(Clone, Copy)]
pub(super) struct StrokeRecord<'a> {
    pub(super) state: State<'a>,
    pub(super) at: usize,
}

impl<'a> State<'a> {
    fn stroke(self, at: u32) -> Option<StrokeRecord<'a>> {
        self.layout.holds(at as usize, STROKE_WORDS).then_some(StrokeRecord { state: self, at: at as usize })
    }

    /// The strokes of a list. Bounded, whatever the links say.
    fn list(self, head: u32) -> impl Iterator<Item = StrokeRecord<'a>> {
        let most = self.layout.config.words as usize / STROKE_WORDS;
        core::iter::successors(self.stroke(head), move |stroke| self.stroke(stroke.next())).take(most)
    }
}

impl<'a> StrokeRecord<'a> {
    half!(unit, upper, UNIT_NEED);
    half!(need_and_state, lower, UNIT_NEED, set_need_and_state, set_lower);
    half!(next, upper, NEXT_BEFORE, set_next, set_upper);
    half!(before, lower, NEXT_BEFORE, set_before, set_lower);
    half!(slot, upper, SLOT_NUMBER);
    half!(number, lower, SLOT_NUMBER);

    fn is(self, state: u32) -> bool {
        self.need_and_state() & state != 0
    }

    fn mark(self, state: u32, present: bool) {
        let old = self.need_and_state();
        self.set_need_and_state(if present { old | state } else { old & !state });
    }

    pub(super) fn is_needed(self) -> bool {
        self.is(NEEDED)
    }

    pub(super) fn is_out(self) -> bool {
        self.is(OUT)
    }

    #[inline]
    pub(super) fn need_number(self) -> u32 {
        self.need_and_state() >> STATE_BITS
    }

    #[inline]
    fn place(self) -> Option<(UnitRecord<'a>, Need<'a>)> {
        let unit = self.state.unit(self.unit())?;
        Some((unit, unit.need(self.need_number())?))
    }

    fn member(self) -> Option<Member<'a>> {
        self.state.slot(self.slot())
    }
}

impl<'a> Member<'a> {
    /// Unit and need of a stroke.
    #[inline]
    pub(super) fn place(self, number: u32) -> Option<(UnitRecord<'a>, Need<'a>)> {
        self.stroke(number)?.place()
    }

    /// Makes stroke `number` one of this need, and needed.
    pub(super) fn add(self, number: u32, unit: UnitRecord<'a>, index: u32) {
        let (Some(stroke), Some(need)) = (self.stroke(number), unit.need(index)) else { return };
        self.state.words.set(stroke.at + UNIT_NEED, join(unit.number, index << STATE_BITS));
        self.state.words.set(stroke.at + SLOT_NUMBER, join(self.slot, number));
        need.set_strokes(need.strokes().wrapping_add(1));
        unit.set_references(unit.references().wrapping_add(1));
        self.want(number);
    }

    /// Makes a stroke needed that is not.
    fn want(self, number: u32) {
        let Some(stroke) = self.stroke(number) else { return };
        let Some((unit, need)) = stroke.place() else { return };
        stroke.mark(NEEDED, true);
        need.set_head(push(stroke, need.head()));
        if unit.needs().any(|other| other.members().has(self.slot)) {
            self.set_twins(1);
        }
        need.members().put(self.slot, true);
        for other in unit.needs().filter(|other| other.meets(need)) {
            other.sharers().put(self.slot, true);
        }
        self.set_needed(number, true);
        self.set_ready(number, need.missing() == 0);
    }

    /// The stroke is not needed any more.
    fn unwant(self, number: u32) {
        let Some(stroke) = self.stroke(number) else { return };
        let Some((unit, need)) = stroke.place() else { return };
        #[cfg(pagecast_shuttle)]
        let stays = made(Mistake::HandedOutTwice) && need.pages() > 0;
        #[cfg(not(pagecast_shuttle))]
        let stays = false;
        if !stays {
            self.set_ready(number, false);
        }
        self.set_needed(number, false);
        stroke.mark(NEEDED | GRANTED, false);
        need.set_head(pull(stroke, need.head()));
        let twins = self.has_twins() != 0;
        if twins && self.state.list(need.head()).any(|other| other.slot() == self.slot) {
            return;
        }
        need.members().put(self.slot, false);
        for other in unit.needs().filter(|other| other.meets(need)) {
            let remains = twins && unit.needs().any(|need| need.members().has(self.slot) && need.meets(other));
            other.sharers().put(self.slot, remains);
        }
    }

    /// Hands a needed stroke out. `reads`: pages of it are missing, and the one who takes it reads
    /// them.
    pub(super) fn hand_out(self, number: u32, reads: bool) {
        self.unwant(number);
        let Some(stroke) = self.stroke(number) else { return };
        stroke.mark(OUT, true);
        self.set_out(self.out().wrapping_add(1));
        if let Some((unit, need)) = stroke.place().filter(|_| reads) {
            stroke.mark(READING, true);
            need.set_reading_head(push(stroke, need.reading_head()));
            unit.set_reading(unit.reading().wrapping_add(1));
            unit.set_loader(self.id().raw());
        }
    }

    /// Takes back a stroke that is out.
    fn take_back(self, stroke: StrokeRecord<'a>) {
        if stroke.is(READING)
            && let Some((unit, need)) = stroke.place()
        {
            need.set_reading_head(pull(stroke, need.reading_head()));
            unit.set_reading(unit.reading().wrapping_sub(1));
        }
        stroke.mark(OUT | READING, false);
        self.set_out(self.out().wrapping_sub(1));
    }

    /// A stroke that is out is done, or needed again unless it became superfluous.
    pub(super) fn end_stroke(self, number: u32, consumed: bool) {
        let Some(stroke) = self.stroke(number).filter(|stroke| stroke.is_out()) else { return };
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
        if stroke.is_needed() {
            self.unwant(number);
            self.forget(stroke);
        } else if stroke.is_out() {
            stroke.mark(SUPERFLUOUS, true);
        }
    }

    /// The stroke is done: its need and its unit have a reference less.
    fn forget(self, stroke: StrokeRecord<'a>) {
        stroke.mark(SUPERFLUOUS, false);
        if let Some((unit, need)) = stroke.place() {
            need.set_strokes(need.strokes().saturating_sub(1));
            unit.release();
        }
    }

    /// Frees all that the member's strokes hold.
    pub(super) fn drop_strokes(self) {
        for number in 0..self.strokes() {
            let Some(stroke) = self.stroke(number) else { break };
            if stroke.is_out() {
                self.take_back(stroke);
                self.forget(stroke);
            } else {
                self.remove_stroke(number);
            }
        }
    }

    /// A load for this stroke has ended: it is handed out, whatever of it is resident.
    pub(super) fn grant(self, number: u32) {
        if let Some(stroke) = self.stroke(number).filter(|stroke| stroke.is_needed()) {
            stroke.mark(GRANTED, true);
            self.set_ready(number, true);
        }
    }
}

impl<'a> UnitRecord<'a> {
    /// Block `index` has come or gone.
    pub(super) fn count(self, index: u32, present: bool) {
        for need in self.needs().filter(|need| need.mask().has(index)) {
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
        let reader = state.list(need.reading_head()).next().and_then(StrokeRecord::member);
        need.set_loader(match reader {
            Some(reader) if self.load() == 0 => reader.id().raw(),
            _ => self.loader(),
        });
        for stroke in state.list(need.reading_head()) {
            stroke.mark(READING, false);
            self.set_reading(self.reading().wrapping_sub(1));
        }
        need.set_reading_head(NIL);
        tell(need, true);
    }
}

/// Tells the members that need it whether all pages of a need are there.
fn tell(need: Need<'_>, complete: bool) {
    for stroke in need.state.list(need.head()) {
        if let Some(member) = stroke.member() {
            member.set_ready(stroke.number(), complete || stroke.is(GRANTED));
            member.refresh();
        }
    }
}

/// Puts a stroke in front of a list; the new head.
fn push(stroke: StrokeRecord<'_>, head: u32) -> u32 {
    stroke.state.words.set(stroke.at + NEXT_BEFORE, join(head, NIL));
    if let Some(following) = stroke.state.stroke(head) {
        following.set_before(stroke.at as u32);
    }
    stroke.at as u32
}

/// Takes a stroke out of its list; the head as it is then.
fn pull(stroke: StrokeRecord<'_>, head: u32) -> u32 {
    let (next, before) = (stroke.next(), stroke.before());
    if let Some(following) = stroke.state.stroke(next) {
        following.set_before(before);
    }
    match stroke.state.stroke(before) {
        Some(preceding) => {
            preceding.set_next(next);
            head
        }
        None => next,
    }
}
