//! Seeded pseudo-random numbers: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom
//! number generators", OOPSLA 2014). One add and two multiplications a number, 8 bytes of state;
//! not for secrets.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Scatters numbers over all 64 bits; different numbers stay different.
#[inline]
pub(crate) fn hash(number: u64) -> u64 {
    mix(number.wrapping_add(GAMMA))
}

/// A generator of one owner.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence that belongs to `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "an iterator would give an Option that is never empty")]
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// A number below `bound` (which must not be 0), by multiplication; the bias is below
    /// `bound / 2^64`.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u32
    }

    /// A number from 0 up to, not including, 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Hands each caller a generator of its own, so that parallel victims share one atomic add and
/// nothing else.
#[derive(Debug)]
pub struct RandomSource(AtomicU64);

impl RandomSource {
    /// Generators derived from `seed`: the same calls in the same order give the same generators.
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next generator. Relaxed: only the uniqueness of the value counts, no other memory hangs
    /// on it.
    #[inline]
    pub fn fork(&self) -> Random {
        Random(mix(self.0.fetch_add(GAMMA, Relaxed).wrapping_add(GAMMA)))
    }
}
