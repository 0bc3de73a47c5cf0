//! What a prediction costs: victims of a policy while 1 to 1000 scans read one relation, and scans
//! that come and go.
//!
//! ```text
//! cargo run --release -p pagecast-core --example prediction_cost                          # all, in nanoseconds
//! valgrind --tool=callgrind --toggle-collect='*counted*' .../prediction_cost whole 64     # instructions of one row
//! ... prediction_cost whole 64 'pbm(history=off)' 2000                                  # of another policy, fewer evictions
//! ```
//!
//! The frames are plain memory that nobody else uses, so that the figures are the policy's and the
//! predictor's alone. Three workloads. `whole`: each scan reads the whole relation from a place of
//! its own on, and nearly every page is wanted by some scan, so that a victim takes all 10 samples
//! at any number of scans. `ranges`: each scan reads 30 % of the relation as 32 row groups of 7
//! column chunks; with few scans most victims are pages that nobody wants, which end the sampling.
//! `chunks`: the same, each row group a chunk, in any order.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::policy::{Access, Claimed, ConcurrentPolicy, Frames, Policy, PolicySpec, Refusal};
use pagecast_core::predictor::{Pages, Part, Predictor, PredictorConfig, Registry, Run, ScanKind, ScanSpec};
use pagecast_core::random::Random;
use pagecast_core::{FrameId, PageId, RelationId, ScanId};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

const FRAMES: u32 = 16_384;
/// The pool holds an eighth of the relation.
const BLOCKS: u32 = 8 * FRAMES;
const RELATION: RelationId = RelationId(1);
/// What the table is of, and a single row if it names no other.
const POLICIES: [&str; 2] = ["pbm-paper(samples=10)", "pbm(history=off)"];
const EVICTIONS: u32 = 40_000;
const ROUNDS: usize = 7;
const RUNS: u32 = 224;
const COLUMNS: u32 = 7;
/// Row groups, and how many of them further the next chunk is.
const CHUNKS: u64 = (RUNS / COLUMNS) as u64;
const STRIDE: u64 = 13;
/// Ticks that a scan needs for a block.
const PACE: u64 = 1_000;
/// Ticks between evictions.
const EVERY: u64 = 100;

type Memory = Arc<[AtomicU64]>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Workload {
    Whole,
    Ranges,
    Chunks,
}

const WORKLOADS: [(&str, Workload); 3] =
    [("whole", Workload::Whole), ("ranges", Workload::Ranges), ("chunks", Workload::Chunks)];

/// Running scans, of which each now and then reports, so that what readers know grows old as it
/// would.
struct Scans {
    registry: Registry<Memory>,
    predictor: Predictor<Memory>,
    running: Vec<(ScanId, f64)>,
    workload: Workload,
    random: Random,
    now: u64,
}

impl Scans {
    fn new(count: u32, workload: Workload) -> Self {
        let runs = count * if workload == Workload::Whole { 2 } else { RUNS };
        let config =
            PredictorConfig { scans: count, parts: count, runs: 2 * runs, cells: 4096, ..PredictorConfig::EMPTY };
        let memory: Memory = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
        let registry = Registry::format(memory, config).unwrap();
        let predictor = registry.predictor();
        let mut scans = Self { registry, predictor, running: Vec::new(), workload, random: Random::new(7), now: 0 };
        let mut begun: Vec<u64> =
            (0..count).map(|_| u64::from(scans.random.below(BLOCKS)) * scans.length() / u64::from(BLOCKS)).collect();
        begun.sort_unstable();
        for at in begun {
            scans.now = PACE * at;
            scans.begin();
        }
        let end = PACE * scans.length();
        scans.now = end;
        for at in 0..scans.running.len() {
            let started = scans.predictor.scan(scans.running[at].0).unwrap().started;
            scans.move_to(at, (end - started) as f64 / PACE as f64);
        }
        scans
    }

    fn length(&self) -> u64 {
        u64::from(if self.workload == Workload::Whole { BLOCKS } else { BLOCKS * 3 / 10 })
    }

    /// The scan has read so many of its blocks.
    fn move_to(&mut self, at: usize, blocks: f64) {
        let (scan, before) = self.running[at];
        self.running[at].1 = blocks;
        if self.workload == Workload::Chunks {
            let done = |blocks: f64| (blocks * CHUNKS as f64 / self.length() as f64) as u64;
            for chunk in done(before)..done(blocks) {
                self.predictor.complete(scan, chunk * STRIDE % CHUNKS, self.now);
            }
        } else {
            self.predictor.report(scan, blocks as u64, self.now);
        }
    }

