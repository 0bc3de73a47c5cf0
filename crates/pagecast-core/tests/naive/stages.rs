//! Policies of queues that pages pass through.

use super::{Naive, remove};
use pagecast_core::random::Random;

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

/// Algorithm 1 of the S3-FIFO paper; until the first eviction pages that find S full go to M.
pub(crate) struct S3Fifo {
    small: Vec<(u64, u32)>,
    main: Vec<(u64, u32)>,
    ghosts: Vec<u64>,
    has_evicted: bool,
    threshold: u32,
    frames: usize,
}

impl S3Fifo {
    pub(crate) fn new(frames: usize, threshold: u32) -> Self {
        Self { small: vec![], main: vec![], ghosts: vec![], has_evicted: false, threshold, frames }
    }

    fn small_is_full(&self) -> bool {
        self.small.len() >= (self.frames / 10).max(1)
    }

    fn evict_small(&mut self) -> Option<u64> {
        while !self.small.is_empty() {
            let (page, hits) = self.small.remove(0);
            if hits < self.threshold {
                if self.ghosts.len() == (self.frames * 9 / 10).max(1) {
                    self.ghosts.remove(0);
                }
                self.ghosts.push(page);
                return Some(page);
            }
            self.main.push((page, 0));
        }
        None
    }

    fn evict_main(&mut self) -> Option<u64> {
        while !self.main.is_empty() {
            let (page, hits) = self.main.remove(0);
            if hits == 0 {
                return Some(page);
            }
            self.main.push((page, hits - 1));
        }
        None
    }

    fn evict(&mut self) -> Option<u64> {
        self.has_evicted = true;
        if self.small_is_full() {
            self.evict_small().or_else(|| self.evict_main())
        } else {
            self.evict_main().or_else(|| self.evict_small()).or_else(|| self.evict_main())
        }
    }
}

impl Naive for S3Fifo {
    fn request(&mut self, page: u64, _write: bool) -> Option<u64> {
        if let Some((_, hits)) = self.small.iter_mut().chain(&mut self.main).find(|(other, _)| *other == page) {
            *hits = 3.min(*hits + 1);
            return None;
        }
        let is_full = self.small.len() + self.main.len() == self.frames;
        let victim = if is_full { self.evict() } else { None };
        if remove(&mut self.ghosts, page) || (!self.has_evicted && self.small_is_full()) {
            self.main.push((page, 0));
        } else {
            self.small.push((page, 0));
        }
        victim
    }
}

/// VectorWise's LRU with two priorities; relations of up to half of the frames are small.
pub(crate) struct TwoPriorityLru {
    high: Vec<u64>,
    low: Vec<u64>,
    seen: Vec<u64>,
    frames: usize,
}

impl TwoPriorityLru {
    pub(crate) fn new(frames: usize) -> Self {
        Self { high: vec![], low: vec![], seen: vec![], frames }
    }
}

impl Naive for TwoPriorityLru {
    fn request(&mut self, page: u64, _write: bool) -> Option<u64> {
        self.seen.push(page);
        let hit = remove(&mut self.high, page) || remove(&mut self.low, page);
        let mut victim = None;
        if !hit && self.high.len() + self.low.len() == self.frames {
            victim = Some(if self.low.is_empty() { self.high.remove(0) } else { self.low.remove(0) });
        }
        let relation = self.seen.iter().filter(|other| **other >> 32 == page >> 32);
        let pages = relation.map(|other| (other & 0xffff_ffff) as usize + 1).max().unwrap();
        if pages <= self.frames / 2 {
            self.high.push(page)
        } else {
            self.low.push(page)
        }
        victim
    }
}

/// LeanStore's cooling stage of a fifth of the frames.
pub(crate) struct LeanEvict {
    hot: Vec<u64>,
    cooling: Vec<(u64, bool)>,
    random: Random,
    frames: usize,
}

impl LeanEvict {
    pub(crate) fn new(frames: usize, seed: u64) -> Self {
        Self { hot: vec![], cooling: vec![], random: Random::new(seed), frames }
    }

    fn evict(&mut self) -> u64 {
        while self.cooling.len() < (self.frames / 5).max(1) && !self.hot.is_empty() {
            let place = self.random.below(self.hot.len() as u32) as usize;
            let page = self.hot.swap_remove(place);
            self.cooling.push((page, false));
        }
        while !self.cooling.is_empty() {
            match self.cooling.remove(0) {
                (page, true) => self.hot.push(page),
                (page, false) => return page,
            }
        }
        self.hot.swap_remove(0)
    }
}

impl Naive for LeanEvict {
    fn request(&mut self, page: u64, _write: bool) -> Option<u64> {
        if let Some((_, used)) = self.cooling.iter_mut().find(|(other, _)| *other == page) {
            *used = true;
            return None;
        }
        if self.hot.contains(&page) {
            return None;
        }
        let victim = (self.hot.len() + self.cooling.len() == self.frames).then(|| self.evict());
        self.hot.push(page);
        victim
    }
}
