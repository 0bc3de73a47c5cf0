//! Runs and bitsets that are too long for their budget become runs of block groups.
//!
//! Source: Khalaji et al. 2025, section 3: metadata is kept for groups of blocks and not for blocks. Deviation: the size of
//! the groups is not one constant (1 MiB) for all; a scan gets the smallest power of two that makes it fit, and one that
//! fits as it is loses nothing.
//!
//! Runs that lie in the same or in neighbouring groups become one, from the first block of the first to the last block of
//! the last. What is lost: blocks between them count as wanted, and positions inside are interpolated over all of it.
//!
//! Cost: O(runs x log of the group's blocks), at registration only; no memory.

use super::Run;

/// The runs of `runs` that lie in the same or neighbouring groups of 2^`bits` blocks, made one.
#[derive(Clone)]
pub(super) struct Groups<I> {
    runs: I,
    bits: u32,
    open: Option<Run>,
}

impl<I: Iterator<Item = Run> + Clone> Groups<I> {
    /// With the smallest groups that make at most `most` runs; groups of one block change nothing. The second is how many
    /// runs it makes.
    pub(super) fn fit(runs: I, most: u32) -> (Self, u32) {
        let mut bits = 0;
        loop {
            let groups = Self { runs: runs.clone(), bits, open: None };
            let count = u32::try_from(groups.clone().count()).unwrap_or(u32::MAX);
            // In a group of 2^31 blocks all runs become one.
            if count <= most || bits == 31 {
                return (groups, count);
            }
            bits += 1;
        }
    }
}

impl<I: Iterator<Item = Run>> Iterator for Groups<I> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        for run in self.runs.by_ref() {
            let Some(open) = self.open.replace(run) else { continue };
            let end = open.first.saturating_add(open.blocks.saturating_sub(1));
            if self.bits == 0 || (run.first >> self.bits).saturating_sub(end >> self.bits) > 1 {
                return Some(open);
            }
            let last = end.max(run.first.saturating_add(run.blocks.saturating_sub(1)));
            let position = open.position.min(run.position);
            let end = open.position.saturating_add(open.span).max(run.position.saturating_add(run.span));
            let blocks = (last - open.first).saturating_add(1);
            self.open = Some(Run { first: open.first, blocks, position, span: end - position });
        }
        self.open.take()
    }
}

/// The set bits of a bitset as runs, as long as they can be, positions by rank.
pub(super) fn runs_of_bitset(first: u32, words: &[u64], position: u64) -> impl Iterator<Item = Run> + Clone + '_ {
    let (mut bit, mut rank) = (0_u64, position);
    let next = move |set: u64, from: u64| {
        let word = |index: u64| words.get(usize::try_from(index).ok()?).map(|word| word ^ set.wrapping_sub(1));
        let mut index = from / 64;
        let mut left = word(index)? & (u64::MAX << (from % 64));
        while left == 0 {
            index += 1;
            left = word(index)?;
        }
        Some(index * 64 + u64::from(left.trailing_zeros()))
    };
    core::iter::from_fn(move || {
        let start = next(1, bit)?;
        // Behind the last word nothing is set.
        bit = next(0, start).unwrap_or(words.len() as u64 * 64);
        let (blocks, at) = (bit - start, rank);
        rank += blocks;
        let first = u32::try_from(u64::from(first) + start).ok()?;
        Some(Run { first, blocks: u32::try_from(blocks).ok()?, position: at, span: blocks })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_bitset_is_its_runs() {
        let runs: Vec<Run> = runs_of_bitset(10, &[0b1_0110, 0, u64::MAX, 1, 1 << 63], 5).collect();
        let run = |first, blocks, position| Run { first, blocks, position, span: u64::from(blocks) };
        assert_eq!(runs, [run(11, 2, 5), run(14, 1, 7), run(138, 65, 8), run(329, 1, 73)]);
        assert_eq!(runs_of_bitset(0, &[0, 0], 0).count(), 0);
        assert_eq!(runs_of_bitset(0, &[u64::MAX], 0).collect::<Vec<_>>(), [run(0, 64, 0)]);
    }

    #[test]
    fn groups_are_as_small_as_fits_and_leave_out_nothing() {
        let runs: Vec<Run> =
            (0..100_u32).map(|i| Run { first: i * 10, blocks: 3, position: u64::from(i) * 3, span: 3 }).collect();
        let (same, count) = Groups::fit(runs.iter().copied(), 100);
        assert_eq!((same.collect::<Vec<_>>(), count), (runs.clone(), 100));
        for most in [1, 2, 7, 50, 99] {
            let (groups, count) = Groups::fit(runs.iter().copied(), most);
            let coarse: Vec<Run> = groups.collect();
            assert!(coarse.len() == count as usize && count <= most, "{most}: {count}");
            for run in &runs {
                let holds = |group: &&Run| group.first <= run.first && run.first + 3 <= group.first + group.blocks;
                let group = coarse.iter().find(holds).expect("a group that holds the run");
                assert!(group.position <= run.position && run.position + 3 <= group.position + group.span);
            }
        }
    }
}
