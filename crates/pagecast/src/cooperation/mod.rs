//! Scans that read in any order: who of them waits, and whose turn it is to begin loads.
//!
//! The decisions are the manager's ([`pagecast_core::cooperation`]). Here is what its host adds:
//! one lock, those who wait, and what came of it in numbers. There is no thread: whoever registers,
//! takes, or ends a lease or a load has the next loads begun ([`Loader`]). Where loads are held
//! back because the processors have enough to do, a clock asks again: the work may rest.
//!
//! * (U1) The waker of who waits is stored in the hold of the lock in which there was nothing to
//!   take. Whatever changes afterwards finds it.
//! * (U2) One thread at a time begins loads, and ends its turn in the hold in which there was
//!   nothing to begin. A change is either seen in that turn, or finds the turn free.
//! * (U3) A change that makes a scan ready wakes all who wait for it, so that nobody depends on one
//!   who has gone. Who goes takes its waker along.
//! * (U4) What the manager knows of a page last is what was true last: whoever tells it that a page
//!   has come or gone does so while nobody can move the page, or looks first, under the lock,
//!   whether that is still so.
//! * (U6) Whoever moves a page looks afterwards whether a scan is registered; a scan that registers
//!   says so before it looks at pages. Between the two steps of each there is a fence, so that one
//!   of them sees the other.
//! * (U5) Who ends its turn while loads are held back for somebody who waits sees to it, in the
//!   same hold, that a clock runs which has the next turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::task::{Poll, Waker};

use pagecast_core::cooperation::{
    Chunk, Cooperation as Manager, CooperationConfig, Load, MemberId, MemberView, Refusal, Take,
};
use pagecast_core::sync::atomic::AtomicU64;
use pagecast_core::{PageId, ScanId, Tick};

use crate::PoolError;
use crate::stats::PoolStats;
use crate::sync::Mutex;
#[cfg(pagecast_shuttle)]
use crate::sync::mistake;

#[cfg(all(test, pagecast_shuttle))]
mod exploration;
mod processors;
mod taking;

use processors::Processors;
pub(crate) use taking::Taking;

/// The unordered scans of a pool.
pub(crate) struct Cooperation {
    /// How many are registered: none of the rest concerns a pool without.
    registered: AtomicU32,
    state: Mutex<State>,
}

pub(crate) struct State {
    manager: Manager<Box<[AtomicU64]>>,
    processors: Processors,
    /// The registered ones, and on whose account loads for each are.
    members: Vec<(MemberId, Arc<Account>)>,
    waiting: Vec<Waiting>,
    next_ticket: u64,
    /// Whether somebody has the turn.
    is_begun: bool,
    /// Whether a clock runs (U5).
    has_clock: bool,
    counts: Counts,
}

/// Someone who waits for a chunk.
struct Waiting {
    member: MemberId,
    ticket: u64,
    waker: Waker,
}

/// What became of chunks.
#[derive(Clone, Copy, Default)]
struct Counts {
    taken: u64,
    shared: u64,
    incomplete: u64,
    consumed: u64,
    returned: u64,
    loads: u64,
}

/// On whose behalf loads are begun, and what they brought.
pub(crate) struct Account {
    /// What requests of the scan are marked with.
    pub(crate) scan: ScanId,
    /// Bytes of the pages whose loads were begun for it.
    pub(crate) bytes: AtomicU64,
    /// Pages that were brought for it, and perhaps not used yet. None once the scan has ended.
    brought: Mutex<Option<Vec<PageId>>>,
}

impl Account {
    pub(crate) fn new(scan: ScanId) -> Arc<Self> {
        Arc::new(Self { scan, bytes: AtomicU64::new(0), brought: Mutex::new(Some(Vec::new())) })
    }

    /// Remembers a page if `bring` brings it. Nothing, if the scan has ended: nobody would give up
    /// the page. Of those that it remembers already, as many as there are frames, it forgets what
    /// is not `ahead` any more.
    pub(crate) fn bring<R>(
        &self,
        page: PageId,
        frames: usize,
        is_ahead: impl Fn(PageId) -> bool,
        bring: impl FnOnce() -> (R, bool),
    ) -> Option<R> {
        let mut brought = self.brought.lock();
        let pages = brought.as_mut()?;
        if pages.len() >= 2 * frames {
            pages.retain(|&page| is_ahead(page));
        }
        let (result, is_brought) = bring();
        pages.extend(is_brought.then_some(page));
        Some(result)
    }

