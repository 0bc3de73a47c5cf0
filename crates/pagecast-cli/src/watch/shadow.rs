//! What a clock of the same size would have read for the same requests: the simulator's replay, fed
//! by the pool while it works.
//!
//! Of a pool of more than [`MOST_FRAMES`] frames it follows a sample: pages are chosen by a hash of
//! their name, and the clock has as much smaller a number of frames (Waldspurger et al., "Efficient
//! MRC Construction with SHARDS", FAST 2015, §3). What the sample misses, by its bytes, stands for
//! all.
//!
//! Cost: a counter for each request; for those in the sample a lock, 16 bytes on their way, and one
//! step of the replay on a thread of its own. 48 bytes for each of the clock's frames, and 4 MiB
//! for requests at most.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, mpsc};

use anyhow::Context;
use pagecast::{PageId, Pool, Recorder};
use pagecast_core::oracle::NoScans;
use pagecast_core::policy::{Access, PolicySpec};
use pagecast_sim::replay::{PageIds, replay};
use parking_lot::Mutex;

/// The clock: that of the simulator, with its defaults.
const CLOCK: &str = "clock";
/// Frames of the clock, at most.
const MOST_FRAMES: u32 = 1 << 14;
/// Requests that go to the thread together.
const TOGETHER: usize = 256;
/// Lots of them that may wait for it. What comes when it is that far behind is left out, and what
/// the clock would have read of it is estimated.
const BEHIND: usize = 1024;

/// A clock beside a pool. It follows the pool's requests from [`start`](Self::start) until the pool
/// is gone.
pub(crate) struct Shadow {
    /// Who else hears of each request.
    next: Option<Arc<dyn Recorder>>,
    feed: OnceLock<Feed>,
}

struct Feed {
    /// The part of all pages that is in the sample, of 1.
    sampled: f64,
    /// Bytes that all requests asked for.
    requested: AtomicU64,
    waiting: Mutex<Waiting>,
    seen: Arc<Seen>,
    /// Bytes that the pool had read before.
    read_before: u64,
}

/// A page that was asked for, with its bytes.
type Request = (PageId, u32);

struct Waiting {
    requests: Vec<Request>,
    replay: mpsc::SyncSender<Vec<Request>>,
}

/// What the replay has come to, in bytes.
#[derive(Default)]
struct Seen {
    requested: AtomicU64,
    missed: AtomicU64,
}

/// What a clock would have read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Compared {
    /// Bytes that the clock would have read so far.
    pub(crate) clock_bytes: u64,
    /// Bytes that the pool has read meanwhile, without what it read between the pages that were
    /// asked for.
    pub(crate) pool_bytes: u64,
    /// The part of all pages that the clock has followed, of 1.
    pub(crate) sampled: f64,
}

impl Shadow {
    pub(crate) fn new(next: Option<Arc<dyn Recorder>>) -> Arc<Self> {
        Arc::new(Self { next, feed: OnceLock::new() })
    }

    /// Begins to follow the pool that this was made the recorder of.
    pub(crate) fn start(&self, pool: &Pool) -> anyhow::Result<()> {
        self.follow(pool.frames(), read(pool), MOST_FRAMES)
    }

    fn follow(&self, frames: u32, read_before: u64, most_frames: u32) -> anyhow::Result<()> {
        let sampled = (f64::from(most_frames) / f64::from(frames.max(1))).min(1.0);
        let frames = ((f64::from(frames) * sampled).round() as u32).max(1);
        let clock = PolicySpec::parse(CLOCK)?;
        let (replay, requests) = mpsc::sync_channel(BEHIND);
        let seen = Arc::<Seen>::default();
        let feed = Feed {
            sampled,
            requested: AtomicU64::new(0),
            waiting: Mutex::new(Waiting { requests: Vec::with_capacity(TOGETHER), replay }),
            seen: Arc::clone(&seen),
            read_before,
        };
        let thread = std::thread::Builder::new().name("pagecast-shadow".to_owned());
        // It ends with the last request, when this is dropped.
        thread.spawn(move || seen.run(requests, &clock, frames)).context("no thread for the clock beside the pool")?;
        let _ = self.feed.set(feed);
        Ok(())
    }

    /// How the pool stands beside the clock.
    pub(crate) fn compare(&self, pool: &Pool) -> Option<Compared> {
        let feed = self.feed.get()?;
        let pool_bytes = read(pool).saturating_sub(feed.read_before);
        Some(Compared { clock_bytes: feed.clock_bytes(), pool_bytes, sampled: feed.sampled })
    }
}

/// Bytes that a pool has read for pages.
fn read(pool: &Pool) -> u64 {
    let stats = pool.stats();
    stats.bytes_read.saturating_sub(stats.gap_bytes)
}

impl Recorder for Shadow {
    fn request(&self, page: PageId, bytes: u32) {
        if let Some(next) = &self.next {
            next.request(page, bytes);
        }
        if let Some(feed) = self.feed.get() {
            feed.requested.fetch_add(u64::from(bytes), Relaxed);
            if place(page) < feed.sampled {
                feed.put((page, bytes));
            }
        }
    }
}

