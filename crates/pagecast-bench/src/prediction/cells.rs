//! Hit rates and bytes, in the simulator: in the trace's order, and in logical time where streams race.

use pagecast_core::policy::PolicySpec;
use pagecast_sim::generate::generate;
use pagecast_sim::simulation::{Interleaving, simulate, simulate_foretold};
use pagecast_sim::trace::Trace;

/// A page of a workload, for the bytes: the default of the pool.
const PAGE_BYTES: u64 = 64 << 10;
/// A miss takes as long as the work on twenty pages of a fast scan.
pub(crate) const LOGICAL: Interleaving = Interleaving::Logical { latency: 20 };

/// Every frame is looked at, and the trace tells when running scans come to a page: the limit of what scans can tell. Its
/// name in the table is [`LIMIT`]. One sample is kept as with none all of them would be ranked.
const EVERY_FRAME: &str = "pbm(samples=all,keep=1,frequency=off)";
const LIMIT: &str = "every frame, foretold";

const SCANS: &str = "clock,lru,pbm-paper,pbm-pq,pbm(frequency=off),pbm";
const MIXED: &str = "clock,lru,arc,lirs,w-tinylfu,s3-fifo,watt,pbm-pq,pbm-paper,pbm(frequency=off),pbm";
const SAMPLES: &str = "pbm-paper(samples=1),pbm-paper(samples=2),pbm-paper(samples=5),pbm-paper(samples=10),\
                       pbm-paper(samples=20),pbm-paper(samples=100),\
                       pbm(samples=100,bulk=10,keep=0,replacement=yes,frequency=off,fallback=off)";

/// A workload's name, with `{}` for the number of streams.
const SEQUENTIAL: &str = "sequential(streams={},queries=8,pages=8000)";

pub(crate) struct Cell {
    pub(crate) workload: String,
    /// `trace` or `logical`.
    pub(crate) order: &'static str,
    pub(crate) streams: u32,
    /// Pages in the pool as a share of the workload's.
    pub(crate) pool: f64,
    pub(crate) policy: String,
    pub(crate) hit_rate: f64,
    pub(crate) bytes_read: u64,
    /// Misses over those of Belady on the same requests in the same order.
    pub(crate) of_belady: f64,
    /// The share of the way from the first policy of the row, clock-sweep, to Belady.
    pub(crate) gap_closed: f64,
}

/// A row of cells: which workload, at how many streams, in which pools, through which policies.
struct Series {
    workload: &'static str,
    streams: &'static [u32],
    pools: &'static [f64],
    policies: &'static str,
    interleaving: Interleaving,
    /// Whether the limit of what scans can tell is a row, too.
    foretold: bool,
}

const STREAMS: &[u32] = &[8, 16, 32, 64];
const POOLS: &[f64] = &[0.1, 0.2, 0.3, 0.45, 0.6, 0.8];

const ALL: &[Series] = &[
    Series {
        workload: SEQUENTIAL,
        streams: STREAMS,
        pools: POOLS,
        policies: SCANS,
        interleaving: Interleaving::Fixed,
        foretold: true,
    },
    Series {
        workload: SEQUENTIAL,
        streams: STREAMS,
        pools: POOLS,
        policies: SCANS,
        interleaving: LOGICAL,
        foretold: false,
    },
    Series {
        workload: SEQUENTIAL,
        streams: &[8, 32],
        pools: &[0.3],
        policies: SAMPLES,
        interleaving: Interleaving::Fixed,
        foretold: false,
    },
    mixed("sequential-index(streams={},queries=4,pages=8000,stray=96)", STREAMS, &[0.1, 0.3]),
    mixed("trailing-index(streams={},pages=4000)", STREAMS, &[0.1, 0.3]),
    mixed("dynzipf-like(reads=400000,pages=8000)", &[1], &[0.05, 0.1, 0.2, 0.4]),
    mixed("dynzipf-like-cs(reads=400000,pages=8000)", &[16], &[0.05, 0.1, 0.2, 0.4]),
    mixed("ycsb(streams={},pages=8000)", &[32], &[0.05, 0.1, 0.2, 0.4]),
];

const fn mixed(workload: &'static str, streams: &'static [u32], pools: &'static [f64]) -> Series {
    Series { workload, streams, pools, policies: MIXED, interleaving: Interleaving::Fixed, foretold: false }
}

