//! LRFU: every past use counts, the less the longer ago it was.
//!
//! Source: Lee, Choi, Kim, Noh, Min, Cho, Kim, "LRFU: A spectrum of policies that subsumes the
//! least recently used and least frequently used policies" (IEEE Transactions on Computers 50(12),
//! 2001), sections 2 and 3. A use that is x requests old weighs (1/2)^(lambda x); the page with the
//! smallest sum leaves. With lambda 0 this is LFU, with 1 LRU.
//!
//! Deviations: old uses do not fade; new ones weigh more and more, 2^(lambda * time), and all sums
//! are divided alike before they overflow. The order is the paper's at every moment, and a hit only
//! adds. Sums that this makes 0 are ordered by last use. As in the paper a page's sum is lost when
//! it leaves; bursts are not filtered. Lambda is 0.001 by default; the paper tunes it by workload.
//!
//! Suits mixes whose best balance of recency and frequency is known. Cost: O(log frames) per hit
//! and eviction, and O(frames) every 900 / lambda requests. 36 bytes per frame.

use crate::policy::heap::KeyedFrames;
use crate::policy::{Access, Claimed, Frames, Metadata, SequentialPolicy};
use crate::{FrameId, PageId, oracle::Oracle};

/// 2^900: sums are divided by it when a use would weigh more.
const OVERFLOW: f64 = f64::from_bits((900 + 1023) << 52);

/// Least recently and frequently used.
#[derive(Debug)]
pub struct Lrfu {
    /// The weight of a use now, and how it grows with every request: 2^lambda.
    weight: f64,
    growth: f64,
    /// A frame's key is the sum of the weights of its uses.
    sums: KeyedFrames<f64>,
}

impl Lrfu {
    /// For a pool of `frames` frames; `lambda` from 0 (LFU) to 1 (LRU).
    pub fn new(frames: u32, lambda: f64) -> Self {
        Self { weight: 1.0, growth: exp2(lambda.clamp(0.0, 1.0)), sums: KeyedFrames::new(frames) }
    }

    /// Lets one request pass.
    fn tick(&mut self) {
        self.weight *= self.growth;
        if self.weight > OVERFLOW {
            self.weight /= OVERFLOW;
            self.sums.rescale(|sum| sum / OVERFLOW);
        }
    }
}

/// 2^x for x from 0 to 1, by the exponential series; `core` has no such function.
fn exp2(x: f64) -> f64 {
    let x = x * core::f64::consts::LN_2;
    let (mut sum, mut term) = (1.0, 1.0);
    for n in 1..=20 {
        term *= x / f64::from(n);
        sum += term;
    }
    sum
}

impl SequentialPolicy for Lrfu {
    #[inline]
    fn hit(&mut self, frame: FrameId, _access: &Access) {
        self.tick();
        self.sums.change(frame, self.sums.key(frame) + self.weight);
    }

    #[inline]
    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        self.sums.claim(frames)
    }

    #[inline]
    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.tick();
        self.sums.insert(frame, access.page, self.weight);
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.sums.remove(frame);
    }

    fn metadata(&self) -> Option<Metadata> {
        Some(self.sums.metadata())
    }

    fn check(&self) {
        self.sums.check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp2_is_exact_to_the_last_digits() {
        for x in [0.0, 1e-6, 0.001, 0.25, 0.5, 1.0] {
            assert!((exp2(x) - x.exp2()).abs() < 1e-15, "{x}");
        }
        assert_eq!(OVERFLOW, 900f64.exp2());
    }
}
