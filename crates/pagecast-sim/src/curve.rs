//! Miss-ratio curves: the miss ratio at many pool sizes, from one pass where that is possible, from
//! a sample where the trace is long.
//!
//! * LRU, exactly and in one pass: a request hits in every pool that is larger than its stack
//!   distance, the number of different pages since the last request of the same page (Mattson et
//!   al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970). The
//!   distance is counted by a Fenwick tree over the times of last requests (Olken, LBL-12370, 1981,
//!   who used a balanced tree): O(log pages) a request, 12 bytes a page.
//! * Belady's MIN, exactly and in one pass for all sizes asked for: see [`OptCurve`].
//! * Any policy, from a spatial sample: only pages whose hash falls below a threshold are replayed,
//!   in a pool smaller by the same rate (Waldspurger et al., SHARDS, FAST 2015; for policies
//!   without a stack, "Cache modeling and optimization using miniature simulations", ATC 2017). The
//!   sample's requests are counted against their expected number, as SHARDS-adj does: hot pages
//!   that fall in or out of the sample would otherwise shift the whole curve.

//!
//! One pass is enough for *stack policies* (Mattson et al.): a larger pool holds at every moment
//! what a smaller one holds, because the order in which pages leave does not depend on the size. Of
//! our policies these are `lru` and `opt`. None of the others is: `fifo` and the clocks order pages
//! by when they came in, which depends on the misses; `lfu`, `lfu-aged`, `lrfu`, `hyperbolic` and
//! `watt` forget a page's uses when it leaves; `lru-k`, `lru-2prio`, 2Q, ARC, CAR, LIRS, CLOCK-Pro,
//! S3-FIFO, SIEVE, LeanEvict, W-TinyLFU, CFLRU and CFDC cut the pool into parts by its size,
//! remember as many ghosts as it allows or move a hand by its misses; `random` and PBM draw anew in
//! each pool. They are replayed once a size.

mod opt;

pub use opt::OptCurve;

use crate::simulation::{Contender, Interleaving, Options, SimulationError, simulate_watched};
use crate::trace::Trace;
use crate::watch::Watch;
use pagecast_core::policy::PolicySpec;
use std::sync::Arc;

/// LRU's misses at every pool size.
///
/// ```
/// use pagecast_sim::curve::LruCurve;
///
/// // Page 0 comes again after two others, page 1 after page 2 and page 0.
/// let curve = LruCurve::of(&[0, 1, 2, 0, 1], 3);
/// assert_eq!([1, 2, 3].map(|pages| curve.misses(pages)), [5, 5, 3]);
/// ```
#[derive(Clone, Debug)]
pub struct LruCurve {
    /// By pool size: how many requests hit in it and in no smaller one, summed up.
    hits: Vec<u64>,
    requests: u64,
}

impl LruCurve {
    /// Of `requests`, pages numbered below `unique`.
    ///
    /// # Panics
    ///
    /// If a number is `unique` or more.
    pub fn of(requests: &[u32], unique: u32) -> Self {
        let mut stack = Stack::new(unique);
        let mut hits = vec![0u64; unique as usize + 1];
        for &page in requests {
            if let Some(distance) = stack.touch(page) {
                hits[distance as usize + 1] += 1;
            }
        }
        let mut sum = 0;
        for slot in &mut hits {
            sum += *slot;
            *slot = sum;
        }
        Self { hits, requests: requests.len() as u64 }
    }

    /// The misses in a pool of `frames` frames.
    pub fn misses(&self, frames: u32) -> u64 {
        self.requests - self.hits[(frames as usize).min(self.hits.len() - 1)]
    }
}

/// The pages in the order of their last requests.
///
/// Invariants: (I1) `slots` counts, as a Fenwick tree, the slots that are the last of their page,
/// one a page. (I2) slots are taken in increasing order; when they run out, those in use move
/// together and keep their order.
struct Stack {
    slots: Vec<u32>,
    last: Vec<u32>,
    next: u32,
    seen: u32,
}

const UNSEEN: u32 = u32::MAX;

