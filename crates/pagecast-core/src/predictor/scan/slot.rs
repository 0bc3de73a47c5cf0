//! A scan's record as its writer sees it, who holds the host's lock.

use super::{
    ANCHOR, ANCHOR_TIME, CHUNKS, EXPECTED, KIND_PART, LENGTH, LINK, MEASURE, Order, PACE, PARTS, POSITION, REPORTED,
    STARTED, STEP, UNORDERED, VERSION, WEIGHT, bits, live, tag,
};
use crate::Tick;
use crate::predictor::expectation;
use crate::predictor::words::{NIL, Words, join};
use crate::predictor::{Expectation, ScanSpec};
use crate::sync::atomic::Ordering::{Relaxed, Release};

/// What the writer does with a record.
#[derive(Clone, Copy)]
pub(in crate::predictor) struct Slot<'a> {
    pub(in crate::predictor) words: Words<'a>,
    pub(in crate::predictor) at: usize,
}

impl Slot<'_> {
    /// Makes the slot free at the start: generation 0, not live.
    pub(in crate::predictor) fn clear(self, next_free: u32) {
        self.words.store(self.at + VERSION, 0, Relaxed);
        self.set_next_free(next_free);
    }

    pub(in crate::predictor) fn next_free(self) -> u32 {
        self.words.load(self.at + LINK, Relaxed) as u32
    }

    pub(in crate::predictor) fn set_next_free(self, next_free: u32) {
        self.words.store(self.at + LINK, u64::from(next_free), Relaxed);
    }

    /// The generation that the next registration here gets.
    pub(in crate::predictor) fn generation(self) -> u32 {
        (self.words.load(self.at + VERSION, Relaxed) >> 1) as u32
    }

    /// Writes all of a new scan's record but that it is live. Of its parts the first, and how many
    /// they are; of one without order the word of its chunks.
    pub(in crate::predictor) fn fill(
        self,
        scan: &ScanSpec<'_>,
        (first_part, parts): (u32, u32),
        chunks: Option<u64>,
        pace: f64,
        now: Tick,
    ) {
        let store = |field: usize, word| self.words.store(self.at + field, word, Relaxed);
        store(LENGTH, scan.length);
        let order = if chunks.is_some() { UNORDERED } else { Order::of(scan).bits() };
        store(KIND_PART, join(u32::from(scan.kind.0) | order, first_part));
        store(PARTS, u64::from(parts));
        self.begin(chunks, pace, now, None);
    }

    /// Writes what changes when a scan begins, or is expected to: it has done nothing yet.
    pub(in crate::predictor) fn begin(self, chunks: Option<u64>, pace: f64, now: Tick, expected: Option<Expectation>) {
        let generation = self.generation();
        let store = |field: usize, word| self.words.store(self.at + field, word, Relaxed);
        store(STARTED, expected.map_or(now, |expected| expected.start));
        store(EXPECTED, expected.map_or(0, expectation::pack));
        store(CHUNKS, chunks.unwrap_or(0));
        for field in [POSITION, ANCHOR, REPORTED, ANCHOR_TIME, STEP, WEIGHT] {
            store(field, tag(generation));
        }
        store(PACE, tag(generation) | bits(pace));
        store(MEASURE, join(generation, 0));
        store(LINK, u64::from(NIL));
    }

    /// Makes the scan visible, with all its parts at once.
    pub(in crate::predictor) fn publish(self) {
        // Release: pairs with the Acquire in `open`.
        self.words.store(self.at + VERSION, live(self.generation()), Release);
    }

    /// Makes the scan invisible, with all its parts at once. The caller puts a Release fence behind
    /// it before it writes anything that belonged to the scan.
    pub(in crate::predictor) fn retract(self) {
        let next = self.generation().wrapping_add(1);
        self.words.store(self.at + VERSION, u64::from(next) << 1, Relaxed);
    }
}
