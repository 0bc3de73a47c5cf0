//! What a pool learns from the uses of its pages, and what it makes of that: the switch `history`.
//!
//! Hazards are learned from uses outside scans ([`super::hazard`]), by the history of each page and
//! of those that left ([`super::ghosts`]). Uses by scans are counted where they read
//! ([`super::scan_frequency`]). Until enough was seen, what came first stays ([`super::warm_up`]).
//!
//! Concurrency: no lock. One thread at a time makes the costs anew, the others go on with the old
//! ones. What a race mixes up misjudges a page once.

use super::ghosts::{self, Ghosts};
use super::hazard::HazardTable;
use super::history::{History, PACKED_BITS};
use super::order::Order;
use super::scan_frequency::ScanFrequency;
use super::warm_up::{Front, WarmUp};
use crate::policy::{Access, Frames};
use crate::random::{Random, hash};
use crate::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::{FrameId, PageId, Tick};
use alloc::vec::Vec;
use core::cell::Cell;

/// Beside a page's packed history: it is hot, as long as the pool warms up.
const HOT: u32 = 1 << PACKED_BITS;
/// Frames and ghosts that an admission looks at to learn how long pages go unused.
const WATCHED_FRAMES: u32 = 16;
const WATCHED_GHOSTS: u32 = 8;
/// Requests after which the sums are halved: so many for each frame, but no fewer than the second.
/// Of 4 and more, large pools of traces whose habits change lose 1 to 6 points.
const MEMORY: u64 = 2;
const LEAST_MEMORY: u64 = 2000;
/// Requests to the first estimate. The pauses double from there to an eighth of the memory.
const FIRST_PAUSE: u64 = 16;
const LEAST_LAST_PAUSE: u64 = 256;

/// A use outside scans: what was known of the page before, and how long ago it was used.
#[derive(Clone, Copy, Debug)]
struct Reuse {
    history: History,
    age: u64,
}

/// What was learned, and what is remembered of pages.
///
/// Invariants: (I1) a resident page's word holds the time of its last use outside scans, or of its
/// last use if scans alone have used it, and `histories` its history. (I2) `busy` is true only
/// while some thread makes estimates.
#[derive(Debug)]
pub(super) struct Learned {
    /// By frame, packed, with [`HOT`].
    histories: Vec<AtomicU32>,
    ghosts: Ghosts,
    hazards: HazardTable,
    scans: ScanFrequency,
    warm_up: WarmUp,
    /// Frames in use.
    frames: AtomicU32,
    /// When a page came in last.
    last_admission: AtomicU64,
    /// Requests that were counted, misses and hits, and the misses alone.
    requests: AtomicU64,
    misses: AtomicU64,
    /// One hit in `2^this` counts for learning, as so many.
    thinning: AtomicU32,
    busy: AtomicBool,
    /// Requests at which the costs are made anew and the sums are halved, and the pause between
    /// estimates.
    next_estimate: AtomicU64,
    next_fade: AtomicU64,
    pause: AtomicU64,
}

impl Learned {
    /// For a pool of `frames` frames.
    pub(super) fn new(frames: u32) -> Self {
        Self {
            histories: (0..frames).map(|_| AtomicU32::new(History::Scanned.pack())).collect(),
            ghosts: Ghosts::for_frames(frames),
            hazards: HazardTable::new(frames),
            scans: ScanFrequency::new(frames),
            warm_up: WarmUp::new(frames),
            frames: AtomicU32::new(frames),
            last_admission: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            thinning: AtomicU32::new(0),
            busy: AtomicBool::new(false),
            next_estimate: AtomicU64::new(FIRST_PAUSE),
            next_fade: AtomicU64::new(0),
            pause: AtomicU64::new(FIRST_PAUSE),
        }
    }

    /// The bytes that it takes for each frame: a history, the ghosts and its share of the arrivals.
    pub(super) const BYTES_PER_FRAME: f64 = 4.0 + ghosts::BYTES_PER_FRAME as f64 + 0.16;

    /// The bytes that it takes beside.
    pub(super) fn bytes_apart(frames: u32) -> u32 {
        HazardTable::bytes(frames) + ScanFrequency::BYTES
    }

