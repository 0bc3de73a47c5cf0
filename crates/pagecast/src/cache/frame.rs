//! Frame headers: who holds which frame, and what is in it.

use pagecast_core::PageId;

use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::atomic::fence;
#[cfg(pagecast_shuttle)]
use crate::sync::mistake;

/// The end of a chain.
pub(super) const NIL: u32 = u32::MAX;

/// The tag of a frame without a page. The pool never numbers a relation so high that a page of it has this id.
const NO_PAGE: u64 = u64::MAX;

/// Set in the state while the frame holds a page that may be pinned; otherwise the frame has one owner.
const RESIDENT: u64 = 1 << 32;
/// The lower half of the state counts pins.
const PINS: u64 = RESIDENT - 1;

/// A frame that belongs to whoever has this: nobody can pin it or claim it, and its bytes may be written.
///
/// There is one for each frame that is free or being filled. Neither copied nor made but by the frame's own transitions.
#[derive(Debug)]
#[must_use = "a frame that is dropped is lost to the pool"]
pub(crate) struct Owned(u32);

impl Owned {
    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.0
    }

    /// All frames of a new pool.
    pub(super) fn all(frames: u32) -> Vec<Owned> {
        (0..frames).rev().map(Owned).collect()
    }
}

/// One pin of a resident frame: while there is one, the frame's page stays and its bytes may be read.
#[derive(Debug)]
#[must_use = "a pin that is dropped keeps its frame for ever"]
pub(crate) struct Held(u32);

impl Held {
    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.0
    }
}

/// What everyone needs to know of a frame, in one cache line: a hit writes this line and no other.
///
/// ```text
///  state  63......33 | 32       | 31.........0      tag   the page        word  the policy's own 8 bytes
///         free for   | resident | pins              next  next in chain   len   bytes of the page
///         the write path (dirty, being written)         version  odd while the frame is owned
/// ```
///
/// The version rises with every change of hands: it is odd from the moment when the frame is owned, and its page and
/// bytes may change, until it is published. Who reads the bytes without a pin looks at it before and after.
///
/// Transitions of the state:
/// ```text
///  owned, 0 pins  --publish(w)-->  resident, w pins  --pin/unpin-->  resident, n pins
///        ^                                                                   |
///        '------------------------ claim, only at 0 pins --------------------'
/// ```
#[repr(C, align(64))]
pub(super) struct Header {
    state: AtomicU64,
    tag: AtomicU64,
    pub(super) word: AtomicU64,
    pub(super) next: AtomicU32,
    len: AtomicU32,
    /// 1 while the page was brought ahead and nobody has used it.
    ahead: AtomicU32,
    version: AtomicU64,
}

#[cfg(not(pagecast_shuttle))]
const _: () = assert!(size_of::<Header>() == 64);

impl Header {
    pub(super) fn new() -> Self {
        Self {
            state: AtomicU64::new(0),
            tag: AtomicU64::new(NO_PAGE),
            word: AtomicU64::new(0),
            next: AtomicU32::new(NIL),
            len: AtomicU32::new(0),
            ahead: AtomicU32::new(0),
            version: AtomicU64::new(1),
        }
    }

    /// Whether the frame was last seen with this page. Only a pin makes it certain.
    #[inline]
    pub(super) fn is_tagged(&self, page: PageId) -> bool {
        // Relaxed: a hint until a pin's Acquire orders it, or read under the lock that orders changes of the tag.
        self.tag.load(Relaxed) == page.raw()
    }

    /// The page in the frame if it is resident without pins, at this moment.
    pub(super) fn evictable(&self) -> Option<PageId> {
        // Acquire: the tag is at least as new as the publication that made the state resident.
        if self.state.load(Acquire) != RESIDENT {
            return None;
        }
        let tag = self.tag.load(Relaxed);
        (tag != NO_PAGE).then(|| PageId::from_raw(tag))
    }

    /// The page in the frame, pinned or not. It was admitted before its tag was set, and a claim takes the tag away.
    pub(super) fn tagged(&self) -> Option<PageId> {
        // Relaxed: who holds the policy's lock sees every claim and admission that was made under it before, and what he
        // cannot see yet has not been told to the policy either.
        let tag = self.tag.load(Relaxed);
        (tag != NO_PAGE).then(|| PageId::from_raw(tag))
    }

