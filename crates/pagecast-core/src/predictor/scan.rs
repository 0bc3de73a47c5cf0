//! One running or expected scan: its record in memory, and how readers and reporters use it
//! together.
//!
//! Invariants:
//! * (I1) A scan's fixed words (`STARTED` to `PARTS`, `CHUNKS` and `EXPECTED`), its parts and its
//!   runs are written only while its version says that it is not live. A reader that finds the same
//!   live version before and after has read one registration.
//! * (I2) Every word that reporters change carries the low 12 bits of the generation, and is
//!   changed only by a compare-exchange against a value with these bits. A reporter that was held
//!   up while its scan finished and the slot was taken again finds other bits and changes nothing.
//!   (It would have to sleep through a multiple of 4096 uses of the slot, and find the very value
//!   it had read, to do harm.)
//! * (I3) The position never falls while the scan lives.
//! * (I4) `ANCHOR`, `ANCHOR_TIME`, `STEP`, `PACE`, `WEIGHT` and `REPORTED` are changed only by who
//!   made `MEASURE` odd, and a reader that finds the same even `MEASURE` before and after has read
//!   one measurement. Nobody waits for an odd one: other reporters leave the measuring to the next
//!   report, readers take the words as they are after a few tries, each of them a true value of
//!   this scan.

mod slot;

use super::expectation;
use super::records::{KINDS, MAX_LENGTH, SCAN_WORDS, VALUE_BITS, header};
use super::words::{Words, join, split};
use super::{Expectation, Pages, Part, Run, ScanKind, ScanSpec};
use crate::sync::atomic::{
    AtomicU64, Ordering,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use crate::{ScanId, Tick};
pub(super) use slot::Slot;

/// How often a reader starts over when it meets a measurement being written.
const TRIES: u32 = 4;

/// How much of the past a report keeps: of 1, 8 reports back, 0.34 are left. Few enough to follow a
/// scan that turns from memory to disk, and enough to make one rate of the uneven reports of
/// several workers.
const KEEP: f64 = 0.875;

// Words of a record, which fill two cache lines.
const VERSION: usize = 0;
const STARTED: usize = 1;
const LENGTH: usize = 2;
const KIND_PART: usize = 3;
const PARTS: usize = 4;
const POSITION: usize = 5;
const MEASURE: usize = 6;
const ANCHOR: usize = 7;
const ANCHOR_TIME: usize = 8;
const STEP: usize = 9;
const PACE: usize = 10;
const WEIGHT: usize = 11;
/// The next free slot while the scan is not live; only the writer reads it.
const LINK: usize = 12;
/// Up to where it has reported; a position.
const REPORTED: usize = 13;
/// Where its chunks are, and their tag (chunks.rs).
pub(super) const CHUNKS: usize = 14;
/// 0 while the scan runs, otherwise how it is expected (expectation.rs).
const EXPECTED: usize = 15;

/// Beside the kind: see [`Order::at_chunks`] and [`Order::page_by_page`].
const AT_CHUNKS: u32 = 1 << 8;
const PAGE_BY_PAGE: u32 = 1 << 9;
/// Its positions are chunks, read in any order.
const UNORDERED: u32 = 1 << 10;

/// In what order a scan asks for its pages.
struct Order {
    /// It reads all pages of a position at once, and says that it is past them when it does.
    at_chunks: bool,
    /// It asks for one page at each position, in their order.
    page_by_page: bool,
}

impl Order {
    fn of(scan: &ScanSpec<'_>) -> Self {
        Self { at_chunks: Self::is_at_chunks(scan), page_by_page: Self::is_page_by_page(scan) }
    }

    fn bits(&self) -> u32 {
        let at_chunks = if self.at_chunks { AT_CHUNKS } else { 0 };
        let page_by_page = if self.page_by_page { PAGE_BY_PAGE } else { 0 };
        at_chunks | page_by_page
    }

    /// Whether no run has more positions than one, as with row groups whose pages are asked for
    /// together. Such a scan reports that it is past a position when it asks for its pages.
    fn is_at_chunks(scan: &ScanSpec<'_>) -> bool {
        let at_once = |part: &Part<'_>| matches!(part.pages, Pages::Runs(runs) if runs.iter().all(|run| run.span == 0));
        !scan.parts.is_empty() && scan.parts.iter().all(at_once)
    }

    /// Whether each of the positions is that of one page: such a scan asks for its pages in their
    /// order, one by one, and from which it asks for can be told where it is.
    fn is_page_by_page(scan: &ScanSpec<'_>) -> bool {
        let [part] = scan.parts else { return false };
        match part.pages {
            Pages::Runs(runs) => {
                let pages = |run: &Run| (u64::from(run.blocks) == run.span).then_some(run.span);
                runs.iter().try_fold(0, |sum: u64, run| sum.checked_add(pages(run)?)) == Some(scan.length)
            }
            Pages::Bitset { .. } => true,
            Pages::Correlated { .. } => false,
        }
    }
}

/// How it was learned where a scan is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Reported,
    Missed,
}

