//! `pbm-pq`: predictive buffer management with queues of time, the older brother of sampling.
//!
//! Source: Świtakowski, "Integrating Cooperative Scans in a column-oriented DBMS" (MSc thesis,
//! 2011), section 4.3: queues by the time to a page's next use, a slice each, and one for pages
//! that nobody wants. Świtakowski, Boncz, Żukowski (PVLDB 5(12), 2012): 10 tiers of 5, the width
//! doubling.
//!
//! Deviations: a page whose place may have changed is placed when the next victim is looked for. So
//! are the pages of a chunk that is done, which were used just before. A scan's beginning or end
//! places all anew, as do more slices at once than queues. With `slice=0` a slice is a
//! [`TURNOVER_SLICES`]th of the pool's last turnover. Pages of a `bulk` leave one by one. Pages are
//! in the queues, not block groups, which saved nothing here.
//!
//! Suits scans; without scans it is LRU. Cost: a hit O(1); an eviction the estimates of what was
//! used since the last one; a scan's beginning or end an estimate of each page. 24 bytes a frame.

mod timeline;

pub use timeline::PqVersion;

use super::list::{List, Nodes, first_taken};
use super::{Access, Claimed, Frames, Metadata, SequentialPolicy};
use crate::{
    FrameId, PageId, Tick,
    oracle::{Oracle, Question},
};
use alloc::vec::Vec;
use timeline::Timeline;

/// Slices in the time in which the pool's contents turn over.
const TURNOVER_SLICES: u64 = 160;

/// What a [`PbmPq`] is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PqOptions {
    /// How the queues divide time.
    pub version: PqVersion,
    /// Tiers of queues; with equal queues their number is the product all the same.
    pub tiers: u32,
    /// Queues in each tier; at most 1280 in all.
    pub queues: u32,
    /// Ticks of the nearest queues; 0 to go by the pool's turnover.
    pub slice: Tick,
    /// Victims between two looks at what has changed.
    pub bulk: u32,
}

/// PBM with a priority queue of time.
///
/// Invariant (I1): a frame with a page is on the list that its data names.
#[derive(Debug)]
pub struct PbmPq {
    options: PqOptions,
    timeline: Timeline,
    /// The queues of the timeline by number, then `unwanted` and `waiting`, each by last use.
    lists: Vec<List>,
    /// The list that each is on, an index of `lists`.
    frames: Nodes<u16>,
    /// When the current slice began.
    slice_began: Tick,
    slice: Tick,
    /// Admissions until the contents have turned over, and when they began to.
    turnover_left: u32,
    turnover_began: Tick,
    /// Frames in use.
    count: u32,
    /// The oracle's count of changes when all was placed last.
    changes: u64,
    /// Victims left of this bulk.
    bulk_left: u32,
}

impl PbmPq {
    /// For a pool of `frames` frames.
    pub fn new(frames: u32, options: PqOptions) -> Self {
        let timeline = Timeline::new(options.version, options.tiers, options.queues);
        Self {
            lists: (0..timeline.queues() + 2).map(|_| List::new()).collect(),
            timeline,
            frames: Nodes::new(frames as usize),
            slice_began: 0,
            slice: options.slice,
            turnover_left: frames,
            turnover_began: 0,
            count: frames,
            changes: 0,
            bulk_left: 0,
            options,
        }
    }

    /// The list of pages that no scan wants.
    fn unwanted(&self) -> u16 {
        self.timeline.queues() as u16
    }

    /// The list of pages that are to be placed.
    fn waiting(&self) -> u16 {
        self.unwanted() + 1
    }

    fn push(&mut self, frame: u32, list: u16) {
        self.frames[frame].data = list;
        self.lists[usize::from(list)].push_back(&mut self.frames, frame);
    }

    fn remove(&mut self, frame: u32) {
        let list = self.frames[frame].data;
        self.lists[usize::from(list)].remove(&mut self.frames, frame);
    }

    fn move_to(&mut self, frame: u32, list: u16) {
        self.remove(frame);
        self.push(frame, list);
    }

    fn move_all_to_waiting(&mut self, list: u16) {
        while let Some(frame) = self.lists[usize::from(list)].front() {
            self.move_to(frame, self.waiting());
        }
    }

    /// Lets the slices pass that have gone by, and finds everyone's place who needs one.
    fn catch_up(&mut self, now: Tick, oracle: &dyn Oracle) {
        let slices = now.saturating_sub(self.slice_began) / self.slice.max(1);
        self.slice_began += slices * self.slice.max(1);
        let changes = oracle.scan_changes();
        if core::mem::replace(&mut self.changes, changes) != changes || slices > self.timeline.queues() as u64 {
            // Those that nobody wanted come first, in their order, so that those that nobody wants
            // any more are behind them.
            self.move_all_to_waiting(self.unwanted());
            for place in 0..self.timeline.queues() {
                self.move_all_to_waiting(self.timeline.at(place));
            }
        } else {
            for _ in 0..slices {
                self.move_all_to_waiting(self.timeline.at(0));
                self.timeline.pass();
            }
        }
        while let Some(frame) = self.lists[usize::from(self.waiting())].front() {
            let list = match oracle.next_access(Question::new(self.frames[frame].page, now)) {
                Some(ticks) => self.timeline.queue(ticks, self.slice.max(1)),
                None => self.unwanted(),
            };
            self.move_to(frame, list);
        }
    }

    /// Takes the first page to be had among those that nobody wants, then from the furthest queue
    /// to the nearest.
    fn claim(&mut self, frames: &dyn Frames) -> Option<Claimed> {
        let lists = core::iter::once(self.unwanted()).chain(self.timeline.furthest_first());
        let pages = lists.flat_map(|list| self.lists[usize::from(list)].iter(&self.frames));
        let (victim, _) = first_taken(pages.map(|frame| self.frames.proposal(frame)), frames)?;
        self.remove(victim.frame().0);
        Some(victim)
    }

    /// Notes that a page came in, and what a slice is if that made the turnover complete.
    fn count_admission(&mut self, now: Tick) {
        self.turnover_left = self.turnover_left.saturating_sub(1);
        if self.turnover_left == 0 {
            if self.options.slice == 0 {
                self.slice = (now.saturating_sub(self.turnover_began) / TURNOVER_SLICES).max(1);
            }
            self.turnover_left = self.count;
            self.turnover_began = now;
        }
    }
}

impl SequentialPolicy for PbmPq {
    fn hit(&mut self, frame: FrameId, _access: &Access) {
        self.move_to(frame.0, self.waiting());
    }

    fn evict(&mut self, frames: &dyn Frames, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed> {
        if self.bulk_left > 0 {
            self.bulk_left -= 1;
            if let Some(victim) = self.claim(frames) {
                return Some(victim);
            }
        }
        self.bulk_left = self.options.bulk - 1;
        self.catch_up(incoming.at, oracle);
        self.claim(frames)
    }

    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.count_admission(access.at);
        self.frames[frame.0].page = access.page;
        self.push(frame.0, self.waiting());
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.remove(frame.0);
    }

    fn metadata(&self) -> Option<Metadata> {
        Some(self.frames.metadata())
    }

    fn resize(&mut self, frames: u32) {
        self.turnover_left = self.turnover_left.min(frames);
        self.count = frames;
    }

    fn check(&self) {
        let mut pages = 0;
        for (number, list) in self.lists.iter().enumerate() {
            list.check(&self.frames);
            assert!(list.iter(&self.frames).all(|frame| usize::from(self.frames[frame].data) == number), "(I1)");
            pages += list.len();
        }
        assert!(pages as usize <= self.frames.len());
    }
}