    fn register(&mut self, runs: &[Run]) -> ScanId {
        let parts = [Part { relation: RELATION, pages: Pages::Runs(runs) }];
        let spec = |length| ScanSpec { kind: ScanKind(0), length, parts: &parts };
        if self.workload == Workload::Chunks {
            return self.registry.register_unordered(&spec(CHUNKS), self.now).unwrap();
        }
        self.registry.register(&spec(self.length()), self.now).unwrap()
    }

    fn runs(&mut self) -> Vec<Run> {
        if self.workload != Workload::Whole {
            let first = self.random.below(BLOCKS - BLOCKS * 3 / 10);
            let length = BLOCKS * 3 / 10 / RUNS;
            let group = u64::from(length * COLUMNS);
            let (positions, span) = if self.workload == Workload::Chunks { (1, 0) } else { (group, group) };
            let position = |i| u64::from(i / COLUMNS) * positions;
            let run = |i| Run { first: first + i * length, blocks: length, position: position(i), span };
            return (0..RUNS).map(run).collect();
        }
        let start = 1 + self.random.below(BLOCKS - 1);
        let (front, back) = (u64::from(start), u64::from(BLOCKS - start));
        vec![
            Run { first: 0, blocks: start, position: back, span: front },
            Run { first: start, blocks: BLOCKS - start, position: 0, span: back },
        ]
    }

    fn begin(&mut self) {
        let runs = self.runs();
        let scan = self.register(&runs);
        self.running.push((scan, 0.0));
    }

    /// One scan goes on by what all have read since the last call, together; at its end another
    /// begins.
    fn go_on(&mut self, ticks: u64) {
        self.now += ticks;
        let count = self.running.len() as u32;
        let at = self.random.below(count) as usize;
        let (scan, position) = self.running[at];
        let position = position + ticks as f64 / PACE as f64 * f64::from(count);
        if position as u64 >= self.length() {
            self.registry.finish(scan, self.now);
            self.running.swap_remove(at);
            self.begin();
        } else {
            self.move_to(at, position);
        }
    }
}

/// Counts the estimates that are asked for, and those that found nobody.
struct Counting<'a> {
    predictor: &'a Predictor<Memory>,
    asked: Cell<u32>,
    unwanted: Cell<u32>,
}

impl Oracle for Counting<'_> {
    fn next_access(&self, question: Question) -> Option<u64> {
        let found = self.predictor.next_access(question);
        self.asked.set(self.asked.get() + 1);
        self.unwanted.set(self.unwanted.get() + u32::from(found.is_none()));
        found
    }
}

/// A policy over frames that are always full, a cache line each as in the pool.
struct Bench {
    policy: Box<dyn ConcurrentPolicy>,
    frames: FullFrames,
}

#[repr(align(64))]
struct Line {
    page: AtomicU64,
    word: AtomicU64,
}

struct FullFrames(Vec<Line>);

impl Frames for FullFrames {
    fn count(&self) -> u32 {
        FRAMES
    }

    fn word(&self, frame: FrameId) -> &AtomicU64 {
        &self.0[frame.index()].word
    }

    fn page(&self, frame: FrameId) -> Option<PageId> {
        Some(PageId::from_raw(self.0[frame.index()].page.load(Relaxed)))
    }

    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        self.page(frame)
    }

    fn claim(&self, frame: FrameId, _page: PageId) -> Result<Claimed, Refusal> {
        Ok(Claimed::new(frame))
    }
}

impl Bench {
    fn new(policy: &str, now: u64) -> Self {
        let Ok(Policy::Concurrent(policy)) = PolicySpec::parse(policy).unwrap().build(FRAMES, 42) else {
            panic!("{policy} keeps an order")
        };
        let line = |i| Line { page: AtomicU64::new(PageId::new(RELATION, 8 * i).raw()), word: AtomicU64::new(0) };
        let bench = Self { policy, frames: FullFrames((0..FRAMES).map(line).collect()) };
        (0..FRAMES).for_each(|frame| bench.fill(FrameId(frame), PageId::new(RELATION, 8 * frame), now));
        bench
    }

    fn fill(&self, frame: FrameId, page: PageId, now: u64) {
        self.frames.0[frame.index()].page.store(page.raw(), Relaxed);
        // By a scan: a page that comes in otherwise has a history of its own.
        let scan = Some(ScanId::NOBODY);
        self.policy.admit(&self.frames, frame, &Access { page, scan, write: false, at: now });
    }