/// Where a page stands among all, from 0 to 1: the same at every request, and no neighbours
/// together (the mixing of splitmix64).
fn place(page: PageId) -> f64 {
    let mut mixed = page.raw().wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

impl Feed {
    fn put(&self, request: Request) {
        let mut waiting = self.waiting.lock();
        waiting.requests.push(request);
        if waiting.requests.len() >= TOGETHER {
            waiting.send();
        }
    }

    /// What the clock would have read for all requests.
    fn clock_bytes(&self) -> u64 {
        self.waiting.lock().send();
        self.seen.of(self.requested.load(Relaxed))
    }
}

impl Waiting {
    fn send(&mut self) {
        if !self.requests.is_empty() {
            let requests = std::mem::replace(&mut self.requests, Vec::with_capacity(TOGETHER));
            // The thread takes them as long as this is there, unless it is too far behind.
            let _ = self.replay.try_send(requests);
        }
    }
}

impl Seen {
    /// What the clock would have read of requests for so many bytes.
    fn of(&self, all: u64) -> u64 {
        let (requested, missed) = (self.requested.load(Relaxed), self.missed.load(Relaxed));
        match requested {
            0 => 0,
            _ if requested == all => missed,
            _ => (missed as f64 / requested as f64 * all as f64) as u64,
        }
    }

    fn run(&self, requests: mpsc::Receiver<Vec<Request>>, clock: &PolicySpec, frames: u32) {
        let now = Cell::new(0);
        let accesses = requests.into_iter().flatten().zip(0..).map(|((page, bytes), at)| {
            now.set(u64::from(bytes));
            self.requested.fetch_add(u64::from(bytes), Relaxed);
            Access { page, scan: None, write: false, at }
        });
        let missed = |_: &Access| _ = self.missed.fetch_add(now.get(), Relaxed);
        // Frames there are, and a clock needs no trace: nothing else is an error.
        let _ = replay(accesses, PageIds::Sparse, clock, frames, 1, &NoScans, missed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pagecast::PoolOptions;
    use pagecast::storage::{Device, MemoryFiles};
    use pagecast_sim::simulation::{Interleaving, simulate};
    use pagecast_sim::trace::{Format, Trace, read_from};

    const PAGE: u32 = 64 << 10;

    /// Scans that begin anywhere in 3,000 pages, and pages that are asked for again and again.
    fn requests(count: usize) -> Vec<u64> {
        let (mut random, mut pages) = (1u64, Vec::new());
        let mut below = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        while pages.len() < count {
            let first = below(3000);
            pages.extend((first..first + below(400)).map(|page| page % 3000));
            for _ in 0..100 {
                let most = 1 + below(300);
                pages.push(below(most));
            }
        }
        pages.truncate(count);
        pages
    }

    /// What a shadow comes to when all that it was told is done.
    fn outcome(shadow: Arc<Shadow>) -> u64 {
        let feed = shadow.feed.get().unwrap();
        feed.clock_bytes();
        let (seen, all) = (Arc::clone(&feed.seen), feed.requested.load(Relaxed));
        drop(shadow);
        // Its thread has ended when nobody else holds this.
        while Arc::strong_count(&seen) > 1 {
            std::thread::yield_now();
        }
        seen.of(all)
    }

    /// Bytes that a shadow of `frames` frames comes to, of which it has at most so many.
    fn shadow(requests: &[u64], frames: u32, most_frames: u32) -> u64 {
        let shadow = Shadow::new(None);
        shadow.follow(frames, 0, most_frames).unwrap();
        requests.iter().for_each(|&page| shadow.request(PageId::from_raw(page), PAGE));
        outcome(shadow)
    }

    fn simulated(requests: &[u64], frames: u32) -> u64 {
        let text = requests.iter().map(|page| format!("{page}\n")).collect::<String>();
        let text = std::io::Cursor::new(text.into_bytes());
        let mut source = read_from(text, "requests".as_ref(), &Format::Text).unwrap();
        let trace = Trace::load("requests", source.as_mut()).unwrap();
        let outcome = simulate(&trace, &CLOCK.parse().unwrap(), frames, 7, Interleaving::Fixed).unwrap();
        outcome.counts.misses * u64::from(PAGE)
    }

    #[test]
    fn without_a_sample_it_is_the_simulators_clock() {
        let requests = requests(50_000);
        for frames in [1, 100, 1000, 2500, 5000] {
            assert_eq!(shadow(&requests, frames, MOST_FRAMES), simulated(&requests, frames), "{frames}");
        }
    }

    #[test]
    fn a_sample_stands_for_all() {
        let requests = requests(200_000);
        for frames in [500, 1500, 2500] {
            let (sampled, all) = (shadow(&requests, frames, frames / 4), simulated(&requests, frames));
            let off = (sampled as f64 / all as f64 - 1.0).abs();
            assert!(off < 0.1, "{frames}: {sampled} of {all}");
        }
    }

    #[test]
    fn a_pool_under_a_clock_saves_nothing() {
        let files = MemoryFiles::new();
        files.write("table", vec![7; 3000 * PAGE as usize]);
        let shadow = Shadow::new(None);
        let options = PoolOptions::default().memory(40 << 20).device(Device::new(files, None));
        let pool = Pool::new(options.policy(CLOCK.parse().unwrap()).recorder(shadow.clone())).unwrap();
        let table = pool.open("table".as_ref()).unwrap();
        shadow.start(&pool).unwrap();
        for page in requests(20_000) {
            let begin = page * u64::from(PAGE);
            table.read_blocking(std::slice::from_ref(&(begin..begin + 10)), None).unwrap();
        }
        let Compared { pool_bytes, sampled, .. } = shadow.compare(&pool).unwrap();
        assert!(pool_bytes > 0 && pool.stats().hits > 0);
        drop((table, pool));
        assert_eq!((sampled, outcome(shadow)), (1.0, pool_bytes));
    }
}
