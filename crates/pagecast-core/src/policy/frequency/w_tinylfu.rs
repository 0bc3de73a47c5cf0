//! W-TinyLFU: a small LRU window before a segmented LRU list that a page enters by its frequency.
//!
//! Source: Einziger, Friedman, Manes, "TinyLFU: A highly efficient cache admission policy" (ACM
//! Transactions on Storage 13(4), 2017), sections 3 and 4. The window holds the part `window` (1 %)
//! of the frames; of the rest, `protected` (80 %) is for pages that were used while on probation. A
//! page that falls out of the window meets the oldest page on probation. The one with the higher
//! estimate of the sketch stays; of equals the old one.
//!
//! Deviations: the missed page always comes in. No doorkeeper, and the window does not adapt. The
//! sketch is halved after `sample` (10) increments per frame, rounded up with its size as in
//! Caffeine. A refused page keeps its place and the next of its segment is proposed, then protected
//! pages.
//!
//! Suits skewed popularity; weak on loops with little reuse. Cost: O(1) per hit and miss, amortised
//! over the sketch's halving. 24 bytes per frame and 8 to 16 for the sketch.

use super::sketch::Sketch;
use crate::policy::list::{List, Nodes, claim_oldest};
use crate::policy::{Access, Claimed, Frames, Metadata, SequentialPolicy};
use crate::{FrameId, PageId, oracle::Oracle};

/// Which list a frame is on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Segment {
    #[default]
    Window,
    Probation,
    Protected,
}

const SEGMENTS: [Segment; 3] = [Segment::Window, Segment::Probation, Segment::Protected];

/// W-TinyLFU.
///
/// Invariant (I1): a frame is on the list of the segment that its `data` names.
#[derive(Debug)]
pub struct WTinyLfu {
    nodes: Nodes<Segment>,
    /// By segment, oldest in front.
    lists: [List; 3],
    sketch: Sketch,
    max_window: u32,
    max_protected: u32,
    /// What part of the frames the window is, and of the rest the protected segment.
    window_share: f64,
    protected_share: f64,
}

/// The most pages of the window, at least 1, and of the protected segment.
fn segments(frames: u32, window: f64, protected: f64) -> (u32, u32) {
    let main = (f64::from(frames) * (1.0 - window)) as u32;
    let max_window = (frames - main).max(1);
    (max_window, (f64::from(frames - max_window) * protected) as u32)
}

impl WTinyLfu {
    /// For a pool of `frames` frames: the window has the part `window` of them, the protected
    /// segment the part `protected` of the rest; frequencies are halved after `sample` requests per
    /// frame.
    pub fn new(frames: u32, window: f64, protected: f64, sample: u64) -> Self {
        let (max_window, max_protected) = segments(frames, window, protected);
        Self {
            nodes: Nodes::new(frames as usize),
            lists: [List::new(), List::new(), List::new()],
            sketch: Sketch::new(frames, sample),
            max_window,
            max_protected,
            window_share: window,
            protected_share: protected,
        }
    }

    fn list(&self, segment: Segment) -> &List {
        &self.lists[segment as usize]
    }

    fn push(&mut self, i: u32, segment: Segment) {
        self.nodes[i].data = segment;
        self.lists[segment as usize].push_back(&mut self.nodes, i);
    }

    fn remove(&mut self, i: u32) {
        self.lists[self.nodes[i].data as usize].remove(&mut self.nodes, i);
    }

    /// Takes the oldest page of a segment that can be had.
    fn take(&mut self, segment: Segment, frames: &dyn Frames) -> Option<Claimed> {
        let list = &mut self.lists[segment as usize];
        claim_oldest(list, &mut self.nodes, frames)
    }

    /// Moves the oldest pages of a segment to probation, until it has no more than `pages`.
    fn shrink(&mut self, segment: Segment, pages: u32) {
        while self.list(segment).len() > pages
            && let Some(oldest) = self.lists[segment as usize].pop_front(&mut self.nodes)
        {
            self.push(oldest, Segment::Probation);
        }
    }

    /// Whether the page that falls out of the window is asked for more often than the oldest on
    /// probation.
    fn candidate_wins(&self, candidate: u32, oldest: u32) -> bool {
        let frequency = |i: u32| self.sketch.estimate(self.nodes[i].page);
        frequency(candidate) > frequency(oldest)
    }
}

impl SequentialPolicy for WTinyLfu {
    #[inline]
    fn hit(&mut self, frame: FrameId, access: &Access) {
        self.sketch.increment(access.page);
        let i = frame.0;
        match self.nodes[i].data {
            Segment::Window | Segment::Protected => {
                self.lists[self.nodes[i].data as usize].move_to_back(&mut self.nodes, i);
            }
            Segment::Probation => {
                self.remove(i);
                self.push(i, Segment::Protected);
                self.shrink(Segment::Protected, self.max_protected);
            }
        }
    }

