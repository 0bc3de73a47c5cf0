//! Frame headers: who holds which frame, and what is in it.

use pagecast_core::PageId;
use pagecast_core::policy::{Claimed, Refusal};

use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::atomic::fence;
#[cfg(pagecast_shuttle)]
use crate::sync::mistake::{self, CLAIM_WHILE_WRITING, CLEARED_LATE, NOT_DRAINED};
use crate::token::{Held, Owned};

/// The end of a chain.
pub(super) const NIL: u32 = u32::MAX;

/// The tag of a frame without a page. The pool never numbers a relation so high that a page of it
/// has this id.
const NO_PAGE: u64 = u64::MAX;

/// What `dirty_since` is while no change waits to be written.
const NEVER: u64 = u64::MAX;

/// Set in the state while the frame holds a page that may be pinned; otherwise the frame has one
/// owner, or is about to have one.
const RESIDENT: u64 = 1 << 32;
/// Set while somebody has the page alone, or waits until the pins of others are gone.
const EXCLUSIVE: u64 = 1 << 33;
/// Set while the page differs from what storage has or was last asked to write.
const DIRTY: u64 = 1 << 34;
/// Set while the page is on its way to storage; one write of a page at a time.
const WRITING: u64 = 1 << 35;
/// The lower half of the state counts pins.
const PINS: u64 = RESIDENT - 1;

