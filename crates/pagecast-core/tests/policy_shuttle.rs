//! Evictions, admissions and hits of several threads, in the schedules that an explorer finds: no
//! frame goes to two, none is lost, and BP-Wrapper keeps its policy's order whole while queued hits
//! meet evictions, reused frames, dropped pages and the end of their session.
//!
//! Run with `make explore`.
#![cfg(pagecast_shuttle)]
#![allow(clippy::unwrap_used)]

use pagecast_core::oracle::NoScans;
use pagecast_core::policy::{
    Access, Batching, Claimed, ConcurrentPolicy, Due, Frames, HitNeed, HitQueue, Lru, PolicySpec, Refusal,
    SequentialPolicy,
};
use pagecast_core::{FrameId, PageId, oracle::Oracle};
use shuttle::sync::atomic::AtomicU64;
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread;
use std::cell::Cell;

const FRAMES: u32 = 2;
/// The mistake is found after a few dozen; thirteen policies share the time of one.
const SCHEDULES: usize = 100;
const SCHEDULES_FOR_MISTAKES: usize = 3000;

#[derive(Clone, Copy, Default)]
struct Slot {
    page: Option<PageId>,
    pins: u32,
}

/// A pool of two frames, whose states one lock guards: the protocol under test is the policy's, not
/// the pool's.
struct SmallPool<P> {
    slots: Mutex<Vec<Slot>>,
    words: Vec<AtomicU64>,
    free: Mutex<Vec<FrameId>>,
    /// A mistake: the policy is not told of a page that was taken out past it.
    hides_discards: bool,
    policy: P,
}

impl<P> Frames for SmallPool<P> {
    fn count(&self) -> u32 {
        FRAMES
    }

    fn word(&self, frame: FrameId) -> &AtomicU64 {
        &self.words[frame.index()]
    }

    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        let slot = self.slots.lock().unwrap()[frame.index()];
        slot.page.filter(|_| slot.pins == 0)
    }

    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.slots.lock().unwrap()[frame.index()].page
    }

    fn claim(&self, frame: FrameId, page: PageId) -> Result<Claimed, Refusal> {
        let slot = &mut self.slots.lock().unwrap()[frame.index()];
        if slot.page != Some(page) || slot.pins > 0 {
            return Err(Refusal::Pinned);
        }
        slot.page = None;
        Ok(Claimed::new(frame))
    }
}

impl<P: ConcurrentPolicy> SmallPool<P> {
    fn new(policy: P) -> Self {
        Self {
            slots: Mutex::new(vec![Slot::default(); FRAMES as usize]),
            words: (0..FRAMES).map(|_| AtomicU64::new(0)).collect(),
            free: Mutex::new((0..FRAMES).map(FrameId).collect()),
            hides_discards: false,
            policy,
        }
    }

    /// Hits the page if it is resident, loads it otherwise. Each page is loaded by one thread only.
    fn request(&self, queue: &mut HitQueue, page: u64, at: u64) {
        let access = Access { page: PageId::from_raw(page), scan: None, write: false, at };
        if let Some(frame) = self.pin(access.page) {
            self.hit(queue, frame, &access);
            self.slots.lock().unwrap()[frame.index()].pins -= 1;
            return;
        }
        self.policy.commit(self, queue, true);
        let free = self.free.lock().unwrap().pop();
        let victim = || self.policy.evict(self, &access, &NoScans).map(|victim| victim.frame());
        let Some(frame) = free.or_else(victim) else { return };
        assert!(self.slots.lock().unwrap()[frame.index()].page.is_none(), "{frame:?} is given while in use");
        self.policy.admit(self, frame, &access);
        self.slots.lock().unwrap()[frame.index()].page = Some(access.page);
    }

    fn hit(&self, queue: &mut HitQueue, frame: FrameId, access: &Access) {
        let HitNeed::Queue { length } = self.policy.hit_need() else {
            return self.policy.hit(self, frame, access);
        };
        match queue.note(length, frame, access) {
            Due::NotYet => {}
            due => self.policy.commit(self, queue, due == Due::Now),
        }
    }

    /// Takes a page out past the policy, which is told afterwards.
    fn discard(&self, page: u64) {
        let page = PageId::from_raw(page);
        for frame in (0..FRAMES).map(FrameId) {
            if let Ok(claimed) = self.claim(frame, page) {
                if !self.hides_discards {
                    self.policy.forget(self, frame, page);
                }
                self.free.lock().unwrap().push(claimed.frame());
            }
        }
    }

