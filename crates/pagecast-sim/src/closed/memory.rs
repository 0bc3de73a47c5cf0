//! The pool of a closed loop: frames that scans hold while they use them, reads that take time, and
//! the pool's own policy. As in the pool, what a load brought and a scan still wants leaves last.
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
    Access, Claimed, ConcurrentPolicy, Frames, PolicyError, PolicySpec, Refusal, SequentialPolicy, Visitor, is_awaited,
};
use pagecast_core::{FrameId, PageId, Tick};
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
    /// Whether only loads have asked for it.
    ahead: bool,
    waiting: Vec<W>,
}

/// The pool. `W` names who waits for a page.
pub(super) struct Memory<W> {
    frames: HeldFrames,
    driver: Box<dyn for<'f> Driver<Search<'f>>>,
    table: HashMap<PageId, FrameId, FixedState>,
    reads: HashMap<PageId, Read<W>, FixedState>,
    /// Pages that left since somebody last looked.
    pub(super) left: Vec<PageId>,
}

impl<W> Memory<W> {
    pub(super) fn new(spec: &PolicySpec, frames: u32, seed: u64) -> Result<Self, PolicyError> {
        Ok(Self {
            frames: HeldFrames {
                slots: Vec::new(),
                count: frames,
                held: Cell::new(0),
                ahead: Cell::new(0),
                claimed: Cell::new(None),
            },
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
    /// be had for it, it is only read if a scan needs it now, and it goes past the pool; not if it
    /// is to be brought `ahead`.
    pub(super) fn ask(&mut self, access: Access, who: W, ahead: bool, oracle: &dyn Oracle) -> Asked {
        if let Some(&frame) = self.table.get(&access.page) {
            self.driver.hit(&Search::for_any(&self.frames), frame, &access);
            self.frames.hold(frame);
            if !ahead {
                self.frames.set_ahead(frame, false);
            }
            return Asked::Here(frame);
        }
        if let Some(read) = self.reads.get_mut(&access.page) {
            read.waiting.push(who);
            read.ahead &= ahead;
            return Asked::Coming;
        }
        let frame = self.place(&access, oracle);
        if frame.is_none() && ahead {
            return Asked::NoRoom;
        }
        self.reads.insert(access.page, Read { access, frame, ahead, waiting: vec![who] });
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
        let frame = self.evict(access, oracle)?.frame();
        if let Some(page) = self.frames.claimed.take() {
            self.table.remove(&page);
            self.left.push(page);
        }
        Some(frame)
    }

    /// A frame that the policy gives up: of a page that no scan awaits, if there is one.
    fn evict(&mut self, access: &Access, oracle: &dyn Oracle) -> Option<Claimed> {
        if self.frames.ahead.get() > 0 {
            let search = Search { spares: Some((oracle, access.at)), ..Search::for_any(&self.frames) };
            let victim = self.driver.evict(&search, access, oracle);
            if victim.is_some() || !search.spared.get() {
                return victim;
            }
        }
        self.driver.evict(&Search::for_any(&self.frames), access, oracle)
    }

    /// The read of `page` is done: who waited for it, and the frame, which each of them holds. It
    /// has none if none could be had.
    pub(super) fn arrive(&mut self, page: PageId, now: u64) -> (Vec<W>, Option<FrameId>) {
        let Some(read) = self.reads.remove(&page) else { return (Vec::new(), None) };
        if let Some(frame) = read.frame {
            self.admit(frame, &Access { at: now, ..read.access }, read.waiting.len() as u32);
            self.frames.set_ahead(frame, read.ahead);
        }
        (read.waiting, read.frame)
    }

    fn admit(&mut self, frame: FrameId, access: &Access, held: u32) {
        self.frames.fill(frame, access.page, held);
        self.table.insert(access.page, frame);
        self.driver.admit(&Search::for_any(&self.frames), frame, access);
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
    /// Whether a load brought the page, and nobody has used it.
    ahead: Cell<bool>,
}

impl Slot {
    fn new(page: Option<PageId>, held: u32) -> Self {
        Self { word: AtomicU64::new(0), page: Cell::new(page), held: Cell::new(held), ahead: Cell::new(false) }
    }
}

/// Frames without pages' contents.
struct HeldFrames {
    /// Those that were ever used; they stay in use.
    slots: Vec<Slot>,
    count: u32,
    /// Frames that cannot be claimed now.
    held: Cell<u32>,
    /// Those with a page that was brought ahead and not used.
    ahead: Cell<u32>,
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
        self.slots.push(Slot::new(None, 0));
        self.held.set(self.held.get() + 1);
        Some(FrameId(next))
    }

    fn fill(&mut self, frame: FrameId, page: PageId, held: u32) {
        self.slots[frame.index()] = Slot::new(Some(page), held);
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

impl HeldFrames {
    /// The page in the frame, if nobody holds it.
    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        self.slots.get(frame.index()).filter(|slot| slot.held.get() == 0)?.page.get()
    }

    fn set_ahead(&self, frame: FrameId, ahead: bool) {
        let was = self.slots[frame.index()].ahead.replace(ahead);
        self.ahead.set(self.ahead.get() + u32::from(ahead) - u32::from(was));
    }
}

/// The frames as the policy sees them.
struct Search<'f> {
    frames: &'f HeldFrames,
    /// Who knows what scans await, and when; without, no page is spared.
    spares: Option<(&'f dyn Oracle, Tick)>,
    /// Whether a page was.
    spared: Cell<bool>,
}

impl<'f> Search<'f> {
    fn for_any(frames: &'f HeldFrames) -> Self {
        Self { frames, spares: None, spared: Cell::new(false) }
    }

    fn spares(&self, frame: FrameId, page: PageId) -> bool {
        let ahead = self.frames.slots[frame.index()].ahead.get();
        let spares = self.spares.is_some_and(|(oracle, at)| is_awaited(ahead, page, at, oracle));
        self.spared.set(self.spared.get() || spares);
        spares
    }
}

impl Frames for Search<'_> {
    fn count(&self) -> u32 {
        self.frames.count
    }

    fn word(&self, frame: FrameId) -> &AtomicU64 {
        &self.frames.slots[frame.index()].word
    }

    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        self.frames.evictable(frame)
    }

    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.frames.slots.get(frame.index())?.page.get()
    }

    fn claim(&self, frame: FrameId, page: PageId) -> Result<Claimed, Refusal> {
        if self.evictable(frame) != Some(page) || self.spares(frame, page) {
            return Err(Refusal::Pinned);
        }
        self.frames.slots[frame.index()].page.set(None);
        self.frames.set_ahead(frame, false);
        self.frames.held.set(self.frames.held.get() + 1);
        self.frames.claimed.set(Some(page));
        Ok(Claimed::new(frame))
    }
}

/// Makes a policy of either kind what the loop calls.
struct IntoDriver {
    frames: u32,
}

impl Visitor for IntoDriver {
    type Output = Box<dyn for<'f> Driver<Search<'f>>>;

    fn concurrent<P: ConcurrentPolicy + 'static>(self, policy: P) -> Self::Output {
        Box::new(Concurrent::new(policy, self.frames))
    }

    fn sequential<P: SequentialPolicy + 'static>(self, policy: P) -> Self::Output {
        Box::new(Sequential(policy))
    }
}
