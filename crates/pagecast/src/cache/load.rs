//! One page on its way into a frame, and those who wait for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pagecast_core::oracle::Oracle;
use pagecast_core::policy::Access;
use pagecast_core::{PageId, Tick};

use super::Cache;
use crate::PoolError;
use crate::flash::FlashCopy;
use crate::stats::Counter;
use crate::sync::{Mutex, unless_mistaken};
use crate::token::{Held, Owned};

/// A load that is under way or has ended. It is found through its shard's table until it ends, and
/// through its waiters afterwards.
pub(super) struct Load {
    /// The request that began it.
    pub(super) access: Access,
    /// Whether it is one of the loads that there may be as many of as frames.
    is_counted: bool,
    state: Mutex<State>,
}

enum State {
    /// One place for each waiter, so that a waiter's newest waker replaces its old one; `waiters`
    /// counts those that have not gone away.
    Pending {
        waiters: u32,
        wakers: Vec<Option<Waker>>,
        /// Brought ahead, and nobody has asked for it yet.
        flagged: bool,
    },
    Ended(Outcome),
}

/// How a load ended.
pub(super) enum Outcome {
    /// The page is resident; here is the pin of each waiter that has not come for it yet.
    Loaded(Vec<Held>),
    /// There was no frame for it.
    NoFrame,
    /// There may be a frame for it or none: who waits has the bytes without, and keeps no frame
    /// pinned until they come for it.
    Carried(Carried),
    Failed(PoolError),
}

/// A page's bytes in memory of who read them.
#[derive(Clone)]
pub(crate) struct Carried {
    pub(crate) memory: Arc<dyn AsRef<[u8]> + Send + Sync>,
    /// Where the page begins there.
    pub(crate) at: usize,
    pub(crate) len: usize,
}

impl Carried {
    pub(crate) fn bytes(&self) -> &[u8] {
        &(*self.memory).as_ref()[self.at..self.at + self.len]
    }
}

impl Load {
    pub(super) fn new(access: Access) -> Arc<Self> {
        Self::pending(access, true, false)
    }

    /// A load whose bytes its reader has room for.
    pub(super) fn of_reader(access: Access) -> Arc<Self> {
        Self::pending(access, false, false)
    }

    /// A load that nobody waits for.
    pub(super) fn ahead(access: Access) -> Arc<Self> {
        Self::pending(access, true, true)
    }

    fn pending(access: Access, is_counted: bool, flagged: bool) -> Arc<Self> {
        let state = State::Pending { waiters: 0, wakers: Vec::new(), flagged };
        Arc::new(Self { access, is_counted, state: Mutex::new(state) })
    }

    pub(super) fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Whether it was brought ahead and nobody has asked for the page yet.
    pub(super) fn is_flagged(&self) -> bool {
        matches!(&*self.state.lock(), State::Pending { flagged: true, .. })
    }

    /// Whether anybody waits for it.
    fn is_awaited(&self) -> bool {
        matches!(&*self.state.lock(), State::Pending { waiters: 1.., .. })
    }

    /// Whether anybody waits for it, or is going to ask for it.
    fn is_wanted(&self) -> bool {
        matches!(&*self.state.lock(), State::Pending { waiters: 1.., .. } | State::Pending { flagged: true, .. })
    }

    /// Takes the flag off; whether it was there.
    pub(super) fn unflag(&self) -> bool {
        match &mut *self.state.lock() {
            State::Pending { flagged, .. } => std::mem::take(flagged),
            State::Ended(_) => false,
        }
    }

    /// Adds a waiter. The caller holds the shard's lock, under which the load was found and cannot
    /// end (I5).
    pub(super) fn join(self: &Arc<Self>, cache: &Arc<Cache>) -> Waiter {
        let mut state = self.state.lock();
        let State::Pending { waiters, wakers, .. } = &mut *state else {
            unreachable!("a load leaves its shard's table when it ends (I5)");
        };
        *waiters += 1;
        wakers.push(None);
        Waiter { cache: cache.clone(), load: self.clone(), place: wakers.len() - 1, waits: true }
    }

    /// Ends the load with what `outcome` makes of the number of waiters and the flag, and hands out
    /// those to wake once the locks are free. A waiter that goes away is counted out before or
    /// finds its pin after, never in between.
    pub(super) fn end(&self, outcome: impl FnOnce(u32, bool) -> Outcome) -> Vec<Option<Waker>> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Ended(Outcome::NoFrame)) {
            State::Pending { waiters, wakers, flagged } => {
                *state = State::Ended(outcome(waiters, flagged));
                wakers
            }
            State::Ended(_) => unreachable!("a load is ended once, by the one Loading it has (I5)"),
        }
    }
}