/// The last measurement of a scan: where it stood, when, how far from there its next report is
/// expected and how fast it goes.
#[derive(Clone, Copy)]
struct Measurement {
    /// A position.
    anchor: u64,
    /// Ticks after the scan's start.
    time: u64,
    /// Positions.
    step: u64,
    /// Ticks per position.
    pace: f64,
    /// Of how many positions the pace is the mean, older ones counted less.
    weight: f64,
}

/// The record of a scan that was live, under the name given, when it was looked up.
#[derive(Clone, Copy)]
pub(super) struct Scan<'a> {
    words: Words<'a>,
    /// A slice of known length, so that its words are found without looking whether they exist.
    record: &'a [AtomicU64; SCAN_WORDS],
    generation: u32,
}

const fn live(generation: u32) -> u64 {
    ((generation as u64) << 1) | 1
}

impl<'a> Scan<'a> {
    /// The scan `id` whose record is at `at`, if it is live.
    #[inline]
    pub(super) fn open(words: Words<'a>, at: usize, id: ScanId) -> Option<Self> {
        // Acquire: pairs with the Release in `publish`; all that the registration wrote is seen
        // after this.
        let record = words.record(at)?;
        let version = record[VERSION].load(Acquire);
        (version == live(id.generation)).then_some(Self { words, record, generation: id.generation })
    }

    /// The generation of the live scan at `at`, if there is one.
    pub(super) fn live_generation(words: Words<'_>, at: usize) -> Option<u32> {
        let version = words.load(at + VERSION, Relaxed);
        (version & 1 == 1).then_some((version >> 1) as u32)
    }

    /// Whether all that was read since `open` belongs to this registration (I1).
    #[inline]
    pub(super) fn unchanged(&self) -> bool {
        #[cfg(pagecast_shuttle)]
        if crate::mistake::made(crate::mistake::Mistake::NoVersionCheck) {
            return true;
        }
        // The fence pairs with the one in `retract`'s callers: a reader that saw a word written
        // after the scan ended sees here that it ended.
        fence(Acquire);
        self.get(VERSION) == live(self.generation)
    }

    #[inline]
    pub(super) fn started(&self) -> Tick {
        self.get(STARTED)
    }

    pub(super) fn length(&self) -> u64 {
        self.get(LENGTH)
    }

    pub(super) fn kind(&self) -> ScanKind {
        ScanKind(split(self.get(KIND_PART)).0 as u8)
    }

    /// How it is expected, if it does not run.
    #[inline]
    pub(super) fn expectation(&self) -> Option<Expectation> {
        match self.get(EXPECTED) {
            0 => None,
            packed => Some(expectation::unpack(packed, self.started())),
        }
    }

    pub(super) fn first_part(&self) -> u32 {
        split(self.get(KIND_PART)).1
    }

    pub(super) fn is_unordered(&self) -> bool {
        split(self.get(KIND_PART)).0 & UNORDERED != 0
    }

