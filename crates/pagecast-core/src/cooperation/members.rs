//! Records of members: registered scans.

use super::MemberId;
use super::bits::Bits;
use super::chunks::{ChunkRecord, JOINED};
use super::layout::{CHUNK_WORDS, chunk_words};
use super::needs::Need;
use super::state::{State, half, mistaken};
use crate::Tick;
use crate::words::join;

/// With fewer available chunks for each worker a scan starves: one that it reads next, and one
/// after that. In the thesis' workloads 1 and 4 give the same bytes, within 1 %.
const STARVED: u32 = 2;

// Words of a member.
const GENERATION_NEXT: usize = 0;
const STRETCH_CHUNKS: usize = 1;
const LEFT_AVAILABLE: usize = 2;
const OUT_WORKERS: usize = 3;
/// Loads under way that were chosen for it, and flags.
const LOADS_FLAGS: usize = 4;
const SHARED: usize = 5;
const SINCE: usize = 6;

// Flags of a member.
/// It has several chunks of one unit.
pub(super) const TWINS: u32 = 1;
/// A worker was told to wait and none was served since, whether or not it was woken.
const UNSERVED: u32 = 2;
/// Its workers do not wait for chunks that are out.
pub(super) const ENDS_EARLY: u32 = 4;

/// A member's record.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) state: State<'a>,
    at: usize,
    pub(super) slot: u32,
}

impl<'a> State<'a> {
    #[inline]
    pub(super) fn slot(self, slot: u32) -> Option<Member<'a>> {
        Some(Member { state: self, at: self.layout.member(slot)?, slot })
    }

    /// The member with this name, while it is registered.
    pub(super) fn member(self, id: MemberId) -> Option<Member<'a>> {
        self.slot(id.slot).filter(|member| self.registered().has(id.slot) && member.generation() == id.generation)
    }
}

impl<'a> Member<'a> {
    half!(generation, upper, GENERATION_NEXT, set_generation, set_upper);
    half!(next_free, lower, GENERATION_NEXT, set_next_free, set_lower);
    half!(stretch, upper, STRETCH_CHUNKS);
    half!(recorded_chunks, lower, STRETCH_CHUNKS, set_chunks, set_lower);
    half!(
        /// Chunks that are needed: neither handed out nor done.
        left, upper, LEFT_AVAILABLE, set_left, set_upper);
    half!(
        /// Needed chunks that may be handed out.
        available, lower, LEFT_AVAILABLE, set_available, set_lower);
    half!(
        /// Chunks that are handed out.
        out, upper, OUT_WORKERS, set_out, set_upper);
    half!(workers, lower, OUT_WORKERS);
    half!(loads, upper, LOADS_FLAGS, set_loads, set_upper);
    half!(flags, lower, LOADS_FLAGS, set_flags, set_lower);

    pub(super) fn id(self) -> MemberId {
        MemberId { slot: self.slot, generation: self.generation() }
    }

    /// Begins a use of the record. `stretch` is of [`stretch_words`] words, all 0.
    pub(super) fn begin(self, stretch: u32, chunks: u32, workers: u32, now: Tick) {
        let words = self.state.words;
        words.set(self.at + STRETCH_CHUNKS, join(stretch, chunks));
        for word in [LEFT_AVAILABLE, LOADS_FLAGS, SHARED] {
            words.set(self.at + word, 0);
        }
        words.set(self.at + OUT_WORKERS, join(0, workers.max(1)));
        words.set(self.at + SINCE, now);
        self.state.registered().put(self.slot, true);
    }

    /// How many chunks it was registered with.
    #[inline]
    pub(super) fn chunks(self) -> u32 {
        // Damage must not lead out of the arena.
        let chunks = self.recorded_chunks();
        if self.state.layout.holds(self.stretch() as usize, stretch_words(chunks)) { chunks } else { 0 }
    }