    /// The scan has ended. What was brought for it so far.
    pub(crate) fn close(&self) -> Vec<PageId> {
        self.brought.lock().take().unwrap_or_default()
    }
}

/// Who reads the clock, and begins loads.
pub(crate) trait Loader {
    fn now(&self) -> Tick;

    /// Begins to load these pages, for the scan with this account if it still runs. When nothing of
    /// it is under way any more, [`Cooperation::loaded`] is to be called.
    fn bring(&self, load: Load, account: Option<Arc<Account>>, pages: Vec<PageId>);

    /// Calls [`Cooperation::look_again`] after so many ticks, on another thread; false if it
    /// cannot.
    fn later(&self, ticks: Tick) -> bool;
}

/// A chunk that was handed out. Whoever has it ends it once, by [`Cooperation::end`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    pub(crate) chunk: u32,
    /// Whether a load or read for another scan brought it.
    pub(crate) is_shared: bool,
}

/// Says which pages are resident.
pub(crate) type Residency<'a> = Box<dyn Fn(PageId) -> bool + 'a>;

/// How a lease ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Consumed,
    Returned,
}

impl Cooperation {
    /// What a manager takes for this configuration: one without room has place for a scan without
    /// chunks.
    pub(crate) fn config(config: CooperationConfig) -> CooperationConfig {
        CooperationConfig { scans: config.scans.max(1), units: config.units.max(1), ..config }
    }

    /// For as many scans and chunks as `config` has room for.
    pub(crate) fn new(config: CooperationConfig) -> Result<Self, PoolError> {
        let config = Self::config(config);
        let words: Box<[AtomicU64]> = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
        let state = State {
            manager: Manager::format(words, config)?,
            processors: Processors::new(),
            members: Vec::new(),
            waiting: Vec::new(),
            next_ticket: 0,
            is_begun: false,
            has_clock: false,
            counts: Counts::default(),
        };
        Ok(Self { registered: AtomicU32::new(0), state: Mutex::new(state) })
    }

    /// Adds a scan with this account. `residency` is asked under the lock for who knows what is
    /// resident.
    pub(crate) fn register<'r>(
        &self,
        chunks: &[Chunk<'_>],
        workers: u32,
        account: Arc<Account>,
        residency: impl FnOnce() -> Residency<'r>,
        loader: &dyn Loader,
    ) -> Result<MemberId, Refusal> {
        let mut state = self.state.lock();
        // (U6): a later move is told.
        self.registered.fetch_add(1, Relaxed);
        fence(SeqCst);
        let member = state.manager.register(chunks, workers, loader.now(), residency());
        match member {
            Ok(member) => state.members.push((member, account)),
            Err(_) => {
                self.registered.fetch_sub(1, Relaxed);
            }
        }
        drop(state);
        if member.is_ok() {
            self.begin_loads(loader);
        }
        member
    }

    /// Forgets a scan. What it holds still is not given back any more.
    pub(crate) fn finish(&self, member: MemberId, loader: &dyn Loader) {
        self.change(loader, |state| {
            state.members.retain(|&(other, _)| other != member);
            state.manager.finish(member);
        });
        self.registered.fetch_sub(1, Relaxed);
    }

    /// The next chunk of a scan; none when all are done, be it by others.
    pub(crate) fn take<'a>(&'a self, member: MemberId, loader: &'a (dyn Loader + Sync)) -> Taking<'a> {
        Taking::new(self, member, loader)
    }

    /// The same without waiting. If there is nothing yet, `wait` is called in the hold of the lock
    /// in which that was so (U1).
    pub(crate) fn try_take(
        &self,
        member: MemberId,
        loader: &dyn Loader,
        wait: impl FnOnce(&mut State),
    ) -> Poll<Option<Taken>> {
        let mut state = self.state.lock();
        let taken = match state.manager.take(member, loader.now()) {
            Take::Chunk { chunk, resident, shared } => {
                state.counts.taken += 1;
                state.counts.shared += u64::from(shared);
                state.counts.incomplete += u64::from(!resident);
                Poll::Ready(Some(Taken { chunk, is_shared: shared }))
            }
            Take::End => Poll::Ready(None),
            Take::Wait => {
                #[cfg(pagecast_shuttle)]
                if mistake::made(mistake::WAKER_LATE) {
                    drop(state);
                    state = self.state.lock();
                }
                wait(&mut state);
                Poll::Pending
            }
        };
        // Those for whom this was the last one that they waited for.
        let wakers = if let Poll::Ready(Some(_)) = &taken { state.ready() } else { Vec::new() };
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        self.begin_loads(loader);
        taken
    }