    pub(super) fn resize(&self, frames: u32) {
        self.frames.store(frames, Relaxed);
        self.ghosts.resize(frames);
        self.hazards.resize(frames);
        self.scans.resize(frames);
        self.warm_up.resize(frames);
    }

    #[inline]
    fn packed(&self, frame: FrameId) -> u32 {
        self.histories[frame.index()].load(Relaxed)
    }

    #[inline]
    pub(super) fn history(&self, frame: FrameId) -> History {
        History::unpack(self.packed(frame))
    }

    fn remember(&self, frame: FrameId, history: History, is_hot: bool) {
        let hot = if is_hot { HOT } else { 0 };
        self.histories[frame.index()].store(history.pack() | hot, Relaxed);
    }

    /// The page of `access` was found in `frame`.
    #[inline]
    pub(super) fn used(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        let (word, packed) = (frames.word(frame), self.packed(frame));
        let history = History::unpack(packed);
        if access.scan.is_some() {
            self.scans.used(access.page);
            if history == History::Scanned {
                word.store(access.at, Relaxed);
            }
            return;
        }
        let last = word.load(Relaxed);
        // Uses within a step of the clock are correlated references, and count as one.
        if access.at <= last {
            return;
        }
        word.store(access.at, Relaxed);
        let age = access.at - last;
        let seen = history != History::Scanned;
        let is_hot = packed & HOT != 0 || seen && self.warm_up.is_hot_after(last);
        self.remember(frame, history.used_after(age), is_hot);
        self.learn(access, Reuse { history, age });
    }

    /// Counts and learns from a hit, if this is one of those that are to count.
    fn learn(&self, access: &Access, Reuse { history, age }: Reuse) {
        let thinning = self.thinning.load(Relaxed);
        if hash(access.page.raw() ^ access.at.rotate_left(32)) & ((1 << thinning) - 1) == 0 {
            self.requests.fetch_add(1 << thinning, Relaxed);
            self.hazards.used(history, age, (1u64 << thinning) as f32);
        }
    }

    /// The page of `access` came into `frame`.
    pub(super) fn admitted(&self, frames: &dyn Frames, frame: FrameId, access: &Access, random: &mut Random) {
        if access.scan.is_some() {
            self.scans.used(access.page);
        }
        self.misses.fetch_add(1, Relaxed);
        let requests = self.requests.fetch_add(1, Relaxed);
        self.warm_up.had(requests, self.frames.load(Relaxed));
        self.watch(frames, access.at, random);
        self.keep_up(access.at);
        let (history, last, is_hot) = match (self.ghosts.take(access.page), access.scan) {
            (Some((history, last)), Some(_)) => (history, last, false),
            (Some((history, last)), None) => {
                let age = access.at.saturating_sub(last);
                self.hazards.used(history, age, 1.0);
                (history.used_after(age), access.at, self.warm_up.is_hot_after(last))
            }
            (None, Some(_)) => (History::Scanned, access.at, false),
            (None, None) => (History::Once, access.at, self.warm_up.has_room()),
        };
        frames.word(frame).store(last, Relaxed);
        self.remember(frame, history, is_hot);
        if !self.warm_up.is_over() {
            self.warm_up.came_in(frame, access.page, access.at);
        }
    }

    /// The page that was in `frame`, last used at `last`, was evicted with this history.
    pub(super) fn evicted(&self, page: PageId, history: History, last: Tick) {
        if history != History::Scanned {
            self.ghosts.insert(page, history, last);
        }
    }

    /// Learns from a few random frames and ghosts that time went by for pages like them.
    fn watch(&self, frames: &dyn Frames, at: Tick, random: &mut Random) {
        // Each admission accounts for the time since the one before, whichever thread made it.
        let passed = at.saturating_sub(self.last_admission.swap(at, Relaxed)) as f32;
        let count = frames.count();
        let share = passed * count as f32 / WATCHED_FRAMES as f32;
        for _ in 0..WATCHED_FRAMES {
            let frame = FrameId(random.below(count));
            if frames.page(frame).is_some() {
                let age = at.saturating_sub(frames.word(frame).load(Relaxed));
                self.hazards.unused(self.history(frame), age, share);
            }
        }
        let share = passed * self.ghosts.room() as f32 / WATCHED_GHOSTS as f32;
        for _ in 0..WATCHED_GHOSTS {
            if let Some((history, last)) = self.ghosts.any(random) {
                self.hazards.unused(history, at.saturating_sub(last), share);
            }
        }
    }

