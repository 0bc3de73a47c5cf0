//! Cells: which scans come first to 256 neighbouring blocks.
//!
//! A relation that a hundred scans read has a hundred parts in its chain, and only the one or two
//! nearest matter to a page. Which these are is the same for neighbouring blocks and stays the same
//! for a while: who looked at the whole chain leaves the first [`QUEUE`] of them, with a time
//! before which they cannot be there, and later estimates of the cell look at these alone, in that
//! order, until the next in the queue cannot be earlier than what was found.
//!
//! What is kept is who to ask and never the answer: each estimate is computed from where the scan
//! asked stands now. Only a scan that was not among the first, and has meanwhile become so much
//! faster that it would overtake them, can be missed. That is bounded by the queue's age: see
//! [`Arrivals::is_fresh`].
//!
//! Invariants:
//! * (C1) A queue bears the bucket's `ARRIVED` from before it was built. When that has risen since,
//!   the parts that arrived are taken into the queue first, or it does not count: a scan that was
//!   registered later is not missed.
//! * (C2) A reader that finds the same even `STATE` before and after has read one queue. Nobody
//!   waits for an odd one: without a queue the chain is followed.
//!
//! Cost: a cache line to read. The chain is followed when nothing is known of a cell and when its
//! queue has grown old; after a registration, in each cell once and only its new parts. 64 bytes a
//! cell; the number of cells is the host's choice, and cells that meet in one place push each other
//! out.

use super::pages::Blocks;
use super::records::CELL_WORDS;
use super::words::{Words, join, split};
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use crate::{PageId, Tick};

/// Blocks of a cell: 2^8. Fewer, and the chain is followed more often; more, and the times before
/// which a scan cannot come there say less about one of its pages, so that more scans are asked. 64
/// take a third more instructions.
const CELL_BITS: u32 = 8;
const BLOCK_MASK: u32 = (1 << CELL_BITS) - 1;
/// What a cache line has room for. The first scans reach the cell, and leave the queue by it, one
/// after the other.
pub(super) const QUEUE: usize = 5;

/// The cell in the upper 56 bits, whether there were more than [`QUEUE`] scans, and how many are in
/// the queue.
const KEY: usize = 0;
/// The bucket's `ARRIVED` in the upper half, and a count that is odd while somebody writes.
const STATE: usize = 1;
const BUILT: usize = 2;
const ARRIVALS: usize = 3;

const MORE: u64 = 8;

/// More parts than that since the queue was built, and the chain is followed as a whole.
const FEW: u32 = 8;

/// A part, and the least time that its scan needs to a cell.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    pub(super) part: u32,
    /// Ticks after the queue was built, an `f32`: rounded down.
    ticks: f32,
}

impl Arrival {
    const NONE: Self = Self { part: 0, ticks: 0.0 };
}

/// The first parts to come to a cell, in order.
#[derive(Clone)]
pub(super) struct Queue {
    arrivals: [Arrival; QUEUE],
    count: usize,
    /// Others come later.
    more: bool,
    built: Tick,
}

/// The number of the cell of `page` over all relations.
#[inline]
pub(super) fn key(page: PageId) -> u64 {
    page.raw() >> CELL_BITS
}

/// The blocks of the cell of `page`.
pub(super) fn blocks(page: PageId) -> Blocks {
    let first = page.block() & !BLOCK_MASK;
    Blocks { relation: page.relation().0, first, last: first | BLOCK_MASK }
}

impl Queue {
    pub(super) fn new(built: Tick) -> Self {
        Self { arrivals: [Arrival::NONE; QUEUE], count: 0, more: false, built }
    }

    /// Takes in a part whose scan cannot be at the cell before `ticks` have passed from `now` on.
    pub(super) fn insert(&mut self, part: u32, ticks: Tick, now: Tick) {
        let ticks = now.saturating_sub(self.built).saturating_add(ticks);
        // Down, by more than the rounding of an `f32` can have been up.
        let ticks = (ticks as f64 * (1.0 - 2e-7)) as f32;
        let mut arriving = Arrival { part, ticks };
        if self.count == QUEUE && self.arrivals[QUEUE - 1].ticks <= ticks {
            self.more = true;
            return;
        }
        for place in self.arrivals.iter_mut().take(self.count) {
            if arriving.ticks < place.ticks {
                core::mem::swap(place, &mut arriving);
            }
        }
        match self.arrivals.get_mut(self.count) {
            Some(place) => {
                *place = arriving;
                self.count += 1;
            }
            None => self.more = true,
        }
    }

    /// Forgets a part, which may have become another scan's.
    pub(super) fn remove(&mut self, part: u32) {
        let known = self.arrivals;
        let others = known.iter().take(self.count).filter(|arrival| arrival.part != part);
        self.count = self.arrivals.iter_mut().zip(others).map(|(place, arrival)| *place = *arrival).count();
    }
}

/// Who comes to a cell, first come first.
pub(super) trait Arrivals {
    fn arrivals(&self) -> impl Iterator<Item = Arrival>;

    fn built(&self) -> Tick;

    /// Whether scans that are not in the queue exist, none of which come before those who are.
    fn leaves_out(&self) -> bool;