    /// From here on nobody of the scan waits for chunks that others of it hold.
    pub(crate) fn end_early(&self, member: MemberId) {
        self.tell(|state| state.manager.end_early(member));
    }

    /// Ends a lease.
    pub(crate) fn end(&self, member: MemberId, chunk: u32, end: End, loader: &dyn Loader) {
        #[cfg(pagecast_shuttle)]
        if end == End::Returned && mistake::made(mistake::RETURN_UNTOLD) {
            return self.state.lock().manager.give_back(member, chunk);
        }
        self.change(loader, |state| match end {
            End::Consumed => {
                state.counts.consumed += 1;
                state.manager.consumed(member, chunk);
            }
            End::Returned => {
                state.counts.returned += 1;
                state.manager.give_back(member, chunk);
            }
        });
    }

    /// Says that a scan does not need the chunk any more.
    pub(crate) fn remove(&self, member: MemberId, chunk: u32, loader: &dyn Loader) {
        self.change(loader, |state| state.manager.remove(member, chunk));
    }

    /// Nothing of the load is under way any more.
    pub(crate) fn loaded(&self, load: &Load, loader: &dyn Loader) {
        self.change(loader, |state| state.manager.loaded(load, loader.now()));
    }

    /// A page has come into a frame.
    #[inline]
    pub(crate) fn arrived(&self, page: PageId, is_resident: impl FnOnce() -> bool) {
        if self.has_scans() {
            self.tell(|state| {
                #[cfg(pagecast_shuttle)]
                if mistake::made(mistake::EVENT_BELIEVED) {
                    return state.manager.arrived(page);
                }
                if is_resident() {
                    state.manager.arrived(page);
                }
            });
        }
    }

    /// Whether a scan is registered that wants to know what has moved before this call (U6).
    #[inline]
    fn has_scans(&self) -> bool {
        fence(SeqCst);
        self.registered.load(Relaxed) > 0
    }

    /// A page has lost its frame, and cannot come back meanwhile: the caller holds its shard's
    /// lock. So this waits for no lock; false if the page is to be told of by [`left`](Self::left),
    /// once that lock is free. Wakes nobody, because nothing becomes ready by it.
    #[inline]
    pub(crate) fn left_just_now(&self, page: PageId) -> bool {
        if !self.has_scans() {
            return true;
        }
        let Some(mut state) = self.state.try_lock() else { return false };
        state.manager.left(page);
        true
    }

    /// A page has lost its frame. May be called under a policy's lock.
    pub(crate) fn left(&self, page: PageId, is_resident: impl FnOnce() -> bool) {
        if self.has_scans() {
            let mut state = self.state.lock();
            if !is_resident() {
                state.manager.left(page);
            }
        }
    }

    /// Changes something, wakes those who are ready by it, and begins the loads that it makes room
    /// for.
    fn change(&self, loader: &dyn Loader, change: impl FnOnce(&mut State)) {
        self.tell(change);
        self.begin_loads(loader);
    }

