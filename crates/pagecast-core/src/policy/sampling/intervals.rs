//! Frequency statistics of a resident page: the mean time between its uses, and what that says of
//! its next use.
//!
//! Khalaji et al., PVLDB 18(13) 2025, section 4.2. Of the mean, neither paper nor thesis says how
//! it begins; this is the code's: exact over the first 4 intervals, then moving with weight 0.2.

use crate::Tick;
pub use crate::recurrence::Frequency;

/// Intervals that the mean is exact of.
const EXACT: u32 = 4;
/// The weight of each later one.
const WEIGHT: f32 = 0.2;

/// The mean interval between the uses of a page, in ticks.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Intervals {
    count: u32,
    mean: f32,
}

impl Intervals {
    pub(super) fn pack(self) -> u64 {
        u64::from(self.mean.to_bits()) << 32 | u64::from(self.count)
    }

    pub(super) fn unpack(word: u64) -> Self {
        Self { count: word as u32, mean: f32::from_bits((word >> 32) as u32) }
    }

    /// With one more interval.
    #[must_use]
    pub(super) fn with(self, interval: Tick) -> Self {
        let count = self.count.saturating_add(1);
        let weight = if count <= EXACT { 1.0 / count as f32 } else { WEIGHT };
        Self { count, mean: self.mean + (interval as f32 - self.mean) * weight }
    }

    /// Ticks until the next use, `idle` ticks after the last one; `None` if the page was used once
    /// only.
    pub(super) fn until_next(self, idle: Tick, frequency: Frequency) -> Option<Tick> {
        if self.count == 0 { None } else { frequency.until_next(self.mean as Tick, idle) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(intervals: &[Tick]) -> Intervals {
        intervals.iter().fold(Intervals::default(), |all, &interval| Intervals::unpack(all.with(interval).pack()))
    }

    #[test]
    fn the_mean_is_exact_of_four_and_moves_by_a_fifth_after() {
        let means = [of(&[10]), of(&[10, 20]), of(&[10, 20, 60]), of(&[10, 20, 60, 50]), of(&[10, 20, 60, 50, 85])];
        assert_eq!(means.map(|intervals| intervals.mean), [10.0, 15.0, 30.0, 35.0, 45.0]);
    }

    #[test]
    fn the_three_readings_of_algorithm_2() {
        let page = of(&[100]);
        let all = [Frequency::Max, Frequency::Min, Frequency::Mean, Frequency::Off];
        assert_eq!(all.map(|frequency| page.until_next(40, frequency)), [Some(100), Some(40), Some(100), None]);
        assert_eq!(all.map(|frequency| page.until_next(300, frequency)), [Some(300), Some(100), Some(200), None]);
        assert_eq!(all.map(|frequency| of(&[]).until_next(300, frequency)), [None; 4]);
    }

    #[test]
    fn times_beyond_all_measure_stay_numbers() {
        let page = of(&[Tick::MAX; 7]);
        assert_eq!(page.until_next(Tick::MAX, Frequency::Mean), Some(Tick::MAX));
        assert!(page.until_next(0, Frequency::Max) > Some(Tick::MAX / 2));
    }
}
