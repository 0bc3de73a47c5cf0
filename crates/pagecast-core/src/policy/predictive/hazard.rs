//! Hazards: the chance per tick that a page is used, by its history and age, and what holding it
//! costs.
//!
//! Source: the cost is the index of Gittins for one page against a price for its frame: the ticks
//! for which the frame is held per use, if it is held as long as is best and then given up.
//! Beckmann, Chen and Cidon, "LHD" (NSDI 2018), section 3, rank by a relative of it. A page that a
//! scan reads in `t` ticks costs `t` ticks a use: the same unit.
//!
//! Ours: a hazard is uses over time spent at an age, by pages in frames and by ghosts. So it needs
//! no finished interval, and evictions do not distort it. Sums are halved now and then.
//!
//! Cost: an event is two reads and writes; a new estimate of everything some 64 operations a kind.
//! Bytes: 13.5 KiB, and 132 a frame up to 1,024 frames. Concurrency: sums are relaxed, a load and a
//! store apart. What a race loses is an observation of many.

// Kinds: read by scans alone; used once; by the number of known intervals (1, 2 to 3, 4 to 7, and
// so on to 32), by whether the last of them was brief, and by their mean, in octaves. Ages of pages
// with intervals count relative to their mean. What few observations leave open is filled in from
// all means, then from all such kinds, then from the prior.
//
// The prior says that a page is used again in about the time for which it was not. It speaks only
// where nothing was seen yet. So pages older than any that were observed look better than young
// ones once these are seen to go unused: what remains of a loop or scan that does not fit stays.
//
// Pages that only scans have read get no prior: they are worth nothing until uses prove otherwise.
// This is the gate that keeps history out of work of scans alone.

use super::history::History;
use super::logarithm::{Log, OCTAVE, log, ticks};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Ages relative to a mean: quarter octaves from this much below it. Younger ages share the first
/// one.
const BELOW_MEAN: Log = 8 * OCTAVE;
const RELATIVE_AGES: usize = 64;
/// Ages on their own: quarter octaves from 1 tick to 2^56.
const ABSOLUTE_AGES: usize = 224;
const STEP: Log = OCTAVE / 4;

/// The kinds by number of intervals: 1; 2 to 3, 4 to 7, 8 to 15, 16 to 31, 32, each of these with a
/// brief last one or without.
const KINDS: usize = 11;
/// At most so many kinds by mean for each of them, an octave each; means further apart share kinds.
const MAX_LEVELS: u32 = 16;
/// A level is worth its memory from so many frames on.
const FRAMES_PER_LEVEL: u32 = 64;

/// Uses that a more general kind counts for in a special one.
const BORROWED: f32 = 0.5;
/// The same for the prior; small, so that it speaks only where nothing was seen.
const PRIOR: f32 = 0.02;
const OPTIMISM: f32 = 0.3;
/// Uses of pages that only scans have read, below which none is counted on.
const PROOF: f32 = 8.0;

/// Uses, time, and what follows from them, at one age of one kind of history. All are bits of an
/// `f32`.
#[derive(Debug, Default)]
struct Cell {
    uses: AtomicU32,
    time: AtomicU32,
    cost: AtomicU32,
}

/// A sum, kept as the bits of an `f32`.
pub(super) fn get(value: &AtomicU32) -> f32 {
    f32::from_bits(value.load(Relaxed))
}

/// Who adds does so by a load and this: of two at once one may be lost.
pub(super) fn set(value: &AtomicU32, to: f32) {
    value.store(to.to_bits(), Relaxed);
}

/// The sums and costs of all kinds.
///
/// Invariant (I1): `cells` holds the ages of `Scanned`, of `Once`, then of the eleven kinds over
/// all means, then for each of them those of its levels.
#[derive(Debug)]
pub(super) struct HazardTable {
    cells: Vec<Cell>,
    /// Levels that there is room for, and those that are told apart.
    room: u32,
    levels: AtomicU32,
}

