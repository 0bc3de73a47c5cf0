//! LeanEvict: random pages cool down in a FIFO, and leave at its end unless they are used
//! meanwhile.
//!
//! Source: Leis, Haubenschild, Kemper, Neumann, "LeanStore: In-memory data management beyond main
//! memory" (ICDE 2018), section III-C. Hot pages carry no bookkeeping. When frames are short, a
//! random hot page goes to the cooling stage, the part `cooling` (20 %) of the frames.
//!
//! Deviations: no background thread and no parents of pages; pages cool when a victim is wanted. A
//! page that is used while it cools is hot at once, and leaves the stage only at its end, so that a
//! hit needs no lock. A refused page keeps its place; if none can be had, hot pages are proposed.
//!
//! Suits hot sets that fit. Scans are weeded out only as fast as chance picks them. Cost: a hit of
//! a cooling page sets its word, without a lock. O(1) per eviction, amortised. 28 bytes per frame.

use crate::policy::list::{List, Nodes, first_taken};
use crate::policy::{Access, Claimed, Frames, HitNeed, SequentialPolicy, part};
use crate::random::Random;
use crate::sync::atomic::Ordering::Relaxed;
use crate::{FrameId, PageId, oracle::Oracle};
use alloc::vec::Vec;

/// In a frame's `data`: the page is not among the hot ones.
const COOL: u32 = u32::MAX;

/// What a frame's word says: its page is cooling, or it is hot, again perhaps.
const COOLING: u64 = 0;
const HOT: u64 = 1;

/// LeanStore's cooling stage.
///
/// Invariants: (I1) a resident page is among the hot ones or on the cooling list. (I2)
/// `hot[nodes[f].data] == f` for every hot frame f. (I3) The words of the hot ones say so; those on
/// the cooling list that say so were used there.
#[derive(Debug)]
pub struct LeanEvict {
    nodes: Nodes<u32>,
    hot: Vec<u32>,
    cooling: List,
    max_cooling: u32,
    /// What part of the frames that is.
    cooling_share: f64,
    random: Random,
}

impl LeanEvict {
    /// For a pool of `frames` frames of which the part `cooling` is cooling; `seed` decides which.
    pub fn new(frames: u32, cooling: f64, seed: u64) -> Self {
        Self {
            nodes: Nodes::new(frames as usize),
            hot: Vec::with_capacity(frames as usize),
            cooling: List::new(),
            max_cooling: part(frames, cooling),
            cooling_share: cooling,
            random: Random::new(seed),
        }
    }

    fn heat(&mut self, i: u32) {
        self.nodes[i].data = self.hot.len() as u32;
        self.hot.push(i);
    }

    /// Takes frame `i`, which is hot, out of the hot ones.
    fn unheat(&mut self, i: u32) {
        let place = self.nodes[i].data;
        self.hot.swap_remove(place as usize);
        if let Some(&moved) = self.hot.get(place as usize) {
            self.nodes[moved].data = place;
        }
        self.nodes[i].data = COOL;
    }

    /// Cools random hot pages until the stage is full.
    fn cool(&mut self, frames: &dyn Frames) {
        while self.cooling.len() < self.max_cooling && !self.hot.is_empty() {
            let i = self.hot[self.random.below(self.hot.len() as u32) as usize];
            self.unheat(i);
            frames.word(FrameId(i)).store(COOLING, Relaxed);
            self.cooling.push_back(&mut self.nodes, i);
        }
    }

    /// Takes the page that has cooled for longest and was not used meanwhile; those before it that
    /// were are hot.
    fn take_cold(&mut self, frames: &dyn Frames) -> Option<Claimed> {
        let mut next = self.cooling.front();
        while let Some(i) = next {
            next = self.nodes.after(i);
            let (frame, page) = self.nodes.proposal(i);
            if frames.word(frame).load(Relaxed) == HOT {
                self.cooling.remove(&mut self.nodes, i);
                self.heat(i);
            } else if let Ok(victim) = frames.claim(frame, page) {
                self.cooling.remove(&mut self.nodes, i);
                return Some(victim);
            }
        }
        None
    }

    fn take_hot(&mut self, frames: &dyn Frames) -> Option<Claimed> {
        let (victim, _) = first_taken(self.hot.iter().map(|&i| self.nodes.proposal(i)), frames)?;
        self.unheat(victim.frame().0);
        Some(victim)
    }
}

impl SequentialPolicy for LeanEvict {
    /// A cooling page becomes hot; a hot one is hot.
    fn hit_need(&self) -> HitNeed {
        HitNeed::Count { max: HOT }
    }

    #[inline]
    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        self.cool(frames);
        self.take_cold(frames).or_else(|| self.take_hot(frames))
    }

    #[inline]
    fn admit(&mut self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        frames.word(frame).store(HOT, Relaxed);
        self.nodes[frame.0].page = access.page;
        self.heat(frame.0);
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        if self.nodes[frame.0].data == COOL {
            self.cooling.remove(&mut self.nodes, frame.0);
        } else {
            self.unheat(frame.0);
        }
    }

    /// A stage that is too large now is not filled until enough of its pages have left.
    fn resize(&mut self, frames: u32) {
        self.max_cooling = part(frames, self.cooling_share);
    }

    fn check(&self) {
        self.cooling.check(&self.nodes);
        assert!(self.cooling.iter(&self.nodes).all(|i| self.nodes[i].data == COOL), "(I1)");
        for (place, &i) in self.hot.iter().enumerate() {
            assert_eq!(self.nodes[i].data as usize, place, "(I2)");
            assert!(!self.nodes.linked(i), "(I1)");
        }
    }
}