const QUICK: &[Series] =
    &[Series { streams: &[8], pools: &[0.3], ..ALL[0] }, Series { streams: &[8], pools: &[0.3], ..ALL[1] }];

pub(crate) fn measure(seed: u64, quick: bool) -> Result<Vec<Cell>, String> {
    println!(
        "{:52} {:8} {:>5} {:34} {:>8} {:>9} {:>9} {:>6}",
        "workload", "order", "pool", "policy", "hit rate", "MiB read", "/ Belady", "gap"
    );
    let mut cells = Vec::new();
    for series in if quick { QUICK } else { ALL } {
        for &streams in series.streams {
            let workload = series.workload.replace("{}", &streams.to_string());
            let trace = load(&workload, seed)?;
            for &pool in series.pools {
                let row = row(&trace, series.policies, (series.interleaving, series.foretold), pool, seed)?;
                cells.extend(row.into_iter().map(|counted| counted.cell(&trace, series, streams, pool)));
            }
        }
    }
    Ok(cells)
}

/// Makes a workload.
pub(crate) fn load(workload: &str, seed: u64) -> Result<Trace, String> {
    Trace::load(workload, &mut generate(workload, seed)?).map_err(|e| e.to_string())
}

/// Frames of a pool that holds this share of a trace's pages.
pub(crate) fn frames(trace: &Trace, pool: f64) -> u32 {
    ((f64::from(trace.unique()) * pool) as u32).max(1)
}

/// What a policy missed, and Belady on the same order of requests.
pub(crate) struct Counted {
    pub(crate) policy: String,
    pub(crate) misses: u64,
    belady: u64,
    /// The share of the way from clock-sweep to Belady that it goes.
    pub(crate) gap: f64,
}

impl Counted {
    fn cell(self, trace: &Trace, series: &Series, streams: u32, pool: f64) -> Cell {
        let order = if series.interleaving == Interleaving::Fixed { "trace" } else { "logical" };
        let cell = Cell {
            workload: trace.name.clone(),
            order,
            streams,
            pool,
            policy: self.policy,
            hit_rate: 1.0 - self.misses as f64 / trace.requests().len() as f64,
            bytes_read: self.misses * PAGE_BYTES,
            of_belady: self.misses as f64 / self.belady as f64,
            gap_closed: self.gap,
        };
        println!(
            "{:52} {:8} {:>5.2} {:34} {:>8.4} {:>9} {:>9.3} {:>6.2}",
            cell.workload,
            cell.order,
            cell.pool,
            cell.policy,
            cell.hit_rate,
            cell.bytes_read >> 20,
            cell.of_belady,
            cell.gap_closed
        );
        cell
    }
}

/// All policies of a list in one pool, and the limit of what scans can tell if it is asked for.
pub(crate) fn row(
    trace: &Trace,
    policies: &str,
    (interleaving, foretold): (Interleaving, bool),
    pool: f64,
    seed: u64,
) -> Result<Vec<Counted>, String> {
    let frames = frames(trace, pool);
    let parse = |text: &str| PolicySpec::parse(text).map_err(|e| e.to_string());
    let fixed_belady = match interleaving {
        Interleaving::Fixed => {
            simulate(trace, &parse("opt")?, frames, seed, Interleaving::Fixed).map_err(|e| e.to_string())?.counts.misses
        }
        Interleaving::Logical { .. } => 0,
    };
    let mut row = Vec::new();
    for policy in PolicySpec::parse_list(policies).map_err(|e| e.to_string())? {
        let outcome = simulate(trace, &policy, frames, seed, interleaving).map_err(|e| e.to_string())?;
        let belady = outcome.logical.map_or(fixed_belady, |logical| logical.opt_misses);
        row.push(Counted { policy: policy.name().to_owned(), misses: outcome.counts.misses, belady, gap: 0.0 });
    }
    if foretold {
        let outcome = simulate_foretold(trace, &parse(EVERY_FRAME)?, frames, seed).map_err(|e| e.to_string())?;
        row.push(Counted { policy: LIMIT.to_owned(), misses: outcome.counts.misses, belady: fixed_belady, gap: 0.0 });
    }
    // The first policy's way to Belady; in logical time each order of requests has a Belady of its own.
    let clock = row.first().map_or(0, |first| first.misses) as f64;
    for counted in &mut row {
        let gap = clock - counted.belady as f64;
        counted.gap = if gap > 0.0 { (clock - counted.misses as f64) / gap } else { 1.0 };
    }
    Ok(row)
}