    #[inline]
    pub(super) fn words(&self) -> Words<'a> {
        self.words
    }

    pub(super) fn parts(&self) -> u32 {
        self.get(PARTS) as u32
    }

    #[inline]
    pub(super) fn position(&self) -> u64 {
        value(self.get(POSITION))
    }

    /// Ticks per position.
    pub(super) fn pace(&self) -> f64 {
        self.last_measurement().pace
    }

    /// Ticks per position if it were to report its next one now, where that is more: who stands
    /// still becomes slower.
    pub(super) fn pace_at_least(&self, now: Tick) -> f64 {
        let Measurement { time, pace, weight, .. } = self.last_measurement();
        let elapsed = now.saturating_sub(self.started()).saturating_sub(time) as f64;
        let kept = weight * KEEP;
        if elapsed > pace && self.get(EXPECTED) == 0 { (kept * pace + elapsed) / (kept + 1.0) } else { pace }
    }

    /// Ticks from `now` until the scan is at `target`, which is not below the position that it has
    /// reported.
    ///
    /// It has gone on since the last measurement, by the elapsed time but not by more than its last
    /// step takes. In ticks and not in positions, because multiplication is much cheaper than
    /// division.
    #[inline]
    pub(super) fn ticks_until(&self, target: u64, now: Tick) -> Tick {
        let Measurement { anchor, time, step, pace, .. } = self.last_measurement();
        let elapsed = now.saturating_sub(self.started()).saturating_sub(time) as f64;
        let from_anchor = target.saturating_sub(anchor) as f64 * pace - elapsed.min(step as f64 * pace);
        // Reports that measured nothing have moved the position, too.
        let from_position = target.saturating_sub(self.position()) as f64 * pace;
        // A conversion that saturates: below 0 is 0.
        from_anchor.min(from_position) as Tick
    }

    /// Whether the scan has probably used the page at `target`, which it has not reported as read:
    /// it should have come to it by now, and the page was used at `used`, when it should have been
    /// there or later; half of the way's time counts, for scans go faster where they miss nothing.
    /// It is not taken to have gone further than to where its next report is expected, so of a scan
    /// that stands still this is said of few pages. A scan that reads at chunks has used none of
    /// what it has not reported: between two reports it only works.
    #[inline]
    pub(super) fn has_used(&self, target: u64, used: Tick, now: Tick) -> bool {
        let Measurement { anchor, time, step, pace, .. } = self.last_measurement();
        let measured = self.started().saturating_add(time);
        let way = target.saturating_sub(anchor) as f64 * pace;
        used > measured
            && (used - measured) as f64 >= way * 0.5
            && target < anchor.saturating_add(step)
            && way <= now.saturating_sub(measured) as f64
            && split(self.get(KIND_PART)).0 & AT_CHUNKS == 0
    }

    #[inline]
    fn last_measurement(&self) -> Measurement {
        let mut measure = self.record[MEASURE].load(Acquire);
        let mut tries = TRIES;
        loop {
            let found = Measurement {
                anchor: value(self.get(ANCHOR)),
                time: value(self.get(ANCHOR_TIME)),
                step: value(self.get(STEP)),
                pace: real(self.get(PACE)),
                weight: real(self.get(WEIGHT)),
            };
            // Pairs with the fence in `measure`, as in `unchanged` (I4).
            fence(Acquire);
            let after = self.record[MEASURE].load(Acquire);
            tries -= 1;
            if (after == measure && after.is_multiple_of(2)) || tries == 0 {
                return found;
            }
            measure = after;
        }
    }

    /// Moves the scan to `position` if that is further than it was, and measures its pace. One
    /// without order stands nowhere.
    pub(super) fn report(&self, position: u64, now: Tick) {
        if !self.is_unordered() && self.advance(position.min(self.length())) {
            self.measure(self.elapsed(now), Told::Reported);
        }
    }

    /// The scan, which reads page by page, has missed the page at `position`.
    pub(super) fn missed(&self, position: u64, now: Tick) {
        if self.advance(position.min(self.length())) {
            self.measure(self.elapsed(now), Told::Missed);
        }
    }

    /// Whether it asks for one page at each position, in their order.
    pub(super) fn reads_page_by_page(&self) -> bool {
        split(self.get(KIND_PART)).0 & PAGE_BY_PAGE != 0
    }

    fn elapsed(&self, now: Tick) -> u64 {
        now.saturating_sub(self.started()).min(MAX_LENGTH)
    }

    /// Whether the position rose (I2, I3). Lock-free: a try fails only when another reporter moved
    /// the position.
    fn advance(&self, position: u64) -> bool {
        let wanted = self.tagged(position);
        let mut found = self.get(POSITION);
        while self.is_ours(found) && value(found) < position {
            // Relaxed: nothing else is published by the position.
            if self.exchange(POSITION, found, wanted, Relaxed) {
                return true;
            }
            found = self.get(POSITION);
        }
        false
    }

    /// Moves the scan on by one position, and measures its pace.
    pub(super) fn go_on(&self, now: Tick) {
        let mut found = self.get(POSITION);
        while self.is_ours(found) {
            if self.exchange(POSITION, found, self.tagged(value(found) + 1), Relaxed) {
                return self.measure(self.elapsed(now), Told::Reported);
            }
            found = self.get(POSITION);
        }
    }

    /// Takes the positions and ticks since the last measurement into the pace: the quotient of two
    /// sums in which each report weighs [`KEEP`] of the one after it. The sums miss nothing of what
    /// several workers report in bursts, in any order, and at a clock that stands still, which the
    /// mean of quotients would. What misses tell between two reports weighs as if the second had
    /// told it.
    fn measure(&self, now: u64, told: Told) {
        let measure = self.get(MEASURE);
        let (generation, count) = split(measure);
        let odd = join(generation, count.wrapping_add(1));
        if generation != self.generation || count % 2 == 1 {
            return;
        }
        // Acquire: pairs with the Release at the end; the words are those of the last measurement.
        if !self.exchange(MEASURE, measure, odd, Acquire) {
            return;
        }
        // Readers that see a word written below see the odd count, too (I4).
        fence(Release);
        let (position, anchor) = (self.position(), value(self.get(ANCHOR)));
        let (went, ticks) = (position.saturating_sub(anchor), now.saturating_sub(value(self.get(ANCHOR_TIME))));
        // While the clock stands still the anchor stays, and a later report has the sum of the
        // steps.
        if went > 0 && ticks > 0 {
            let (keep, step) = match told {
                Told::Reported => (KEEP, position.saturating_sub(value(self.get(REPORTED)))),
                Told::Missed => (1.0, anchor.saturating_add(value(self.get(STEP))).saturating_sub(position)),
            };
            let (weight, pace) = (real(self.get(WEIGHT)) * keep, real(self.get(PACE)));
            let sum = weight + went as f64;
            let pace = (weight * pace + ticks as f64) / sum;
            if told == Told::Reported {
                self.set(REPORTED, position);
            }
            self.set(ANCHOR, position);
            self.set(ANCHOR_TIME, now);
            self.set(STEP, step);
            self.set(WEIGHT, bits(sum));
            self.set(PACE, bits(pace));
            let kind = header::PACE + usize::from(self.kind().0 % KINDS);
            if self.words.load(kind, Relaxed) == 0 && self.unchanged() {
                // The first measurement of its kind serves until a scan of the kind has ended.
                self.words.exchange(kind, 0, pace.to_bits(), Relaxed);
            }
        }
        // Fails, rightly, if the scan has ended and another began in its slot.
        self.exchange(MEASURE, odd, join(generation, count.wrapping_add(2)), Release);
    }

    #[inline]
    pub(super) fn get(&self, field: usize) -> u64 {
        self.record[field].load(Relaxed)
    }

    /// Whether the word held `old` and now holds `new`.
    fn exchange(&self, field: usize, old: u64, new: u64, success: Ordering) -> bool {
        self.record[field].compare_exchange(old, new, success, Relaxed).is_ok()
    }

    /// Stores what is measured, unless the word belongs to another registration (I2).
    fn set(&self, field: usize, new: u64) {
        let found = self.get(field);
        if self.is_ours(found) {
            self.exchange(field, found, self.tagged(new), Relaxed);
        }
    }

    fn tagged(&self, value: u64) -> u64 {
        tag(self.generation) | value.min(MAX_LENGTH)
    }

    fn is_ours(&self, word: u64) -> bool {
        #[cfg(pagecast_shuttle)]
        if crate::mistake::made(crate::mistake::Mistake::UntaggedReport) {
            return true;
        }
        word & !MAX_LENGTH == tag(self.generation)
    }
}

const fn tag(generation: u32) -> u64 {
    (generation as u64) << VALUE_BITS
}

const fn value(word: u64) -> u64 {
    word & MAX_LENGTH
}

/// A number in 52 bits: an `f64` without the last 12 bits of its fraction, right to one part in
/// 2^40.
const fn bits(number: f64) -> u64 {
    number.to_bits() >> (64 - VALUE_BITS)
}

const fn real(word: u64) -> f64 {
    f64::from_bits(value(word) << (64 - VALUE_BITS))
}