pub(super) fn wake(wakers: Vec<Option<Waker>>) {
    wakers.into_iter().flatten().for_each(Waker::wake);
}

/// The duty to end a load. Dropped without an end, it fails the load, so that nobody waits for
/// ever.
pub(crate) struct Loading {
    cache: Arc<Cache>,
    load: Arc<Load>,
    owned: Option<Owned>,
    /// The log records of the first and the last change that its bytes have and storage has not.
    changes: Option<(u64, u64)>,
    ended: bool,
    /// What those who wait get in the place of pins.
    carried: Option<Carried>,
    /// Dropped when the load has ended, however it ends.
    company: Option<Arc<dyn Send + Sync>>,
}

impl Loading {
    pub(super) fn new(cache: Arc<Cache>, load: Arc<Load>) -> Self {
        Self { cache, load, owned: None, changes: None, ended: false, carried: None, company: None }
    }

    /// Keeps `company` until the load has ended: who waits for several loads learns from the last
    /// one's drop that none is under way.
    pub(crate) fn accompany(&mut self, company: Arc<dyn Send + Sync>) {
        self.company = Some(company);
    }

    pub(crate) fn access(&self) -> &Access {
        &self.load.access
    }

    pub(crate) fn count(&self, counter: Counter, by: u64) {
        self.cache.statistics.add(counter, by);
    }

    pub(super) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The page is dirty when it is published.
    pub(super) fn set_changes(&mut self, records: (u64, u64)) {
        self.changes = Some(records);
    }

    /// Ends a load that is none, if nobody waits for the page; else it becomes one, which the
    /// caller begins.
    pub(super) fn end_if_alone(self) -> Option<Self> {
        let (cache, page) = (self.cache.clone(), self.load.access.page);
        self.end_unless(|load| {
            let is_awaited = load.is_awaited();
            if is_awaited {
                cache.note_load(page);
            }
            is_awaited
        })
    }

    /// Whether anybody waits for the page, or is going to ask for it. A guess, but of a load of
    /// which others can no longer hear.
    pub(crate) fn is_wanted(&self) -> bool {
        self.load.is_wanted()
    }

    /// Ends a load that nobody wants any more; else it goes on.
    pub(crate) fn end_unless_wanted(self) -> Option<Self> {
        self.end_unless(Load::is_wanted)
    }

    /// Ends the load without its page, unless it `goes_on`. That is asked under the lock of its
    /// shard: nobody joins it meanwhile.
    fn end_unless(mut self, goes_on: impl FnOnce(&Load) -> bool) -> Option<Self> {
        let page = self.load.access.page;
        let cache = self.cache.clone();
        let mut shard = cache.table.shard(page).lock();
        if goes_on(&self.load) {
            return Some(self);
        }
        self.ended = true;
        self.load.end(|_, _| {
            cache.ended(&self.load);
            Outcome::NoFrame
        });
        shard.remove(&page);
        drop(shard);
        if let Some(owned) = self.owned.take() {
            cache.free.give(owned, &cache.memory);
        }
        None
    }

    /// The page's bytes are here, in memory that those who wait may share.
    pub(crate) fn carry(&mut self, carried: Carried) {
        self.carried = Some(carried);
    }

    /// Gives the load a frame to fill.
    pub(super) fn place(&mut self, owned: Owned) {
        self.owned = Some(owned);
    }

    /// A load of another page of the same file, whose bytes this one's request brings along: if it
    /// is neither resident nor on its way, and a frame is free.
    pub(crate) fn along(&self, page: PageId) -> Option<Loading> {
        self.cache.bring_along(Access { page, scan: None, ..self.load.access })
    }

    /// Whether it has a frame by now: its own, or one that is found at the time `now`, when its
    /// bytes are here. A dirty victim is not waited for.
    pub(crate) fn find_frame(&mut self, now: Tick, oracle: &dyn Oracle) -> bool {
        if self.owned.is_none() {
            let access = Access { at: now, ..self.load.access };
            self.owned = self.cache.frame(&access, oracle).ok();
        }
        self.owned.is_some()
    }

    /// The page's copy on flash.
    pub(crate) fn copy_on_flash(&self) -> Option<FlashCopy> {
        self.cache.copy_on_flash(&self.load.access)
    }

