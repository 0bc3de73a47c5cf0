//! Hit rates and bytes, in the simulator, in logical time where streams race and in the trace's order elsewhere.

use pagecast_core::policy::PolicySpec;
use pagecast_sim::generate::generate;
use pagecast_sim::simulation::{Interleaving, Outcome, simulate};
use pagecast_sim::trace::Trace;

/// A page of a workload, for the bytes: the default of the pool.
const PAGE_BYTES: u64 = 64 << 10;
/// A miss takes as long as the work on twenty pages of a fast scan.
const LATENCY: u32 = 20;

const SCANS: &str = "clock,pbm-paper,pbm(samples=64),pbm(samples=64,frequency=auto)";
const MIXED: &str =
    "clock,lru,arc,lirs,w-tinylfu,s3-fifo,watt,pbm-paper,pbm(samples=64),pbm(samples=64,frequency=auto)";

/// A workload's name, with `{}` for the number of streams.
const SEQUENTIAL: &str = "sequential(streams={},queries=8)";

pub(crate) struct Cell {
    pub(crate) workload: String,
    pub(crate) streams: u32,
    /// Pages in the pool as a share of the workload's.
    pub(crate) pool: f64,
    pub(crate) policy: String,
    pub(crate) hit_rate: f64,
    pub(crate) bytes_read: u64,
}

/// A row of cells: which workload, at how many streams, in which pools, through which policies.
struct Series {
    workload: &'static str,
    streams: &'static [u32],
    pools: &'static [f64],
    policies: &'static str,
    interleaving: Interleaving,
}

const ALL: &[Series] = &[
    Series {
        workload: SEQUENTIAL,
        streams: &[8, 16, 32, 64],
        pools: &[0.1, 0.2, 0.3, 0.4, 0.6, 0.8],
        policies: SCANS,
        interleaving: Interleaving::Logical { latency: LATENCY },
    },
    Series {
        workload: SEQUENTIAL,
        streams: &[32],
        pools: &[0.3],
        policies: "pbm-paper(samples=1),pbm-paper(samples=2),pbm-paper(samples=5),pbm-paper(samples=10),\
                   pbm-paper(samples=20),pbm-paper(samples=100)",
        interleaving: Interleaving::Logical { latency: LATENCY },
    },
    Series {
        workload: "dynzipf-like",
        streams: &[1],
        pools: &[0.05, 0.1, 0.2, 0.4],
        policies: MIXED,
        interleaving: Interleaving::Fixed,
    },
    Series {
        workload: "dynzipf-like-cs",
        streams: &[16],
        pools: &[0.05, 0.1, 0.2, 0.4],
        policies: MIXED,
        interleaving: Interleaving::Fixed,
    },
    Series {
        workload: "ycsb(streams={})",
        streams: &[32],
        pools: &[0.05, 0.1, 0.2, 0.4],
        policies: MIXED,
        interleaving: Interleaving::Fixed,
    },
];

const QUICK: &[Series] = &[Series { streams: &[32], pools: &[0.3], ..ALL[0] }];

pub(crate) fn measure(seed: u64, quick: bool) -> Result<Vec<Cell>, String> {
    println!("{:34} {:>5} {:28} {:>8} {:>10} {:>9}", "workload", "pool", "policy", "hit rate", "MiB read", "/ Belady");
    let mut cells = Vec::new();
    for series in if quick { QUICK } else { ALL } {
        for &streams in series.streams {
            let workload = series.workload.replace("{}", &streams.to_string());
            let mut source = generate(&workload, seed)?;
            let trace = Trace::load(&workload, &mut source).map_err(|e| e.to_string())?;
            for &pool in series.pools {
                for policy in PolicySpec::parse_list(series.policies).map_err(|e| e.to_string())? {
                    cells.push(cell(&trace, streams, pool, &policy, seed, series.interleaving)?);
                }
            }
        }
    }
    Ok(cells)
}

fn cell(
    trace: &Trace,
    streams: u32,
    pool: f64,
    policy: &PolicySpec,
    seed: u64,
    interleaving: Interleaving,
) -> Result<Cell, String> {
    let frames = ((f64::from(trace.unique()) * pool) as u32).max(1);
    let Outcome { counts, logical, .. } =
        simulate(trace, policy, frames, seed, interleaving).map_err(|e| e.to_string())?;
    let belady = match logical {
        Some(logical) => logical.opt_misses,
        None => {
            let opt = PolicySpec::parse("opt").map_err(|e| e.to_string())?;
            simulate(trace, &opt, frames, seed, interleaving).map_err(|e| e.to_string())?.counts.misses
        }
    };
    let cell = Cell {
        workload: trace.name.clone(),
        streams,
        pool,
        policy: policy.name().to_owned(),
        hit_rate: 1.0 - counts.misses as f64 / counts.requests as f64,
        bytes_read: counts.misses * PAGE_BYTES,
    };
    println!(
        "{:34} {:>5.2} {:28} {:>8.4} {:>10} {:>9.3}",
        cell.workload,
        pool,
        cell.policy,
        cell.hit_rate,
        cell.bytes_read >> 20,
        counts.misses as f64 / belady as f64
    );
    Ok(cell)
}