    /// Whether `arrival` and all after it come to the cell no sooner than `nearest` ticks from
    /// `now` on. What a scan without order is expected in falls half as fast as time goes by.
    #[inline]
    fn come_later(&self, arrival: &Arrival, nearest: Tick, now: Tick) -> bool {
        arrival.ticks as u64 >= nearest.saturating_add(now.saturating_sub(self.built()))
    }

    /// Whether the queue is young enough for an estimate of `nearest` ticks from `now` on: not more
    /// time has passed since it was built than is still to come. A scan that has become twice as
    /// fast meanwhile is noticed in time.
    #[inline]
    fn is_fresh(&self, nearest: Tick, now: Tick) -> bool {
        now.abs_diff(self.built()) <= nearest
    }
}

impl Arrivals for Queue {
    fn arrivals(&self) -> impl Iterator<Item = Arrival> {
        self.arrivals.iter().take(self.count).copied()
    }

    fn built(&self) -> Tick {
        self.built
    }

    fn leaves_out(&self) -> bool {
        self.more
    }
}

/// A queue that lies in memory, of which only what is needed is read. What it says holds if it
/// [`is_whole`](Self::is_whole) afterwards.
#[derive(Clone, Copy)]
pub(super) struct Lying<'a> {
    record: &'a [AtomicU64; CELL_WORDS],
    state: u64,
    head: u64,
}

impl Arrivals for Lying<'_> {
    #[inline]
    fn arrivals(&self) -> impl Iterator<Item = Arrival> {
        (0..QUEUE).take(self.count()).map(|index| {
            let (part, ticks) = split(self.record[ARRIVALS + index].load(Relaxed));
            Arrival { part, ticks: f32::from_bits(ticks) }
        })
    }

    #[inline]
    fn built(&self) -> Tick {
        self.record[BUILT].load(Relaxed)
    }

    #[inline]
    fn leaves_out(&self) -> bool {
        self.head & MORE != 0
    }
}

impl Lying<'_> {
    #[inline]
    fn count(&self) -> usize {
        ((self.head % MORE) as usize).min(QUEUE)
    }

    /// Whether all that was read is of one queue (C2).
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        // Pairs with the fence in `write`.
        fence(Acquire);
        self.record[STATE].load(Relaxed) == self.state || self.torn_is_taken()
    }

    /// All of it.
    pub(super) fn queue(&self) -> Option<Queue> {
        let mut queue = Queue { more: self.leaves_out(), ..Queue::new(self.built()) };
        queue.count = queue.arrivals.iter_mut().zip(self.arrivals()).map(|(place, arrival)| *place = arrival).count();
        self.is_whole().then_some(queue)
    }

    #[inline]
    fn torn_is_taken(&self) -> bool {
        #[cfg(pagecast_shuttle)]
        return crate::mistake::made(crate::mistake::Mistake::TornCell);
        #[cfg(not(pagecast_shuttle))]
        false
    }
}

/// The place of a cell in memory.
#[derive(Clone, Copy)]
pub(super) struct Cell<'a> {
    pub(super) words: Words<'a>,
    pub(super) at: usize,
}

impl<'a> Cell<'a> {
    /// The queue of cell `key`, if it is here, and how many of the `arrived` parts came after it
    /// (C1).
    #[inline]
    pub(super) fn read(self, key: u64, arrived: u32) -> Option<(Lying<'a>, u32)> {
        let record = self.words.record::<CELL_WORDS>(self.at)?;
        // Acquire: pairs with the Release at the end of `write`.
        let state = record[STATE].load(Acquire);
        let (known, count) = split(state);
        let head = record[KEY].load(Relaxed);
        let since = self.since(arrived, known);
        let here = since <= FEW && count.is_multiple_of(2) && head >> CELL_BITS == key;
        here.then_some((Lying { record, state, head }, since))
    }

    /// Leaves the queue of cell `key`, which has all of the `arrived` parts, unless somebody else
    /// writes here.
    pub(super) fn write(self, key: u64, arrived: u32, queue: &Queue) {
        let state = self.words.load(self.at + STATE, Relaxed);
        let (_, count) = split(state);
        let odd = join(arrived, count.wrapping_add(1));
        // Acquire: who wrote before has finished.
        if count % 2 == 1 || !self.words.exchange(self.at + STATE, state, odd, Acquire) {
            return;
        }
        // Readers that see a word written below see the odd count, too (C2).
        fence(Release);
        let more = if queue.more { MORE } else { 0 };
        self.words.store(self.at + KEY, key << CELL_BITS | more | queue.count as u64, Relaxed);
        self.words.store(self.at + BUILT, queue.built, Relaxed);
        for (index, arrival) in queue.arrivals.iter().enumerate() {
            self.words.store(self.at + ARRIVALS + index, join(arrival.part, arrival.ticks.to_bits()), Relaxed);
        }
        self.words.store(self.at + STATE, join(arrived, count.wrapping_add(2)), Release);
    }

    #[inline]
    fn since(self, arrived: u32, known: u32) -> u32 {
        #[cfg(pagecast_shuttle)]
        if crate::mistake::made(crate::mistake::Mistake::StaleCell) {
            return 0;
        }
        arrived.wrapping_sub(known)
    }
}