    /// Nanoseconds per eviction. The scans go on after each hundred, outside the time.
    fn evictions(&self, scans: &mut Scans, evictions: u32) -> f64 {
        let mut spent = 0;
        for _ in 0..evictions / 100 {
            let blocks: [u32; 100] = std::array::from_fn(|_| scans.random.below(BLOCKS));
            let start = Instant::now();
            self.counted(&blocks, &scans.predictor, scans.now);
            spent += start.elapsed().as_nanos();
            scans.go_on(100 * EVERY);
        }
        spent as f64 / f64::from(evictions)
    }

    /// Estimates per eviction, and the share of evictions that met a page that nobody wants.
    fn samples(&self, scans: &mut Scans, evictions: u32) -> (f64, f64) {
        let counting = Counting { predictor: &scans.predictor.clone(), asked: Cell::new(0), unwanted: Cell::new(0) };
        for _ in 0..evictions / 100 {
            let blocks: [u32; 100] = std::array::from_fn(|_| scans.random.below(BLOCKS));
            self.evict(&blocks, &counting, scans.now);
            scans.go_on(100 * EVERY);
        }
        let each = |count: u32| f64::from(count) / f64::from(evictions);
        (each(counting.asked.get()), each(counting.unwanted.get()))
    }

    /// The one function whose instructions are to be counted.
    #[inline(never)]
    fn counted(&self, blocks: &[u32], predictor: &Predictor<Memory>, now: u64) {
        self.evict(blocks, predictor, now);
    }

    #[inline(always)]
    fn evict(&self, blocks: &[u32], oracle: &impl Oracle, now: u64) {
        for &block in blocks {
            let page = PageId::new(RELATION, block);
            let incoming = Access { page, scan: None, write: false, at: now };
            let victim = black_box(self.policy.evict(&self.frames, &incoming, oracle)).unwrap();
            self.fill(victim.frame(), page, now);
        }
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Nanoseconds to register a scan and to end one, while `count` others run on the same relation.
fn coming_and_going(count: u32, workload: Workload) -> (f64, f64) {
    let mut scans = Scans::new(count, workload);
    let (mut register, mut finish) = (0, 0);
    let changes = 20_000;
    for _ in 0..changes {
        let at = scans.random.below(count) as usize;
        let (scan, _) = scans.running.swap_remove(at);
        let start = Instant::now();
        scans.registry.finish(scan, scans.now);
        finish += start.elapsed().as_nanos();
        let runs = scans.runs();
        let start = Instant::now();
        let scan = black_box(scans.register(&runs));
        register += start.elapsed().as_nanos();
        scans.running.push((scan, 0.0));
    }
    (register as f64 / f64::from(changes), finish as f64 / f64::from(changes))
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [workload, count, more @ ..] = &arguments[..] {
        let (_, kind) = WORKLOADS.into_iter().find(|(name, _)| name == workload).unwrap();
        let mut scans = Scans::new(count.parse().unwrap(), kind);
        let policy = more.first().map_or(POLICIES[0], String::as_str);
        let evictions = more.get(1).map_or(EVICTIONS, |evictions| evictions.parse().unwrap());
        let bench = Bench::new(policy, scans.now);
        bench.evictions(&mut scans, evictions);
        println!("{workload}, {count} scans, {policy}: divide by {evictions} evictions");
        let (samples, unwanted) = bench.samples(&mut scans, evictions);
        println!("{samples:.2} estimates per eviction; {unwanted:.2} evictions met a page that nobody wants");
        return;
    }
    let start = Instant::now();
    for _ in 0..100_000 {
        black_box(Instant::now());
    }
    println!(
        "two looks at the clock, which are in the figures of registration: {} ns",
        start.elapsed().as_nanos() / 50_000
    );
    println!(
        "{:22} {:8} {:>6} {:>12} {:>12} {:>12}",
        "policy", "workload", "scans", "ns/eviction", "ns/register", "ns/finish"
    );
    for policy in POLICIES {
        for (name, workload) in WORKLOADS {
            for count in [1, 8, 16, 32, 64, 128, 1000] {
                let mut scans = Scans::new(count, workload);
                let bench = Bench::new(policy, scans.now);
                let eviction = median((0..ROUNDS).map(|_| bench.evictions(&mut scans, EVICTIONS / 2)).collect());
                let (register, finish) = coming_and_going(count, workload);
                println!("{policy:22} {name:8} {count:>6} {eviction:>12.0} {register:>12.0} {finish:>12.0}");
            }
        }
    }
}
