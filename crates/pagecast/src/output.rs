//! The bytes that a read gives out, filled in any order. Unsafe: they begin as memory that nobody
//! has written, and are bytes when all of it is.
//!
//! Each range of the read has memory of its own and is cut at page borders into pieces. (O1) The
//! pieces of a range follow each other in its memory, from its first byte to its last: none
//! overlap, and nothing is left out. Ranges that overlap in the file do not in memory. (O2) A piece
//! is filled whole and once, because filling takes it. So the memory of all ranges is written when
//! the lengths of the pieces that were filled add up to the lengths of the ranges. That sum is
//! checked before anybody sees a byte.

use std::mem::{MaybeUninit, take};
use std::ops::{DerefMut, Range};

/// Memory for a range.
///
/// # Safety
///
/// It is the same bytes at each look, and nobody else's.
pub(crate) unsafe trait Memory: DerefMut<Target = [MaybeUninit<u8>]> + Send {
    /// What it is when it is written.
    type Bytes;

    /// # Safety
    ///
    /// Every byte of it is written.
    unsafe fn written(self) -> Self::Bytes;
}

/// Memory of the read's own.
pub(crate) type Unwritten = Box<[MaybeUninit<u8>]>;

/// Memory for `len` bytes.
pub(crate) fn unwritten(len: usize) -> Unwritten {
    Box::new_uninit_slice(len)
}

// SAFETY: a box owns its bytes.
unsafe impl Memory for Unwritten {
    type Bytes = Vec<u8>;

    unsafe fn written(self) -> Vec<u8> {
        // SAFETY: the caller's promise.
        unsafe { self.assume_init() }.into_vec()
    }
}

// SAFETY: an exclusive borrow.
unsafe impl<'a> Memory for &'a mut [MaybeUninit<u8>] {
    type Bytes = &'a mut [u8];

    unsafe fn written(self) -> &'a mut [u8] {
        // SAFETY: the caller's promise.
        unsafe { self.assume_init_mut() }
    }
}

/// The output of a read, with memory of type `M` for each range.
pub(crate) struct Output<M> {
    memory: Vec<M>,
    pieces: Vec<Piece>,
    /// Bytes that are not filled yet.
    missing: u64,
}

/// Part of a page that goes to one place in the output.
struct Piece {
    /// Bytes of the page; never empty, until they are taken.
    within: Range<usize>,
    range: usize,
    at: usize,
}

/// A page of the read, with all neighbouring pieces of it: one request.
#[derive(Clone)]
pub(crate) struct Visit {
    pub(crate) block: u32,
    pieces: Range<usize>,
}

impl<M: Memory> Output<M> {
    /// An output of ranges that begin at these bytes of a file and are as long as their memory, and
    /// the pages that have them. Pieces of one page that follow each other are one visit.
    pub(crate) fn new(ranges: impl IntoIterator<Item = (u64, M)>, page_size: u32) -> (Self, Vec<Visit>) {
        let page_size = u64::from(page_size);
        let (mut visits, mut output) = (Vec::new(), Self { memory: Vec::new(), pieces: Vec::new(), missing: 0 });
        for (range, (first, memory)) in ranges.into_iter().enumerate() {
            let end = first + memory.len() as u64;
            output.missing += memory.len() as u64;
            output.memory.push(memory);
            let mut start = first;
            while start < end {
                let page_start = start - start % page_size;
                let piece_end = end.min(page_start + page_size);
                let within = (start - page_start) as usize..(piece_end - page_start) as usize;
                output.pieces.push(Piece { within, range, at: (start - first) as usize });
                let (block, pieces) = ((start / page_size) as u32, output.pieces.len());
                match visits.last_mut() {
                    Some(Visit { block: last, pieces: of_last }) if *last == block => of_last.end = pieces,
                    _ => visits.push(Visit { block, pieces: pieces - 1..pieces }),
                }
                start = piece_end;
            }
        }
        (output, visits)
    }

    /// Bytes that are not filled yet.
    pub(crate) fn missing(&self) -> u64 {
        self.missing
    }

