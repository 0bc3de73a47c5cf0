//! `pbm-pq`: predictive buffer management with queues of time, the older brother of sampling.
//!
//! Świtakowski, "Integrating Cooperative Scans in a column-oriented DBMS" (MSc thesis, 2011), section 4.3: pages lie in
//! queues by the time to their next use, a slice (100 ms) each, the last without an end; one more queue, in the order of
//! use, has those that nobody wants. Victims come from the queue of pages that nobody wants, then from the furthest.
//! Each slice the queues move up, and what was in the first is placed anew. Świtakowski, Boncz, Żukowski (PVLDB
//! 5(12), 2012) and Khalaji et al. (PVLDB 18(13), 2025; Vanderkooy's thesis of 2023, section 2.4 and chapter 5) make the
//! far queues wider: 10 tiers of 5, the width doubling from tier to tier, and keep *block groups* (1 MiB) in the queues in
//! place of pages. `version` selects.
//!
//! Deviations, and why:
//! * A page whose place may have changed (used, just come in, or all of them when a scan registered or ended) waits
//!   and is placed when the next victim is looked for. Nobody asks for the order between two victims, a
//!   page that is used often is placed once, and its estimate is fresher.
//! * A scan's registration places all resident groups anew, not only those that the scan wants: the policy learns that the
//!   set of scans has changed, not whose. Groups of unchanged time fall into the queue they were in.
//! * A slice is 100 ms in the sources. Here, if `slice` is 0, it is a [`TURNOVER_SLICES`]th of the time in which the pool's
//!   contents turned over last, in whatever unit the time is: 100 ms for a pool of 16 GiB that takes in 1 GiB/s.
//! * When more slices passed at once than there are queues, all groups are placed anew; moving up would end in the same.
//! * A group's time is that of its first or last page, whichever is wanted sooner; a scan that lies inside one group is not
//!   seen (the authors do not register such either). The pages of a group leave in the order of their last use.
//! * `bulk` (16, the least that the 2012 paper evicts at once): so many victims are taken without placing anything anew in
//!   between. The authors' code gives up all pages of a queue at once, also those that are used again before their
//!   frames are needed; ours leave one by one, and one that is used meanwhile stays.
//!
//! Suits scans; without scans it is LRU. Its weaknesses are what the authors of 2025 hold against it: estimates grow old in the
//! queues, pages of one queue count as equal, and victims need the lock.
//!
//! Cost: a hit is a hash-free O(1); an eviction O(1) and the estimates of what was used since the last one; a registration
//! or the end of a scan one or two estimates for each resident group. 78 bytes per frame, and 12 a queue.

mod timeline;

pub use timeline::PqVersion;

use super::block_group::BlockGroup;
use super::list::{List, Nodes, first_taken};
use super::page_index::PageIndex;
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
    /// Pages of a block group.
    pub group: u32,
    /// Victims between two looks at what has changed.
    pub bulk: u32,
}

/// The resident pages of one block group.
#[derive(Debug)]
struct Group {
    /// By last use.
    frames: List,
    /// The list that it is on, an index of `lists`.
    list: u16,
}

impl Default for Group {
    fn default() -> Self {
        Self { frames: List::new(), list: 0 }
    }
}

