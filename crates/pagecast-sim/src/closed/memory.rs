//! The pool of a closed loop: frames that scans hold while they use them, reads that take time, and
//! the pool's own policy.
//!
//! Invariants:
//! * (I1) A page is in the table, or being read, or neither; never both.
//! * (I2) A frame belongs to the page that is in it, to the read that claimed it, or to nobody yet.
//! * (I3) A page whose read found no frame goes to those who wait for it, and is then forgotten.

use crate::replay::{Concurrent, Driver, Sequential};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pagecast_core::oracle::Oracle;
use pagecast_core::policy::{
    Access, Claimed, ConcurrentPolicy, Frames, PolicyError, PolicySpec, Refusal, SequentialPolicy, Visitor,
};
use pagecast_core::{FrameId, PageId};
use std::cell::Cell;
use std::sync::atomic::AtomicU64;

/// What a request comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// The page is there, and held.
    Here(FrameId),
    /// Somebody's read brings it.
    Coming,
    /// The caller is to read it.
    Begun,
    /// No frame can be had for it, and the caller did not want it without.
    NoRoom,
}

/// A page that is on its way.
struct Read<W> {
    access: Access,
    frame: Option<FrameId>,
    waiting: Vec<W>,
}

/// The pool. `W` names who waits for a page.
pub(super) struct Memory<W> {
    frames: HeldFrames,
    driver: Box<dyn Driver<HeldFrames>>,
    table: HashMap<PageId, FrameId, FixedState>,
    reads: HashMap<PageId, Read<W>, FixedState>,
    /// Pages that left since somebody last looked.
    pub(super) left: Vec<PageId>,
}

impl<W> Memory<W> {
    pub(super) fn new(spec: &PolicySpec, frames: u32, seed: u64) -> Result<Self, PolicyError> {
        Ok(Self {
            frames: HeldFrames { slots: Vec::new(), count: frames, held: Cell::new(0), claimed: Cell::new(None) },
            driver: spec.visit(frames, seed, IntoDriver { frames })?,
            table: HashMap::with_hasher(FixedState::default()),
            reads: HashMap::with_hasher(FixedState::default()),
            left: Vec::new(),
        })
    }

    pub(super) fn is_resident(&self, page: PageId) -> bool {
        self.table.contains_key(&page)
    }

    /// A request for a page. Who waits for it gets it from [`Memory::arrive`]. Where no frame can
    /// be had for it, it is only read if it may go `past` the pool.
    pub(super) fn ask(&mut self, access: Access, who: W, past: bool, oracle: &dyn Oracle) -> Asked {
        if let Some(&frame) = self.table.get(&access.page) {
            self.driver.hit(&self.frames, frame, &access);
            self.frames.hold(frame);
            return Asked::Here(frame);
        }
        if let Some(read) = self.reads.get_mut(&access.page) {
            read.waiting.push(who);
            return Asked::Coming;
        }
        let frame = self.place(&access, oracle);
        if frame.is_none() && !past {
            return Asked::NoRoom;
        }
        self.reads.insert(access.page, Read { access, frame, waiting: vec![who] });
        Asked::Begun
    }

    /// A frame for a page that comes, if one can be had.
    fn place(&mut self, access: &Access, oracle: &dyn Oracle) -> Option<FrameId> {
        if let Some(free) = self.frames.free() {
            return Some(free);
        }
        // Where all is held, a policy would look at every frame in vain.
        if self.frames.held.get() == self.frames.count {
            return None;
        }
        let frame = self.driver.evict(&self.frames, access, oracle)?.frame();
        if let Some(page) = self.frames.claimed.take() {
            self.table.remove(&page);
            self.left.push(page);
        }
        Some(frame)
    }

    /// The read of `page` is done: who waited for it, and the frame, which each of them holds. It
    /// has none if none could be had.
    pub(super) fn arrive(&mut self, page: PageId, now: u64) -> (Vec<W>, Option<FrameId>) {
        let Some(read) = self.reads.remove(&page) else { return (Vec::new(), None) };
        if let Some(frame) = read.frame {
            self.admit(frame, &Access { at: now, ..read.access }, read.waiting.len() as u32);
        }
        (read.waiting, read.frame)
    }