impl Stack {
    fn new(unique: u32) -> Self {
        // Twice as many slots as pages: moving them together costs O(1) a request.
        let slots = 2 * unique as usize + 2;
        Self { slots: vec![0; slots + 1], last: vec![UNSEEN; unique as usize], next: 0, seen: 0 }
    }

    /// How many different pages were requested since `page` was; `None` at its first request.
    fn touch(&mut self, page: u32) -> Option<u32> {
        if self.next as usize + 1 == self.slots.len() {
            self.move_together();
        }
        let slot = std::mem::replace(&mut self.last[page as usize], self.next);
        let distance = if slot == UNSEEN {
            self.seen += 1;
            None
        } else {
            self.add(slot, -1);
            Some(self.seen - 1 - self.before(slot))
        };
        self.add(self.next, 1);
        self.next += 1;
        distance
    }

    fn add(&mut self, slot: u32, change: i32) {
        let mut i = slot as usize + 1;
        while i < self.slots.len() {
            self.slots[i] = self.slots[i].wrapping_add_signed(change);
            i += i & i.wrapping_neg();
        }
    }

    /// How many slots before `slot` are the last of a page.
    fn before(&self, slot: u32) -> u32 {
        let (mut i, mut sum) = (slot as usize, 0);
        while i > 0 {
            sum += self.slots[i];
            i &= i - 1;
        }
        sum
    }

    fn move_together(&mut self) {
        let mut pages: Vec<u32> = (0..self.last.len() as u32).filter(|&p| self.last[p as usize] != UNSEEN).collect();
        pages.sort_unstable_by_key(|&page| self.last[page as usize]);
        self.slots.fill(0);
        for (slot, &page) in pages.iter().enumerate() {
            self.last[page as usize] = slot as u32;
            self.add(slot as u32, 1);
        }
        self.next = pages.len() as u32;
    }
}

/// A miss-ratio curve.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// Pool sizes in pages of the whole trace, and the miss ratio at each.
    pub points: Vec<(u32, f64)>,
    /// The part of the pages that was replayed; 1 for an exact curve.
    pub rate: f64,
}

/// `count` pool sizes for a trace with `unique` pages, evenly apart on a logarithmic scale from a
/// thousandth up to all.
pub fn sizes(unique: u32, count: u32) -> Vec<u32> {
    let step = |i: u32| 1e-3f64.powf(1.0 - f64::from(i) / f64::from((count - 1).max(1)));
    let mut sizes: Vec<u32> = (0..count).map(|i| ((step(i) * f64::from(unique)).round() as u32).max(1)).collect();
    sizes.dedup();
    sizes
}

/// The curve of the policy of `spec` at `sizes`, from `sample`: `trace` itself, or a
/// [`Trace::sample`] of it. The rate is the part of the pages that did fall in the sample, which
/// differs a little from what was asked for.
///
/// # Errors
///
/// Those of the replays.
pub fn curve(
    trace: &Trace,
    sample: &Trace,
    spec: &PolicySpec,
    sizes: &[u32],
    seed: u64,
) -> Result<Curve, SimulationError> {
    curve_watched(trace, sample, &Contender::Known(spec.clone()), sizes, seed, &Arc::new(Watch::default()))
}

/// As [`curve`], of any policy, and to be watched: [`requests_of_curve`] are made.
///
/// # Errors
///
/// Those of the replays; and if it was stopped.
pub fn curve_watched(
    trace: &Trace,
    sample: &Trace,
    contender: &Contender,
    sizes: &[u32],
    seed: u64,
    watch: &Arc<Watch>,
) -> Result<Curve, SimulationError> {
    let rate = f64::from(sample.unique()) / f64::from(trace.unique());
    let requests = trace.requests().len() as f64;
    let frames: Vec<u32> = sizes.iter().map(|&size| ((f64::from(size) * rate).round() as u32).max(1)).collect();
    let mut points = Vec::with_capacity(sizes.len());
    for (&size, misses) in sizes.iter().zip(misses(sample, contender, &frames, seed, watch)?) {
        // Against the requests that the sample should have: those by which it falls short are of
        // hot pages, and hit.
        let ratio = misses as f64 / (requests * rate);
        points.push((size, ratio.clamp(0.0, 1.0)));
    }
    Ok(Curve { points, rate })
}

