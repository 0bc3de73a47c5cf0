//! Times on a logarithmic scale, without the logarithm that `core` does not have.
//!
//! The bits of a floating-point number are, but for their offset, its binary logarithm with a
//! straight line between powers of two: at most 0.09 octaves off, strictly increasing, and exactly
//! undone by going back.

/// A time's logarithm, in units of 1/256 octave.
pub(super) type Log = i32;

/// One octave.
pub(super) const OCTAVE: Log = 256;

/// What the bits of 1.0 come to.
const ONE: Log = 127 * OCTAVE;

/// The logarithm of a time; that of 0 is that of 1.
#[inline]
pub(super) fn log(ticks: u64) -> Log {
    ((ticks.max(1) as f32).to_bits() >> 15) as Log - ONE
}

/// The ticks that have this logarithm, which may lie below 1; for logarithms between -100 and 100
/// octaves.
#[inline]
pub(super) fn ticks(log: Log) -> f32 {
    f32::from_bits(((log + ONE) as u32) << 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn going_back_loses_less_than_a_256th() {
        for exponent in 0..63 {
            for ticks_in in [1u64 << exponent, (1 << exponent) + (1 << exponent) / 3] {
                let back = f64::from(ticks(log(ticks_in)));
                let part = back / ticks_in as f64;
                assert!((0.996..=1.0).contains(&part), "{ticks_in} came back as {back}");
            }
        }
        assert_eq!((log(0), log(1), log(2), log(1 << 40)), (0, 0, OCTAVE, 40 * OCTAVE));
        assert_eq!(ticks(-OCTAVE), 0.5);
    }
}