    /// Copies out of a page what the visit wants of it, unless it was copied before.
    pub(crate) fn fill(&mut self, visit: &Visit, page: &[u8]) {
        for piece in &mut self.pieces[visit.pieces.clone()] {
            let part = &page[take(&mut piece.within)];
            self.memory[piece.range][piece.at..][..part.len()].write_copy_of_slice(part);
            self.missing -= part.len() as u64;
        }
    }

    /// The bytes of each range, if all are filled.
    pub(crate) fn finish(self) -> Option<Vec<M::Bytes>> {
        // SAFETY: nothing is missing, so every byte was written, by (O1) and (O2).
        let written = |memory: M| unsafe { memory.written() };
        (self.missing == 0).then(|| self.memory.into_iter().map(written).collect())
    }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used)]
    #![allow(clippy::single_range_in_vec_init)]

    use proptest::prelude::*;

    use super::*;

    const PAGE: u32 = 16;

    fn output(ranges: &[Range<u64>]) -> (Output<Unwritten>, Vec<Visit>) {
        Output::new(ranges.iter().map(|range| (range.start, unwritten((range.end - range.start) as usize))), PAGE)
    }

    /// Page `block` of a file whose bytes count up.
    fn page(block: u32) -> Vec<u8> {
        (0..PAGE).map(|i| (block * PAGE + i) as u8).collect()
    }

    #[test]
    fn a_page_is_not_counted_twice_for_one_that_was_left_out() {
        let (mut output, visits) = output(&[0..3 * u64::from(PAGE)]);
        let blocks: Vec<u32> = visits.iter().map(|visit| visit.block).collect();
        assert_eq!(blocks, [0, 1, 2]);
        for visit in [&visits[0], &visits[2], &visits[2]] {
            output.fill(visit, &page(visit.block));
        }
        assert_eq!(output.missing(), u64::from(PAGE));
        assert_eq!(output.finish(), None, "a page of it was never written");
    }

    #[test]
    fn a_page_that_is_too_short_leaves_nothing_to_be_seen() {
        let (mut output, visits) = output(&[4..12]);
        let short = std::panic::AssertUnwindSafe(|| output.fill(&visits[0], &[1; 11]));
        assert!(std::panic::catch_unwind(short).is_err());
        assert_eq!(output.finish(), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// (O1): every byte of the memory belongs to exactly one piece, whatever the ranges.
        #[test]
        fn pieces_cover_each_range_once(ranges in prop::collection::vec((0u64..100, 0u64..60), 0..8)) {
            let ranges: Vec<_> = ranges.iter().map(|&(start, len)| start..start + len).collect();
            let (output, visits) = output(&ranges);
            let mut written: Vec<_> = ranges.iter().map(|range| vec![0; (range.end - range.start) as usize]).collect();
            for visit in &visits {
                for piece in &output.pieces[visit.pieces.clone()] {
                    prop_assert!(!piece.within.is_empty() && piece.within.end <= PAGE as usize);
                    written[piece.range][piece.at..][..piece.within.len()].iter_mut().for_each(|count| *count += 1);
                }
            }
            prop_assert!(written.iter().flatten().all(|&count| count == 1), "{:?}", written);
        }

        /// Filled in any order the output is the file's bytes; before the last page it is nothing.
        #[test]
        fn pages_in_any_order_fill_it(
            ranges in prop::collection::vec((0u64..100, 0u64..60), 1..8),
            order in any::<u64>(),
        ) {
            let ranges: Vec<_> = ranges.iter().map(|&(start, len)| start..start + len).collect();
            let (mut filled, mut visits) = output(&ranges);
            visits.sort_by_key(|visit| (u64::from(visit.block) ^ order).wrapping_mul(order | 1));
            for visit in &visits {
                prop_assert!(filled.missing() > 0);
                filled.fill(visit, &page(visit.block));
            }
            let expected: Vec<Vec<u8>> = ranges.iter().map(|r| r.clone().map(|i| i as u8).collect()).collect();
            prop_assert_eq!(filled.finish().unwrap(), expected);
        }
    }
}
