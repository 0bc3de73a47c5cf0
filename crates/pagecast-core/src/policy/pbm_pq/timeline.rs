//! Which queue a time falls into, and which queues move when a slice of time has passed.

use crate::Tick;
use alloc::vec::Vec;

/// How the queues divide time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PqVersion {
    /// Świtakowski 2011: all queues one slice wide.
    Equal,
    /// The approximate queue of 2012 and of the authors of 2025: tiers of queues, each tier's twice
    /// as wide as those of the tier before it.
    Doubling,
}

/// Where each queue lies in time, from the nearest to the furthest, which has no end.
///
/// Queues keep their numbers and change places: when some time has passed, those that move give up
/// the place of the first of them, and the emptied first takes the place of the last.
#[derive(Debug)]
pub(super) struct Timeline {
    version: PqVersion,
    /// Queues of one tier.
    width: usize,
    /// By place, the queue's number.
    order: Vec<u16>,
    /// Slices that have passed.
    passed: u64,
}

impl Timeline {
    pub(super) fn new(version: PqVersion, tiers: u32, per_tier: u32) -> Self {
        let queues = tiers * per_tier;
        Self { version, width: per_tier as usize, order: (0..queues as u16).collect(), passed: 0 }
    }

    pub(super) fn queues(&self) -> usize {
        self.order.len()
    }

    /// The queue for what is wanted in `wanted_in` ticks, when a slice is `slice` ticks.
    pub(super) fn queue(&self, wanted_in: Tick, slice: Tick) -> u16 {
        let slices = wanted_in / slice;
        let place = match self.version {
            PqVersion::Equal => slices,
            PqVersion::Doubling => {
                let width = self.width as u64;
                // Tier t begins at width * (2^t - 1) slices, and its queues are 2^t slices wide.
                let tier = (slices / width + 1).ilog2();
                let begin = width * ((1 << tier) - 1);
                u64::from(tier) * width + ((slices - begin) >> tier)
            }
        };
        self.order[place.min(self.order.len() as u64 - 1) as usize]
    }

    /// The queue at a place, from 0, whose time is nearest.
    pub(super) fn at(&self, place: usize) -> u16 {
        self.order[place]
    }

    /// The queues from the furthest time to the nearest.
    pub(super) fn furthest_first(&self) -> impl Iterator<Item = u16> {
        self.order.iter().rev().copied()
    }

    /// Lets a slice pass. The first queue must be empty: it becomes the last of those that move.
    pub(super) fn pass(&mut self) {
        self.passed += 1;
        let moving = match self.version {
            PqVersion::Equal => self.order.len(),
            // A tier moves whenever the time of one of its queues has passed, every 2^t slices; all
            // nearer ones do then too, and each tier's first queue becomes the last of the nearer
            // tier.
            PqVersion::Doubling => self.order.len().min((self.passed.trailing_zeros() as usize + 1) * self.width),
        };
        self.order[..moving].rotate_left(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_equal_or_double() {
        let of = |version| {
            let timeline = Timeline::new(version, 3, 2);
            (0..16).map(|slices| timeline.queue(slices * 10 + 9, 10)).collect::<Vec<_>>()
        };
        assert_eq!(of(PqVersion::Equal), [0, 1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5]);
        assert_eq!(of(PqVersion::Doubling), [0, 1, 2, 2, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5]);
        let last = Timeline::new(PqVersion::Doubling, 20, 64);
        assert_eq!(last.queue(Tick::MAX, 1), 20 * 64 - 1, "the furthest time has a queue");
    }

    /// A queue comes to the front about when its time does, whatever tier it was in.
    #[test]
    fn queues_come_forward_as_time_passes() {
        for version in [PqVersion::Equal, PqVersion::Doubling] {
            for wanted_in in 0..30u64 {
                let mut timeline = Timeline::new(version, 5, 5);
                (0..17).for_each(|_| timeline.pass());
                let queue = timeline.queue(wanted_in, 1);
                let mut passed = 0u64;
                while timeline.at(0) != queue {
                    timeline.pass();
                    passed += 1;
                }
                let last = version == PqVersion::Equal && wanted_in >= 25;
                let width = if version == PqVersion::Equal { 1 } else { 1 << (wanted_in / 5 + 1).ilog2() };
                assert!(last || passed.abs_diff(wanted_in) < 2 * width, "{version:?}: {wanted_in} after {passed}");
            }
        }
    }
}