/// How many requests a curve of so many sizes makes on `sample`.
pub fn requests_of_curve(sample: &Trace, contender: &Contender, sizes: usize) -> u64 {
    let passes = if has_one_pass(contender) { 1 } else { sizes };
    sample.requests().len() as u64 * passes as u64
}

/// Whether it is a stack policy.
fn has_one_pass(contender: &Contender) -> bool {
    matches!(contender.algorithm(), Some("lru" | "opt"))
}

/// The misses on `trace` at each pool size: in one pass if it is a stack policy.
fn misses(
    trace: &Trace,
    contender: &Contender,
    sizes: &[u32],
    seed: u64,
    watch: &Arc<Watch>,
) -> Result<Vec<u64>, SimulationError> {
    if !has_one_pass(contender) {
        let options = Options::of(Interleaving::Fixed);
        let replay = |&frames| simulate_watched(trace, contender, frames, seed, &options, watch);
        return sizes.iter().map(|frames| Ok(replay(frames)?.counts.misses)).collect();
    }
    let (requests, unique) = (trace.requests(), trace.unique());
    let misses = if contender.needs_trace() {
        let curve = OptCurve::of(requests, unique, sizes);
        sizes.iter().filter_map(|&frames| curve.misses(frames)).collect()
    } else {
        let curve = LruCurve::of(requests, unique);
        sizes.iter().map(|&frames| curve.misses(frames)).collect()
    };
    watch.add_done(requests.len() as u64);
    Ok(misses)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::generate::generate;
    use crate::simulation::simulate;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::repeatable::cases())]

        /// The one pass agrees with a replay at every size.
        #[test]
        fn one_pass_is_as_good_as_many(pages in prop::collection::vec(0u64..40, 1..400)) {
            let text: String = pages.iter().map(|page| format!("{page}\n")).collect();
            let text = std::io::Cursor::new(text.into_bytes());
            let mut source = crate::trace::read_from(text, "t".as_ref(), &crate::trace::Format::Text).unwrap();
            let trace = Trace::load("t", source.as_mut()).unwrap();
            let curve = LruCurve::of(trace.requests(), trace.unique());
            for frames in 1..=trace.unique() + 1 {
                let replay = simulate(&trace, &"lru".parse().unwrap(), frames, 1, Interleaving::Fixed).unwrap();
                prop_assert_eq!(curve.misses(frames), replay.counts.misses);
            }
        }
    }

    #[test]
    fn a_sample_is_close() {
        let workload = "ycsb(operations=400000,pages=50000,skew=0.75,scans=20)";
        let trace = Trace::load("ycsb", &mut generate(workload, 5).unwrap()).unwrap();
        let sample = trace.sample(0.1, 9);
        let share = f64::from(sample.unique()) / f64::from(trace.unique());
        assert!((0.08..0.12).contains(&share), "{share}");
        let sizes = sizes(trace.unique(), 8);
        for policy in ["lru", "clock", "opt"] {
            let spec = policy.parse().unwrap();
            let exact = curve(&trace, &trace, &spec, &sizes, 1).unwrap();
            let sampled = curve(&trace, &sample, &spec, &sizes, 1).unwrap();
            let errors = exact.points.iter().zip(&sampled.points).map(|(a, b)| (a.1 - b.1).abs());
            let mean = errors.sum::<f64>() / sizes.len() as f64;
            assert!(mean < 0.02, "{policy}: mean error {mean}");
        }
    }

    #[test]
    fn sizes_rise_to_all_pages() {
        let sizes = sizes(20_000, 5);
        assert_eq!((sizes[0], sizes[4]), (20, 20_000));
        assert!(sizes.is_sorted_by(|a, b| a < b));
        assert_eq!(super::sizes(3, 5), [1, 3]);
    }
}
