//! Frames in the order of their reference counts, frames of equal count in the order of their last
//! use, at O(1) a step.
//!
//! The structure of Shah, Mitra, Matani, "An O(1) algorithm for implementing the LFU cache eviction
//! scheme" (2010): a list of groups by rising count, each with the list of its frames. Groups live
//! in a slab of their own, one more than there are frames, because a frame leaves its old group
//! after it entered the new one.

use crate::FrameId;
use crate::policy::list::{List, Nodes, first_taken};
use crate::policy::{Access, Claimed, Frames, Metadata};

/// The frames of one count.
#[derive(Debug)]
struct Group {
    count: u64,
    frames: List,
}

impl Default for Group {
    fn default() -> Self {
        Self { count: 0, frames: List::new() }
    }
}

/// Counted frames.
///
/// Invariants: (I1) groups on the list have rising counts and at least one frame. (I2) A frame's
/// `data` is its group.
#[derive(Debug)]
pub(super) struct Counts {
    frames: Nodes<u32>,
    groups: Nodes<Group>,
    /// Groups in use, from the lowest count, and those in stock.
    rising: List,
    stock: List,
    /// The sum of all counts, and the number of frames that are counted.
    sum: u64,
    len: u32,
}

impl Counts {
    pub(super) fn new(frames: u32) -> Self {
        let mut groups = Nodes::new(frames as usize + 1);
        let mut stock = List::new();
        for group in 0..=frames {
            stock.push_back(&mut groups, group);
        }
        Self { frames: Nodes::new(frames as usize), groups, rising: List::new(), stock, sum: 0, len: 0 }
    }

    /// Where the frames' counts are.
    pub(super) fn metadata(&self) -> Metadata {
        self.frames.metadata()
    }

    /// The mean count; 0 if there are no frames.
    pub(super) fn mean(&self) -> f64 {
        self.sum as f64 / f64::from(self.len.max(1))
    }

    /// Counts the page of `access`, now in `frame`, once.
    #[inline]
    pub(super) fn insert(&mut self, frame: FrameId, access: &Access) {
        self.frames[frame.0].page = access.page;
        self.enter(None, 1, frame.0);
        self.sum += 1;
        self.len += 1;
    }

    /// Counts `frame` once more.
    #[inline]
    pub(super) fn raise(&mut self, frame: FrameId) {
        let group = self.frames[frame.0].data;
        let count = self.groups[group].data.count + 1;
        self.groups[group].data.frames.remove(&mut self.frames, frame.0);
        self.enter(Some(group), count, frame.0);
        self.drop_if_empty(group);
        self.sum += 1;
    }

    pub(super) fn remove(&mut self, frame: FrameId) {
        let group = self.frames[frame.0].data;
        self.groups[group].data.frames.remove(&mut self.frames, frame.0);
        self.sum -= self.groups[group].data.count;
        self.len -= 1;
        self.drop_if_empty(group);
    }

    /// Takes the first frame that can be had, by rising count, then from the one that was used
    /// longest ago.
    #[inline]
    pub(super) fn claim(&mut self, frames: &dyn Frames) -> Option<Claimed> {
        let groups = self.rising.iter(&self.groups);
        let members = groups.flat_map(|group| self.groups[group].data.frames.iter(&self.frames));
        let (victim, _) = first_taken(members.map(|i| self.frames.proposal(i)), frames)?;
        self.remove(victim.frame());
        Some(victim)
    }

    /// Halves all counts, odd ones rounded up. Groups that meet are joined, the one with the lower
    /// count in front.
    pub(super) fn halve(&mut self) {
        self.sum = 0;
        let mut group = self.rising.front();
        while let Some(this) = group {
            group = self.groups.after(this);
            let count = self.groups[this].data.count.div_ceil(2);
            self.sum += count * u64::from(self.groups[this].data.frames.len());
            match self.groups.before(this) {
                Some(before) if self.groups[before].data.count == count => self.join(before, this),
                _ => self.groups[this].data.count = count,
            }
        }
    }

    /// Moves all frames of `from` behind those of `into` and drops `from`.
    fn join(&mut self, into: u32, from: u32) {
        while let Some(i) = self.groups[from].data.frames.pop_front(&mut self.frames) {
            self.frames[i].data = into;
            self.groups[into].data.frames.push_back(&mut self.frames, i);
        }
        self.drop_if_empty(from);
    }

    /// Puts frame `i` into the group of `count`, which stands or is now made behind group `before`.
    #[inline]
    fn enter(&mut self, before: Option<u32>, count: u64, i: u32) {
        let next = before.map_or(self.rising.front(), |before| self.groups.after(before));
        let group = match next {
            Some(next) if self.groups[next].data.count == count => next,
            _ => {
                let group = self.stock.pop_front(&mut self.groups).expect("one group more than frames, (I1)");
                self.groups[group].data.count = count;
                self.rising.insert_after(&mut self.groups, before, group);
                group
            }
        };
        self.frames[i].data = group;
        self.groups[group].data.frames.push_back(&mut self.frames, i);
    }

    fn drop_if_empty(&mut self, group: u32) {
        if self.groups[group].data.frames.len() == 0 {
            self.rising.remove(&mut self.groups, group);
            self.stock.push_back(&mut self.groups, group);
        }
    }

    pub(super) fn check(&self) {
        self.rising.check(&self.groups);
        self.stock.check(&self.groups);
        assert_eq!((self.rising.len() + self.stock.len()) as usize, self.groups.len(), "a group is lost");
        let mut last = 0;
        let (mut sum, mut len) = (0, 0);
        for group in self.rising.iter(&self.groups) {
            let Group { count, frames } = &self.groups[group].data;
            assert!(*count > last && frames.len() > 0, "(I1) at group {group}");
            last = *count;
            frames.check(&self.frames);
            assert!(frames.iter(&self.frames).all(|i| self.frames[i].data == group), "(I2) in group {group}");
            sum += count * u64::from(frames.len());
            len += frames.len();
        }
        assert_eq!((sum, len), (self.sum, self.len));
    }
}
