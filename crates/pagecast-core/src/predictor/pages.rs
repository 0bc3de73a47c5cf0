//! The pages of a part: checked when a scan registers, written to the arena, searched by readers.
//!
//! A run takes three words: first block and number of blocks, position, span. A bitset takes its
//! words and then, for each eight of them, one word with the number of bits in front, so that a
//! rank is one load and at most eight counts.

use super::layout::Layout;
use super::records::{BITSET, CORRELATED, MAX_LENGTH, RUN_WORDS, SAMPLED_WORDS};
use super::words::{Words, join, split};
use super::{PagesFault, Run};
use crate::PageId;
use crate::sync::atomic::Ordering::Relaxed;

/// What of a part's pages is kept beside them.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// The first block of the part, or the block of a bitset's lowest bit.
    pub(super) first: u32,
    /// The last block.
    pub(super) last: u32,
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
    Ok(runs.first().zip(before).map(|(run, (_, last))| Extent { first: run.first, last }))
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
    Ok(Some(Extent { first, last }))
}

/// Writes the runs from word `at`. Relaxed: the scan's version publishes them.
pub(super) fn write_runs(words: Words<'_>, at: u32, runs: impl Iterator<Item = Run>) {
    for (index, run) in runs.enumerate() {
        let at = at as usize + index * RUN_WORDS;
        words.store(at, join(run.first, run.blocks), Relaxed);
        words.store(at + 1, run.position, Relaxed);
        words.store(at + 2, run.span, Relaxed);
    }
}

