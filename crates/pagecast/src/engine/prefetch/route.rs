//! The pages of one scan in the order in which it will read them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pagecast_core::predictor::{Pages, ScanSpec};
use pagecast_core::{PageId, RelationId};

/// What is left of a scan's pages, nearest first. Runs that cover the same positions (the columns
/// of a table, say) are merged by position; of equals the one registered first comes first.
///
/// Cost: O(log legs) a page; skipping, O(log legs) a leg that is passed.
pub(super) struct Route {
    legs: Box<[Leg]>,
    /// The next position of each leg that has pages left.
    nearest: BinaryHeap<Reverse<(u64, u32)>>,
}

/// A run, or one word of a bitset.
struct Leg {
    relation: RelationId,
    first: u32,
    blocks: u32,
    position: u64,
    span: u64,
    /// How many of its pages are behind.
    done: u32,
    /// The blocks of a bitset's word; none for a run, all of whose blocks are read.
    bits: Option<u64>,
}

impl Route {
    /// Bytes that one leg takes.
    pub(super) const LEG_BYTES: u64 = (size_of::<Leg>() + size_of::<Reverse<(u64, u32)>>()) as u64;

    /// How many legs the route of `spec` has.
    pub(super) fn legs(spec: &ScanSpec<'_>) -> usize {
        let of_part = |pages: &Pages<'_>| match pages {
            Pages::Runs(runs) => runs.len(),
            Pages::Bitset { words, .. } => words.iter().filter(|word| **word != 0).count(),
            // The order is only roughly known; nothing is read ahead on a guess.
            Pages::Correlated { .. } => 0,
        };
        spec.parts.iter().map(|part| of_part(&part.pages)).sum()
    }

    /// The way of a scan that the predictor has accepted.
    pub(super) fn new(spec: &ScanSpec<'_>) -> Self {
        let mut legs = Vec::with_capacity(Self::legs(spec));
        for part in spec.parts {
            let relation = part.relation;
            match part.pages {
                Pages::Runs(runs) => legs.extend(runs.iter().map(|run| Leg {
                    relation,
                    first: run.first,
                    blocks: run.blocks,
                    position: run.position,
                    span: run.span,
                    done: 0,
                    bits: None,
                })),
                Pages::Bitset { first, words, mut position } => {
                    for (index, &word) in words.iter().enumerate().filter(|(_, word)| **word != 0) {
                        let (blocks, first) = (word.count_ones(), first + 64 * index as u32);
                        let span = u64::from(blocks);
                        legs.push(Leg { relation, first, blocks, position, span, done: 0, bits: Some(word) });
                        position += span;
                    }
                }
                Pages::Correlated { .. } => {}
            }
        }
        let nearest = legs.iter().enumerate().map(|(index, leg)| Reverse((leg.position, index as u32))).collect();
        Self { legs: legs.into(), nearest }
    }

    /// The nearest page and its position.
    pub(super) fn peek(&self) -> Option<(u64, PageId)> {
        let Reverse((position, index)) = *self.nearest.peek()?;
        let leg = &self.legs[index as usize];
        Some((position, PageId::new(leg.relation, leg.first + leg.offset())))
    }

    /// Puts the nearest page behind.
    pub(super) fn advance(&mut self) {
        if let Some(Reverse((_, index))) = self.nearest.pop() {
            self.legs[index as usize].done += 1;
            self.reinsert(index);
        }
    }

    /// Puts all pages before `position` behind.
    pub(super) fn skip_to(&mut self, position: u64) {
        while let Some(&Reverse((next, index))) = self.nearest.peek()
            && next < position
        {
            self.nearest.pop();
            let leg = &mut self.legs[index as usize];
            leg.done = leg.first_at(position);
            self.reinsert(index);
        }
    }

    fn reinsert(&mut self, index: u32) {
        let leg = &self.legs[index as usize];
        if leg.done < leg.blocks {
            self.nearest.push(Reverse((leg.position_of(leg.done), index)));
        }
    }
}

impl Leg {
    /// Where page `number` of the leg lies.
    fn position_of(&self, number: u32) -> u64 {
        // At most the span, because the number is below that of the blocks.
        self.position + (u128::from(self.span) * u128::from(number) / u128::from(self.blocks)) as u64
    }

    /// The first page of the leg that does not lie before `position`; the number of its blocks if
    /// there is none.
    fn first_at(&self, position: u64) -> u32 {
        let (mut low, mut high) = (self.done, self.blocks);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.position_of(middle) < position {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// How many blocks after the leg's first one the next page is.
    fn offset(&self) -> u32 {
        match self.bits {
            None => self.done,
            Some(bits) => (0..64).filter(|bit| bits >> bit & 1 == 1).nth(self.done as usize).unwrap_or(0),
        }
    }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use pagecast_core::predictor::{Part, Run, ScanKind};
    use proptest::prelude::*;

    use super::*;

    fn all(mut route: Route, from: u64) -> Vec<(u64, u32)> {
        let mut pages = Vec::new();
        route.skip_to(from);
        while let Some((position, page)) = route.peek() {
            pages.push((position, page.block()));
            route.advance();
        }
        pages
    }

    fn spec<'a>(parts: &'a [Part<'a>]) -> ScanSpec<'a> {
        ScanSpec { kind: ScanKind(0), length: 1 << 40, parts }
    }

    #[test]
    fn columns_are_merged_by_position() {
        let narrow = [Run { first: 0, blocks: 2, position: 0, span: 100 }];
        let wide = [Run { first: 10, blocks: 4, position: 0, span: 100 }];
        let part = |runs| Part { relation: RelationId(0), pages: Pages::Runs(runs) };
        let parts = [part(&narrow), part(&wide)];
        let expected = [(0, 0), (0, 10), (25, 11), (50, 1), (50, 12), (75, 13)];
        assert_eq!(all(Route::new(&spec(&parts)), 0), expected);
        assert_eq!(all(Route::new(&spec(&parts)), 26), expected[3..]);
    }

    #[test]
    fn a_bitset_is_read_by_rank() {
        let words = [0b1001, 0, 1 << 63];
        let pages = Pages::Bitset { first: 5, words: &words, position: 7 };
        let parts = [Part { relation: RelationId(0), pages }];
        assert_eq!(all(Route::new(&spec(&parts)), 0), [(7, 5), (8, 8), (9, 5 + 191)]);
        assert_eq!(all(Route::new(&spec(&parts)), 9), [(9, 5 + 191)]);
    }

    proptest! {
        /// Against a list of every page with its position, sorted.
        #[test]
        fn runs_come_in_order_of_position(
            runs in prop::collection::vec((0u32..1000, 1u32..50, 0u64..500, 0u64..300), 0..10),
            from in 0u64..900,
        ) {
            let runs: Vec<Run> =
                runs.into_iter().map(|(first, blocks, position, span)| Run { first, blocks, position, span }).collect();
            let parts = [Part { relation: RelationId(0), pages: Pages::Runs(&runs) }];
            let mut naive: Vec<(u64, usize, u32)> = Vec::new();
            for (index, run) in runs.iter().enumerate() {
                for block in 0..run.blocks {
                    let position = run.position + run.span * u64::from(block) / u64::from(run.blocks);
                    if position >= from {
                        naive.push((position, index, run.first + block));
                    }
                }
            }
            naive.sort();
            let naive: Vec<_> = naive.into_iter().map(|(position, _, block)| (position, block)).collect();
            prop_assert_eq!(all(Route::new(&spec(&parts)), from), naive);
        }
    }
}
