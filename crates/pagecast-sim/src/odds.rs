//! How often a victim that sampling gives is one that may as well go: the formulas, and the policy
//! put to the test.
//!
//! Khalaji et al., PVLDB 18(13) 2025, section 3.1 and figure 2; Vanderkooy's thesis of 2023,
//! appendix A. A part `p` of the resident pages is such that MIN would evict them before their next
//! use, and evicting any of them costs nothing. With true estimates a choice finds as many of them
//! as its samples have, up to the number of victims. The formulas are for draws with replacement,
//! and neglect that a bulk may draw a page twice.

use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::policy::{Access, Claimed, Frames, Policy, PolicyError, PolicySpec, Refusal};
use pagecast_core::{FrameId, PageId, Tick};
use std::sync::atomic::AtomicU64;

/// The expected share of optimal victims when each `bulk` of them are the best of `samples` pages,
/// of which the part `p` (0 to 1) is optimal: `1 - (1 - p)^samples` for one.
///
/// ```
/// use pagecast_sim::odds::optimal_share;
///
/// assert!((optimal_share(0.2, 10, 1) - (1.0 - 0.8f64.powi(10))).abs() < 1e-12);
/// // The same samples for each victim, chosen together:
/// assert!(optimal_share(0.1, 100, 10) > optimal_share(0.1, 10, 1));
/// ```
pub fn optimal_share(p: f64, samples: u32, bulk: u32) -> f64 {
    // The probability that i of the samples are optimal, from i to i + 1.
    let mut exactly = (1.0 - p).powf(f64::from(samples));
    let mut missed = 0.0;
    for i in 0..bulk {
        missed += (1.0 - f64::from(i) / f64::from(bulk)) * exactly;
        exactly *= f64::from(samples - i.min(samples)) / f64::from(i + 1) * p / (1.0 - p);
    }
    if p < 1.0 { 1.0 - missed } else { 1.0 }
}

/// The share of optimal ones among `evictions` victims of a policy in a pool of `frames` frames,
/// which never changes: the part `p` of its pages that are wanted last are the optimal ones, and
/// the policy is told the truth.
///
/// # Errors
///
/// The policy cannot be built, or keeps an order and so has no use for a pool that never changes.
pub fn measured_share(spec: &PolicySpec, p: f64, frames: u32, evictions: u32, seed: u64) -> Result<f64, PolicyError> {
    let Policy::Concurrent(policy) = spec.build(frames, seed)? else {
        return Err(PolicyError::NeedsTrace { policy: spec.algorithm() });
    };
    let pool = Still { words: (0..frames).map(|_| AtomicU64::new(0)).collect() };
    let worst = frames - (f64::from(frames) * p) as u32;
    let incoming = Access { page: PageId::from_raw(u64::MAX), scan: None, write: false, at: 0 };
    let victims = (0..evictions).filter_map(|_| policy.evict(&pool, &incoming, &pool));
    let optimal = victims.filter(|victim| victim.frame().0 >= worst).count();
    Ok(optimal as f64 / f64::from(evictions))
}

/// A full pool in which frame i holds page i, to be used at time i; a claim is granted and changes
/// nothing.
struct Still {
    words: Vec<AtomicU64>,
}

impl Frames for Still {
    fn count(&self) -> u32 {
        self.words.len() as u32
    }

    fn word(&self, frame: FrameId) -> &AtomicU64 {
        &self.words[frame.index()]
    }

    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        Some(PageId::from_raw(frame.0.into()))
    }

    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.evictable(frame)
    }

    fn claim(&self, frame: FrameId, _page: PageId) -> Result<Claimed, Refusal> {
        Ok(Claimed::new(frame))
    }
}

impl Oracle for Still {
    fn next_access(&self, Question { page, .. }: Question) -> Option<Tick> {
        Some(page.raw())
    }
}

/// The policy that draws as the formulas have it: with replacement, and with nothing kept from one
/// choice to the next.
pub fn sampling(samples: u32, bulk: u32) -> String {
    format!("pbm-published(samples={samples},bulk={bulk})")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_formula_is_the_appendix_s() {
        // By hand: 3 samples, 2 victims, p = 1/2; none, one, two or three optimal with 1/8, 3/8,
        // 3/8, 1/8.
        assert!((optimal_share(0.5, 3, 2) - (0.5 * 3.0 / 8.0 + 4.0 / 8.0)).abs() < 1e-12);
        for samples in [1, 10, 256] {
            assert_eq!(optimal_share(0.0, samples, 1), 0.0);
            assert_eq!(optimal_share(1.0, samples, 1), 1.0);
        }
        // As many victims as samples: no choice at all.
        assert!((optimal_share(0.3, 7, 7) - 0.3).abs() < 1e-12);
    }

    /// The policy does what the formulas say, within four standard deviations of so many evictions.
    #[test]
    fn the_policy_chooses_as_often_well_as_the_formulas_say() {
        const EVICTIONS: u32 = 5_120;
        for (samples, bulk) in [(1, 1), (2, 1), (10, 1), (50, 1), (100, 10), (40, 4), (256, 128)] {
            for p in [0.02, 0.1, 0.3] {
                let spec = PolicySpec::parse(&sampling(samples, bulk)).unwrap();
                let (expected, measured) =
                    (optimal_share(p, samples, bulk), measured_share(&spec, p, 10_000, EVICTIONS, 42).unwrap());
                // Victims of one bulk depend on each other: their number is that of the choices at
                // worst.
                let choices = f64::from(EVICTIONS / bulk);
                let deviation = (expected * (1.0 - expected) / choices).sqrt().max(1.0 / choices);
                let off = (measured - expected).abs();
                assert!(off < 4.0 * deviation, "{spec}, p = {p}: {measured}, not {expected}");
            }
        }
    }

    /// Without replacement a choice of all frames is always right, and of half of them better than
    /// with.
    #[test]
    fn without_replacement_no_draw_is_lost() {
        let share = |text: &str| measured_share(&text.parse().unwrap(), 0.01, 200, 4_000, 42).unwrap();
        let without = |samples: u32| format!("pbm-published(samples={samples},replacement=no)");
        assert_eq!(share(&without(200)), 1.0);
        let (with, without) = (share(&sampling(100, 1)), share(&without(100)));
        // Two of the 200 pages: 1 - 0.99^100 = 0.634, and 1 - (100 * 99) / (200 * 199) = 0.751.
        assert!((with - 0.634).abs() < 0.03 && (without - 0.751).abs() < 0.03, "{with} {without}");
    }
}
