//! Chunks: what a scan without order reads at once, and which of them are done.
//!
//! Source: Świtakowski 2011, section 4.4 and figure 4.3. There a scan takes *chunks* in any order,
//! and a chunk that it has not consumed is wanted in `ChunksNeeded / (2 * speed)`: of ten chunks at
//! one a second a given one comes after five seconds on average. Of several scans the least counts,
//! ordered ones among them, so that pages and chunks compare in one currency.
//!
//! Deviations, and why:
//! * The estimate is of pages: a page is wanted while any of the scan's chunks that hold it is not
//!   done. A page at the border of two chunks is kept until both are. No policy needs to know of
//!   chunks.
//! * The figure's `speed` is that of the whole scan. Here it is the smoothed pace of
//!   [`Predictor::report`](super::Predictor::report), measured in chunks that are done.
//! * Between two chunks the estimate does not shrink: who is next is not known, so that there is
//!   nothing to go on with. It grows when the next chunk takes longer than the measured pace says,
//!   so that a scan that has stopped holds no memory.
//!
//! Suits scans that take what is in memory first, and share what others have read. Says the same of
//! all pages that such a scan still wants: among these the policy's own order decides.
//!
//! Cost: a chunk that is done O(1), lock-free; an estimate one search in the part's runs, and a
//! bit for each run that holds the page. Memory: 8 bytes for each 32 chunks, in the arena.
//!
//! Invariants:
//! * (S1) Words of chunks are a scan's from before it is live until after it has ended, and bear
//!   its tag in the upper half. They are changed only by a compare-exchange against a value with
//!   that tag. Who was held up until the words are others' finds another tag and changes nothing;
//!   who has read its value already finds another value.
//! * (S2) A tag is that of one registration among 2^31, and no other word of the predictor's has
//!   it: its top bit is set, unlike that of a position, a span, a rank and a free stretch's length.
//!   What is left are words of a host's bitset and runs that begin in the upper half of the blocks:
//!   tags are scattered, so that such a word is the very one that a held-up thread expects by a
//!   chance of one in 2^31 at most.
//! * (S3) Each bit that is set moves the scan's position by one, and who set it does that. Between
//!   the two the position is too low by one, and stays so if the thread dies there.

use super::arena::Arena;
use super::pages::{self, Blocks, Stretch};
use super::records::header;
use super::scan::{CHUNKS, Scan};
use super::words::{Words, join, split};
use super::{Pages, PagesFault, RegisterError, Run};
use crate::Tick;
use crate::sync::atomic::Ordering::Relaxed;

/// Chunks of a word; the tag has the other half.
const OF_A_WORD: u64 = 32;
const TAG: u32 = 1 << 31;

/// The chunks of a scan, or where they are kept.
#[derive(Clone, Copy)]
pub(super) struct Chunks {
    at: u32,
    tag: u32,
    count: u64,
}

/// Whether all of a part's pages lie at chunks of a scan with `length` of them. A fault comes with
/// the run it was found in.
pub(super) fn check(pages: Pages<'_>, length: u64) -> Result<(), (u32, PagesFault)> {
    let Pages::Runs(runs) = pages else { return Err((0, PagesFault::HasOrder)) };
    runs.iter().zip(0..).try_for_each(|(run, index)| match run {
        Run { span: 1.., .. } => Err((index, PagesFault::HasOrder)),
        Run { position, .. } if *position >= length => Err((index, PagesFault::NoChunk)),
        Run { .. } => Ok(()),
    })
}

impl Chunks {
    /// Takes memory for `count` chunks none of which is done.
    pub(super) fn take(words: Words<'_>, arena: &Arena<'_>, count: u64) -> Result<Self, RegisterError> {
        let space = count.div_ceil(OF_A_WORD);
        let full = RegisterError::NoSpaceForChunks { chunks: count, words: space };
        let at = match u32::try_from(space) {
            Ok(0) => 0,
            Ok(space) => arena.allocate(space).ok_or(full)?,
            Err(_) => return Err(full),
        };
        Ok(Self { at, tag: 0, count }.anew(words))
    }