    /// Adds a pin if the frame is resident, whatever its page is. `index` is the frame's own.
    #[inline]
    pub(super) fn pin(&self, index: u32) -> Option<Held> {
        let mut state = self.state.load(Relaxed);
        while state & RESIDENT != 0 {
            // Acquire: pairs with the Release of `publish` (the unpins in between continue its release sequence), so
            // that the tag, the length and the page's bytes are seen as they were published.
            match self.state.compare_exchange_weak(state, state + 1, Acquire, Relaxed) {
                Ok(_) => return Some(Held(index)),
                Err(now) => state = now,
            }
        }
        None
    }

    /// Gives a pin back.
    #[inline]
    pub(super) fn unpin(&self, held: Held) {
        // Release: pairs with the Acquire of `claim`, so that our reads of the page end before it is overwritten.
        let before = self.state.fetch_sub(1, Release);
        debug_assert!(before & PINS > 0, "frame {} was unpinned once too often", held.0);
    }

    /// Takes the frame if it is resident without pins. The caller holds the lock of its page's shard (I2).
    pub(super) fn claim(&self, index: u32) -> Option<Owned> {
        // Acquire: pairs with the Release of `unpin`. On success the state has no pins and nobody can add one.
        self.state.compare_exchange(RESIDENT, 0, AcqRel, Relaxed).ok()?;
        self.begin_change();
        Some(Owned(index))
    }

    /// From here on the page and its bytes may change. Called where a frame becomes owned, by its owner.
    fn begin_change(&self) {
        // Only the owner writes the version, so that a load and a store do.
        self.version.store(self.version.load(Relaxed) + 1, Relaxed);
        // Release: pairs with the Acquire fence of `is_unchanged`. A reader who sees anything that is written to the
        // page, its tag or its length from here on also sees the odd version.
        fence(Release);
    }

    /// The page and its bytes stay as they are from here on. Called by the owner, before he lets others in.
    fn end_change(&self) {
        // Release: pairs with the Acquire of `stable_version`, whose reader sees all of the change.
        self.version.store(self.version.load(Relaxed) + 1, Release);
    }

    /// The version, if the page and its bytes stand still at this moment: where a read without a pin begins.
    #[inline]
    pub(super) fn stable_version(&self) -> Option<u64> {
        let version = self.version.load(Acquire);
        version.is_multiple_of(2).then_some(version)
    }

    /// Whether what was read since [`stable_version`](Self::stable_version) is what was there: where a read without a
    /// pin ends.
    #[inline]
    pub(super) fn is_unchanged(&self, version: u64) -> bool {
        // Acquire: keeps the reads before it before the look at the version; pairs with the fence of `begin_change`.
        fence(Acquire);
        self.version.load(Relaxed) == version
    }

    /// The frame has no page any more. Only its owner calls this, under the lock of the old page's shard.
    pub(super) fn invalidate(&self) {
        self.tag.store(NO_PAGE, Relaxed);
    }

    /// Says what the frame holds from now on. Only the owner calls this, before `publish`.
    pub(super) fn describe(&self, page: PageId, len: u32) {
        self.tag.store(page.raw(), Relaxed);
        self.len.store(len, Relaxed);
    }

    /// Marks the page as brought ahead. Only the owner calls this, before `publish`.
    pub(super) fn mark(&self) {
        self.ahead.store(1, Relaxed);
    }

    /// Whether the page was brought ahead and nobody has used it. Relaxed here and below: the mark orders nothing.
    #[inline]
    pub(super) fn is_marked(&self) -> bool {
        self.ahead.load(Relaxed) != 0
    }

    /// Takes the mark off; whether it was there. The caller holds a pin, owns the frame, or has the lock of its page's
    /// shard, so that the mark is of the page that he means.
    pub(super) fn unmark(&self) -> bool {
        #[cfg(pagecast_shuttle)]
        if mistake::made(mistake::MARK_TAKEN_TWICE) {
            let before = self.ahead.load(Relaxed);
            self.ahead.store(0, Relaxed);
            return before != 0;
        }
        self.ahead.swap(0, Relaxed) != 0
    }

    /// Makes the frame resident with one pin for each who waited, and hands out those pins.
    pub(super) fn publish(&self, owned: Owned, pins: u32) -> impl Iterator<Item = Held> + use<> {
        self.end_change();
        // Release: pairs with the Acquire of `pin`. A plain store, since only the owner changes the state of a frame
        // that is not resident.
        self.state.store(RESIDENT + u64::from(pins), Release);
        (0..pins).map(move |_| Held(owned.0))
    }

    /// Bytes of the page. The caller holds a pin or owns the frame.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len.load(Relaxed)
    }

    /// How many pins there are at this moment.
    pub(super) fn pins(&self) -> u32 {
        (self.state.load(Relaxed) & PINS) as u32
    }
}