/// Writes a run of which each block is read somewhere within `scatter` positions of its place.
pub(super) fn write_correlated(words: Words<'_>, at: u32, run: &Run, scatter: u64, descending: bool) {
    write_runs(words, at, core::iter::once(*run));
    words.store(at as usize + RUN_WORDS, scatter << 1 | u64::from(descending), Relaxed);
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

/// The words that `count` runs, or a bitset of `count` words, take in the arena.
pub(super) fn space(form: u32, count: u32) -> u32 {
    match form {
        BITSET => count.saturating_add(count.div_ceil(SAMPLED_WORDS as u32)),
        CORRELATED => RUN_WORDS as u32 + 1,
        _ => count.saturating_mul(RUN_WORDS as u32),
    }
}

/// All blocks of a part, each once, in their order. `first` is the block of a bitset's lowest bit.
pub(super) fn all_blocks(words: Words<'_>, form: u32, stretch: Stretch, first: u32, mut visit: impl FnMut(u32)) {
    if form == BITSET {
        for index in 0..stretch.count {
            let mut bits = words.load((stretch.at + index) as usize, Relaxed);
            while bits != 0 {
                visit(first.saturating_add(index * 64 + bits.trailing_zeros()));
                bits &= bits - 1;
            }
        }
        return;
    }
    let mut next = 0;
    for index in 0..stretch.count {
        let (first, blocks) = split(words.load(stretch.at as usize + index as usize * RUN_WORDS, Relaxed));
        let end = u64::from(first) + u64::from(blocks);
        (next.max(first.into())..end).for_each(|block| visit(block as u32));
        next = next.max(end);
    }
}

/// The lowest position, not below `from`, at which any of `blocks` may be read by a scan that only
/// keeps roughly to the order of blocks. A block may be wanted from `scatter` positions in front of
/// its place to as many behind it, and while the scan is there it may be wanted at any moment.
#[inline]
pub(super) fn find_correlated(words: Words<'_>, at: u32, blocks: Blocks, from: u64) -> Option<u64> {
    let record = words.record::<{ RUN_WORDS + 1 }>(at as usize)?;
    let (run, count) = split(record[0].load(Relaxed));
    let (position, span) = (record[1].load(Relaxed), record[2].load(Relaxed));
    let straying = record[3].load(Relaxed);
    // No axis is longer.
    let (scatter, descending) = ((straying >> 1).min(MAX_LENGTH), straying & 1 == 1);
    let last = run.saturating_add(count.checked_sub(1)?);
    let (low, high) = (blocks.first.max(run), blocks.last.min(last));
    if low > high {
        return None;
    }
    let (nearest, furthest) = if descending { (last - high, last - low) } else { (low - run, high - run) };
    let place_of = |offset: u32| position.saturating_add(share(span, offset, count));
    let end = place_of(furthest).saturating_add(scatter);
    (end >= from).then(|| place_of(nearest).saturating_sub(scatter).max(from))
}

/// Neighbouring blocks of one relation: one page that is asked for, or a cell of them.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub(super) relation: u32,
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Blocks {
    pub(super) fn of(page: PageId) -> Self {
        Self { relation: page.relation().0, first: page.block(), last: page.block() }
    }
}

/// What to multiply a block's distance from the first block of runs by, in 2^-32 runs, to guess the
/// run that holds it: column chunks and row groups are about equally long, so that the guess is
/// mostly right and a search of two steps.
pub(super) fn runs_per_block(runs: u32, extent: Extent) -> u64 {
    (u64::from(runs) << 32) / (u64::from(extent.last - extent.first) + 1)
}

/// The lowest position, not below `from`, that any of `blocks` may have in runs: exact for one
/// block, for several never too high. `first` is the first block of the runs, `scale` theirs of
/// [`runs_per_block`].
#[inline]
pub(super) fn find_in_runs(
    words: Words<'_>,
    runs: Stretch,
    (first, scale): (u32, u64),
    blocks: Blocks,
    from: u64,
) -> Option<u64> {
    let begun = begun_by(words, runs, (first, scale), blocks.last);
    let mut nearest: Option<u64> = None;
    for run in back_from(words, runs.at_run(begun.checked_sub(1)?), begun, blocks.first) {
        let low = run.position_of(blocks.first);
        // Of several blocks the first may be done and a later one not; then it is nowhere below
        // `from`.
        let wanted = if low >= from {
            Some(low)
        } else {
            (blocks.first < blocks.last && run.position_of(blocks.last.min(run.last())) >= from).then_some(from)
        };
        nearest = sooner(nearest, wanted);
    }
    nearest
}

/// Whether any run that holds one of `blocks` has it, by its position and span; the pair is that of
/// [`find_in_runs`].
#[inline]
pub(super) fn any_run(
    words: Words<'_>,
    runs: Stretch,
    origin: (u32, u64),
    blocks: Blocks,
    has: impl Fn(u64, u64) -> bool,
) -> bool {
    let begun = begun_by(words, runs, origin, blocks.last);
    let Some(last) = begun.checked_sub(1) else { return false };
    back_from(words, runs.at_run(last), begun, blocks.first).any(|run| has(run.position, run.span))
}

impl Run {
    #[inline]
    fn last(&self) -> u32 {
        self.first.saturating_add(self.blocks.saturating_sub(1))
    }

    /// Of `block`, which is not behind the run; of one in front of it, the run's.
    #[inline]
    fn position_of(&self, block: u32) -> u64 {
        self.position.saturating_add(share(self.span, block.saturating_sub(self.first), self.blocks))
    }
}

/// The last of `count` runs, which is at word `at`, and those in front of it, as far as they hold
/// `block` or a later one: these stand together, because ends never fall.
#[inline]
fn back_from(words: Words<'_>, at: usize, count: u32, block: u32) -> impl Iterator<Item = Run> {
    let records = (0..count as usize).map_while(move |index| {
        let record = words.record::<RUN_WORDS>(at.checked_sub(index * RUN_WORDS)?)?;
        let (first, blocks) = split(record[0].load(Relaxed));
        Some(Run { first, blocks, position: record[1].load(Relaxed), span: record[2].load(Relaxed) })
    });
    records.take_while(move |run| run.blocks > 0 && run.last() >= block)
}

/// How many of the runs begin at `block` or before; the pair is that of [`find_in_runs`].
#[inline]
fn begun_by(words: Words<'_>, runs: Stretch, (first, scale): (u32, u64), block: u32) -> u32 {
    let guess = u64::from(block.saturating_sub(first)).saturating_mul(scale) >> 32;
    let guess = guess.min(u64::from(runs.count.saturating_sub(1))) as u32;
    let has_begun = |index: u32| split(words.load(runs.at_run(index), Relaxed)).0 <= block;
    let next = guess + 1;
    // Mostly it is right, and then this is all.
    if has_begun(guess) && (next >= runs.count || !has_begun(next)) {
        return next.min(runs.count);
    }
    partition_near(runs.count, guess, has_begun)
}

/// The first index below `count` at which `before` is false, when it is true for all in front and
/// false from there on; `count` if there is none. Looks outward from `guess`, then bisects: O(log
/// of how wrong the guess is).
#[inline]
fn partition_near(count: u32, guess: u32, before: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, count);
    let (mut probe, mut stride) = (guess, 1);
    while low < high {
        let at = probe.max(low).min(high - 1);
        if before(at) {
            low = at + 1;
            probe = at.saturating_add(stride);
        } else {
            high = at;
            probe = at.saturating_sub(stride);
        }
        // Once there is a bound on both sides of the guess, the middle is the best place to look.
        if low > 0 && high < count {
            probe = low + (high - low) / 2;
        }
        stride = stride.saturating_mul(2);
    }
    low
}

