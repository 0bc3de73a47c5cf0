//! A pool without pages' contents, for tests of policies: it grants and refuses claims and checks
//! what it is told.

use pagecast_core::oracle::Oracle;
use pagecast_core::policy::{Access, Claimed, Frames, Policy, PolicySpec, Refusal, names};
use pagecast_core::{FrameId, PageId};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Parameters that make another policy of one.
const VARIANTS: [&str; 5] = [
    "pbm-published(samples=100,bulk=10,replacement=no,frequency=max,fallback=lru)",
    "pbm-published(samples=4,bulk=4,frequency=mean)",
    "pbm-pq(version=2011,bulk=3)",
    "pbm(history=off)",
    "watt(write=0)",
];

/// Every policy that runs without a trace, with its defaults, and variants of some.
pub(crate) fn specs() -> impl Iterator<Item = PolicySpec> {
    names().chain(VARIANTS).map(|name| PolicySpec::parse(name).unwrap()).filter(|spec| !spec.needs_trace())
}

#[derive(Clone, Copy, Default)]
struct Slot {
    page: Option<PageId>,
    held: bool,
    dirty: bool,
}

/// The frames, as a policy sees them.
pub(crate) struct Slots {
    slots: RefCell<Vec<Slot>>,
    words: Vec<AtomicU64>,
    /// Frames in use: the first so many.
    count: u32,
    /// Claims tried since the last request began.
    claims: Cell<u32>,
    refuse_dirty: Cell<bool>,
}

impl Slots {
    /// `frames` empty frames.
    pub(crate) fn new(frames: u32) -> Self {
        Self {
            slots: RefCell::new(vec![Slot::default(); frames as usize]),
            words: (0..frames).map(|_| AtomicU64::new(0)).collect(),
            count: frames,
            claims: Cell::new(0),
            refuse_dirty: Cell::new(false),
        }
    }

    /// Puts `page` in `frame`, which must be empty.
    pub(crate) fn fill(&self, frame: FrameId, page: PageId) {
        let slot = &mut self.slots.borrow_mut()[frame.index()];
        assert_eq!(slot.page, None, "{frame:?} was given as a victim but not claimed");
        slot.page = Some(page);
        self.words[frame.index()].store(0, Relaxed);
    }
}

/// Tells a policy of either kind of a hit, as a pool does.
pub(crate) fn hit(policy: &mut Policy, frames: &dyn Frames, frame: FrameId, access: &Access) {
    match policy {
        Policy::Concurrent(policy) => policy.hit(frames, frame, access),
        Policy::Sequential(policy) => {
            if !policy.hit_need().is_met_by(frames.word(frame)) {
                policy.hit(frame, access);
            }
        }
    }
}

/// Asks a policy of either kind for a victim.
pub(crate) fn evict(
    policy: &mut Policy,
    frames: &dyn Frames,
    incoming: &Access,
    oracle: &dyn Oracle,
) -> Option<Claimed> {
    match policy {
        Policy::Concurrent(policy) => policy.evict(frames, incoming, oracle),
        Policy::Sequential(policy) => policy.evict(frames, incoming, oracle),
    }
}

/// Tells a policy of either kind that a page came in.
pub(crate) fn admit(policy: &mut Policy, frames: &dyn Frames, frame: FrameId, access: &Access) {
    match policy {
        Policy::Concurrent(policy) => policy.admit(frames, frame, access),
        Policy::Sequential(policy) => policy.admit(frames, frame, access),
    }
}

impl Frames for Slots {
    fn count(&self) -> u32 {
        self.count
    }

    fn word(&self, frame: FrameId) -> &AtomicU64 {
        &self.words[frame.index()]
    }

    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        let slot = self.slots.borrow()[frame.index()];
        slot.page.filter(|_| !slot.held)
    }

    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.slots.borrow()[frame.index()].page
    }

    fn claim(&self, frame: FrameId, page: PageId) -> Result<Claimed, Refusal> {
        self.claims.set(self.claims.get() + 1);
        let slot = &mut self.slots.borrow_mut()[frame.index()];
        assert_eq!(slot.page, Some(page), "{frame:?} is proposed with a page that it does not hold");
        if slot.held {
            Err(Refusal::Pinned)
        } else if slot.dirty && self.refuse_dirty.get() {
            Err(Refusal::Dirty)
        } else {
            *slot = Slot::default();
            Ok(Claimed::new(frame))
        }
    }
}

/// The pool.
pub(crate) struct ModelPool {
    policy: Policy,
    frames: Slots,
    table: HashMap<PageId, FrameId>,
    free: Vec<FrameId>,
    at: u64,
    /// The page that the last request evicted, if any.
    pub(crate) evicted: Option<PageId>,
}

impl ModelPool {
    pub(crate) fn new(spec: &PolicySpec, frames: u32, seed: u64) -> Self {
        Self::resizable(spec, frames, frames, seed)
    }