    fn pin(&self, page: PageId) -> Option<FrameId> {
        let mut slots = self.slots.lock().unwrap();
        let frame = slots.iter().position(|slot| slot.page == Some(page))?;
        slots[frame].pins += 1;
        Some(FrameId(frame as u32))
    }

    /// Every frame is free or can be evicted.
    fn check(&self) {
        let access = Access { page: PageId::from_raw(u64::MAX), scan: None, write: false, at: 100 };
        let mut frames: Vec<FrameId> = self.free.lock().unwrap().clone();
        while let Some(victim) = self.policy.evict(self, &access, &NoScans) {
            let frame = victim.frame();
            frames.push(frame);
        }
        frames.sort_unstable();
        assert_eq!(frames, (0..FRAMES).map(FrameId).collect::<Vec<_>>(), "a frame is lost or doubled");
    }
}

fn explore<P: ConcurrentPolicy + 'static>(schedules: usize, policy: impl Fn() -> P + Send + Sync + 'static) {
    explore_pool(schedules, move || SmallPool::new(policy()));
}

/// Three sessions with pages of their own, the first of which also looks at the second's and drops
/// it.
fn explore_pool<P: ConcurrentPolicy + 'static>(
    schedules: usize,
    pool: impl Fn() -> SmallPool<P> + Send + Sync + 'static,
) {
    // A policy that learns is made on the stack, which is 32 KiB unless more is asked for.
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    let runner = shuttle::Runner::new(shuttle::scheduler::RandomScheduler::new(schedules), config);
    runner.run(move || {
        let pool = Arc::new(pool());
        let threads: Vec<_> = (0..3u64)
            .map(|own| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || {
                    let mut queue = HitQueue::new();
                    for (at, page) in [own, own, own + 10, own].into_iter().enumerate() {
                        pool.request(&mut queue, page, at as u64);
                    }
                    if own == 0 {
                        pool.discard(1);
                    }
                    pool.policy.commit(&*pool, &mut queue, true);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        pool.check();
    });
}

/// A queue that is tried at every second hit and full at every third.
const SHORT: Batching = Batching { queue: 3, prefetch: true };

fn shared(name: &str, batching: Batching) -> Boxed {
    Boxed(PolicySpec::parse(name).unwrap().build(FRAMES, 7).unwrap().into_concurrent(batching))
}

#[test]
fn policies_of_both_kinds_share_frames() {
    let pbm = ["pbm", "pbm(history=off)", "pbm-published(samples=6,bulk=3,frequency=max)"];
    let concurrent = ["clock", "clock2t", "random", "hyperbolic", "watt"].into_iter().chain(pbm);
    let sequential = ["lru", "arc", "car", "clock-pro", "leanevict", "s3-fifo", "sieve"];
    for name in concurrent.chain(sequential) {
        explore(SCHEDULES, move || shared(name, Batching::OFF));
    }
}

/// One frame, on which a claim is answered only after a hit was told to the policy.
struct ClaimAwaitsHit {
    word: AtomicU64,
    was_hit: Mutex<bool>,
    told: Condvar,
}

impl Frames for ClaimAwaitsHit {
    fn count(&self) -> u32 {
        1
    }

    fn word(&self, _frame: FrameId) -> &AtomicU64 {
        &self.word
    }

    fn evictable(&self, _frame: FrameId) -> Option<PageId> {
        Some(PageId::from_raw(0))
    }

    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.evictable(frame)
    }

    fn claim(&self, frame: FrameId, _page: PageId) -> Result<Claimed, Refusal> {
        let mut was_hit = self.was_hit.lock().unwrap();
        while !*was_hit {
            was_hit = self.told.wait(was_hit).unwrap();
        }
        Ok(Claimed::new(frame))
    }
}

/// Looks for a victim and hits its page at the same time.
fn hit_while_claiming(name: &'static str) {
    shuttle::check_random(
        move || {
            let policy = PolicySpec::parse(name).unwrap().build(1, 7).unwrap().into_concurrent(Batching::OFF);
            let frames = ClaimAwaitsHit { word: AtomicU64::new(0), was_hit: Mutex::new(false), told: Condvar::new() };
            let shared = Arc::new((policy, frames));
            let access = Access { page: PageId::from_raw(0), scan: None, write: false, at: 0 };
            shared.0.admit(&shared.1, FrameId(0), &access);
            let other = Arc::clone(&shared);
            let hit = thread::spawn(move || {
                let (policy, frames) = &*other;
                policy.hit(frames, FrameId(0), &access);
                *frames.was_hit.lock().unwrap() = true;
                frames.told.notify_one();
            });
            let (policy, frames) = &*shared;
            assert_eq!(policy.evict(frames, &access, &NoScans), Some(Claimed::new(FrameId(0))));
            hit.join().unwrap();
        },
        SCHEDULES,
    );
}

#[test]
fn a_hit_that_only_marks_its_frame_waits_for_no_victim() {
    for name in ["car", "clock-pro", "fifo", "leanevict", "s3-fifo", "sieve"] {
        hit_while_claiming(name);
    }
}

/// The counterpart: a hit that changes an order waits for the lock, and here forever.
#[test]
#[should_panic(expected = "deadlock")]
fn a_hit_that_changes_an_order_waits_for_the_victim() {
    hit_while_claiming("lru");
}

#[test]
fn queued_hits_meet_evictions_and_reused_frames() {
    for name in ["lru", "2q", "lirs", "arc", "lru-k", "lfu"] {
        explore(4 * SCHEDULES, move || shared(name, SHORT));
    }
}

/// A mistake that the exploration must find: a frame is used again that the policy believes to hold
/// another page.
#[test]
#[should_panic]
fn a_page_that_leaves_untold_is_caught() {
    explore_pool(SCHEDULES_FOR_MISTAKES, || SmallPool { hides_discards: true, ..SmallPool::new(shared("lru", SHORT)) });
}

/// A mistake that the exploration must find: the victim is looked at under the lock and claimed
/// after it, so that a refused one has left the order.
#[test]
#[should_panic]
fn a_claim_outside_the_lock_is_caught() {
    explore(SCHEDULES_FOR_MISTAKES, || PeekThenClaim(Mutex::new(Lru::new(FRAMES))));
}

struct PeekThenClaim(Mutex<Lru>);

/// Grants every claim and does none.
struct Peek<'a> {
    frames: &'a dyn Frames,
    peeked: Cell<Option<(FrameId, PageId)>>,
}

