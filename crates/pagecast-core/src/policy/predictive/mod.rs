//! `pbm(frequency=auto)`: one estimate for every page, from running scans or from learned reuse.
//!
//! The frame goes whose page costs most to hold. For a page that a registered scan will read that is the time until it does
//! (Khalaji et al., PVLDB 18(13) 2025, section 3); for a page with a history of point uses what one of two estimates says; the
//! smaller of both if there are both, so that history never takes from a page what a registration gives it. Pages with neither go
//! before all others, by their last use and by how often scans read in their region ([`regions`]). Of pages that scans may want
//! at once, as in the window of an index scan, the least recently used goes first. Uses by registered scans make no history of a
//! page: the scan knew of them, and such a history would keep pages that no further scan wants (the authors' statistics lose 17
//! points of hit rate so).
//!
//! The two estimates: what pages with like histories turned out to cost ([`reuse`]), and that what came first had better
//! stay ([`steadfast`]). Two small shadow pools tell which of them misses less here ([`shadow`]), and the pool follows it.
//!
//! On scans alone the draws are those of `pbm(frequency=off)`, kept and ranked alike but for the order of pages that nobody wants, or
//! that are wanted at once.
//!
//! Uses of a page outside scans within a step of the coarse clock are one use ([`CoarseClock`](super::CoarseClock)).
//!
//! Beyond the paper, sampling is helped in three ways. The best candidates that were seen and not needed are kept for the next
//! eviction, so that good victims are found by looking now and then and not by luck each time: with 64 samples alone a
//! loop over more than the pool loses some points even with perfect knowledge. Frames are drawn evenly. And the pages that
//! came in last outside scans are always looked at, for they are the ones to give up in a loop.
//!
//! Suits points, loops, scans and mixes of them. Weak where the better estimate changes faster than the shadows can tell;
//! docs/prediction-results.md has the figures.
//!
//! Cost: a hit outside scans within a step of the clock is a read, another one two relaxed writes to words of the frame's own, and
//! as many shared ones as there are misses (hits that count for learning are drawn so); of the pages of the shadows, 1 in
//! 64 in a pool of 8,192 to 65,536 frames, a request there. A hit by a scan writes the time if only scans have used the page, and
//! seldom counts for its region. An eviction looks at `samples` frames, or a third of these where it meets pages of points
//! alone, at the arrivals and what is kept, and asks the oracle only about those that may be among the 17 dearest; an admission
//! looks at 16 frames and 8 ghosts. Bytes per frame: 4 for its history, 128 for 16 ghosts and a sixth of one for arrivals, beside
//! its word; for the tables 132 up to 1,024 frames and 17.5 KiB, for the shadows 296 up to 128 frames and 4.6 from 8,192 to
//! 65,536.
//!
//! Concurrency: no lock. What a race mixes up misjudges a page once, and every victim is settled by its claim. The costs are
//! made anew by one thread at a time, the others go on with the old ones.

mod candidates;
mod ghosts;
mod history;
mod logarithm;
mod ranking;
mod regions;
mod reuse;
mod shadow;
mod steadfast;

use crate::policy::{Access, Claimed, ConcurrentPolicy, Frames, HitNeed};
use crate::random::{Random, RandomSource, hash};
use crate::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::{FrameId, PageId, Tick, oracle::Oracle};
use ranking::{Judge, Ranking, Reuse, SHADOWED};
use regions::Regions;
use reuse::ReuseTable;
use shadow::Shadows;

/// Frames and ghosts that an admission looks at to learn how long pages go unused.
const WATCHED_FRAMES: u32 = 16;
const WATCHED_GHOSTS: u32 = 8;
/// Requests after which the sums are halved: so many for each frame, but no fewer than the second. Of 4 and more, large pools of
/// traces whose habits change lose 1 to 6 points.
const MEMORY: u64 = 2;
const LEAST_MEMORY: u64 = 2000;
/// Requests to the first estimate; the pauses double from there to an eighth of the memory.
const FIRST_PAUSE: u64 = 16;
const LEAST_LAST_PAUSE: u64 = 256;

/// Predictive replacement with learned reuse.
///
/// Invariant (I1): `busy` is true only while some thread makes estimates.
#[derive(Debug)]
pub struct Predictive {
    samples: AtomicU32,
    random: RandomSource,
    reuse: ReuseTable,
    regions: Regions,
    ranking: Ranking,
    shadows: Shadows,
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
    /// Requests at which the costs are made anew and the sums are halved, and the pause between estimates.
    next_estimate: AtomicU64,
    next_fade: AtomicU64,
    pause: AtomicU64,
}