    #[inline]
    pub(super) fn chunk(self, number: u32) -> Option<ChunkRecord<'a>> {
        let at = self.stretch() as usize + number as usize * CHUNK_WORDS;
        if number < self.chunks() { self.state.chunk(at) } else { None }
    }

    /// The parts of its chunk `number`; none of what is a part itself.
    #[inline]
    pub(super) fn parts(self, number: u32) -> impl Iterator<Item = ChunkRecord<'a>> + use<'a> {
        let first = self.chunk(number).filter(|chunk| !chunk.is(JOINED));
        let others = (number.saturating_add(1)..self.chunks()).map_while(move |other| self.chunk(other));
        let others = others.take_while(|other| other.is(JOINED));
        first.into_iter().flat_map(move |first| core::iter::once(first).chain(others.clone()))
    }

    /// What the parts of its chunk `number` need.
    #[inline]
    pub(super) fn needs(self, number: u32) -> impl Iterator<Item = Need<'a>> + use<'a> {
        self.parts(number).filter_map(|part| part.need())
    }

    /// Whether a needed chunk may be handed out: of each part all pages are there, or a load has
    /// ended.
    pub(super) fn may_go_out(self, number: u32) -> bool {
        self.parts(number).all(|part| part.is_complete())
    }

    fn chunk_set(self, number: usize) -> Bits<'a> {
        let (chunks, words) = (self.chunks(), self.state.words);
        let count = if chunks == 0 { 0 } else { chunk_words(chunks) };
        Bits { words, at: self.stretch() as usize + chunks as usize * CHUNK_WORDS + number * count, count }
    }

    pub(super) fn needed(self) -> Bits<'a> {
        self.chunk_set(0)
    }

    /// Needed chunks that may be handed out.
    pub(super) fn ready(self) -> Bits<'a> {
        self.chunk_set(1)
    }

    pub(super) fn set_needed(self, number: u32, needed: bool) {
        if self.needed().put(number, needed) {
            let left = self.left();
            self.set_left(if needed { left.wrapping_add(1) } else { left.wrapping_sub(1) });
        }
    }

    pub(super) fn set_ready(self, number: u32, ready: bool) {
        if self.ready().put(number, ready) {
            let available = self.available();
            self.set_available(if ready { available.wrapping_add(1) } else { available.wrapping_sub(1) });
        }
    }

    pub(super) fn shared(self) -> u64 {
        self.state.words.get(self.at + SHARED)
    }

    pub(super) fn count_shared(self) {
        self.state.words.set(self.at + SHARED, self.shared().wrapping_add(1));
    }

    pub(super) fn flag(self, flag: u32, present: bool) {
        self.set_flags(if present { self.flags() | flag } else { self.flags() & !flag });
    }

    /// Since when it waits, if it does.
    pub(super) fn waits_since(self) -> Option<Tick> {
        self.waits().then(|| self.state.words.get(self.at + SINCE))
    }

    /// How many of its workers have a chunk, or one that is ready for them. None, if the last one
    /// was taken before `since`: nobody knows whether the query is still run.
    pub(super) fn at_work(self, since: Tick) -> u32 {
        let moves = self.state.words.get(self.at + SINCE) >= since;
        if moves { self.out().saturating_add(self.available()).min(self.workers()) } else { 0 }
    }

    fn waits(self) -> bool {
        self.flags() & UNSERVED != 0 || self.state.waiting().has(self.slot)
    }

    /// Notes that a worker was served at `now`. Another may wait on.
    pub(super) fn served(self, now: Tick) {
        self.flag(UNSERVED, false);
        self.state.words.set(self.at + SINCE, now);
    }

    /// Notes that a worker waits from `now` on.
    pub(super) fn wait(self, now: Tick) {
        if !self.waits() {
            self.served(now);
        }
        self.flag(UNSERVED, true);
        self.state.waiting().put(self.slot, true);
    }

    /// Notes that none of its workers waits any more.
    pub(super) fn stop_waiting(self) {
        self.flag(UNSERVED, false);
        self.state.waiting().put(self.slot, false);
    }

    /// The fewest available chunks with which it does not starve (A3; all its workers together).
    #[inline]
    pub(super) fn enough(self) -> u32 {
        STARVED.saturating_mul(self.workers()).min(self.left())
    }

    /// Whether a worker that asks now is told that there is nothing more.
    pub(super) fn has_ended(self) -> bool {
        self.left() == 0 && (self.out() == 0 || self.flags() & ENDS_EARLY != 0)
    }

    /// Notes whether it starves and whether it can be served. Called after every change.
    pub(super) fn refresh(self) {
        let (left, available) = (self.left(), self.available());
        self.state.starved().put(self.slot, available < self.enough());
        let ended = self.has_ended() && !mistaken!(EndWakesNobody);
        self.state.servable().put(self.slot, available > 0 || ended || (left > 0 && self.state.reads_for_itself()));
    }

    /// The record's number is free again, for another member.
    pub(super) fn end(self) {
        let state = self.state;
        for set in [state.registered(), state.waiting(), state.starved(), state.servable()] {
            set.put(self.slot, false);
        }
        self.set_generation(self.generation().wrapping_add(1));
        self.set_chunks(0);
    }
}

/// Words that the chunks of a member take.
pub(super) const fn stretch_words(chunks: u32) -> usize {
    chunks as usize * CHUNK_WORDS + 2 * chunk_words(chunks)
}
