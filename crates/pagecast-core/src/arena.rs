//! Stretches of words that differ in size, as the runs and bitsets of scans do.
//!
//! First fit over a list of free stretches in the order of their address; a stretch that is given
//! back joins its free neighbours at once. Each free stretch describes itself in its first word:
//! length in the upper half, the next free stretch in the lower. One stretch per part, and not
//! chained pieces, so that runs can be searched by bisection. When no stretch is long enough
//! although enough words are free, the scan is refused: moving stretches would make every reader
//! start over.
//!
//! Cost: O(free stretches), which are at most one more than the parts of running scans. Only the
//! writer comes here.

use crate::sync::atomic::Ordering::Relaxed;
use crate::words::{NIL, Words, join, split};
use core::ops::Range;

/// The free words, of which each free stretch is a node.
pub(crate) struct Arena<'a> {
    words: Words<'a>,
    /// The word with the first free stretch.
    head: usize,
    from: usize,
    end: usize,
}

impl<'a> Arena<'a> {
    /// The words of `range`; the word at `head`, outside of it, leads to the first free stretch.
    pub(crate) fn new(words: Words<'a>, head: usize, range: Range<usize>) -> Self {
        Self { words, head, from: range.start, end: range.end }
    }

    /// Makes everything one free stretch.
    pub(crate) fn clear(&self) {
        let free = if self.from < self.end { self.from as u32 } else { NIL };
        self.words.store(self.head, u64::from(free), Relaxed);
        if free != NIL {
            self.words.store(self.from, join((self.end - self.from) as u32, NIL), Relaxed);
        }
    }

    /// A stretch of `count` words, which is at least 1.
    pub(crate) fn allocate(&self, count: u32) -> Option<u32> {
        let mut before = None;
        let mut at = self.words.load(self.head, Relaxed) as u32;
        while let Some((length, next)) = self.node(at) {
            if length == count {
                self.link(before, next);
                return Some(at);
            }
            if length > count {
                // The far end goes, so that the node stays where it is.
                self.words.store(at as usize, join(length - count, next), Relaxed);
                return Some(at + (length - count));
            }
            // Addresses rise along the list; one that does not is damage, and following it might
            // never end.
            if next <= at {
                return None;
            }
            before = Some((at, length));
            at = next;
        }
        None
    }

    /// Gives back the `count` words from `at`.
    pub(crate) fn release(&self, at: u32, count: u32) {
        if self.stretch_end(at, count).is_none() {
            return;
        }
        let mut before = None;
        let mut next = self.words.load(self.head, Relaxed) as u32;
        while let Some((length, after)) = self.node(next).filter(|_| next < at) {
            before = Some((next, length));
            // As in `allocate`: only a damaged list does not rise.
            next = if after > next { after } else { NIL };
        }
        let (mut length, mut after) = (count, next);
        if let Some((following, beyond)) = self.node(next).filter(|_| at + count == next) {
            (length, after) = (length + following, beyond);
        }
        match before {
            Some((node, free)) if node + free == at => self.store_node(node, free + length, after),
            _ => {
                self.store_node(at, length, after);
                self.link(before, at);
            }
        }
    }

    /// Length and successor of the free stretch at `at`, if one can be there.
    fn node(&self, at: u32) -> Option<(u32, u32)> {
        self.stretch_end(at, 1)?;
        let (length, next) = split(self.words.load(at as usize, Relaxed));
        self.stretch_end(at, length)?;
        (length > 0).then_some((length, next))
    }

    fn store_node(&self, at: u32, length: u32, next: u32) {
        self.words.store(at as usize, join(length, next), Relaxed);
    }

    /// Makes `next` follow the node `before`, given with its length, or the head of the list.
    fn link(&self, before: Option<(u32, u32)>, next: u32) {
        match before {
            Some((node, length)) => self.store_node(node, length, next),
            None => self.words.store(self.head, u64::from(next), Relaxed),
        }
    }

    /// The end of `count` words from `at` if they all lie in the arena.
    fn stretch_end(&self, at: u32, count: u32) -> Option<usize> {
        let end = (at as usize).checked_add(count as usize)?;
        (at as usize >= self.from && end <= self.end).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::sync::atomic::AtomicU64;
    use std::vec::Vec;

    #[test]
    fn everything_can_be_had_again_after_any_order_of_releases() {
        let memory: Vec<AtomicU64> = (0..308).map(|_| AtomicU64::new(0)).collect();
        let arena = Arena::new(Words(&memory), 0, 8..308);
        arena.clear();
        let mut random = Random::new(1);
        for _ in 0..200 {
            let mut held: Vec<(u32, u32)> = Vec::new();
            loop {
                let count = 1 + random.below(20);
                let Some(at) = arena.allocate(count) else { break };
                assert!(held.iter().all(|&(other, size)| at + count <= other || other + size <= at), "overlap at {at}");
                held.push((at, count));
                if random.below(3) == 0 {
                    let (at, count) = held.swap_remove(random.below(held.len() as u32) as usize);
                    arena.release(at, count);
                }
            }
            while !held.is_empty() {
                let (at, count) = held.swap_remove(random.below(held.len() as u32) as usize);
                arena.release(at, count);
            }
            let all = arena.allocate(300).expect("one free stretch again");
            assert_eq!(arena.allocate(1), None);
            arena.release(all, 300);
        }
    }
}