    /// With `frames` frames at first and at most `most`.
    pub(crate) fn resizable(spec: &PolicySpec, frames: u32, most: u32, seed: u64) -> Self {
        let mut pool = Self {
            policy: spec.build(most, seed).unwrap(),
            frames: Slots::new(most),
            table: HashMap::new(),
            free: (0..most).rev().map(FrameId).collect(),
            at: 0,
            evicted: None,
        };
        pool.resize(frames);
        pool
    }

    /// Changes how many frames are in use. The pages of those that are not any more leave, held or
    /// not.
    pub(crate) fn resize(&mut self, frames: u32) {
        let before = std::mem::replace(&mut self.frames.count, frames);
        match &mut self.policy {
            Policy::Concurrent(policy) => policy.resize(frames),
            Policy::Sequential(policy) => policy.resize(frames),
        }
        for frame in frames..before {
            self.frames.slots.get_mut()[frame as usize].held = false;
            let page = self.frames.slots.get_mut()[frame as usize].page;
            page.into_iter().for_each(|page| self.forget(page));
        }
        self.free.retain(|frame| frame.0 < before.min(frames));
        self.free.splice(..0, (before..frames).rev().map(FrameId));
    }

    /// Requests a page and returns its frame, or `None` if it is not resident and nothing could be
    /// evicted.
    pub(crate) fn request(&mut self, page: PageId, write: bool, oracle: &dyn Oracle) -> Option<FrameId> {
        let access = Access { page, scan: None, write, at: self.at };
        self.at += 1;
        self.frames.claims.set(0);
        self.evicted = None;
        let frame = match self.table.get(&page) {
            Some(&frame) => {
                hit(&mut self.policy, &self.frames, frame, &access);
                frame
            }
            None => self.load(&access, oracle)?,
        };
        self.frames.slots.get_mut()[frame.index()].dirty |= write;
        Some(frame)
    }

    fn load(&mut self, access: &Access, oracle: &dyn Oracle) -> Option<FrameId> {
        let frame = match self.free.pop() {
            Some(frame) => frame,
            None => self.evict(access, oracle)?,
        };
        self.frames.fill(frame, access.page);
        self.table.insert(access.page, frame);
        admit(&mut self.policy, &self.frames, frame, access);
        Some(frame)
    }

    fn evict(&mut self, incoming: &Access, oracle: &dyn Oracle) -> Option<FrameId> {
        let victim = evict(&mut self.policy, &self.frames, incoming, oracle)?.frame();
        self.evicted = self.table.iter().find(|(_, frame)| **frame == victim).map(|(page, _)| *page);
        self.table.retain(|_, frame| *frame != victim);
        Some(victim)
    }

    /// Holds a resident page, so that claims on it are refused.
    pub(crate) fn hold(&mut self, page: PageId) {
        if let Some(frame) = self.table.get(&page) {
            self.frames.slots.get_mut()[frame.index()].held = true;
        }
    }

    pub(crate) fn release_all(&mut self) {
        self.frames.slots.get_mut().iter_mut().for_each(|slot| slot.held = false);
    }

    /// From now on a claim on a written page is answered with [`Refusal::Dirty`].
    pub(crate) fn refuse_dirty(&mut self) {
        self.frames.refuse_dirty.set(true);
    }

    /// Writes a resident page, as an owner does that cleans pages before they must leave.
    pub(crate) fn clean(&mut self, page: PageId) {
        let Some(&frame) = self.table.get(&page) else { return };
        self.frames.slots.get_mut()[frame.index()].dirty = false;
        match &mut self.policy {
            Policy::Concurrent(policy) => policy.cleaned(frame, page),
            Policy::Sequential(policy) => policy.cleaned(frame, page),
        }
    }

    /// Drops a resident page that nobody holds, other than by eviction.
    pub(crate) fn forget(&mut self, page: PageId) {
        let Some(&frame) = self.table.get(&page) else { return };
        let slot = &mut self.frames.slots.get_mut()[frame.index()];
        if slot.held {
            return;
        }
        *slot = Slot::default();
        self.table.remove(&page);
        self.free.push(frame);
        match &mut self.policy {
            Policy::Concurrent(policy) => policy.forget(&self.frames, frame, page),
            Policy::Sequential(policy) => policy.forget(frame, page),
        }
    }

    pub(crate) fn held(&self) -> u32 {
        self.frames.slots.borrow().iter().filter(|slot| slot.held).count() as u32
    }

    /// Claims that the last request tried.
    pub(crate) fn claims(&self) -> u32 {
        self.frames.claims.get()
    }

    pub(crate) fn frame_of(&self, page: PageId) -> Option<FrameId> {
        self.table.get(&page).copied()
    }

    /// Panics if frames, page table and free list disagree, or the policy's own structures are
    /// broken.
    pub(crate) fn check(&self) {
        let slots = self.frames.slots.borrow();
        for (page, frame) in &self.table {
            assert_eq!(slots[frame.index()].page, Some(*page), "the page table leads to {frame:?}");
        }
        let used = slots.iter().filter(|slot| slot.page.is_some()).count();
        assert_eq!(used, self.table.len(), "a page is in two frames");
        assert_eq!(used + self.free.len(), self.frames.count as usize, "a frame is lost");
        if let Policy::Sequential(policy) = &self.policy {
            policy.check();
        }
    }
}