/// What everyone needs to know of a frame, in one cache line: a hit writes this line and no other.
///
/// ```text
///  state  63..36 | 35      | 34    | 33        | 32       | 31.....0   tag   the page       word  the policy's own 8 bytes
///         free   | writing | dirty | exclusive | resident | pins       next  next in chain  len   bytes of the page
///                                                                      version  odd while the frame is owned
///                                                                      lsn      the log record of its last change
///                                                                      dirty_since  that of its first unwritten change
///                                                                      slab     which slab the frame is, if it is one
/// ```
///
/// The version rises with every change of hands: it is odd from the moment when the frame is owned,
/// and its page and bytes may change, until it is published. Who reads the bytes without a pin
/// looks at it before and after.
///
/// Transitions of the state:
/// ```text
///  owned, 0 pins  --publish(w)-->  resident, w pins  --pin/unpin-->  resident, n pins
///        ^                                  ^                               |  |
///        |                                  |             exclude, by a pin |  |
///        |                              readmit(w)                          v  |
///        |                                  '--  exclusive, owned  <--0--  exclusive, n - 1 pins
///        '----- claim, only at 0 pins and neither dirty nor writing -----------'
///
///  dirty  --begin_write, under a pin-->  writing  --end_write-->  neither    (dirty again if the write failed,
///    ^                                      |                                or if the page was changed meanwhile)
///    '------- readmit with a change --------'
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
    /// While the frame is a slab, its number and 1; otherwise 0.
    slab: AtomicU32,
    version: AtomicU64,
    lsn: AtomicU64,
    dirty_since: AtomicU64,
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
            slab: AtomicU32::new(0),
            version: AtomicU64::new(1),
            lsn: AtomicU64::new(0),
            dirty_since: AtomicU64::new(NEVER),
        }
    }

    /// Whether the frame was last seen with this page. Only a pin makes it certain.
    #[inline]
    pub(super) fn is_tagged(&self, page: PageId) -> bool {
        // Relaxed: a hint until a pin's Acquire orders it, or read under the lock that orders
        // changes of the tag.
        self.tag.load(Relaxed) == page.raw()
    }

    /// The page in the frame if it is resident without pins, at this moment. If it is dirty, a
    /// claim says so, and it is written.
    pub(super) fn evictable(&self) -> Option<PageId> {
        // Acquire: the tag is at least as new as the publication that made the state resident.
        if self.state.load(Acquire) & (RESIDENT | WRITING | PINS) != RESIDENT {
            return None;
        }
        let tag = self.tag.load(Relaxed);
        (tag != NO_PAGE).then(|| PageId::from_raw(tag))
    }

    /// The page in the frame, pinned or not. It was admitted before its tag was set, and a claim
    /// takes the tag away.
    pub(super) fn tagged(&self) -> Option<PageId> {
        // Relaxed: who holds the policy's lock sees every claim and admission that was made under
        // it before, and what the caller cannot see yet has not been told to the policy either.
        let tag = self.tag.load(Relaxed);
        (tag != NO_PAGE).then(|| PageId::from_raw(tag))
    }

    /// Adds a pin if the frame is resident, whatever its page is. `index` is the frame's own.
    #[inline]
    pub(super) fn pin(&self, index: u32) -> Option<Held> {
        let mut state = self.state.load(Relaxed);
        while state & RESIDENT != 0 {
            // Acquire: pairs with the Release of `publish` (the unpins in between continue its
            // release sequence), so that the tag, the length and the page's bytes are seen as they
            // were published.
            match self.state.compare_exchange_weak(state, state + 1, Acquire, Relaxed) {
                Ok(_) => return Some(Held::new(index)),
                Err(now) => state = now,
            }
        }
        None
    }

    /// Gives a pin back. True if it was the last one that somebody waits for who wants the page
    /// alone.
    #[inline]
    pub(super) fn unpin(&self, held: Held) -> bool {
        // Release: pairs with the Acquire of `claim`, `exclude` and `drained`, so that our reads of
        // the page end before it is overwritten.
        let before = self.state.fetch_sub(1, Release);
        debug_assert!(before & PINS > 0, "frame {} was unpinned once too often", held.index());
        before & (RESIDENT | PINS) == 1
    }

    /// Takes the frame if it is resident without pins and clean. The caller holds the lock of its
    /// page's shard (I2).
    pub(super) fn claim(&self, index: u32) -> Result<Owned, Refusal> {
        #[cfg(pagecast_shuttle)]
        if mistake::made(CLAIM_WHILE_WRITING) {
            self.state.fetch_and(!WRITING, Relaxed);
        }
        // Acquire: pairs with the Release of `unpin`. On success the state has no pins and nobody
        // can add one.
        match self.state.compare_exchange(RESIDENT, 0, AcqRel, Relaxed) {
            Ok(_) => Ok(self.own(index)),
            Err(now) if now & (RESIDENT | PINS) == RESIDENT => Err(Refusal::Dirty),
            Err(_) => Err(Refusal::Pinned),
        }
    }

    /// The frame that a policy claimed, back from its hands.
    pub(super) fn take_back(&self, claimed: Claimed) -> Owned {
        assert!(
            self.state.load(Relaxed) & (RESIDENT | EXCLUSIVE) == 0,
            "a policy gave a frame that it had not claimed"
        );
        Owned::new(claimed.frame().0)
    }

    /// The token of a frame that has just become the caller's.
    fn own(&self, index: u32) -> Owned {
        self.begin_change();
        Owned::new(index)
    }

    /// From here on the page and its bytes may change. Called where a frame becomes owned, by its
    /// owner.
    fn begin_change(&self) {
        // Only the owner writes the version, so that a load and a store do.
        self.version.store(self.version.load(Relaxed) + 1, Relaxed);
        // Release: pairs with the Acquire fence of `is_unchanged`. A reader who sees anything that
        // is written to the page, its tag or its length from here on also sees the odd version.
        fence(Release);
    }

    /// The page and its bytes stay as they are from here on. Called by the owner, before others are
    /// let in.
    fn end_change(&self) {
        // Release: pairs with the Acquire of `stable_version`, whose reader sees all of the change.
        self.version.store(self.version.load(Relaxed) + 1, Release);
    }

    /// The version, if the page and its bytes stand still at this moment: where a read without a
    /// pin begins.
    #[inline]
    pub(super) fn stable_version(&self) -> Option<u64> {
        let version = self.version.load(Acquire);
        version.is_multiple_of(2).then_some(version)
    }

    /// The frame, which the caller owns, is the slab `number` from now on, and may be read as such.
    pub(super) fn open_slab(&self, number: u32) {
        self.slab.store(number + 1, Relaxed);
        self.end_change();
    }

    /// The frame is no slab any more. Only its owner calls this.
    pub(super) fn close_slab(&self) {
        self.begin_change();
        self.slab.store(0, Relaxed);
    }

    /// Whether the frame was last seen as the slab `number`. Relaxed: the version tells whether it
    /// was all the time.
    #[inline]
    pub(super) fn is_slab(&self, number: u32) -> bool {
        self.slab.load(Relaxed) == number + 1
    }

    /// What a slab holds may change until the answer goes. Only the frame's owner calls this.
    pub(super) fn change_slab(&self) -> ChangingSlab<'_> {
        self.begin_change();
        ChangingSlab(self)
    }

    /// Whether what was read since [`stable_version`](Self::stable_version) is what was there:
    /// where a read without a pin ends.
    #[inline]
    pub(super) fn is_unchanged(&self, version: u64) -> bool {
        // Acquire: keeps the reads before it before the look at the version; pairs with the fence
        // of `begin_change`.
        fence(Acquire);
        self.version.load(Relaxed) == version
    }

    /// The frame has no page any more. Only its owner calls this, under the lock of the old page's
    /// shard.
    pub(super) fn invalidate(&self) {
        self.tag.store(NO_PAGE, Relaxed);
    }

    /// Says what the frame holds from now on: `page` as of log record `lsn`. Only the owner calls
    /// this, before `publish`.
    pub(super) fn describe(&self, page: PageId, len: u32, lsn: u64) {
        self.tag.store(page.raw(), Relaxed);
        self.len.store(len, Relaxed);
        self.lsn.store(lsn, Relaxed);
        self.dirty_since.store(NEVER, Relaxed);
    }

    /// Flags the page as brought ahead. Only the owner calls this, before `publish`.
    pub(super) fn flag(&self) {
        self.ahead.store(1, Relaxed);
    }

    /// Whether the page was brought ahead and nobody has used it. Relaxed here and below: the flag
    /// orders nothing.
    #[inline]
    pub(super) fn is_flagged(&self) -> bool {
        self.ahead.load(Relaxed) != 0
    }

    /// Takes the flag off; whether it was there. The caller holds a pin, owns the frame, or has the
    /// lock of its page's shard, so that the flag is of the page that is meant.
    pub(super) fn unflag(&self) -> bool {
        #[cfg(pagecast_shuttle)]
        if mistake::made(mistake::FLAG_TAKEN_TWICE) {
            let before = self.ahead.load(Relaxed);
            self.ahead.store(0, Relaxed);
            return before != 0;
        }
        self.ahead.swap(0, Relaxed) != 0
    }

    /// Makes the frame resident with one pin for each who waited, and hands out those pins.
    /// `changed` is the first and the last log record of what its bytes have and storage has not.
    pub(super) fn publish(
        &self,
        owned: Owned,
        pins: u32,
        changed: Option<(u64, u64)>,
    ) -> impl Iterator<Item = Held> + use<> {
        if let Some((first, last)) = changed {
            self.lsn.fetch_max(last, Relaxed);
            self.dirty_since.store(first, Relaxed);
        }
        let dirty = if changed.is_some() { DIRTY } else { 0 };
        self.end_change();
        // Release: pairs with the Acquire of `pin`. A plain store, since only the owner changes the
        // state of a frame that is not resident.
        self.state.store((RESIDENT | dirty) + u64::from(pins), Release);
        (0..pins).map(move |_| Held::new(owned.index()))
    }

    /// Bytes of the page. The caller holds a pin or owns the frame.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len.load(Relaxed)
    }

    /// How many pins there are at this moment; who has or wants the page alone counts as one.
    pub(super) fn pins(&self) -> u32 {
        let state = self.state.load(Relaxed);
        (state & PINS) as u32 + u32::from(state & EXCLUSIVE != 0)
    }

    /// The page of a frame that the caller has pinned or owns.
    pub(super) fn page(&self) -> PageId {
        PageId::from_raw(self.tag.load(Relaxed))
    }

    /// The log record of the page's last change. The caller holds a pin or owns the frame.
    pub(super) fn lsn(&self) -> u64 {
        self.lsn.load(Relaxed)
    }

    /// Turns a pin into the wish to have the page alone: from now on nobody adds a pin. The frame
    /// is ours at once if there was no other pin, and when [`drained`](Self::drained) says so if
    /// there was. The caller holds the lock of the page's shard and has seen no load of it there,
    /// so that nobody else has or wants it alone.
    pub(super) fn exclude(&self, held: Held) -> Option<Owned> {
        let mut state = self.state.load(Relaxed);
        loop {
            let next = ((state - 1) & !RESIDENT) | EXCLUSIVE;
            // Acquire: as in `claim`.
            match self.state.compare_exchange_weak(state, next, AcqRel, Relaxed) {
                Ok(_) if next & PINS == 0 => return Some(self.own(held.index())),
                #[cfg(pagecast_shuttle)]
                Ok(_) if mistake::made(NOT_DRAINED) => return Some(self.own(held.index())),
                Ok(_) => return None,
                Err(now) => state = now,
            }
        }
    }

    /// The frame, if the last pin beside the one who excluded others is gone. Whoever excluded them
    /// calls this until it has the frame.
    pub(super) fn drained(&self, index: u32) -> Option<Owned> {
        (self.state.load(Acquire) & (EXCLUSIVE | PINS) == EXCLUSIVE).then(|| self.own(index))
    }

    /// Lets others pin the page again, and hands out `pins` pins. `changed` is the first and the
    /// last log record of what its owner changed, if it did. The caller has excluded others, and
    /// gives up what it has of the frame: owned, or only wished for.
    pub(super) fn readmit(
        &self,
        index: u32,
        pins: u32,
        is_owned: bool,
        changed: Option<(u64, u64)>,
    ) -> impl Iterator<Item = Held> + use<> {
        if is_owned {
            self.end_change();
        }
        if let Some((first, last)) = changed {
            self.lsn.fetch_max(last, Relaxed);
            self.dirty_since.fetch_min(first, Relaxed);
        }
        let dirty = if changed.is_some() { DIRTY } else { 0 };
        let mut state = self.state.load(Relaxed);
        loop {
            let next = ((state & !EXCLUSIVE) | RESIDENT | dirty) + u64::from(pins);
            // Release: pairs with the Acquire of `pin`, as in `publish`.
            match self.state.compare_exchange_weak(state, next, AcqRel, Relaxed) {
                Ok(_) => return (0..pins).map(move |_| Held::new(index)),
                Err(now) => state = now,
            }
        }
    }

    /// Begins to write the page, if it is dirty and not being written: it counts as clean from here
    /// on, so that a change that comes while it is written makes it dirty again. The first log
    /// record that is not on storage. The caller holds a pin until the page is copied.
    pub(super) fn begin_write(&self, _held: &Held) -> Option<u64> {
        let mut state = self.state.load(Relaxed);
        while state & (DIRTY | WRITING) == DIRTY {
            let next = (state & !DIRTY) | WRITING;
            match self.state.compare_exchange_weak(state, next, AcqRel, Relaxed) {
                // Nobody lowers it now: that takes an owner, and we hold a pin.
                Ok(_) => return Some(self.dirty_since.swap(NEVER, Relaxed)),
                Err(now) => state = now,
            }
        }
        None
    }

    /// The page's changes are not wanted on storage any more, unless they are being written. The
    /// caller holds a pin. Not by a write that begins and ends: no batch would end for those who
    /// see it and wait for one.
    pub(super) fn forget_changes(&self, _held: &Held) {
        let mut state = self.state.load(Relaxed);
        while state & (DIRTY | WRITING) == DIRTY {
            match self.state.compare_exchange_weak(state, state & !DIRTY, AcqRel, Relaxed) {
                Ok(_) => return self.dirty_since.store(NEVER, Relaxed),
                Err(now) => state = now,
            }
        }
    }

    /// The write has ended. If it `failed`, the page is as dirty as it was, since that log record.
    pub(super) fn end_write(&self, failed: Option<u64>) {
        if let Some(since) = failed {
            self.dirty_since.fetch_min(since, Relaxed);
        }
        let dirty = if failed.is_some() { DIRTY } else { 0 };
        let mut state = self.state.load(Relaxed);
        loop {
            let next = (state & !WRITING) | dirty;
            #[cfg(pagecast_shuttle)]
            let next = if mistake::made(CLEARED_LATE) { next & !DIRTY | dirty } else { next };
            // Release: pairs with the Acquire of `claim`, so that the page is read again only after
            // it was written.
            match self.state.compare_exchange_weak(state, next, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }

    /// What keeps the page from being on storage up to log record `upto`, its own not included.
    /// `None` of it: everything.
    pub(super) fn unwritten(&self, upto: Option<u64>) -> Unwritten {
        // Acquire: pairs with the Release of `readmit`, so that `dirty_since` is at least as new as
        // the state.
        let state = self.state.load(Acquire);
        if state & EXCLUSIVE != 0 {
            Unwritten::Exclusive
        } else if state & WRITING != 0 {
            Unwritten::UnderWay
        } else if state & DIRTY != 0 && upto.is_none_or(|upto| self.dirty_since.load(Relaxed) < upto) {
            Unwritten::Dirty
        } else {
            Unwritten::Nothing
        }
    }

    /// Whether the page has changes that no write under way has. Relaxed: true only of the moment.
    pub(super) fn is_dirty(&self) -> bool {
        self.state.load(Relaxed) & DIRTY != 0
    }

    /// Since which log record the page is dirty.
    pub(super) fn dirty_since(&self) -> u64 {
        self.dirty_since.load(Relaxed)
    }
}

/// A slab that is being changed. Ends with the change, on a panic too.
pub(super) struct ChangingSlab<'a>(&'a Header);

impl Drop for ChangingSlab<'_> {
    fn drop(&mut self) {
        self.0.end_change();
    }
}

/// What keeps a page from being on storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unwritten {
    /// It is there.
    Nothing,
    /// Its changes have to be written.
    Dirty,
    /// Its changes are being written.
    UnderWay,
    /// Somebody has it alone and may have changed it.
    Exclusive,
}