impl Predictive {
    /// For a pool of `frames` frames; an eviction draws `samples` of them, by `seed`.
    pub fn new(frames: u32, samples: u32, seed: u64) -> Self {
        Self {
            samples: AtomicU32::new(samples.max(1)),
            random: RandomSource::new(seed),
            reuse: ReuseTable::new(frames),
            regions: Regions::new(frames),
            ranking: Ranking::new(frames, Random::new(seed).next() as u32),
            shadows: Shadows::new(frames),
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

    /// The bytes that it takes beside: for itself, the tables and the shadows.
    pub(super) fn bytes_apart(frames: u32) -> u32 {
        (4 << 10) + ReuseTable::bytes(frames) + Regions::BYTES + Shadows::bytes(frames)
    }

    /// Counts and learns from a use `age` ticks after the page's last one, if this is one of those that are to count.
    fn learn(&self, page: PageId, Reuse { history, age }: Reuse, at: Tick) {
        let thinning = self.thinning.load(Relaxed);
        if hash(page.raw() ^ at.rotate_left(32)) & ((1 << thinning) - 1) == 0 {
            self.requests.fetch_add(1 << thinning, Relaxed);
            self.reuse.used(history, age, (1u64 << thinning) as f32);
        }
    }

    /// Shows `access` to the shadows, and settles if they say so.
    fn show(&self, access: &Access, random: &mut Random) {
        if self.shadows.request(access, &self.reuse, random) {
            self.ranking.settle(access.at);
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
                self.reuse.unused(self.ranking.history(frame), age, share);
            }
        }
        let share = passed * self.ranking.ghosts.room() as f32 / WATCHED_GHOSTS as f32;
        for _ in 0..WATCHED_GHOSTS {
            if let Some((history, last)) = self.ranking.ghosts.any(random) {
                self.reuse.unused(history, at.saturating_sub(last), share);
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
            if self.next_fade.swap(requests + memory, Relaxed) > 0 {
                self.reuse.fade();
            }
            self.regions.fade(at);
            // Shared sums are to change about as often as pages come in: with a miss in 64 requests, every 16th hit counts.
            let misses = self.misses.swap(0, Relaxed).max(1);
            self.thinning.store((memory / misses / 4).max(1).ilog2().min(16), Relaxed);
        }
        self.reuse.estimate();
        let pause = (self.pause.load(Relaxed) * 2).min((memory / 8).max(LEAST_LAST_PAUSE));
        self.pause.store(pause, Relaxed);
        self.next_estimate.store(requests + pause, Relaxed);
        self.busy.store(false, Release);
    }
}

impl ConcurrentPolicy for Predictive {
    fn hit_need(&self) -> HitNeed {
        HitNeed::LaterThanWord
    }

    fn asks_oracle(&self) -> bool {
        true
    }

    #[inline]
    fn hit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        if access.scan.is_some() {
            self.regions.used(access.page);
            return self.ranking.scanned(frames, frame, access.at);
        }
        if access.at <= frames.word(frame).load(Relaxed) {
            return;
        }
        let (reuse, shadowed) = self.ranking.used(frames, frame, access.at);
        self.learn(access.page, reuse, access.at);
        if shadowed {
            self.show(access, &mut self.random.fork());
        }
    }

    #[inline]
    fn evict(&self, frames: &dyn Frames, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed> {
        let judge = Judge {
            reuse: &self.reuse,
            regions: Some(&self.regions),
            oracle,
            estimate: self.shadows.better(),
            samples: self.samples.load(Relaxed),
        };
        self.ranking.evict(frames, incoming, judge, &mut self.random.fork())
    }

    #[inline]
    fn admit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        if access.scan.is_some() {
            self.regions.used(access.page);
        }
        let mut random = self.random.fork();
        self.misses.fetch_add(1, Relaxed);
        self.requests.fetch_add(1, Relaxed);
        self.watch(frames, access.at, &mut random);
        self.keep_up(access.at);
        let shadowed = self.shadows.have(access.page);
        let reuse = self.ranking.admitted(frames, frame, access, if shadowed { SHADOWED } else { 0 });
        if let Some(Reuse { history, age }) = reuse {
            self.reuse.used(history, age, 1.0);
        }
        if shadowed && access.scan.is_none() {
            self.show(access, &mut random);
        }
    }

    fn forget(&self, _frames: &dyn Frames, _frame: FrameId, _page: PageId) {}

    fn set_samples(&self, samples: u32) -> bool {
        self.samples.store(samples.max(1), Relaxed);
        true
    }

    fn resize(&self, frames: u32) {
        self.frames.store(frames, Relaxed);
        self.ranking.resize(frames);
        self.shadows.resize(frames);
        self.reuse.resize(frames);
        self.regions.resize(frames);
    }
}