    fn admit(&mut self, frame: FrameId, access: &Access, held: u32) {
        self.frames.fill(frame, access.page, held);
        self.table.insert(access.page, frame);
        self.driver.admit(&self.frames, frame, access);
    }

    /// Puts a page in the pool before anything begins, if there is room.
    pub(super) fn put(&mut self, page: PageId) {
        if let Some(frame) = self.frames.free() {
            self.admit(frame, &Access { page, scan: None, write: false, at: 0 }, 0);
        }
    }

    /// Whoever held the page in `frame` is done with it.
    pub(super) fn release(&mut self, frame: FrameId) {
        self.frames.release(frame);
    }

    /// Panics if somebody still holds a page or waits for one. For tests.
    pub(super) fn check_quiet(&self) {
        assert!(self.reads.is_empty(), "a read is under way when all is done");
        assert_eq!(self.frames.held.get(), 0, "frames are held when all is done");
    }
}

/// A frame: the policy's word, the page, and who holds it.
struct Slot {
    word: AtomicU64,
    /// `None` while the page is on its way.
    page: Cell<Option<PageId>>,
    held: Cell<u32>,
}

/// Frames without pages' contents.
struct HeldFrames {
    /// Those that were ever used; they stay in use.
    slots: Vec<Slot>,
    count: u32,
    /// Frames that cannot be claimed now.
    held: Cell<u32>,
    /// What was claimed last.
    claimed: Cell<Option<PageId>>,
}

impl HeldFrames {
    /// A frame that was never used; it counts as held until it is filled.
    fn free(&mut self) -> Option<FrameId> {
        let next = self.slots.len() as u32;
        if next == self.count {
            return None;
        }
        self.slots.push(Slot { word: AtomicU64::new(0), page: Cell::new(None), held: Cell::new(0) });
        self.held.set(self.held.get() + 1);
        Some(FrameId(next))
    }

    fn fill(&mut self, frame: FrameId, page: PageId, held: u32) {
        self.slots[frame.index()] =
            Slot { word: AtomicU64::new(0), page: Cell::new(Some(page)), held: Cell::new(held) };
        if held == 0 {
            self.held.set(self.held.get() - 1);
        }
    }

    fn hold(&self, frame: FrameId) {
        let held = &self.slots[frame.index()].held;
        if held.replace(held.get() + 1) == 0 {
            self.held.set(self.held.get() + 1);
        }
    }

    fn release(&self, frame: FrameId) {
        let held = &self.slots[frame.index()].held;
        if held.replace(held.get() - 1) == 1 {
            self.held.set(self.held.get() - 1);
        }
    }
}

impl Frames for HeldFrames {
    fn count(&self) -> u32 {
        self.count
    }

    fn word(&self, frame: FrameId) -> &AtomicU64 {
        &self.slots[frame.index()].word
    }

    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        self.slots.get(frame.index()).filter(|slot| slot.held.get() == 0)?.page.get()
    }

    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.slots.get(frame.index())?.page.get()
    }

    fn claim(&self, frame: FrameId, page: PageId) -> Result<Claimed, Refusal> {
        if self.evictable(frame) != Some(page) {
            return Err(Refusal::Pinned);
        }
        self.slots[frame.index()].page.set(None);
        self.held.set(self.held.get() + 1);
        self.claimed.set(Some(page));
        Ok(Claimed::new(frame))
    }
}

/// Makes a policy of either kind what the loop calls.
struct IntoDriver {
    frames: u32,
}

impl Visitor for IntoDriver {
    type Output = Box<dyn Driver<HeldFrames>>;

    fn concurrent<P: ConcurrentPolicy + 'static>(self, policy: P) -> Self::Output {
        Box::new(Concurrent::new(policy, self.frames))
    }

    fn sequential<P: SequentialPolicy + 'static>(self, policy: P) -> Self::Output {
        Box::new(Sequential(policy))
    }
}
