//! CLOCK-Pro: LIRS's reuse distance on one clock with three hands; a hit sets a bit and no more.
//!
//! Source: Jiang, Chen, Zhang, "CLOCK-Pro: An effective improvement of the CLOCK replacement"
//! (USENIX ATC 2005), section 4. One circle holds hot pages, resident cold pages and cold pages
//! that left. A cold page that is used again on its test becomes hot. HANDcold finds the victim,
//! HANDhot cools hot pages, HANDtest ends tests when more than the part `ghosts` (200 %) of the
//! frames are remembered. The share of cold pages follows the tests; neither share falls below
//! `cold` (1 %).
//!
//! Deviations: bounds and ghosts are those of Caffeine's simulator; the paper names no bounds and
//! has 100 % ghosts. The first pages are hot, as in LIRS. HANDhot stops once few enough are hot.
//! Hands pass over refused pages; if no cold page can be had, all are proposed.
//!
//! Suits what LIRS suits, where hits must be cheap. Cost: a hit sets one bit in the frame's line
//! and takes no lock; hands move O(1) amortised. 40 bytes per frame, and 35 to 46 for each ghost.

use crate::policy::ghosts::Ghosts;
use crate::policy::list::{List, Nodes};
use crate::policy::{Access, Claimed, Frames, HitNeed, SequentialPolicy, mark, part};
use crate::{FrameId, PageId, oracle::Oracle};
use alloc::vec::Vec;

/// What a node notes. Ghosts are cold and on test.
#[derive(Clone, Copy, Default, Debug)]
struct Mark {
    hot: bool,
    on_test: bool,
}

const GHOST: Mark = Mark { hot: false, on_test: true };

/// CLOCK-Pro. A frame's word says whether its page was used since HANDcold or, if it is hot,
/// HANDhot passed.
///
/// The circle is a list whose front is the page at HANDhot, so that a step of HANDhot moves a page
/// to the back, which is also where pages enter: the list head of the paper. Resident cold pages
/// are on a queue too, in the order of the circle; they enter and pass HANDhot at its back, so its
/// front is where HANDcold stands and no hot page is looked at on the way.
///
/// Invariants: (I1) every resident page and every ghost is on the circle. (I2) `hot` counts the hot
/// pages. (I3) The queue holds the resident pages that are cold. (I4) HANDtest stands at a node of
/// the circle; nowhere means the front.
#[derive(Debug)]
pub struct ClockPro {
    nodes: Nodes<Mark>,
    ghosts: Ghosts,
    circle: List,
    /// Frames as members of the queue.
    waiting: Nodes<()>,
    cold: List,
    test_hand: Option<u32>,
    hot: u32,
    /// The number of resident cold pages to aim at, from `min_share` to `frames - min_share` or a
    /// little more.
    cold_target: u32,
    min_share: u32,
    max_ghosts: u32,
    frames: u32,
    /// What parts of the frames `min_share` and `max_ghosts` are.
    cold_share: f64,
    ghost_share: f64,
}

impl ClockPro {
    /// For a pool of `frames` frames; the cold and the hot share are at least the part `cold` of
    /// them, and as many ghosts as the part `ghosts` are remembered.
    pub fn new(frames: u32, cold: f64, ghosts: f64) -> Self {
        let (cold_share, ghost_share) = (cold, ghosts);
        let (min_share, max_ghosts) = (part(frames, cold_share), part(frames, ghost_share));
        // Two ghosts more than the bound: HANDtest follows an eviction, and a load may be given up
        // in between.
        let mut nodes = Nodes::new(frames as usize + max_ghosts as usize + 2);
        let ghosts = Ghosts::new(&mut nodes, frames);
        Self {
            nodes,
            ghosts,
            circle: List::new(),
            waiting: Nodes::new(frames as usize),
            cold: List::new(),
            test_hand: None,
            hot: 0,
            cold_target: min_share,
            min_share,
            max_ghosts,
            frames,
            cold_share,
            ghost_share,
        }
    }

    /// Moves HANDtest off node `i`, which is about to leave its place.
    fn step_off(&mut self, i: u32) {
        if self.test_hand == Some(i) {
            self.test_hand = self.nodes.after(i);
        }
    }

    fn drop_ghost(&mut self, ghost: u32) {
        self.step_off(ghost);
        self.circle.remove(&mut self.nodes, ghost);
        self.ghosts.remove(&mut self.nodes, ghost);
    }

    /// Takes frame `i` off the circle and, if it is cold, off the queue.
    fn remove(&mut self, i: u32) {
        self.step_off(i);
        self.circle.remove(&mut self.nodes, i);
        if self.nodes[i].data.hot {
            self.hot -= 1;
        } else {
            self.cold.remove(&mut self.waiting, i);
        }
    }

    /// Puts frame `i` at the list head, the place of pages used last.
    fn push(&mut self, i: u32, mark: Mark) {
        self.nodes[i].data = mark;
        self.circle.push_back(&mut self.nodes, i);
        if mark.hot {
            self.hot += 1;
        } else {
            self.cold.push_back(&mut self.waiting, i);
        }
    }

    /// A test ends in vain.
    fn end_test(&mut self, i: u32) {
        self.cold_target = (self.cold_target - 1).max(self.min_share);
        if self.ghosts.is_ghost(i) {
            self.drop_ghost(i);
        } else {
            self.nodes[i].data.on_test = false;
        }
    }