    /// Changes something, and wakes those who are ready by it.
    fn tell(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let wakers = state.ready();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Begins loads while the manager has any (U2).
    fn begin_loads(&self, loader: &dyn Loader) {
        let Some(mut turn) = Turn::begin(self) else { return };
        while let Some((load, account, pages)) = turn.next(loader.now()) {
            loader.bring(load, account, pages);
        }
        if let Some(ticks) = turn.clock.take()
            && !loader.later(ticks)
        {
            // Without a clock loads never wait.
            self.state.lock().processors.give_up();
            drop(turn);
            self.look_again(loader);
        }
    }

    /// The clock has run down.
    pub(crate) fn look_again(&self, loader: &dyn Loader) {
        self.state.lock().has_clock = false;
        self.begin_loads(loader);
    }

    /// Adds the numbers to a pool's.
    pub(crate) fn count(&self, stats: &mut PoolStats) {
        let Counts { taken, shared, incomplete, consumed, returned, loads } = self.state.lock().counts;
        stats.chunks = taken;
        stats.chunks_shared = shared;
        stats.chunks_incomplete = incomplete;
        stats.chunks_consumed = consumed;
        stats.chunks_returned = returned;
        stats.chunk_loads = loads;
    }

    /// The registered scans as the manager sees them.
    pub(crate) fn views(&self) -> Vec<(ScanId, MemberView)> {
        let state = self.state.lock();
        let mut views = Vec::new();
        state.manager.members(|view| views.extend(state.account(view.id).map(|account| (account.scan, view))));
        views
    }

    /// How many chunks of a scan are needed still: neither handed out nor done.
    pub(crate) fn left_of(&self, member: MemberId) -> u32 {
        let mut left = 0;
        self.state.lock().manager.members(|view| {
            if view.id == member {
                left = view.left;
            }
        });
        left
    }

    /// Panics if somebody waits for a scan that is not there. Nobody may be at work.
    pub(crate) fn check(&self) {
        let state = self.state.lock();
        assert_eq!(self.registered.load(Relaxed) as usize, state.members.len(), "(U1): a registration is left");
        let gone = state.waiting.iter().find(|waiting| state.account(waiting.member).is_none());
        assert!(gone.is_none(), "(U3): somebody waits for a scan that has ended");
    }
}

impl State {
    fn account(&self, member: MemberId) -> Option<&Arc<Account>> {
        self.members.iter().find(|(other, _)| *other == member).map(|(_, account)| account)
    }

    /// Adds someone who waits, by a ticket.
    fn wait(&mut self, member: MemberId, waker: Waker) -> u64 {
        self.next_ticket += 1;
        self.waiting.push(Waiting { member, ticket: self.next_ticket, waker });
        self.next_ticket
    }

    /// Those to wake once the lock is free (U3).
    fn ready(&mut self) -> Vec<Waker> {
        let Self { manager, waiting, .. } = self;
        let mut wakers = Vec::new();
        if !waiting.is_empty() {
            manager.wake(|member| {
                #[cfg(pagecast_shuttle)]
                if mistake::made(mistake::ONE_WOKEN) {
                    let first = waiting.iter().position(|waiting| waiting.member == member);
                    return wakers.extend(first.map(|first| waiting.swap_remove(first).waker));
                }
                wakers.extend(waiting.extract_if(.., |waiting| waiting.member == member).map(|waiting| waiting.waker));
            });
        }
        wakers
    }
}

/// The right to begin loads.
struct Turn<'a> {
    cooperation: &'a Cooperation,
    has_ended: bool,
    /// Of a turn that has ended: after how many ticks a clock is to have the next.
    clock: Option<Tick>,
}

impl<'a> Turn<'a> {
    fn begin(cooperation: &'a Cooperation) -> Option<Self> {
        let was_begun = std::mem::replace(&mut cooperation.state.lock().is_begun, true);
        (!was_begun).then_some(Self { cooperation, has_ended: false, clock: None })
    }

    /// The next load; without one the turn has ended.
    fn next(&mut self, now: Tick) -> Option<(Load, Option<Arc<Account>>, Vec<PageId>)> {
        let mut state = self.cooperation.state.lock();
        let enough = state.processors.enough(now);
        state.manager.set_enough_at_work(enough);
        let Some(load) = state.manager.next_load(now) else {
            self.has_ended = true;
            self.clock = state.manager.look_again(now).filter(|_| !state.has_clock);
            #[cfg(pagecast_shuttle)]
            if mistake::made(mistake::NO_CLOCK) {
                self.clock = None;
            }
            state.has_clock |= self.clock.is_some();
            #[cfg(pagecast_shuttle)]
            if mistake::made(mistake::TURN_KEPT) {
                drop(state);
                state = self.cooperation.state.lock();
            }
            state.is_begun = false;
            return None;
        };
        state.counts.loads += 1;
        let mut pages = Vec::new();
        state.manager.pages(&load, |page| pages.push(page));
        Some((load, state.account(load.member).cloned(), pages))
    }
}

impl Drop for Turn<'_> {
    /// After a panic (of a policy, say): the next change has the turn.
    fn drop(&mut self) {
        if !self.has_ended {
            self.cooperation.state.lock().is_begun = false;
        }
    }
}