    /// The same memory for another registration, of which no chunk is done (S1).
    pub(super) fn anew(self, words: Words<'_>) -> Self {
        let registrations = words.load(header::CHUNKS, Relaxed).wrapping_add(1);
        words.store(header::CHUNKS, registrations, Relaxed);
        // An odd factor, hence another tag for each of 2^31 registrations.
        let chunks = Self { tag: (registrations as u32).wrapping_mul(0x9e37_79b9) | TAG, ..self };
        for index in 0..chunks.words() as usize {
            words.store(chunks.at as usize + index, join(chunks.tag, 0), Relaxed);
        }
        chunks
    }

    /// Gives the memory back.
    pub(super) fn release(self, arena: &Arena<'_>) {
        if self.words() > 0 {
            arena.release(self.at, self.words());
        }
    }

    /// How many words of the arena they take.
    pub(super) fn words(self) -> u32 {
        self.count.div_ceil(OF_A_WORD) as u32
    }

    /// A word of the scan's record, which knows their number.
    pub(super) fn pack(self) -> u64 {
        join(self.at, self.tag)
    }

    /// Whether `chunk` was not done and is now.
    fn set(self, words: Words<'_>, chunk: u64) -> bool {
        let (at, bit) = self.place(chunk);
        // In memory that makes no sense it may lie outside, where no exchange ever comes about.
        let Some([word]) = words.record(at) else { return false };
        let mut found = word.load(Relaxed);
        while self.is_ours(found) && found & bit == 0 {
            #[cfg(pagecast_shuttle)]
            if crate::mistake::made(crate::mistake::Mistake::ChunksStored) {
                word.store(found | bit, Relaxed);
                return true;
            }
            // Relaxed: nothing else is published by the bit.
            match word.compare_exchange(found, found | bit, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(others) => found = others,
            }
        }
        false
    }

    /// Whether any chunk from `first` to `last` is not done.
    #[inline]
    fn lack(self, words: Words<'_>, first: u64, last: u64) -> bool {
        let mut chunk = first;
        loop {
            let (at, _) = self.place(chunk);
            let end = (chunk | (OF_A_WORD - 1)).min(last);
            let asked = (u32::MAX >> (31 - (end - chunk) as u32 % 32)) << (chunk % OF_A_WORD);
            // Behind the memory's end no chunk is done, so that this ends whatever is in memory.
            let done = words.load(at, Relaxed) as u32;
            if done & asked != asked {
                return true;
            }
            if end >= last {
                return false;
            }
            chunk = end + 1;
        }
    }

    #[inline]
    fn place(self, chunk: u64) -> (usize, u64) {
        let index = usize::try_from(chunk / OF_A_WORD).unwrap_or(usize::MAX);
        ((self.at as usize).saturating_add(index), 1 << (chunk % OF_A_WORD))
    }

    fn is_ours(self, word: u64) -> bool {
        #[cfg(pagecast_shuttle)]
        if crate::mistake::made(crate::mistake::Mistake::UntaggedChunk) {
            return true;
        }
        split(word).0 == self.tag
    }
}

impl Scan<'_> {
    /// Its chunks, if it reads in any order.
    pub(super) fn chunks(&self) -> Option<Chunks> {
        self.is_unordered().then(|| self.of_unordered())
    }

    #[inline]
    fn of_unordered(&self) -> Chunks {
        let (at, tag) = split(self.get(CHUNKS));
        Chunks { at, tag, count: self.length() }
    }

    /// Notes that `chunk` is done at `now`, which counts once, and measures the pace.
    pub(super) fn complete(&self, chunk: u64, now: Tick) {
        let chunks = self.chunks().filter(|chunks| chunk < chunks.count);
        // All of that is of this registration, so that the tag is its own.
        if let Some(chunks) = chunks.filter(|_| self.unchanged())
            && chunks.set(self.words(), chunk)
        {
            self.go_on(now);
        }
    }

    /// Ticks until the scan, which reads in any order, reads one of `blocks`, which it has in these
    /// runs; `None` if all chunks that hold one are done.
    #[inline]
    pub(super) fn next_chunk(&self, runs: Stretch, origin: (u32, u64), blocks: Blocks, now: Tick) -> Option<Tick> {
        let chunks = self.of_unordered();
        let lacks = |position: u64, span: u64| chunks.lack(self.words(), position, position.saturating_add(span));
        pages::any_run(self.words(), runs, origin, blocks, lacks).then(|| {
            let left = chunks.count.saturating_sub(self.position());
            (left as f64 * self.pace_at_least(now) * 0.5) as Tick
        })
    }
}
