//! Belady's MIN at several pool sizes in one pass.
//!
//! Source: Mattson, Gecsei, Slutz, Traiger, "Evaluation techniques for storage hierarchies" (IBM
//! Systems Journal 9(2), 1970), priority stacks. A policy that ranks all pages in one order,
//! whatever the pool size, keeps in a pool of c pages the upper c of one stack. MIN ranks by next
//! use. A page that is asked for moves to the top. From the top down to its old place the lower of
//! two pages is carried on at each position.
//!
//! Deviation: only the sizes that are asked for are told apart. The stack is cut into *segments*
//! between neighbouring sizes, each a heap. The page carried out of a segment is the lowest of
//! those in it and the one carried in, as after all its positions. The full stack would cost its
//! depth per request.
//!
//! Cost: O(log pages) for each segment above the page's place, none below it; a hit in the smallest
//! pool costs one heap insertion. 4 bytes a request for the next uses, at most 24 a page beside.

use pagecast_core::policy::NextUses;
use std::collections::BinaryHeap;

/// The misses of Belady's MIN at some pool sizes.
///
/// ```
/// use pagecast_sim::curve::OptCurve;
///
/// // With two frames the page that comes again last makes room.
/// let curve = OptCurve::of(&[0, 1, 2, 0, 1, 2], 3, &[1, 2, 3]);
/// assert_eq!([1, 2, 3].map(|pages| curve.misses(pages)), [Some(6), Some(4), Some(3)]);
/// assert_eq!(curve.misses(4), None);
/// ```
#[derive(Clone, Debug)]
pub struct OptCurve {
    /// Pool sizes, rising, and the misses at each.
    points: Vec<(u32, u64)>,
}

/// When a page is asked for next; the highest is the first to leave. Pages that never are lie above
/// all others, in the order of their numbers, which is free choice but must be the same everywhere.
type Rank = (u32, u32);

const NEVER: u32 = u32::MAX;

/// In `Stack::place`: in no segment.
const OUTSIDE: u16 = u16::MAX;

/// A part of the stack.
///
/// Invariants: (I1) `pages` of the ranks in `heap` are of pages in this segment: those with a next
/// use after the current request. The others are of pages that were asked for and moved away; their
/// next use is past, so that they come out of the heap after all that count.
struct Segment {
    heap: BinaryHeap<Rank>,
    pages: u32,
    room: u32,
}

impl Segment {
    fn push(&mut self, rank: Rank, now: u32) {
        self.heap.push(rank);
        if self.heap.len() > 2 * self.pages as usize + 64 {
            self.heap.retain(|&(next, _)| next > now);
        }
    }

    /// Lets `rank` in and the highest out, which may be the same.
    fn exchange(&mut self, rank: Rank, now: u32) -> Rank {
        match self.heap.peek() {
            Some(&highest) if highest > rank => {
                self.heap.pop();
                self.push(rank, now);
                highest
            }
            _ => rank,
        }
    }
}

impl OptCurve {
    /// Of `requests`, pages numbered below `unique`, at `sizes`, in any order, fewer than 65,535
    /// different ones.
    ///
    /// # Panics
    ///
    /// If a number is `unique` or more, there are more sizes, or 2^31 requests or more.
    pub fn of(requests: &[u32], unique: u32, sizes: &[u32]) -> Self {
        let mut sizes: Vec<u32> = sizes.iter().copied().filter(|&size| size > 0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        assert!(sizes.len() < usize::from(OUTSIDE), "{} sizes are more than a stack is cut into", sizes.len());
        let hits = Stack::new(unique, &sizes).hits(requests, unique);
        let mut misses = requests.len() as u64;
        let points = sizes.into_iter().zip(hits).map(|(size, hits)| {
            misses -= hits;
            (size, misses)
        });
        Self { points: points.collect() }
    }

    /// The misses in a pool of `frames` frames, if that is one of the sizes.
    pub fn misses(&self, frames: u32) -> Option<u64> {
        self.points.iter().find(|point| point.0 == frames).map(|point| point.1)
    }
}

struct Stack {
    segments: Vec<Segment>,
    /// By page: its segment.
    place: Vec<u16>,
}

impl Stack {
    fn new(unique: u32, sizes: &[u32]) -> Self {
        let mut below = 0;
        let segment = |&size: &u32| {
            let room = size - std::mem::replace(&mut below, size);
            Segment { heap: BinaryHeap::new(), pages: 0, room }
        };
        Self { segments: sizes.iter().map(segment).collect(), place: vec![OUTSIDE; unique as usize] }
    }

    /// By segment: the requests that found their page in it.
    fn hits(mut self, requests: &[u32], unique: u32) -> Vec<u64> {
        let next = NextUses::of_dense(requests, unique);
        let mut hits = vec![0; self.segments.len()];
        for (at, &page) in requests.iter().enumerate() {
            let from = self.place[page as usize];
            if from != OUTSIDE {
                hits[from as usize] += 1;
                // Its rank stays in the heap, where from now on it does not count (I1).
                self.segments[from as usize].pages -= 1;
            }
            let next = next.after(at).map_or(NEVER, |next| next as u32);
            self.ask((next, page), at as u32);
        }
        hits
    }

    /// Puts the page of `rank` on top; others are carried down to the first segment with room.
    fn ask(&mut self, rank: Rank, now: u32) {
        let mut carried = rank;
        for (number, segment) in self.segments.iter_mut().enumerate() {
            if segment.pages < segment.room {
                segment.pages += 1;
                segment.push(carried, now);
                self.place[carried.1 as usize] = number as u16;
                return;
            }
            let out = if number == 0 {
                // The page that was asked for is at the top and comes in, whatever its rank.
                let out = segment.heap.pop().expect("a full segment has pages, for no size is 0");
                segment.push(carried, now);
                out
            } else {
                segment.exchange(carried, now)
            };
            if out != carried {
                self.place[carried.1 as usize] = number as u16;
            }
            carried = out;
        }
        self.place[carried.1 as usize] = OUTSIDE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::belady_misses;
    use pagecast_core::PageId;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::repeatable::cases())]

        /// As many misses as a replay through the policy itself, at every size and at any choice of
        /// sizes.
        #[test]
        fn one_pass_is_as_good_as_many(
            pages in prop::collection::vec(0u32..40, 1..400),
            sizes in prop::collection::vec(1u32..45, 1..12),
        ) {
            let curve = OptCurve::of(&pages, 40, &sizes);
            let ids: Vec<PageId> = pages.iter().map(|&page| PageId::from_raw(u64::from(page))).collect();
            for size in sizes {
                let replay = belady_misses(&ids, size, |_| ()).expect("the size is not 0");
                prop_assert_eq!(curve.misses(size), Some(replay), "{} frames", size);
            }
        }
    }

    /// Long enough for the heaps to be cleared of what does not count.
    #[test]
    fn heaps_stay_small() {
        let pages: Vec<u32> = (0..200_000u32).map(|i| i % 7 * (i / 1000 % 3)).collect();
        let mut stack = Stack::new(100, &[2, 5, 20]);
        let next = NextUses::of_dense(&pages, 100);
        for (at, &page) in pages.iter().enumerate() {
            let from = stack.place[page as usize];
            if from != OUTSIDE {
                stack.segments[from as usize].pages -= 1;
            }
            stack.ask((next.after(at).map_or(NEVER, |next| next as u32), page), at as u32);
            for segment in &stack.segments {
                assert!(segment.heap.len() <= 2 * segment.pages as usize + 65);
            }
        }
    }
}
