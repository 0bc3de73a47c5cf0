//! A pool with tuples, without their bytes: what the simulator replays traces through, and what
//! [`super::Shares`] runs in miniature beside a pool to learn the share.
//!
//! The page policy is any of [`crate::policy`] and knows nothing of tuples. A page that it gives up
//! dissolves into a mini-page if the tuple buffer has room. A request finds its item there, or
//! loads the page, into which the mini-page merges first.
//!
//! Frames below the border hold pages, the others are slabs. When the border moves down, the policy
//! gives up a page, and the page of the last frame moves to the frame that is free then.
//!
//! Cost: a hit is a look-up and a walk through the items of its page that were visited. No request
//! allocates once the model is full. Concurrency: one thread.

use super::items::{ItemList, Items, Tuple};
use super::mini_pages::MiniPages;
use super::page_frames::{PageFrames, Resident};
use super::room::Room;
use crate::oracle::{Oracle, Question};
use crate::policy::{Access, CoarseClock, Frames, HitNeed, PageIndex, Policy, PolicyError, PolicySpec};
use crate::sync::atomic::Ordering::Relaxed;
use crate::{FrameId, PageId};

/// Where a request found what it asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// In a resident page.
    Page,
    /// In a mini-page, or a write went there.
    MiniPage,
    /// On the device.
    Device,
}

/// What a model counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Requests, for items and for pages.
    pub requests: u64,
    /// Of them, those that write.
    pub writes: u64,
    /// Requests that were answered by mini-pages.
    pub tuple_hits: u64,
    /// Requests that read their page from the device.
    pub misses: u64,
    /// Pages that were read because changed items had to be written.
    pub cleaning_reads: u64,
    /// Pages that were written.
    pub write_backs: u64,
}

impl Counts {
    /// Reads and writes of the device.
    pub const fn device_requests(&self) -> u64 {
        self.misses + self.cleaning_reads + self.write_backs
    }
}

/// How a model is made.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// Who evicts pages.
    pub policy: PolicySpec,
    /// Frames of pages and slabs together.
    pub frames: u32,
    /// How slabs are cut.
    pub room: Room,
    /// The part of the frames that are slabs at first.
    pub share: f64,
    /// What bounds its memory.
    pub bounds: Bounds,
    /// Decides what is left to chance.
    pub seed: u64,
}

/// What a model has memory for, all of it from the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Mini-pages.
    pub mini_pages: u32,
    /// Items of pages and mini-pages, or [`u32::MAX`] if that part may grow.
    pub items: u32,
}

impl Bounds {
    /// Whatever may fit in `frames` frames.
    pub fn none(frames: u32, room: Room) -> Self {
        Self { mini_pages: room.most(frames), items: u32::MAX }
    }
}

/// The pool.
pub struct Model {
    policy: Policy,
    clock: Option<CoarseClock>,
    frames: PageFrames,
    total: u32,
    /// Frames that are to hold pages.
    wanted: u32,
    pages: PageIndex,
    minis: MiniPages,
    items: Items,
    room: Room,
    counts: Counts,
}