impl Frames for Peek<'_> {
    fn count(&self) -> u32 {
        self.frames.count()
    }

    fn word(&self, frame: FrameId) -> &AtomicU64 {
        self.frames.word(frame)
    }

    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        self.frames.evictable(frame)
    }

    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.frames.page(frame)
    }

    fn claim(&self, frame: FrameId, page: PageId) -> Result<Claimed, Refusal> {
        self.peeked.set(Some((frame, page)));
        Ok(Claimed::new(frame))
    }
}

impl ConcurrentPolicy for PeekThenClaim {
    fn hit_need(&self) -> HitNeed {
        HitNeed::Word
    }

    fn hit(&self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.0.lock().unwrap().hit(frame, access);
    }

    fn evict(&self, frames: &dyn Frames, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed> {
        let peek = Peek { frames, peeked: Cell::new(None) };
        let _ = self.0.lock().unwrap().evict(&peek, incoming, oracle);
        let (frame, page) = peek.peeked.get()?;
        frames.claim(frame, page).ok()
    }

    fn admit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.0.lock().unwrap().admit(frames, frame, access);
    }

    fn forget(&self, _frames: &dyn Frames, frame: FrameId, page: PageId) {
        self.0.lock().unwrap().forget(frame, page);
    }
}

/// A policy of either kind that is known by name only.
struct Boxed(Box<dyn ConcurrentPolicy>);

impl ConcurrentPolicy for Boxed {
    fn hit_need(&self) -> HitNeed {
        self.0.hit_need()
    }

    fn hit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.0.hit(frames, frame, access);
    }

    fn commit(&self, frames: &dyn Frames, queue: &mut HitQueue, wait: bool) {
        self.0.commit(frames, queue, wait);
    }

    fn evict(&self, frames: &dyn Frames, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed> {
        self.0.evict(frames, incoming, oracle)
    }

    fn admit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.0.admit(frames, frame, access);
    }

    fn forget(&self, frames: &dyn Frames, frame: FrameId, page: PageId) {
        self.0.forget(frames, frame, page);
    }
}
