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

/// What is known of a page. Figure 2.1 of the LRU-K paper has HIST and LAST.
struct Known {
    page: u64,
    hist: Vec<u64>,
    last: u64,
}

/// LRU-K with a correlated reference period, and with the uses of as many departed pages as there
/// are frames.
pub(crate) struct LruK {
    resident: Vec<Known>,
    left: Vec<Known>,
    now: u64,
    k: usize,
    period: u64,
    history: usize,
    frames: usize,
}

impl LruK {
    pub(crate) fn new(frames: usize, k: usize, correlated: f64, history: f64) -> Self {
        let part = |share: f64| (frames as f64 * share) as usize;
        let (period, history) = (part(correlated) as u64, part(history));
        Self { resident: vec![], left: vec![], now: 0, k, period, history, frames }
    }

    /// The page with the longest backward K-distance of those outside of their period, of equals
    /// the one used longest ago; if there are none, the one used longest ago of all.
    fn evict(&mut self) -> Known {
        let outside = |known: &&Known| self.now - known.last > self.period;
        let victim = self.resident.iter().filter(outside).min_by_key(|known| (known.hist[self.k - 1], known.last));
        let victim = victim.or_else(|| self.resident.iter().min_by_key(|known| known.last)).unwrap().page;
        let place = self.resident.iter().position(|known| known.page == victim).unwrap();
        self.resident.remove(place)
    }
}

impl Naive for LruK {
    fn request(&mut self, page: u64, _write: bool) -> Option<u64> {
        self.now += 1;
        let now = self.now;
        if let Some(known) = self.resident.iter_mut().find(|known| known.page == page) {
            if now - known.last > self.period {
                let burst = known.last - known.hist[0];
                for i in (1..self.k).rev() {
                    let before = known.hist[i - 1];
                    known.hist[i] = if before == 0 { 0 } else { before + burst };
                }
                known.hist[0] = now;
            }
            known.last = now;
            return None;
        }
        let mut victim = None;
        if self.resident.len() == self.frames {
            let left = self.evict();
            victim = Some(left.page);
            self.left.push(left);
            if self.left.len() > self.history {
                self.left.remove(0);
            }
        }
        let mut hist = vec![0; self.k];
        if let Some(place) = self.left.iter().position(|known| known.page == page) {
            hist = self.left.remove(place).hist;
            hist.rotate_right(1);
        }
        hist[0] = now;
        self.resident.push(Known { page, hist, last: now });
        victim
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