    #[inline]
    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        let window = self.list(Segment::Window);
        let first = match (window.front(), self.list(Segment::Probation).front()) {
            // The window has room for the page that comes in: nobody falls out of it.
            _ if window.len() < self.max_window => Segment::Probation,
            (Some(candidate), Some(oldest)) if self.candidate_wins(candidate, oldest) => Segment::Probation,
            _ => Segment::Window,
        };
        let mut order = [first, Segment::Probation, Segment::Protected, Segment::Window].into_iter();
        order.find_map(|segment| self.take(segment, frames))
    }

    #[inline]
    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.sketch.increment(access.page);
        self.shrink(Segment::Window, self.max_window - 1);
        self.nodes[frame.0].page = access.page;
        self.push(frame.0, Segment::Window);
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.remove(frame.0);
    }

    fn metadata(&self) -> Option<Metadata> {
        Some(self.nodes.metadata())
    }

    fn resize(&mut self, frames: u32) {
        self.sketch.resize(frames);
        (self.max_window, self.max_protected) = segments(frames, self.window_share, self.protected_share);
        self.shrink(Segment::Window, self.max_window);
        self.shrink(Segment::Protected, self.max_protected);
    }

    fn check(&self) {
        for segment in SEGMENTS {
            let list = self.list(segment);
            list.check(&self.nodes);
            assert!(list.iter(&self.nodes).all(|i| self.nodes[i].data == segment), "(I1) on {segment:?}");
        }
        assert!(self.list(Segment::Window).len() <= self.max_window);
        assert!(self.list(Segment::Protected).len() <= self.max_protected);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::NoScans;
    use crate::policy::{Claimed, Refusal};
    use crate::random::Random;
    use crate::sync::atomic::AtomicU64;
    use alloc::vec::Vec;

    /// Frames that are given to whoever asks.
    struct Granted(AtomicU64, u32);

    impl Frames for Granted {
        fn count(&self) -> u32 {
            self.1
        }
        fn word(&self, _frame: FrameId) -> &AtomicU64 {
            &self.0
        }
        fn evictable(&self, _frame: FrameId) -> Option<PageId> {
            None
        }
        fn page(&self, _frame: FrameId) -> Option<PageId> {
            None
        }
        fn claim(&self, frame: FrameId, _page: PageId) -> Result<Claimed, Refusal> {
            Ok(Claimed::new(frame))
        }
    }

    /// The policy as the paper tells it, with vectors of pages, the oldest first. It is here and
    /// not among the other second versions because it shares the sketch, whose errors decide who
    /// wins; the sketch is tested by itself.
    struct Naive {
        window: Vec<u64>,
        probation: Vec<u64>,
        protected: Vec<u64>,
        sketch: Sketch,
        frames: usize,
        max_window: usize,
    }

    impl Naive {
        fn request(&mut self, page: u64) -> Option<u64> {
            let lists = [&self.window, &self.probation, &self.protected];
            let list = lists.iter().position(|list| list.contains(&page));
            let is_full = lists.iter().map(|list| list.len()).sum::<usize>() == self.frames;
            let victim = (list.is_none() && is_full).then(|| self.evict());
            self.sketch.increment(PageId::from_raw(page));
            for list in [&mut self.window, &mut self.probation, &mut self.protected] {
                list.retain(|other| *other != page);
            }
            match list {
                Some(1 | 2) => self.protected.push(page),
                _ => self.window.push(page),
            }
            if self.protected.len() > (self.frames - self.max_window) * 4 / 5 {
                self.probation.push(self.protected.remove(0));
            }
            if self.window.len() > self.max_window {
                self.probation.push(self.window.remove(0));
            }
            victim
        }

        fn evict(&mut self) -> u64 {
            let frequency = |list: &Vec<u64>| list.first().map(|&page| self.sketch.estimate(PageId::from_raw(page)));
            let from = if self.window.len() < self.max_window {
                [&mut self.probation, &mut self.protected, &mut self.window]
            } else if !self.probation.is_empty() && frequency(&self.window) > frequency(&self.probation) {
                [&mut self.probation, &mut self.window, &mut self.protected]
            } else {
                [&mut self.window, &mut self.probation, &mut self.protected]
            };
            from.into_iter().find(|list| !list.is_empty()).expect("the pool is full").remove(0)
        }
    }

    #[test]
    fn victims_agree_with_a_naive_second_version() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let frames = 1 + random.below(40);
            let mut policy = WTinyLfu::new(frames, 0.2, 0.8, 10);
            let max_window = policy.max_window as usize;
            let mut naive = Naive {
                window: Vec::new(),
                probation: Vec::new(),
                protected: Vec::new(),
                sketch: Sketch::new(frames, 10),
                frames: frames as usize,
                max_window,
            };
            let granted = Granted(AtomicU64::new(0), frames);
            let mut held: Vec<u64> = Vec::new();
            for at in 0..600 {
                // Half of the requests go to few pages.
                let range = if random.below(2) == 0 { 1 + frames / 2 } else { 3 * frames };
                let page = u64::from(random.below(range));
                let access = Access { page: PageId::from_raw(page), scan: None, write: false, at };
                let mut victim = None;
                if let Some(frame) = held.iter().position(|&other| other == page) {
                    policy.hit(FrameId(frame as u32), &access);
                } else {
                    let frame = if held.len() < frames as usize {
                        held.push(page);
                        FrameId(held.len() as u32 - 1)
                    } else {
                        let claimed = policy.evict(&granted, &access, &NoScans).expect("every claim is granted");
                        let frame = claimed.frame();
                        victim = Some(core::mem::replace(&mut held[frame.index()], page));
                        frame
                    };
                    policy.admit(&granted, frame, &access);
                }
                policy.check();
                assert_eq!(victim, naive.request(page), "seed {seed}, {frames} frames, request {at}");
            }
        }
    }
}
