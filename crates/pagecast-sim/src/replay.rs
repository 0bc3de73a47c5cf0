//! The replay: page requests, one after the other, through a policy and its page table.
//!
//! One loop, compiled for each policy and each kind of page table, so that a hit costs no virtual
//! call. The policies are the pool's own. Nothing here takes time or reads a page; what a miss
//! costs is the caller's affair ([`Observer`]).

mod sessions;

pub use sessions::replay_in_sessions;

use core::cell::Cell;
use core::sync::atomic::AtomicU64;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pagecast_core::oracle::{NoScans, Oracle};
use pagecast_core::policy::{
    Access, Belady, Claimed, CoarseClock, ConcurrentPolicy, Frames, HitNeed, NextUses, PolicyError, PolicySpec,
    Refusal, SequentialPolicy, Visitor,
};
use pagecast_core::{FrameId, PageId};

/// What a replay counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Page requests, each of which is a hit or a miss. The cache starts empty.
    pub requests: u64,
    /// Requests that did not find their page.
    pub misses: u64,
    /// Requests that write.
    pub writes: u64,
    /// Evictions of a page that was written since it came in.
    pub write_backs: u64,
}

/// Is told what a replay's pool does.
pub trait Observer {
    /// `access` did not find its page, which has not come in yet.
    fn missed(&mut self, access: &Access);

    /// The pool gave up `page` for the page of `incoming`. If it is dirty, it was written since it
    /// came in.
    fn gave_up(&mut self, page: PageId, is_dirty: bool, incoming: &Access);
}

/// Who is told of misses alone.
struct Misses<F>(F);

impl<F: FnMut(&Access)> Observer for Misses<F> {
    #[inline]
    fn missed(&mut self, access: &Access) {
        self.0(access);
    }

    #[inline]
    fn gave_up(&mut self, _page: PageId, _is_dirty: bool, _incoming: &Access) {}
}

/// How a trace numbers its pages, and with it which page table is fastest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageIds {
    /// Any ids: a hash table.
    Sparse,
    /// Packed forms below this number: an array of 4 bytes each.
    Dense(u32),
}

/// Replays `requests` through the policy of `spec` in a pool of `frames` frames.
///
/// `oracle` is asked what policies want to know of running scans; [`NoScans`] for a trace without
/// any. An iterator that reports progress to the predictor between two requests is a way to keep it
/// informed. `on_miss` sees every request that misses, before its page comes in.
///
/// ```
/// use pagecast_core::{PageId, oracle::NoScans, policy::PolicySpec};
/// use pagecast_sim::replay::{PageIds, accesses, replay};
///
/// let pages = [1, 2, 3, 1, 4, 1, 2].map(PageId::from_raw);
/// let lru = PolicySpec::parse("lru")?;
/// let counts = replay(accesses(&pages), PageIds::Dense(5), &lru, 3, 42, &NoScans, |_| ())?;
/// assert_eq!((counts.requests, counts.misses), (7, 5));
/// # Ok::<(), pagecast_core::policy::PolicyError>(())
/// ```
///
/// # Errors
///
/// [`PolicyError::NoFrames`] for no frames, [`PolicyError::NeedsTrace`] for `opt`: see [`belady`].
pub fn replay(
    requests: impl IntoIterator<Item = Access>,
    ids: PageIds,
    spec: &PolicySpec,
    frames: u32,
    seed: u64,
    oracle: &dyn Oracle,
    on_miss: impl FnMut(&Access),
) -> Result<Counts, PolicyError> {
    replay_observed(requests, ids, spec, frames, seed, oracle, Misses(on_miss))
}

/// As [`replay`], and `observer` is told of evictions, too.
///
/// # Errors
///
/// As [`replay`].
pub fn replay_observed(
    requests: impl IntoIterator<Item = Access>,
    ids: PageIds,
    spec: &PolicySpec,
    frames: u32,
    seed: u64,
    oracle: &dyn Oracle,
    observer: impl Observer,
) -> Result<Counts, PolicyError> {
    spec.visit(frames, seed, Replay { requests, ids, frames, oracle, observer })
}

/// Replays `requests` through Belady's MIN; `next` was computed from the same requests in the same
/// order.
///
/// # Errors
///
/// [`PolicyError::NoFrames`] for no frames.
pub fn belady(
    requests: impl IntoIterator<Item = Access>,
    next: NextUses,
    ids: PageIds,
    frames: u32,
    on_miss: impl FnMut(&Access),
) -> Result<Counts, PolicyError> {
    belady_observed(requests, next, ids, frames, Misses(on_miss))
}

