//! The pages of a part: checked when a scan registers, written to the arena, searched by readers.
//!
//! A run takes three words: first block and number of blocks, position, span. A bitset takes its words and then, for
//! each eight of them, one word with the number of bits in front, so that a rank is one load and at most eight counts.

use super::words::{Words, join, split};
use super::{PagesFault, Run, layout::Layout};
use crate::sync::atomic::Ordering::Relaxed;

pub(super) const RUN_WORDS: usize = 3;
/// How many words of a bitset share one sample of the rank.
pub(super) const SAMPLED_WORDS: usize = 8;

/// What of a part's pages is kept beside them.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// The first block of the part, or the block of a bitset's lowest bit.
    pub(super) first: u32,
    /// The last block.
    pub(super) last: u32,
    /// Words in the arena.
    pub(super) words: u64,
}

/// The extent of runs; `None` if there are none. A fault comes with the run it was found in.
pub(super) fn check_runs(runs: &[Run], length: u64) -> Result<Option<Extent>, (u32, PagesFault)> {
    let mut before: Option<(u32, u32)> = None;
    for (index, run) in runs.iter().enumerate() {
        let last = match run.blocks.checked_sub(1) {
            None => Err(PagesFault::Empty),
            Some(more) => run.first.checked_add(more).ok_or(PagesFault::PastLastBlock),
        };
        let last = last.map_err(|fault| (index as u32, fault))?;
        if run.position.checked_add(run.span).is_none_or(|end| end > length) {
            return Err((index as u32, PagesFault::PastLength));
        }
        if before.is_some_and(|(first, end)| run.first < first || last < end) {
            return Err((index as u32, PagesFault::OutOfOrder));
        }
        before = Some((run.first, last));
    }
    Ok(runs.first().zip(before).map(|(run, (_, last))| Extent {
        first: run.first,
        last,
        words: (runs.len() * RUN_WORDS) as u64,
    }))
}

/// The extent of a bitset; `None` if no bit is set.
pub(super) fn check_bitset(first: u32, bits: &[u64], position: u64, length: u64) -> Result<Option<Extent>, PagesFault> {
    let Some((index, word)) = bits.iter().enumerate().rfind(|(_, word)| **word != 0) else { return Ok(None) };
    let highest = index as u64 * 64 + u64::from(word.ilog2());
    let last = u32::try_from(u64::from(first) + highest).map_err(|_| PagesFault::PastLastBlock)?;
    let ranks: u64 = bits.iter().map(|word| u64::from(word.count_ones())).sum();
    if position.checked_add(ranks).is_none_or(|end| end > length) {
        return Err(PagesFault::PastLength);
    }
    // Empty words at the end are not stored.
    let words = (index + 1 + (index + 1).div_ceil(SAMPLED_WORDS)) as u64;
    Ok(Some(Extent { first, last, words }))
}

/// Writes the runs from word `at`. Relaxed: the scan's version publishes them.
pub(super) fn write_runs(words: Words<'_>, at: u32, runs: &[Run]) {
    for (index, run) in runs.iter().enumerate() {
        let at = at as usize + index * RUN_WORDS;
        words.store(at, join(run.first, run.blocks), Relaxed);
        words.store(at + 1, run.position, Relaxed);
        words.store(at + 2, run.span, Relaxed);
    }
}

/// Writes a bitset of `count` words from word `at`, the samples of its rank behind it.
pub(super) fn write_bitset(words: Words<'_>, at: u32, bits: &[u64], count: u32) {
    let mut rank = 0;
    for (index, word) in bits.iter().take(count as usize).enumerate() {
        if index % SAMPLED_WORDS == 0 {
            words.store(at as usize + count as usize + index / SAMPLED_WORDS, rank, Relaxed);
        }
        words.store(at as usize + index, *word, Relaxed);
        rank += u64::from(word.count_ones());
    }
}

/// The stretch of the arena that holds a part's pages: where, and how many runs or words of bits.
#[derive(Clone, Copy)]
pub(super) struct Stretch {
    pub(super) at: u32,
    pub(super) count: u32,
}

/// The lowest position, not below `from`, of `block` in runs.
#[inline]
pub(super) fn find_in_runs(words: Words<'_>, runs: Stretch, block: u32, from: u64) -> Option<u64> {
    let run_at = |index: u32| runs.at as usize + index as usize * RUN_WORDS;
    // The number of runs that begin at or before the block.
    let (mut low, mut high) = (0, runs.count);
    while low < high {
        let middle = low + (high - low) / 2;
        if split(words.load(run_at(middle), Relaxed)).0 <= block {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    // Of these the ones that hold the block are the last ones, because ends never fall.
    let mut nearest: Option<u64> = None;
    while let Some(index) = low.checked_sub(1) {
        let at = run_at(index);
        let (first, blocks) = split(words.load(at, Relaxed));
        let offset = block.wrapping_sub(first);
        if offset >= blocks {
            break;
        }
        let within = share(words.load(at + 2, Relaxed), offset, blocks);
        let position = words.load(at + 1, Relaxed).saturating_add(within);
        if position >= from && nearest.is_none_or(|best| position < best) {
            nearest = Some(position);
        }
        low = index;
    }
    nearest
}

/// The position, if not below `from`, of `block` in a bitset that begins at block `first` and position `position`.
#[inline]
pub(super) fn find_in_bitset(
    words: Words<'_>,
    bits: Stretch,
    first: u32,
    position: u64,
    block: u32,
    from: u64,
) -> Option<u64> {
    let offset = block.checked_sub(first)?;
    let index = (offset / 64) as usize;
    if index >= bits.count as usize {
        return None;
    }
    let at = bits.at as usize;
    let word = words.load(at + index, Relaxed);
    let bit = 1u64 << (offset % 64);
    if word & bit == 0 {
        return None;
    }
    let sample = index / SAMPLED_WORDS;
    let between = (sample * SAMPLED_WORDS..index).map(|i| u64::from(words.load(at + i, Relaxed).count_ones()));
    let rank = words.load(at + bits.count as usize + sample, Relaxed);
    let rank = rank.saturating_add(between.sum::<u64>() + u64::from((word & (bit - 1)).count_ones()));
    Some(position.saturating_add(rank)).filter(|&position| position >= from)
}

/// `span * offset / blocks` without overflow; the quotient is at most `span` because `offset < blocks`.
#[inline]
fn share(span: u64, offset: u32, blocks: u32) -> u64 {
    // Positions that are blocks need no division, which would be the dearest step of an estimate.
    if span == u64::from(blocks) {
        return u64::from(offset);
    }
    match span.checked_mul(u64::from(offset)) {
        Some(product) => product / u64::from(blocks),
        None => (u128::from(span) * u128::from(offset) / u128::from(blocks)) as u64,
    }
}

impl Stretch {
    /// The stretch if it can lie in the arena at all.
    #[inline]
    pub(super) fn checked(self, layout: &Layout) -> Option<Self> {
        (self.at as usize >= layout.arena_at && (self.at as usize) < layout.end && (self.count as usize) < layout.end)
            .then_some(self)
    }
}