    /// Makes the costs anew when it is time.
    fn keep_up(&self, at: Tick) {
        let requests = self.requests.load(Relaxed);
        // Acquire and Release: who makes estimates sees the turns that the one before planned.
        if requests < self.next_estimate.load(Relaxed) || self.busy.swap(true, Acquire) {
            return;
        }
        let memory = (u64::from(self.frames.load(Relaxed)) * MEMORY).max(LEAST_MEMORY);
        if requests >= self.next_fade.load(Relaxed) {
            let misses = self.misses.swap(0, Relaxed).max(1);
            // At first there is nothing to fade, and too little was seen to tell how often pages
            // come in.
            if self.next_fade.swap(requests + memory, Relaxed) > 0 {
                self.hazards.fade();
                // Shared sums are to change about as often as pages come in: with a miss in 64
                // requests, every 16th hit counts.
                self.thinning.store((memory / misses / 4).max(1).ilog2().min(16), Relaxed);
            }
            self.scans.fade(at);
        }
        self.hazards.estimate();
        let pause = (self.pause.load(Relaxed) * 2).min((memory / 8).max(LEAST_LAST_PAUSE));
        self.pause.store(pause, Relaxed);
        self.next_estimate.store(requests + pause, Relaxed);
        self.busy.store(false, Release);
    }

    /// What an eviction at `at` goes by.
    pub(super) fn view(&self, frames: &dyn Frames, at: Tick) -> View<'_> {
        let warming = (!self.warm_up.is_over()).then(|| Warming {
            front: self.warm_up.front(frames, |frame| self.packed(frame) & HOT != 0),
            oldest_hot: Cell::new((Tick::MAX, None)),
        });
        View { learned: self, at, warming }
    }
}

/// What an eviction sees of the warm-up on its way.
struct Warming {
    front: Front,
    /// When the oldest hot page was used last, and its frame.
    oldest_hot: Cell<(Tick, Option<FrameId>)>,
}

/// What was learned, as an eviction sees it.
pub(super) struct View<'a> {
    learned: &'a Learned,
    at: Tick,
    /// `None` once the pool has warmed up.
    warming: Option<Warming>,
}

impl View<'_> {
    #[inline]
    pub(super) fn history(&self, frame: FrameId) -> History {
        self.learned.history(frame)
    }

    /// The frame that is to go next of those that came in last, as long as the pool warms up.
    pub(super) fn front(&self) -> Option<FrameId> {
        self.warming.as_ref()?.front.cold
    }

    /// When the page in `frame`, last used at `last`, may go by its history. `None` if its history
    /// expects no use.
    #[inline]
    pub(super) fn by_history(&self, frame: FrameId, last: Tick) -> Option<Order> {
        let packed = self.learned.packed(frame);
        let (history, age) = (History::unpack(packed), self.at.saturating_sub(last));
        if history != History::Scanned
            && let Some(warming) = &self.warming
        {
            let is_hot = packed & HOT != 0;
            if is_hot && last < warming.oldest_hot.get().0 {
                warming.oldest_hot.set((last, Some(frame)));
            }
            return Some(warming.front.order(frame, is_hot, last, age.max(1) as f32));
        }
        let cost = self.learned.hazards.cost(history, age);
        (cost < f32::INFINITY).then_some(Order::In(cost))
    }

    /// The order of a page of which neither scans nor its history expect anything, unused for so
    /// long.
    #[inline]
    pub(super) fn unexpected(&self, page: PageId, unused: f32) -> Order {
        Order::Nobody { expected: self.learned.scans.expected(page, unused, self.at) }
    }

    /// All candidates were looked at. If no page that was tried is to go, the oldest hot one is one
    /// too many: before it may be the victim.
    pub(super) fn looked(&self) {
        if let Some(Warming { front, oldest_hot }) = &self.warming
            && let (None, (last, Some(frame))) = (front.cold, oldest_hot.get())
        {
            self.learned.histories[frame.index()].fetch_and(!HOT, Relaxed);
            self.learned.warm_up.demoted(last);
        }
    }
}