/// As [`belady`], and `observer` is told of evictions, too.
///
/// # Errors
///
/// As [`belady`].
pub fn belady_observed(
    requests: impl IntoIterator<Item = Access>,
    next: NextUses,
    ids: PageIds,
    frames: u32,
    observer: impl Observer,
) -> Result<Counts, PolicyError> {
    if frames == 0 {
        return Err(PolicyError::NoFrames);
    }
    Ok(Replay { requests, ids, frames, oracle: &NoScans, observer }.sequential(Belady::new(frames, next)))
}

/// As [`replay`], through a policy that is not in the catalog, built for `frames` frames.
///
/// # Errors
///
/// [`PolicyError::NoFrames`] for no frames.
pub fn replay_own(
    requests: impl IntoIterator<Item = Access>,
    ids: PageIds,
    policy: Box<dyn SequentialPolicy>,
    frames: u32,
    oracle: &dyn Oracle,
    on_miss: impl FnMut(&Access),
) -> Result<Counts, PolicyError> {
    if frames == 0 {
        return Err(PolicyError::NoFrames);
    }
    Ok(Replay { requests, ids, frames, oracle, observer: Misses(on_miss) }.sequential(policy))
}

/// The misses of Belady's MIN on `pages`, the fewest that any policy can have; `on_miss` sees each.
///
/// # Errors
///
/// [`PolicyError::NoFrames`] for no frames.
pub fn belady_misses(pages: &[PageId], frames: u32, on_miss: impl FnMut(&Access)) -> Result<u64, PolicyError> {
    Ok(belady(accesses(pages), NextUses::of(pages), PageIds::Sparse, frames, on_miss)?.misses)
}

/// Reads of `pages` in their order, without scans; the time is the request's index.
pub fn accesses(pages: &[PageId]) -> impl Iterator<Item = Access> {
    pages.iter().enumerate().map(|(at, &page)| Access { page, scan: None, write: false, at: at as u64 })
}

/// A replay that waits to be told its policy.
struct Replay<'a, I, F> {
    requests: I,
    ids: PageIds,
    frames: u32,
    oracle: &'a dyn Oracle,
    observer: F,
}

impl<I: IntoIterator<Item = Access>, F: Observer> Replay<'_, I, F> {
    fn run(self, driver: impl Driver<MemoryFrames>) -> Counts {
        let Self { requests, ids, frames, oracle, observer } = self;
        match ids {
            PageIds::Sparse => {
                let table: SparseTable = HashMap::with_capacity_and_hasher(frames as usize, FixedState::default());
                run(requests, table, frames, driver, oracle, observer)
            }
            PageIds::Dense(pages) => run(requests, DenseTable::new(pages), frames, driver, oracle, observer),
        }
    }
}

impl<I: IntoIterator<Item = Access>, F: Observer> Visitor for Replay<'_, I, F> {
    type Output = Counts;

    fn concurrent<P: ConcurrentPolicy + 'static>(self, policy: P) -> Counts {
        let driver = Concurrent::new(policy, self.frames);
        self.run(driver)
    }

    fn sequential<P: SequentialPolicy + 'static>(self, policy: P) -> Counts {
        self.run(Sequential(policy))
    }
}

/// The loop.
fn run(
    requests: impl IntoIterator<Item = Access>,
    mut table: impl PageTable,
    frames: u32,
    mut driver: impl Driver<MemoryFrames>,
    oracle: &dyn Oracle,
    mut observer: impl Observer,
) -> Counts {
    let mut counts = Counts::default();
    let mut pool = MemoryFrames::new(frames);
    let mut dirty = FrameSet::new(frames);
    for access in requests {
        counts.requests += 1;
        let frame = if let Some(frame) = table.find(access.page) {
            driver.hit(&pool, frame, &access);
            frame
        } else {
            counts.misses += 1;
            observer.missed(&access);
            let frame = pool.free_frame().unwrap_or_else(|| {
                let victim = driver.evict(&pool, &access, oracle);
                let frame = victim.expect("a policy that is granted every claim finds a victim in a full pool").frame();
                let was_dirty = dirty.take(frame);
                table.remove(pool.claimed.get());
                counts.write_backs += u64::from(was_dirty);
                observer.gave_up(pool.claimed.get(), was_dirty, &access);
                frame
            });
            table.insert(access.page, frame);
            pool.fill(frame, access.page);
            driver.admit(&pool, frame, &access);
            frame
        };
        if access.write {
            counts.writes += 1;
            dirty.insert(frame);
        }
    }
    counts
}