    /// A test succeeds.
    fn grow_cold(&mut self) {
        self.cold_target = (self.cold_target + 1).min(self.max_cold());
    }

    /// The most cold pages to aim at.
    fn max_cold(&self) -> u32 {
        self.frames.saturating_sub(self.min_share).max(self.min_share)
    }

    /// HANDhot goes on until hot pages leave room for the cold share. One round clears all bits,
    /// the next turns a page cold at every step, but for those that are hit meanwhile: then the
    /// next call goes on.
    fn run_hot(&mut self, frames: &dyn Frames) {
        for _ in 0..2 * self.circle.len() {
            if self.hot <= self.frames - self.cold_target {
                break;
            }
            let Some(i) = self.circle.front() else { break };
            let mark = self.nodes[i].data;
            if mark.on_test {
                self.end_test(i);
            }
            if !self.ghosts.is_ghost(i) {
                let hot = mark.hot && mark::take(frames, FrameId(i));
                self.remove(i);
                self.push(i, Mark { hot, on_test: false });
            }
        }
    }

    /// HANDtest goes on until no more than `max_ghosts` ghosts are left.
    fn run_test(&mut self) {
        while self.ghosts.len() > self.max_ghosts {
            let Some(i) = self.test_hand.or(self.circle.front()) else { return };
            self.test_hand = self.nodes.after(i);
            if self.nodes[i].data.on_test {
                self.end_test(i);
            }
        }
    }

    /// HANDcold looks for a victim. A used page goes to the list head, so two rounds see every page
    /// unused, but for those that are hit meanwhile.
    fn run_cold(&mut self, frames: &dyn Frames) -> Option<Claimed> {
        let mut next = self.cold.front();
        for _ in 0..2 * self.circle.len() {
            let i = next?;
            next = self.waiting.after(i);
            let mark = self.nodes[i].data;
            if mark::take(frames, FrameId(i)) {
                self.remove(i);
                self.push(i, Mark { hot: mark.on_test, on_test: !mark.on_test });
                if mark.on_test {
                    self.grow_cold();
                    self.run_hot(frames);
                }
                // HANDhot may have moved what came next.
                next = self.cold.front();
            } else if let Some(frame) = self.take(i, frames) {
                return Some(frame);
            }
        }
        None
    }

    /// Claims the page of frame `i`; one on test leaves a ghost in its place.
    fn take(&mut self, i: u32, frames: &dyn Frames) -> Option<Claimed> {
        let (frame, page) = self.nodes.proposal(i);
        let victim = frames.claim(frame, page).ok()?;
        let place = self.nodes.before(i);
        let on_test = self.nodes[i].data.on_test;
        self.remove(i);
        if on_test && let Some(ghost) = self.ghosts.insert(&mut self.nodes, page) {
            self.nodes[ghost].data = GHOST;
            self.circle.insert_after(&mut self.nodes, place, ghost);
        }
        Some(victim)
    }

    /// Any page that can be had, in the order of the circle.
    fn take_any(&mut self, frames: &dyn Frames) -> Option<Claimed> {
        let mut next = self.circle.front();
        while let Some(i) = next {
            next = self.nodes.after(i);
            if !self.ghosts.is_ghost(i)
                && let Some(frame) = self.take(i, frames)
            {
                return Some(frame);
            }
        }
        None
    }
}

impl SequentialPolicy for ClockPro {
    fn hit_need(&self) -> HitNeed {
        HitNeed::Count { max: 1 }
    }

    #[inline]
    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        self.run_test();
        self.run_cold(frames).or_else(|| self.take_any(frames))
    }

    #[inline]
    fn admit(&mut self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        let ghost = self.ghosts.find(&self.nodes, access.page);
        if let Some(ghost) = ghost {
            self.drop_ghost(ghost);
            self.grow_cold();
        }
        let hot = ghost.is_some() || self.hot < self.frames - self.cold_target;
        self.nodes[frame.0].page = access.page;
        self.push(frame.0, Mark { hot, on_test: !hot });
        // Also when cold, since a resize may have left too many hot pages.
        self.run_hot(frames);
        self.run_test();
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.remove(frame.0);
    }

    fn resize(&mut self, frames: u32) {
        let before = core::mem::replace(&mut self.frames, frames);
        self.min_share = part(frames, self.cold_share);
        self.max_ghosts = part(frames, self.ghost_share);
        // What was learned is a share.
        let cold_target = (u64::from(self.cold_target) * u64::from(frames) / u64::from(before)) as u32;
        self.cold_target = cold_target.clamp(self.min_share, self.max_cold());
        self.run_test();
    }

    fn check(&self) {
        self.circle.check(&self.nodes);
        self.cold.check(&self.waiting);
        self.ghosts.check(&self.nodes);
        let resident = self.circle.iter(&self.nodes).filter(|&i| !self.ghosts.is_ghost(i));
        let (hot, cold): (Vec<u32>, Vec<u32>) = resident.partition(|&i| self.nodes[i].data.hot);
        assert_eq!(hot.len(), self.hot as usize, "(I2)");
        assert!(self.cold.iter(&self.waiting).eq(cold), "(I3), in the order of the circle");
        assert!(self.test_hand.is_none_or(|hand| self.nodes.linked(hand)), "(I4)");
        assert!((self.min_share..=self.frames).contains(&self.cold_target));
    }
}
