//! What a victim costs: a policy among running scans, over frames that are always full.
//!
//! The frames are plain memory and nobody else uses them, so that the figure is the policy's and
//! the predictor's alone.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use pagecast_core::oracle::Oracle;
use pagecast_core::policy::{Access, Claimed, ConcurrentPolicy, Frames, Policy, PolicySpec, Refusal};
use pagecast_core::predictor::{Pages, Part, Predictor, PredictorConfig, Registry, Run, ScanKind, ScanSpec};
use pagecast_core::random::Random;
use pagecast_core::{FrameId, PageId, RelationId};

/// Frames of the pool that evicts.
pub(crate) const FRAMES: u32 = 16_384;
/// Blocks of the relation: the pool holds an eighth of it.
const BLOCKS: u32 = 8 * FRAMES;
const ROWS_PER_BLOCK: u64 = 1_000;
const RELATION: RelationId = RelationId(1);
/// Row groups per scan, each of which registers one run for each of `COLUMNS` column chunks.
const ROW_GROUPS: u32 = 32;
const COLUMNS: u32 = 7;

/// Scans that stand at random places of ranges of 30 % of the relation, and have reported twice.
pub(crate) fn running_scans(scans: u32) -> Predictor<Arc<[AtomicU64]>> {
    let config = PredictorConfig {
        scans,
        parts: scans,
        runs: scans * ROW_GROUPS * COLUMNS,
        cells: 4096,
        ..PredictorConfig::EMPTY
    };
    let memory: Arc<[AtomicU64]> = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
    let mut registry = Registry::format(memory, config).expect("the memory has the size that the config asks for");
    let predictor = registry.predictor();
    let mut random = Random::new(7);
    for _ in 0..scans {
        let length = BLOCKS * 3 / 10;
        let first = random.below(BLOCKS - length);
        let chunk = length / (ROW_GROUPS * COLUMNS);
        let span = u64::from(chunk * COLUMNS) * ROWS_PER_BLOCK;
        let runs: Vec<Run> = (0..ROW_GROUPS * COLUMNS)
            .map(|i| Run { first: first + i * chunk, blocks: chunk, position: u64::from(i / COLUMNS) * span, span })
            .collect();
        let axis = u64::from(ROW_GROUPS) * span;
        let parts = [Part { relation: RELATION, pages: Pages::Runs(&runs) }];
        let spec = ScanSpec { kind: ScanKind(0), length: axis, parts: &parts };
        let scan = registry.register(&spec, 0).expect("the registry was made for these scans");
        let position = random.unit() * axis as f64;
        predictor.report(scan, (position * 0.9) as u64, 1_000_000 + u64::from(random.below(1_000_000)));
        predictor.report(scan, position as u64, 3_000_000);
    }
    predictor
}

/// A policy over frames that are always full.
pub(crate) struct Bench {
    policy: Box<dyn ConcurrentPolicy>,
    frames: FullFrames,
}

impl Bench {
    /// The policy of this name and parameters, which must work through `&self`.
    pub(crate) fn new(policy: &str) -> Self {
        let spec = PolicySpec::parse(policy).expect("the name of a policy");
        let Ok(Policy::Concurrent(policy)) = spec.build(FRAMES, 42) else {
            unreachable!("both policies work through &self");
        };
        let bench = Self { policy, frames: FullFrames::new() };
        for frame in 0..FRAMES {
            bench.fill(FrameId(frame), frame);
        }
        bench
    }

    fn fill(&self, frame: FrameId, block: u32) {
        let page = PageId::new(RELATION, block);
        self.frames.lines[frame.index()].page.store(page.raw(), Relaxed);
        self.frames.lines[frame.index()].word.store(0, Relaxed);
        self.policy.admit(&self.frames, frame, &access(page));
    }

    /// Nanoseconds per eviction with the admission that follows, over `count` of them, a multiple
    /// of 100. As many random hits as evictions, outside the time, so that clock's usage counts are
    /// not all alike.
    pub(crate) fn evictions(&self, count: u32, oracle: &dyn Oracle) -> f64 {
        let mut random = Random::new(3);
        let mut spent = 0;
        for _ in 0..count / 100 {
            for _ in 0..100 {
                let frame = FrameId(random.below(FRAMES));
                let page = PageId::from_raw(self.frames.lines[frame.index()].page.load(Relaxed));
                self.policy.hit(&self.frames, frame, &access(page));
            }
            let blocks: [u32; 100] = std::array::from_fn(|_| random.below(BLOCKS));
            let start = Instant::now();
            for block in blocks {
                let incoming = access(PageId::new(RELATION, block));
                let victim = self.policy.evict(&self.frames, &incoming, oracle);
                let victim = black_box(victim).expect("nobody holds a frame");
                self.fill(victim.frame(), block);
            }
            spent += start.elapsed().as_nanos();
        }
        spent as f64 / f64::from(count.max(1))
    }
}

fn access(page: PageId) -> Access {
    Access { page, scan: None, write: false, at: 4_000_000 }
}

/// A cache line each, as in the pool.
#[repr(align(64))]
struct Line {
    page: AtomicU64,
    word: AtomicU64,
}

struct FullFrames {
    lines: Vec<Line>,
}

impl FullFrames {
    fn new() -> Self {
        Self { lines: (0..FRAMES).map(|_| Line { page: AtomicU64::new(0), word: AtomicU64::new(0) }).collect() }
    }
}

impl Frames for FullFrames {
    fn count(&self) -> u32 {
        FRAMES
    }

    fn word(&self, frame: FrameId) -> &AtomicU64 {
        &self.lines[frame.index()].word
    }

    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        Some(PageId::from_raw(self.lines[frame.index()].page.load(Relaxed)))
    }

    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.evictable(frame)
    }

    fn claim(&self, frame: FrameId, _page: PageId) -> Result<Claimed, Refusal> {
        Ok(Claimed::new(frame))
    }
}