/// A bit a frame: small enough to stay in the processor's cache, unlike a flag beside each page.
struct FrameSet(Vec<u64>);

impl FrameSet {
    fn new(frames: u32) -> Self {
        Self(vec![0; frames.div_ceil(64) as usize])
    }

    #[inline]
    fn insert(&mut self, frame: FrameId) {
        self.0[frame.index() / 64] |= 1 << (frame.index() % 64);
    }

    /// Takes `frame` out; whether it was in.
    #[inline]
    fn take(&mut self, frame: FrameId) -> bool {
        let word = &mut self.0[frame.index() / 64];
        let bit = 1 << (frame.index() % 64);
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }
}

/// The two kinds of policy as a loop over frames `F` calls them.
pub(crate) trait Driver<F> {
    fn hit(&mut self, frames: &F, frame: FrameId, access: &Access);
    fn evict(&mut self, frames: &F, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed>;
    fn admit(&mut self, frames: &F, frame: FrameId, access: &Access);
}

pub(crate) struct Sequential<P>(pub(crate) P);

impl<P: SequentialPolicy, F: Frames> Driver<F> for Sequential<P> {
    #[inline]
    fn hit(&mut self, frames: &F, frame: FrameId, access: &Access) {
        if !self.0.hit_need().is_met_by(frames.word(frame)) {
            self.0.hit(frame, access);
        }
    }

    #[inline]
    fn evict(&mut self, frames: &F, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed> {
        self.0.evict(frames, incoming, oracle)
    }

    #[inline]
    fn admit(&mut self, frames: &F, frame: FrameId, access: &Access) {
        self.0.admit(frames, frame, access);
    }
}

pub(crate) struct Concurrent<P> {
    policy: P,
    /// For a policy that counts uses within a step as one.
    clock: Option<CoarseClock>,
}

impl<P: ConcurrentPolicy> Concurrent<P> {
    pub(crate) fn new(policy: P, frames: u32) -> Self {
        let clock = (policy.hit_need() == HitNeed::LaterThanWord).then(|| CoarseClock::new(frames));
        Self { policy, clock }
    }
}

impl<P: ConcurrentPolicy, F: Frames> Driver<F> for Concurrent<P> {
    #[inline]
    fn hit(&mut self, frames: &F, frame: FrameId, access: &Access) {
        let at = self.clock.as_ref().map_or(access.at, |clock| clock.at(access.at));
        self.policy.hit(frames, frame, &Access { at, ..*access });
    }

    #[inline]
    fn evict(&mut self, frames: &F, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed> {
        self.policy.evict(frames, incoming, oracle)
    }

    #[inline]
    fn admit(&mut self, frames: &F, frame: FrameId, access: &Access) {
        self.policy.admit(frames, frame, access);
        if let Some(clock) = &self.clock {
            clock.admitted(access.at);
        }
    }
}

/// The frames of a replay, without pages' contents. Nobody but the replay holds a frame, so every
/// claim is granted.
struct MemoryFrames {
    /// By frame; its length is the number of frames that were ever used, and they stay in use.
    resident: Vec<Resident>,
    count: u32,
    /// The page that was claimed last: the policy names it, so that it need not be fetched from its
    /// frame's place.
    claimed: Cell<PageId>,
}

/// A page in a frame, and the policy's word.
struct Resident {
    page: PageId,
    word: AtomicU64,
}

impl MemoryFrames {
    fn new(count: u32) -> Self {
        Self { resident: Vec::new(), count, claimed: Cell::new(PageId::from_raw(0)) }
    }

    fn free_frame(&self) -> Option<FrameId> {
        let next = self.resident.len() as u32;
        (next < self.count).then_some(FrameId(next))
    }

