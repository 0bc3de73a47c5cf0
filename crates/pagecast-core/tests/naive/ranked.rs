//! Policies that rank all pages at every eviction.

use super::Naive;

/// A resident page and its uses, the youngest last.
struct Page {
    id: u64,
    uses: Vec<u64>,
    dirty: bool,
}

/// Evicts the page with the lowest rank.
struct Ranked {
    pages: Vec<Page>,
    frames: usize,
    now: u64,
}

impl Ranked {
    fn new(frames: usize) -> Self {
        Self { pages: Vec::new(), frames, now: 0 }
    }

    fn request<R: PartialOrd>(&mut self, id: u64, write: bool, rank: impl Fn(&Page, u64) -> R) -> Option<u64> {
        self.now += 1;
        let now = self.now;
        if let Some(page) = self.pages.iter_mut().find(|page| page.id == id) {
            page.uses.push(now);
            page.dirty |= write;
            return None;
        }
        let victim = (self.pages.len() == self.frames).then(|| {
            let ranks = self.pages.iter().enumerate().map(|(i, page)| (rank(page, now), i));
            let (_, lowest) = ranks.reduce(|low, other| if other.0 < low.0 { other } else { low }).unwrap();
            self.pages.remove(lowest).id
        });
        self.pages.push(Page { id, uses: vec![now], dirty: write });
        victim
    }
}

fn last(page: &Page) -> u64 {
    *page.uses.last().unwrap()
}

pub(crate) struct Lfu(Ranked);

impl Lfu {
    pub(crate) fn new(frames: usize) -> Self {
        Self(Ranked::new(frames))
    }
}

impl Naive for Lfu {
    fn request(&mut self, page: u64, write: bool) -> Option<u64> {
        self.0.request(page, write, |page, _| (page.uses.len(), last(page)))
    }
}

/// LRU-2 without correlated period or history.
pub(crate) struct LruTwo(Ranked);

impl LruTwo {
    pub(crate) fn new(frames: usize) -> Self {
        Self(Ranked::new(frames))
    }
}

impl Naive for LruTwo {
    fn request(&mut self, page: u64, write: bool) -> Option<u64> {
        let second = |page: &Page| page.uses.iter().rev().nth(1).copied().unwrap_or(0);
        self.0.request(page, write, |page, _| (second(page), last(page)))
    }
}

pub(crate) struct Lrfu(Ranked, f64);

impl Lrfu {
    pub(crate) fn new(frames: usize, lambda: f64) -> Self {
        Self(Ranked::new(frames), lambda)
    }
}

impl Naive for Lrfu {
    fn request(&mut self, page: u64, write: bool) -> Option<u64> {
        let lambda = self.1;
        let sum = |page: &Page, now: u64| -> f64 {
            page.uses.iter().map(|&used| (-lambda * (now - used) as f64).exp2()).sum()
        };
        self.0.request(page, write, sum)
    }
}

/// LFU whose counts are halved when their mean is above `max`. In the order of victims.
pub(crate) struct LfuAged {
    order: Vec<(u64, u64)>,
    frames: usize,
    max: f64,
}

impl LfuAged {
    pub(crate) fn new(frames: usize, max: f64) -> Self {
        Self { order: Vec::new(), frames, max }
    }

    /// Behind all pages that were used as often or less.
    fn insert(&mut self, page: u64, count: u64) {
        let place = self.order.iter().position(|&(_, other)| other > count).unwrap_or(self.order.len());
        self.order.insert(place, (page, count));
    }
}

impl Naive for LfuAged {
    fn request(&mut self, page: u64, _write: bool) -> Option<u64> {
        if let Some(place) = self.order.iter().position(|&(other, _)| other == page) {
            let (_, count) = self.order.remove(place);
            self.insert(page, count + 1);
            let sum: u64 = self.order.iter().map(|&(_, count)| count).sum();
            if sum as f64 / self.order.len() as f64 > self.max {
                self.order.iter_mut().for_each(|(_, count)| *count = count.div_ceil(2));
            }
            return None;
        }
        let victim = (self.order.len() == self.frames).then(|| self.order.remove(0).0);
        self.insert(page, 1);
        victim
    }
}
