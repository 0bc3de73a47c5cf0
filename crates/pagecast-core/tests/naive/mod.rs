//! Policies as their papers tell them: lists are vectors of pages, the oldest first, and everything
//! is searched for.

mod adaptive;
mod clocks;
mod flash;
mod ranked;
mod sampled;
mod stages;

pub(crate) use adaptive::{Arc, Lirs, TwoQueue};
pub(crate) use clocks::{Car, Clock, ClockPro, SecondTouch};
pub(crate) use flash::{AdLru, CcfLru, Cfdc, Cflru};
pub(crate) use ranked::{Lfu, LfuAged, Lrfu, LruK};
pub(crate) use sampled::Watt;
pub(crate) use stages::{LeanEvict, S3Fifo, Sieve, TwoPriorityLru};

/// A cache that says who leaves.
pub(crate) trait Naive {
    /// Requests a page; the page that leaves for it, if any.
    fn request(&mut self, page: u64, write: bool) -> Option<u64>;
}

/// Removes `page` from a list; whether it was on it.
pub(crate) fn remove(list: &mut Vec<u64>, page: u64) -> bool {
    let place = list.iter().position(|&other| other == page);
    place.map(|place| list.remove(place)).is_some()
}

pub(crate) struct Fifo(Vec<u64>, usize);

impl Fifo {
    pub(crate) fn new(frames: usize) -> Self {
        Self(Vec::new(), frames)
    }
}

impl Naive for Fifo {
    fn request(&mut self, page: u64, _write: bool) -> Option<u64> {
        if self.0.contains(&page) {
            return None;
        }
        let victim = (self.0.len() == self.1).then(|| self.0.remove(0));
        self.0.push(page);
        victim
    }
}

pub(crate) struct Lru(Vec<u64>, usize);

impl Lru {
    pub(crate) fn new(frames: usize) -> Self {
        Self(Vec::new(), frames)
    }
}

impl Naive for Lru {
    fn request(&mut self, page: u64, _write: bool) -> Option<u64> {
        let hit = remove(&mut self.0, page);
        let victim = (!hit && self.0.len() == self.1).then(|| self.0.remove(0));
        self.0.push(page);
        victim
    }
}