fn kind(count: u32, brief: bool) -> usize {
    (2 * count.max(1).ilog2() as usize + usize::from(brief)).saturating_sub(1).min(KINDS - 1)
}

fn levels(frames: u32) -> u32 {
    (frames / FRAMES_PER_LEVEL).min(MAX_LEVELS)
}

fn cells(levels: u32) -> usize {
    2 * ABSOLUTE_AGES + KINDS * (1 + levels as usize) * RELATIVE_AGES
}

/// Where an age of a history stands in the table.
#[derive(Clone, Copy)]
struct Place {
    /// The kind's first cell.
    row: usize,
    /// The more general kind's, if there is one.
    general: Option<usize>,
    /// The age's cell within the row, in units of [`STEP`].
    age: Log,
    ages: usize,
    /// The logarithm of what times are relative to.
    unit: Log,
}

impl Place {
    #[inline]
    fn index(&self) -> usize {
        (self.age.max(0) / STEP).min(self.ages as Log - 1) as usize
    }
}

/// Where an age of a row begins, relative to the row's unit.
fn begin(age: usize, ages: usize) -> f32 {
    let first = if ages == RELATIVE_AGES { -BELOW_MEAN } else { 0 };
    if age == 0 { 0.0 } else { ticks(first + age as Log * STEP) }
}

impl HazardTable {
    /// For a pool of `frames` frames.
    pub(super) fn new(frames: u32) -> Self {
        let room = levels(frames);
        let table =
            Self { cells: (0..cells(room)).map(|_| Cell::default()).collect(), room, levels: AtomicU32::new(room) };
        table.estimate();
        table
    }

    /// Tells as many levels apart as are worth it for `frames` frames.
    pub(super) fn resize(&self, frames: u32) {
        self.levels.store(levels(frames).min(self.room), Relaxed);
    }

    /// What it takes for a pool of `frames` frames.
    pub(super) fn bytes(frames: u32) -> u32 {
        (cells(levels(frames)) * size_of::<Cell>()) as u32
    }

    fn general(kind: usize) -> usize {
        2 * ABSOLUTE_AGES + kind * RELATIVE_AGES
    }

    fn level(&self, kind: usize, level: u32) -> usize {
        Self::general(KINDS) + (kind * self.room as usize + level as usize) * RELATIVE_AGES
    }

    #[inline]
    fn place(&self, history: History, age: u64) -> Place {
        let age = log(age);
        let own = |row| Place { row, general: None, age, ages: ABSOLUTE_AGES, unit: 0 };
        let (kind, mean) = match history {
            History::Scanned => return own(0),
            History::Once => return own(ABSOLUTE_AGES),
            History::Intervals { count, mean, brief } => (kind(count, brief), mean),
        };
        let general = Self::general(kind);
        let octave = (mean + OCTAVE / 2) / OCTAVE;
        let (row, general) = match self.levels.load(Relaxed) {
            0 => (general, None),
            levels => (self.level(kind, octave as u32 % levels), Some(general)),
        };
        Place { row, general, age: age - mean + BELOW_MEAN, ages: RELATIVE_AGES, unit: mean }
    }

    /// A page of this history was used `age` ticks after its last use, and stands for `weight` such
    /// uses.
    #[inline]
    pub(super) fn used(&self, history: History, age: u64, weight: f32) {
        let place = self.place(history, age);
        for row in [Some(place.row), place.general].into_iter().flatten() {
            let uses = &self.cells[row + place.index()].uses;
            set(uses, get(uses) + weight);
        }
    }

    /// Pages of this history spent `time` ticks in all about `age` ticks after their last use.
    #[inline]
    pub(super) fn unused(&self, history: History, age: u64, time: f32) {
        let place = self.place(history, age);
        let time = time / ticks(place.unit);
        for row in [Some(place.row), place.general].into_iter().flatten() {
            let sum = &self.cells[row + place.index()].time;
            set(sum, get(sum) + time);
        }
    }

