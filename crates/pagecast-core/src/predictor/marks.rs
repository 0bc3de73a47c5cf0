//! Marks: which entries of an index have led to a page, so that scans that trail another one are
//! known to come there.
//!
//! Source: Khalaji et al. 2025, section 4.4.2 (trailing index scans), and section 4.4.2 of the 2023
//! thesis. There a scan leaves time, tuple and index on each page; a scan that meets such a mark at
//! the same tuple knows how far behind it is, tells the one in front, and that one leaves on
//! further pages the time at which it expects its follower.
//!
//! Deviations, and why:
//! * A mark bears the entry of the index, and no time. Index scans register the entries that they
//!   go through, as blocks of a relation of the index's own, and so the follower's time to a page
//!   is its time to the entry that led its leader there: entries between them times its own pace.
//!   The paper's time is the same where both are equally fast; this one is also right for a
//!   follower that falls back or catches up, for several followers, for pages that were marked
//!   before the follower began, and when the leader has ended. It is in ticks from now like every
//!   estimate; the authors' code takes the minimum of moments and durations.
//! * A scan that does not know which entries it will read asks [`Predictor::marked`] as the paper's
//!   does: two pages one after the other that bear neighbouring entries say where it is.
//! * Marks lie in a table of their own, four to a set by the page's hash, and not in page headers:
//!   no byte per frame where there are no index scans. The paper's code has two a page. In a full
//!   set the mark goes that was left longest ago.
//!
//! Suits index scans that follow each other through the same keys, in no order of the table. A page
//! that no scan has come to yet has no mark, and is known to nobody.
//!
//! Cost: a mark is at most eight loads and stores in one cache line; an estimate looks at one more
//! line, and for each mark of the page, mostly none or one to three, asks for the entry as for a
//! page. 16 bytes a mark; nothing per frame.
//!
//! Invariant (M1): of a mark the first word is the page, mixed with the second. Who reads while
//! somebody writes may meet words of two marks; they make, but for a chance of about one in 2^64, a
//! page that is nobody's, and no mark is found. Were one found, an entry too many would be asked
//! for. So there is no version, nobody waits, and of two marks left at once one may be lost.

use super::records::{MARK_WORDS, MARKS_OF_A_SET, SET_WORDS};
use super::words::Words;
use crate::PageId;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The marks of pages of equal hash.
#[derive(Clone, Copy)]
pub(super) struct Set<'a>(&'a [AtomicU64; SET_WORDS]);

impl<'a> Set<'a> {
    pub(super) fn at(words: Words<'a>, at: usize) -> Option<Self> {
        words.record(at).map(Self)
    }

    /// Both words of a mark, the second of which is 0 where none was left.
    pub(super) fn mark(self, way: usize) -> (u64, u64) {
        let word = |at: usize| self.0.get(way * MARK_WORDS + at).map_or(0, |word| word.load(Relaxed));
        (word(0), word(1))
    }

    fn put(self, way: usize, mark: (u64, u64)) {
        for (at, value) in [(0, mark.0), (1, mark.1)] {
            if let Some(word) = self.0.get(way * MARK_WORDS + at) {
                // Relaxed: a mark is whole or it is nobody's (M1), and publishes nothing else.
                word.store(value, Relaxed);
            }
        }
    }

    /// Puts `mark` in front; those before the place where it was, or all and the last one goes,
    /// move back by one.
    pub(super) fn put_in_front(self, mark: (u64, u64)) {
        let mut held = mark;
        for way in 0..MARKS_OF_A_SET {
            let found = self.mark(way);
            self.put(way, held);
            if found == mark {
                break;
            }
            held = found;
        }
    }
}

/// The first word of a mark (M1).
#[inline]
pub(super) fn mixed(page: PageId, second: u64) -> u64 {
    #[cfg(pagecast_shuttle)]
    if crate::mistake::made(crate::mistake::Mistake::UnmixedMark) {
        return page.raw();
    }
    // Multiplied twice with a fold between: a difference in few bits of `second` becomes one in
    // about half of all.
    let product = u128::from(second) * 0x9e37_79b9_7f4a_7c15;
    page.raw() ^ ((product >> 64) as u64 ^ product as u64).wrapping_mul(0xd6e8_feb8_6659_fd93)
}