    /// The frame's bytes, to be filled. Empty before the load has a frame.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        match &mut self.owned {
            Some(owned) => self.cache.memory.write(owned),
            None => &mut [],
        }
    }

    /// The frame is filled: makes its first `len` bytes the page as of log record `lsn`, pinned
    /// once for each waiter.
    pub(crate) fn publish(mut self, len: u32, lsn: u64) {
        let Some(owned) = self.owned.take() else { return };
        let cache = self.cache.clone();
        let page = self.load.access.page;
        let index = owned.index();
        cache.memory.note_filled(len);
        cache.admit(&owned, &self.load.access);
        let mut shard = cache.table.shard(page).lock();
        let header = &cache.headers[index as usize];
        header.describe(page, len, lsn);
        cache.table.link(&cache.headers, page, index, &shard);
        unless_mistaken!(ITEMS_KEPT, cache.merge(page, index));
        let wakers = self.load.end(|waiters, flagged| {
            if flagged {
                header.flag();
            }
            let pins = if self.carried.is_some() { 0 } else { waiters };
            let pins = header.publish(owned, pins, self.changes).collect();
            cache.note_arrival(&self.load.access, index);
            cache.ended(&self.load);
            self.carried.take().map_or(Outcome::Loaded(pins), Outcome::Carried)
        });
        shard.remove(&page);
        drop(shard);
        self.ended = true;
        wake(wakers);
        // Only in this frame: should it have left and come again, others tell that.
        cache.cooperation.arrived(page, || cache.headers[index as usize].is_tagged(page));
    }

    /// There is no frame: those who wait have to do without.
    pub(crate) fn give_up(mut self) {
        let outcome = self.carried.take().map_or(Outcome::NoFrame, Outcome::Carried);
        self.end_without_page(outcome);
    }

    /// The read failed: those who wait get the error, and nothing of the load is left.
    pub(crate) fn fail(self, error: PoolError) {
        self.end_without_page(Outcome::Failed(error));
    }

    fn end_without_page(mut self, outcome: Outcome) {
        self.release(outcome);
    }

    fn release(&mut self, outcome: Outcome) {
        self.ended = true;
        if let Some(owned) = self.owned.take() {
            self.cache.free.give(owned, &self.cache.memory);
        }
        unless_mistaken!(FAILURE_KEPT, {
            let page = self.load.access.page;
            let mut shard = self.cache.table.shard(page).lock();
            let wakers = self.load.end(|_, flagged| {
                if flagged {
                    self.cache.take_off(Counter::PrefetchWasted);
                }
                self.cache.ended(&self.load);
                outcome
            });
            shard.remove(&page);
            drop(shard);
            wake(wakers);
        });
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        if !self.ended {
            self.release(Outcome::Failed(PoolError::Abandoned { page: self.load.access.page }));
        }
    }
}

/// Someone who wants the page of a load. A future; going away early leaves the load as it is and
/// gives back the pin.
pub(crate) struct Waiter {
    cache: Arc<Cache>,
    load: Arc<Load>,
    place: usize,
    waits: bool,
}

impl Waiter {
    /// The bytes of a page that came without a pin for those who wait.
    pub(crate) fn carried(&self) -> Option<Carried> {
        match &*self.load.state.lock() {
            State::Ended(Outcome::Carried(carried)) => Some(carried.clone()),
            _ => None,
        }
    }
}

impl Future for Waiter {
    /// The waiter's own pin, or none if there was no frame, or if its bytes are
    /// [carried](Waiter::carried).
    type Output = Result<Option<Held>, PoolError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let load = self.load.clone();
        let mut state = load.state.lock();
        let answer = match &mut *state {
            State::Pending { wakers, .. } => {
                wakers[self.place] = Some(context.waker().clone());
                return Poll::Pending;
            }
            State::Ended(Outcome::Loaded(pins)) => Ok(pins.pop()),
            State::Ended(Outcome::NoFrame | Outcome::Carried(_)) => Ok(None),
            State::Ended(Outcome::Failed(error)) => Err(error.clone()),
        };
        self.waits = false;
        Poll::Ready(answer)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if !self.waits {
            return;
        }
        let unclaimed = match &mut *self.load.state.lock() {
            State::Pending { waiters, wakers, .. } => {
                *waiters -= 1;
                wakers[self.place] = None;
                None
            }
            State::Ended(Outcome::Loaded(pins)) => pins.pop(),
            State::Ended(_) => None,
        };
        if let Some(held) = unclaimed {
            self.cache.unpin(held);
        }
    }
}