    /// Ticks for which a frame is held per use if it holds this page on; infinite if no use is to
    /// be expected.
    #[inline]
    pub(super) fn cost(&self, history: History, age: u64) -> f32 {
        let place = self.place(history, age);
        let at = place.index();
        let here = get(&self.cells[place.row + at].cost);
        let next = get(&self.cells[place.row + (at + 1).min(place.ages - 1)].cost);
        // On the way to a use the cost falls steadily. Where it rises, the use has just become
        // unlikely: nothing between.
        let cost = if next < here {
            let part = (place.age - at as Log * STEP).clamp(0, STEP) as f32 / STEP as f32;
            here + (next - here) * part
        } else {
            here
        };
        cost * ticks(place.unit)
    }

    /// Halves all sums.
    pub(super) fn fade(&self) {
        for cell in &self.cells {
            set(&cell.uses, get(&cell.uses) / 2.0);
            set(&cell.time, get(&cell.time) / 2.0);
        }
    }

    /// Makes all costs anew from the sums. Callers see to it that one does so at a time.
    pub(super) fn estimate(&self) {
        self.price(0, ABSOLUTE_AGES, |_, uses, time| if uses < PROOF { 0.0 } else { uses / time.max(1.0) });
        let prior = |age: usize, ages| OPTIMISM * 2.0 / (begin(age, ages) + begin(age + 1, ages));
        self.price(ABSOLUTE_AGES, ABSOLUTE_AGES, |age, uses, time| blend(uses, time, PRIOR, prior(age, ABSOLUTE_AGES)));
        let mut all = [0.0; RELATIVE_AGES];
        for (age, hazard) in all.iter_mut().enumerate() {
            let sum = |value: fn(&Cell) -> &AtomicU32| -> f32 {
                (0..KINDS).map(|kind| get(value(&self.cells[Self::general(kind) + age]))).sum()
            };
            *hazard = blend(sum(|cell| &cell.uses), sum(|cell| &cell.time), PRIOR, prior(age, RELATIVE_AGES));
        }
        for kind in 0..KINDS {
            let mut own = [0.0; RELATIVE_AGES];
            self.price(Self::general(kind), RELATIVE_AGES, |age, uses, time| {
                own[age] = blend(uses, time, BORROWED, all[age]);
                own[age]
            });
            for level in 0..self.room {
                self.price(self.level(kind, level), RELATIVE_AGES, |age, uses, time| {
                    blend(uses, time, BORROWED, own[age])
                });
            }
        }
    }

    /// Prices one row, whose hazards are made of its sums.
    ///
    /// A frame held from age `a` to the end of age `b` is used with the chance, and held for the
    /// time, that the hazards between give. The best `b` for each `a` comes of joining ages from
    /// the oldest down, as long as the later ones are the better deal.
    fn price(&self, row: usize, ages: usize, mut hazard: impl FnMut(usize, f32, f32) -> f32) {
        let mut deals = [Deal::default(); ABSOLUTE_AGES];
        for age in (0..ages).rev() {
            let cell = &self.cells[row + age];
            let width = begin(age + 1, ages) - begin(age, ages);
            // Of the pages of this age 1 in 1 + expected gets through: exact for small hazards, and
            // needs no exponential.
            let expected = hazard(age, get(&cell.uses), get(&cell.time)) * width;
            let left = 1.0 / (1.0 + expected);
            let mut deal = Deal { uses: left * expected, time: left * width, left, ages: 1 };
            while let Some(&later) = deals[..ages].get(age + deal.ages).filter(|later| later.is_better_than(&deal)) {
                deal = deal.and_then(later);
            }
            deals[age] = deal;
            set(&cell.cost, if deal.uses > 0.0 { deal.time / deal.uses } else { f32::INFINITY });
        }
    }
}

/// What is to be had of a page from some age on, if it comes to it: uses for a time.
#[derive(Clone, Copy, Default)]
struct Deal {
    uses: f32,
    time: f32,
    /// The chance that it is not used meanwhile.
    left: f32,
    /// How many ages it spans.
    ages: usize,
}