/// PBM with a priority queue of time.
///
/// Invariants: (I1) a group is on the list that it names, and on `free` if and only if it has no frames. (I2) `index` has all
/// groups with frames, by their first page. (I3) a frame is on the list of the group that its data names.
#[derive(Debug)]
pub struct PbmPq {
    options: PqOptions,
    block_group: BlockGroup,
    timeline: Timeline,
    /// The queues of the timeline by number, then `unwanted`, `waiting` and `free`.
    lists: Vec<List>,
    groups: Nodes<Group>,
    frames: Nodes<u32>,
    index: PageIndex,
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
        let mut policy = Self {
            lists: (0..timeline.queues() + 3).map(|_| List::new()).collect(),
            timeline,
            groups: Nodes::new(frames as usize),
            frames: Nodes::new(frames as usize),
            index: PageIndex::with_capacity(frames as usize),
            slice_began: 0,
            slice: options.slice,
            turnover_left: frames,
            turnover_began: 0,
            count: frames,
            changes: 0,
            bulk_left: 0,
            block_group: BlockGroup::of(options.group),
            options,
        };
        let free = policy.free();
        for group in 0..frames {
            policy.groups[group].data.list = free;
            policy.lists[usize::from(free)].push_back(&mut policy.groups, group);
        }
        policy
    }

    /// The list of groups that no scan wants.
    fn unwanted(&self) -> u16 {
        self.timeline.queues() as u16
    }

    /// The list of groups that are to be placed.
    fn waiting(&self) -> u16 {
        self.unwanted() + 1
    }

    /// The list of groups that stand for nothing.
    fn free(&self) -> u16 {
        self.unwanted() + 2
    }

    fn move_to(&mut self, group: u32, list: u16) {
        let from = core::mem::replace(&mut self.groups[group].data.list, list);
        self.lists[usize::from(from)].remove(&mut self.groups, group);
        self.lists[usize::from(list)].push_back(&mut self.groups, group);
    }

    fn move_all_to_waiting(&mut self, list: u16) {
        while let Some(group) = self.lists[usize::from(list)].front() {
            self.move_to(group, self.waiting());
        }
    }

    /// Takes `frame` off its group, which is free if it was the last.
    fn remove(&mut self, frame: FrameId) {
        let group = self.frames[frame.0].data;
        self.groups[group].data.frames.remove(&mut self.frames, frame.0);
        if self.groups[group].data.frames.len() == 0 {
            self.index.remove(self.groups[group].page, group);
            self.move_to(group, self.free());
        }
    }

    /// Lets the slices pass that have gone by, and finds everyone's place who needs one.
    fn catch_up(&mut self, now: Tick, oracle: &dyn Oracle) {
        let slices = now.saturating_sub(self.slice_began) / self.slice.max(1);
        self.slice_began += slices * self.slice.max(1);
        let changes = oracle.scan_changes();
        if core::mem::replace(&mut self.changes, changes) != changes || slices > self.timeline.queues() as u64 {
            // Those that nobody wanted come first, in their order, so that those that nobody wants any more are behind them.
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
        while let Some(group) = self.lists[usize::from(self.waiting())].front() {
            let first = self.groups[group].page;
            let list = match self.block_group.next_access(Question::new(first, now), oracle) {
                Some(ticks) => self.timeline.queue(ticks, self.slice.max(1)),
                None => self.unwanted(),
            };
            self.move_to(group, list);
        }
    }

    /// Takes the first page to be had among those that nobody wants, then from the furthest queue to the nearest.
    fn claim(&mut self, frames: &dyn Frames) -> Option<Claimed> {
        let lists = core::iter::once(self.unwanted()).chain(self.timeline.furthest_first());
        let groups = lists.flat_map(|list| self.lists[usize::from(list)].iter(&self.groups));
        let pages = groups.flat_map(|group| self.groups[group].data.frames.iter(&self.frames));
        let (victim, _) = first_taken(pages.map(|frame| self.frames.proposal(frame)), frames)?;
        self.remove(victim.frame());
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
    fn asks_oracle(&self) -> bool {
        true
    }

    fn hit(&mut self, frame: FrameId, _access: &Access) {
        let group = self.frames[frame.0].data;
        self.groups[group].data.frames.move_to_back(&mut self.frames, frame.0);
        self.move_to(group, self.waiting());
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
        let first = self.block_group.first(access.page);
        let group = self.index.find(first, |group| self.groups[group].page == first).unwrap_or_else(|| {
            let free = self.lists[usize::from(self.free())].front();
            let group = free.expect("a frame without a page leaves a group without pages (I1)");
            self.groups[group].page = first;
            self.index.insert(first, group);
            group
        });
        self.frames[frame.0].page = access.page;
        self.frames[frame.0].data = group;
        self.groups[group].data.frames.push_back(&mut self.frames, frame.0);
        self.move_to(group, self.waiting());
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.remove(frame);
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
            list.check(&self.groups);
            for group in list.iter(&self.groups) {
                let Group { frames, list } = &self.groups[group].data;
                assert_eq!(usize::from(*list), number, "(I1)");
                assert_eq!(*list == self.free(), frames.len() == 0, "(I1)");
                frames.check(&self.frames);
                assert!(frames.iter(&self.frames).all(|frame| self.frames[frame].data == group), "(I3)");
                let first = self.groups[group].page;
                let found = self.index.find(first, |other| other == group);
                assert_eq!(found.is_some(), frames.len() > 0, "(I2)");
                pages += frames.len();
            }
        }
        assert!(pages as usize <= self.frames.len());
        assert_eq!(self.index.len() as usize + self.lists[usize::from(self.free())].len() as usize, self.groups.len());
    }
}