    /// Puts `page` in `frame`, which was claimed or is the next free one.
    fn fill(&mut self, frame: FrameId, page: PageId) {
        let resident = Resident { page, word: AtomicU64::new(0) };
        match self.resident.get_mut(frame.index()) {
            Some(slot) => *slot = resident,
            None => self.resident.push(resident),
        }
    }
}

impl Frames for MemoryFrames {
    fn count(&self) -> u32 {
        self.count
    }

    #[inline]
    fn word(&self, frame: FrameId) -> &AtomicU64 {
        &self.resident[frame.index()].word
    }

    #[inline]
    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        self.resident.get(frame.index()).map(|resident| resident.page)
    }

    #[inline]
    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.evictable(frame)
    }

    #[inline]
    fn claim(&self, frame: FrameId, page: PageId) -> Result<Claimed, Refusal> {
        debug_assert_eq!(self.evictable(frame), Some(page), "a proposal names the page that is in the frame");
        self.claimed.set(page);
        Ok(Claimed::new(frame))
    }
}

/// Which frame holds a page.
trait PageTable {
    fn find(&self, page: PageId) -> Option<FrameId>;
    fn insert(&mut self, page: PageId, frame: FrameId);
    fn remove(&mut self, page: PageId);
}

type SparseTable = HashMap<PageId, FrameId, FixedState>;

impl PageTable for SparseTable {
    #[inline]
    fn find(&self, page: PageId) -> Option<FrameId> {
        self.get(&page).copied()
    }

    fn insert(&mut self, page: PageId, frame: FrameId) {
        HashMap::insert(self, page, frame);
    }

    fn remove(&mut self, page: PageId) {
        HashMap::remove(self, &page);
    }
}

/// Frames by page id.
struct DenseTable(Vec<u32>);

/// In [`DenseTable`]: the page is in no frame.
const ABSENT: u32 = u32::MAX;

impl DenseTable {
    fn new(pages: u32) -> Self {
        Self(vec![ABSENT; pages as usize])
    }
}

impl PageTable for DenseTable {
    #[inline]
    fn find(&self, page: PageId) -> Option<FrameId> {
        let frame = self.0[page.raw() as usize];
        (frame != ABSENT).then_some(FrameId(frame))
    }

    #[inline]
    fn insert(&mut self, page: PageId, frame: FrameId) {
        self.0[page.raw() as usize] = frame.0;
    }

    #[inline]
    fn remove(&mut self, page: PageId) {
        self.0[page.raw() as usize] = ABSENT;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn writes_and_write_backs_are_counted() {
        let request = |at, page, write| Access { page: PageId::from_raw(page), scan: None, write, at };
        // Page 1 is written twice and evicted once, page 2 is clean, page 3 is dirty and stays.
        let requests = [(1, true), (1, true), (2, false), (3, true), (4, false), (3, false)];
        let requests = requests.into_iter().zip(0..).map(|((page, write), at)| request(at, page, write));
        let lru = PolicySpec::parse("lru").unwrap();
        let counts = replay(requests, PageIds::Dense(5), &lru, 2, 1, &NoScans, |_| ()).unwrap();
        assert_eq!(counts, Counts { requests: 6, misses: 4, writes: 3, write_backs: 1 });
    }

    #[test]
    fn the_page_table_makes_no_difference() {
        let pages: Vec<PageId> = (0..5000u64).map(|i| PageId::from_raw(i * i % 251)).collect();
        for name in ["lru", "clock", "random"] {
            let spec = PolicySpec::parse(name).unwrap();
            let run = |ids| replay(accesses(&pages), ids, &spec, 60, 7, &NoScans, |_| ()).unwrap();
            assert_eq!(run(PageIds::Sparse), run(PageIds::Dense(251)), "{name}");
        }
        let misses = belady_misses(&pages, 60, |_| ()).unwrap();
        let numbers: Vec<u32> = pages.iter().map(|page| page.block()).collect();
        let dense = NextUses::of_dense(&numbers, 251);
        assert_eq!(belady(accesses(&pages), dense, PageIds::Dense(251), 60, |_| ()).unwrap().misses, misses);
    }

    #[test]
    fn every_miss_is_shown_once() {
        let pages: Vec<PageId> = (0..100).map(|i| PageId::from_raw(i % 10)).collect();
        let mut seen = 0;
        let misses = belady_misses(&pages, 4, |_| seen += 1).unwrap();
        assert_eq!(seen, misses);
        assert_eq!(belady_misses(&pages, 0, |_| ()), Err(PolicyError::NoFrames));
    }
}
