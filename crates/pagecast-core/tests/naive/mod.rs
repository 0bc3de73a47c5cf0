//! Policies as their papers tell them: lists are vectors of pages, the oldest first, and everything is searched for.

mod adaptive;
mod ranked;

pub(crate) use adaptive::{Arc, Lirs, TwoQueue};
pub(crate) use ranked::{Cflru, Lfu, Lrfu, LruTwo};

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

/// The hand stands at the front; what it passes goes to the back.
pub(crate) struct Clock {
    ring: Vec<(u64, u32)>,
    frames: usize,
    max: u32,
    init: u32,
}

impl Clock {
    pub(crate) fn new(frames: usize, max: u32, init: u32) -> Self {
        Self { ring: Vec::new(), frames, max, init }
    }
}

impl Naive for Clock {
    fn request(&mut self, page: u64, _write: bool) -> Option<u64> {
        if let Some((_, count)) = self.ring.iter_mut().find(|(other, _)| *other == page) {
            *count = self.max.min(*count + 1);
            return None;
        }
        let mut victim = None;
        while self.ring.len() == self.frames {
            let (other, count) = self.ring.remove(0);
            match count {
                0 => victim = Some(other),
                _ => self.ring.push((other, count - 1)),
            }
        }
        self.ring.push((page, self.init));
        victim
    }
}

pub(crate) struct Sieve {
    queue: Vec<(u64, bool)>,
    hand: usize,
    frames: usize,
}

impl Sieve {
    pub(crate) fn new(frames: usize) -> Self {
        Self { queue: Vec::new(), hand: 0, frames }
    }
}

impl Naive for Sieve {
    fn request(&mut self, page: u64, _write: bool) -> Option<u64> {
        if let Some((_, visited)) = self.queue.iter_mut().find(|(other, _)| *other == page) {
            *visited = true;
            return None;
        }
        let mut victim = None;
        if self.queue.len() == self.frames {
            while std::mem::take(&mut self.queue[self.hand % self.frames].1) {
                self.hand += 1;
            }
            self.hand %= self.frames;
            victim = Some(self.queue.remove(self.hand).0);
            if self.hand == self.queue.len() {
                // The newest left: the hand starts again at the oldest.
                self.hand = 0;
            }
        }
        self.queue.push((page, false));
        victim
    }
}