impl core::fmt::Debug for Model {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Model")
            .field("frames", &self.frames.count())
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

/// How many of `frames` frames hold pages if the part `share` are slabs; 1 at least.
fn page_frames(frames: u32, share: f64) -> u32 {
    frames - (f64::from(frames) * share.clamp(0.0, 1.0)).min(f64::from(frames) - 1.0) as u32
}

impl Model {
    /// An empty pool.
    ///
    /// # Errors
    ///
    /// No frames, or a policy that needs to know the trace.
    pub fn new(options: &ModelOptions) -> Result<Self, PolicyError> {
        let ModelOptions { policy, frames, room, share, bounds, seed } = options;
        let built = policy.build(*frames, *seed)?;
        let wanted = page_frames(*frames, *share);
        let clock = match &built {
            Policy::Concurrent(policy) if policy.hit_need() == HitNeed::LaterThanWord => {
                Some(CoarseClock::new(*frames))
            }
            _ => None,
        };
        let mut model = Self {
            policy: built,
            clock,
            frames: PageFrames::new(wanted),
            total: *frames,
            wanted,
            pages: PageIndex::with_capacity(*frames as usize),
            minis: MiniPages::new(*room, bounds.mini_pages, *seed),
            items: Items::new(bounds.items),
            room: *room,
            counts: Counts::default(),
        };
        model.policy_resized();
        Ok(model)
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The part of the frames that are slabs now.
    pub fn share(&self) -> f64 {
        1.0 - f64::from(self.frames.count()) / f64::from(self.total)
    }

    /// The part of the frames that are to be slabs. The border moves as misses come by.
    pub fn set_share(&mut self, share: f64) {
        self.wanted = page_frames(self.total, share);
    }

    /// A page is asked for, or an item of it.
    pub fn request(&mut self, access: &Access, tuple: Option<Tuple>, oracle: &dyn Oracle) -> Found {
        self.counts.requests += 1;
        self.counts.writes += u64::from(access.write);
        // A scan reads what lies in its way, which says nothing of how often the items are wanted.
        let tuple = tuple.filter(|_| access.scan.is_none());
        if let Some(frame) = self.frame(access.page) {
            self.hit(frame, access);
            self.visit(frame, access, tuple);
            return Found::Page;
        }
        if let Some(tuple) = tuple
            && self.minis.find(&mut self.items, access.page, tuple, access.write)
        {
            self.counts.tuple_hits += 1;
            self.fit();
            return Found::MiniPage;
        }
        self.counts.misses += 1;
        let (mut merged, hits) = self.minis.take(&self.items, access.page).unwrap_or_default();
        let dirty = self.items.any_dirty(&merged);
        self.items.clean(&mut merged);
        self.move_border(access, oracle);
        let frame = self.frames.take_free().unwrap_or_else(|| self.evict(access, oracle));
        self.put(frame, access, merged, 0);
        self.frames.get(frame).dirty = dirty;
        self.frames.get(frame).hits = hits;
        self.visit(frame, access, tuple);
        Found::Device
    }

    /// Everything that is changed is written.
    pub fn checkpoint(&mut self) {
        for resident in self.frames.iter_mut() {
            self.counts.write_backs += u64::from(core::mem::take(&mut resident.dirty));
        }
        let cleaned = self.minis.clean(&mut self.items);
        self.counts.cleaning_reads += cleaned;
        self.counts.write_backs += cleaned;
    }

    fn hit(&mut self, frame: FrameId, access: &Access) {
        match &mut self.policy {
            Policy::Concurrent(policy) => {
                let at = self.clock.as_ref().map_or(access.at, |clock| clock.at(access.at));
                policy.hit(&self.frames, frame, &Access { at, ..*access });
            }
            Policy::Sequential(policy) => {
                if !policy.hit_need().is_met_by(self.frames.word(frame)) {
                    policy.hit(frame, access);
                }
            }
        }
    }

    /// What a request does in a resident page.
    fn visit(&mut self, frame: FrameId, access: &Access, tuple: Option<Tuple>) {
        let resident = self.frames.get(frame);
        resident.dirty |= access.write;
        if let Some(Tuple { name, length }) = tuple {
            self.items.visit(&mut resident.visited, name, length);
        }
    }

    /// Puts the page of `access` in `frame`, which is neither resident nor free.
    fn put(&mut self, frame: FrameId, access: &Access, visited: ItemList, word: u64) {
        *self.frames.get(frame) = Resident { page: Some(access.page), visited, ..Resident::default() };
        self.pages.insert(access.page, frame.0);
        match &mut self.policy {
            Policy::Concurrent(policy) => policy.admit(&self.frames, frame, access),
            Policy::Sequential(policy) => policy.admit(&self.frames, frame, access),
        }
        if word != 0 {
            self.frames.word(frame).store(word, Relaxed);
        }
        if let Some(clock) = &self.clock {
            clock.admitted(access.at);
        }
    }

    /// Frees the frame of the page that the policy gives up, which dissolves.
    fn evict(&mut self, incoming: &Access, oracle: &dyn Oracle) -> FrameId {
        let victim = match &mut self.policy {
            Policy::Concurrent(policy) => policy.evict(&self.frames, incoming, oracle),
            Policy::Sequential(policy) => policy.evict(&self.frames, incoming, oracle),
        };
        let frame = victim.expect("a policy that is granted every claim finds a victim in a full pool").frame();
        let page = self.frames.claimed();
        self.pages.remove(page, frame.0);
        let Resident { visited, dirty, hits, .. } = core::mem::take(self.frames.get(frame));
        self.counts.write_backs += u64::from(dirty);
        if visited.is_empty() || self.slabs() == 0 || self.comes_back(page, incoming, oracle) {
            self.items.clear(visited);
        } else {
            self.minis.dissolve(&mut self.items, page, visited, hits, incoming.at);
            self.fit();
        }
        frame
    }

    /// Whether a scan brings the page back sooner than its mini-page would go.
    fn comes_back(&self, page: PageId, incoming: &Access, oracle: &dyn Oracle) -> bool {
        let stay = self.minis.stay();
        let question = Question { above: Some(stay), ..Question::new(page, incoming.at) };
        oracle.next_access(question).is_some_and(|ticks| ticks <= stay)
    }

    fn slabs(&self) -> u32 {
        self.total - self.frames.count()
    }

    /// Lets mini-pages go until they fit in the slabs.
    fn fit(&mut self) {
        let capacity = u64::from(self.slabs()) * u64::from(self.room.slab());
        while self.minis.exceed(capacity) {
            let cleaned = u64::from(self.minis.evict(&mut self.items));
            self.counts.cleaning_reads += cleaned;
            self.counts.write_backs += cleaned;
        }
    }

    /// Moves the border by a frame towards where it is to be.
    fn move_border(&mut self, access: &Access, oracle: &dyn Oracle) {
        let count = self.frames.count();
        if count < self.wanted {
            self.frames.grow();
            self.policy_resized();
            self.fit();
        } else if count > self.wanted {
            let (last, was_free) = self.frames.last();
            if !was_free {
                let free = self.frames.take_free().unwrap_or_else(|| self.evict(access, oracle));
                if free != last {
                    self.move_page(last, free, access);
                }
            }
            self.frames.shrink();
            self.policy_resized();
        }
    }

    /// Moves a page to a frame that is neither resident nor free.
    fn move_page(&mut self, from: FrameId, to: FrameId, access: &Access) {
        let Some(page) = self.frames.page(from) else { return };
        match &mut self.policy {
            Policy::Concurrent(policy) => policy.forget(&self.frames, from, page),
            Policy::Sequential(policy) => policy.forget(from, page),
        }
        self.pages.remove(page, from.0);
        let Resident { visited, dirty, word, hits, .. } = core::mem::take(self.frames.get(from));
        let moved = Access { page, scan: None, write: false, at: access.at };
        self.put(to, &moved, visited, word.load(Relaxed));
        self.frames.get(to).dirty = dirty;
        self.frames.get(to).hits = hits;
    }

    /// Panics if a page is whole and dissolved at once, or more memory is used than there is. For
    /// tests.
    pub fn check(&self) {
        self.minis.check(&self.items, |page| self.frame(page).is_some());
        assert!(!self.minis.exceed(u64::from(self.slabs()) * u64::from(self.room.slab())));
    }

    fn frame(&self, page: PageId) -> Option<FrameId> {
        self.pages.find(page, |frame| self.frames.page(FrameId(frame)) == Some(page)).map(FrameId)
    }

    fn policy_resized(&mut self) {
        let count = self.frames.count();
        if let Some(clock) = &self.clock {
            clock.resize(count);
        }
        match &mut self.policy {
            Policy::Concurrent(policy) => policy.resize(count),
            Policy::Sequential(policy) => policy.resize(count),
        }
    }
}