impl Deal {
    fn is_better_than(&self, other: &Deal) -> bool {
        self.uses * other.time > other.uses * self.time
    }

    /// This, and the later one if the page is not used until then.
    fn and_then(self, later: Deal) -> Deal {
        Deal {
            uses: self.uses + self.left * later.uses,
            time: self.time + self.left * later.time,
            left: self.left * later.left,
            ages: self.ages + later.ages,
        }
    }
}

/// The hazard from what was seen, and from `borrowed` uses at another hazard.
fn blend(uses: f32, time: f32, borrowed: f32, hazard: f32) -> f32 {
    (uses + borrowed) / (time + borrowed / hazard)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The best that can be had from age `from` on by trying every age at which to give the page
    /// up: the least time held per use. `hazards` by age of the pages that were used once.
    fn least_time_per_use(hazards: &[f64], from: usize) -> f64 {
        let (mut left, mut uses, mut time, mut least) = (1.0, 0.0, 0.0, f64::INFINITY);
        for (age, hazard) in hazards.iter().enumerate().skip(from) {
            let width = f64::from(begin(age + 1, ABSOLUTE_AGES) - begin(age, ABSOLUTE_AGES));
            let used = left * hazard * width / (1.0 + hazard * width);
            uses += used;
            time += left * width / (1.0 + hazard * width);
            left -= used;
            least = least.min(time / uses);
        }
        least
    }

    #[test]
    fn the_price_of_holding_a_page_is_the_best_of_all_times_to_give_it_up() {
        let mut random = Random::new(3);
        for turn in 0..40 {
            let table = HazardTable::new(64);
            let mut seen = alloc::vec![(0.0f64, 0.0f64); ABSOLUTE_AGES];
            for (at, cell) in seen.iter_mut().enumerate() {
                // Some ages were never lived through; of some, all or none of the pages were used.
                let width = begin(at + 1, ABSOLUTE_AGES) - begin(at, ABSOLUTE_AGES);
                let time = if random.below(3) == 0 { 0.0 } else { width * random.below(1000) as f32 };
                let uses = if random.below(2) == 0 { 0 } else { random.below(1 + turn) };
                *cell = (uses.into(), time.into());
                set(&table.cells[ABSOLUTE_AGES + at].uses, uses as f32);
                set(&table.cells[ABSOLUTE_AGES + at].time, time);
            }
            table.estimate();
            let hazard = |(at, &(uses, time)): (usize, &(f64, f64))| {
                let middle = f64::from(begin(at, ABSOLUTE_AGES) + begin(at + 1, ABSOLUTE_AGES)) / 2.0;
                let (prior, optimism) = (f64::from(PRIOR), f64::from(OPTIMISM));
                (uses + prior) / (time + prior * middle / optimism)
            };
            let hazards: Vec<f64> = seen.iter().enumerate().map(hazard).collect();
            // Where cells begin; between them the cost is interpolated.
            for octave in 0..40 {
                let cost = f64::from(table.cost(History::Once, 1 << octave));
                let least = least_time_per_use(&hazards, 4 * octave);
                assert!((cost / least - 1.0).abs() < 0.01, "turn {turn}, age 2^{octave}: {cost}, {least}");
            }
        }
    }

    #[test]
    fn what_only_scans_have_read_is_worth_nothing_until_uses_prove_otherwise() {
        let table = HazardTable::new(64);
        (0..7).for_each(|_| table.used(History::Scanned, 100, 1.0));
        table.unused(History::Scanned, 100, 700.0);
        table.estimate();
        assert_eq!(table.cost(History::Scanned, 100), f32::INFINITY);
        table.used(History::Scanned, 100, 1.0);
        table.estimate();
        assert!(table.cost(History::Scanned, 100) < 1000.0, "a use in about 100 ticks");
    }
}
