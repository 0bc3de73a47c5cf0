//! CAR: ARC with two clocks in place of its LRU lists, so that a hit sets a bit and moves nothing.
//!
//! Source: Bansal, Modha, "CAR: Clock with adaptive replacement" (FAST 2004), section III, figure
//! 2. T1 and T2 are clocks of pages seen once and again lately, B1 and B2 the ghosts of both,
//! `target` the size that T1 should have. Ghosts are trimmed, `target` adapted after the
//! replacement.
//!
//! Deviations: `target` is a whole number and the ratios that move it are rounded down, which
//! figure 2 leaves open; with real numbers, as in our ARC, misses differ by up to 2.5 % on small
//! traces. A hand passes over a refused page; after all of a clock in a row the other clock is
//! asked.
//!
//! Suits what ARC suits, where hits must be cheap. Cost: a hit sets one bit in the frame's own line
//! and takes no lock. An eviction clears bits until it finds a page without, in three rounds at
//! most, four if hits set bits meanwhile. Beside the word 24 bytes per frame, 35 to 46 per ghost.

use crate::policy::ghosts::Ghosts;
use crate::policy::list::{List, Nodes};
use crate::policy::{Access, Claimed, Frames, HitNeed, SequentialPolicy, mark};
use crate::{FrameId, PageId, oracle::Oracle};

/// Clock with adaptive replacement. A frame's word says whether its page was used since the hand
/// passed.
///
/// Invariants, with c frames: (I1) a frame is on T1 or T2, a ghost on B1 or B2, as its `data` says.
/// (I2) After `admit`,
/// |T1| + |B1| <= c and all four together hold at most 2c pages.
#[derive(Debug)]
pub struct Car {
    /// The data: whether it is T2 or B2.
    nodes: Nodes<bool>,
    ghosts: Ghosts,
    /// T1 and T2; the hand stands at the front.
    clocks: [List; 2],
    /// B1 and B2.
    left: [List; 2],
    /// The size that T1 should have, from 0 to `frames`.
    target: u32,
    frames: u32,
}

impl Car {
    /// For a pool of `frames` frames.
    pub fn new(frames: u32) -> Self {
        // One ghost more than (I2) allows stands between an eviction and the admission that
        // follows.
        let mut nodes = Nodes::new(2 * frames as usize + 1);
        let ghosts = Ghosts::new(&mut nodes, frames);
        Self { nodes, ghosts, clocks: [List::new(), List::new()], left: [List::new(), List::new()], target: 0, frames }
    }

    fn drop_oldest_ghost(&mut self, again: bool) {
        if let Some(ghost) = self.left[usize::from(again)].pop_front(&mut self.nodes) {
            self.ghosts.remove(&mut self.nodes, ghost);
        }
    }

    /// Makes room for one more page on T1 within (I2).
    fn trim(&mut self) {
        let [once, again] = [self.clocks[0].len(), self.clocks[1].len()];
        if once + self.left[0].len() >= self.frames {
            self.drop_oldest_ghost(false);
        } else if once + again + self.ghosts.len() >= 2 * self.frames {
            self.drop_oldest_ghost(true);
        }
    }

    /// Puts node `i` behind the hand of a clock.
    fn push(&mut self, i: u32, again: bool) {
        self.nodes[i].data = again;
        self.clocks[usize::from(again)].push_back(&mut self.nodes, i);
    }

    /// Remembers that `page` left a clock.
    fn remember(&mut self, page: PageId, again: bool) {
        if self.ghosts.is_full() {
            // Several loads are between their eviction and their admission.
            self.trim();
        }
        if let Some(ghost) = self.ghosts.insert(&mut self.nodes, page) {
            self.nodes[ghost].data = again;
            self.left[usize::from(again)].push_back(&mut self.nodes, ghost);
        }
    }

    /// A page that left lately is back: its clock should have been larger.
    fn adapt(&mut self, again: bool) {
        let [once, twice] = [self.left[0].len(), self.left[1].len()];
        self.target = if again {
            self.target.saturating_sub((once / twice).max(1))
        } else {
            (self.target + (twice / once).max(1)).min(self.frames)
        };
    }
}

impl SequentialPolicy for Car {
    fn hit_need(&self) -> HitNeed {
        HitNeed::Count { max: 1 }
    }

    #[inline]
    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        // Refusals in a row, by clock. A step is a refusal or clears a bit. If no bit is set
        // meanwhile, all are clear and all pages proposed within three rounds; hits at the same
        // time cannot keep the hands going for longer than four.
        let mut refused = [0, 0];
        for _ in 0..4 * u64::from(self.frames) {
            let exhausted = [0, 1].map(|clock| refused[clock] >= self.clocks[clock].len());
            if exhausted == [true, true] {
                return None;
            }
            let again = exhausted[0] || (self.clocks[0].len() < self.target.max(1) && !exhausted[1]);
            let clock = usize::from(again);
            let i = self.clocks[clock].pop_front(&mut self.nodes)?;
            let (frame, page) = self.nodes.proposal(i);
            if mark::take(frames, frame) {
                self.push(i, true);
                refused = [0, 0];
                continue;
            }
            if let Ok(victim) = frames.claim(frame, page) {
                self.remember(page, again);
                return Some(victim);
            }
            self.push(i, again);
            refused[clock] += 1;
        }
        None
    }

    #[inline]
    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        let ghost = self.ghosts.find(&self.nodes, access.page);
        if let Some(ghost) = ghost {
            let again = self.nodes[ghost].data;
            self.adapt(again);
            self.left[usize::from(again)].remove(&mut self.nodes, ghost);
            self.ghosts.remove(&mut self.nodes, ghost);
        } else {
            self.trim();
        }
        self.nodes[frame.0].page = access.page;
        self.push(frame.0, ghost.is_some());
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.clocks[usize::from(self.nodes[frame.0].data)].remove(&mut self.nodes, frame.0);
    }

    fn resize(&mut self, frames: u32) {
        // What was learned is a share.
        let before = core::mem::replace(&mut self.frames, frames);
        self.target = (u64::from(self.target) * u64::from(frames) / u64::from(before)) as u32;
        // (I2), as far as ghosts can keep it; resident pages leave by eviction only.
        while self.clocks[0].len() + self.left[0].len() > frames && self.left[0].len() > 0 {
            self.drop_oldest_ghost(false);
        }
        let resident = self.clocks[0].len() + self.clocks[1].len();
        while resident + self.ghosts.len() > 2 * frames && self.left[1].len() > 0 {
            self.drop_oldest_ghost(true);
        }
    }

    fn check(&self) {
        for again in [false, true] {
            for (list, ghosts) in [(&self.clocks, false), (&self.left, true)] {
                let list = &list[usize::from(again)];
                list.check(&self.nodes);
                for i in list.iter(&self.nodes) {
                    assert_eq!((self.nodes[i].data, self.ghosts.is_ghost(i)), (again, ghosts), "(I1) at {i}");
                }
            }
        }
        self.ghosts.check(&self.nodes);
        assert!(self.target <= self.frames);
    }
}