/// The lowest position, not below `from`, of any of `blocks` in a bitset that begins at block
/// `first` and position `position`.
#[inline]
pub(super) fn find_in_bitset(
    words: Words<'_>,
    bits: Stretch,
    (first, position): (u32, u64),
    blocks: Blocks,
    from: u64,
) -> Option<u64> {
    // Positions rise with blocks, so that of one word either all positions are behind or the first
    // that is not counts.
    let mut offset = blocks.first.saturating_sub(first);
    let last = blocks.last.checked_sub(first)?;
    while offset <= last {
        let index = offset / 64;
        if index >= bits.count {
            return None;
        }
        let word = words.load(bits.at as usize + index as usize, Relaxed);
        let end = last.min(index * 64 + 63);
        let mut left = word & (u64::MAX << (offset % 64)) & (u64::MAX >> (63 - end % 64));
        if left != 0 {
            let front = position.saturating_add(rank(words, bits, index));
            let position_of = |bit: u32| front.saturating_add(u64::from((word & ((1 << bit) - 1)).count_ones()));
            while left != 0 {
                let wanted = position_of(left.trailing_zeros());
                if wanted >= from {
                    return Some(wanted);
                }
                left &= left - 1;
            }
        }
        offset = end.checked_add(1)?;
    }
    None
}

/// The number of bits in front of word `index`.
#[inline]
fn rank(words: Words<'_>, bits: Stretch, index: u32) -> u64 {
    let (at, index) = (bits.at as usize, index as usize);
    let sample = index / SAMPLED_WORDS;
    let between = (sample * SAMPLED_WORDS..index).map(|i| u64::from(words.load(at + i, Relaxed).count_ones()));
    words.load(at + bits.count as usize + sample, Relaxed).saturating_add(between.sum())
}

/// `span * offset / blocks` without overflow; the quotient is at most `span` because `offset <
/// blocks`.
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
    /// The first word of a run.
    #[inline]
    fn at_run(self, index: u32) -> usize {
        self.at as usize + index as usize * RUN_WORDS
    }

    /// The stretch if it can lie in the arena at all.
    #[inline]
    pub(super) fn checked(self, layout: &Layout) -> Option<Self> {
        (self.at as usize >= layout.arena_at && (self.at as usize) < layout.end && (self.count as usize) < layout.end)
            .then_some(self)
    }
}

/// The smaller of those that are.
#[inline]
pub(super) fn sooner(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
