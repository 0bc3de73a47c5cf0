//! A row of a table: what each policy of a list misses in one pool, and Belady on the same
//! requests.

use pagecast_core::policy::PolicySpec;
use pagecast_sim::generate::generate;
use pagecast_sim::simulation::{Interleaving, simulate, simulate_foretold};
use pagecast_sim::trace::Trace;
use serde_json::{Value, json};

/// A page of a workload, for the bytes: the default of the pool.
const PAGE_BYTES: u64 = 64 << 10;
/// A miss takes as long as the work on twenty pages of a fast scan.
pub(crate) const LOGICAL: Interleaving = Interleaving::Logical { latency: 20 };

pub(crate) const OFF: &str = "pbm(history=off)";
pub(crate) const PBM: &str = "pbm";
pub(crate) const BELADY: &str = "opt";
/// Every frame is looked at, and the trace tells when running scans come to a page: the limit of
/// what scans can tell. Its name in the tables is [`LIMIT`].
pub(crate) const EVERY_FRAME: &str = "pbm(samples=all,history=off)";
pub(crate) const LIMIT: &str = "every frame, foretold";

/// Makes a workload.
pub(crate) fn load(workload: &str, seed: u64) -> Result<Trace, String> {
    Trace::load(workload, &mut generate(workload, seed)?).map_err(|e| e.to_string())
}

/// Frames of a pool that holds this share of a trace's pages.
pub(crate) fn frames(trace: &Trace, pool: f64) -> u32 {
    ((f64::from(trace.unique()) * pool) as u32).max(1)
}

/// What a policy missed.
pub(crate) struct Counted {
    pub(crate) policy: String,
    pub(crate) misses: u64,
    pub(crate) hit_rate: f64,
    /// Misses over those of Belady on the same requests in the same order.
    pub(crate) of_belady: f64,
    /// The share of the way from clock-sweep, the first policy of the row, to Belady.
    pub(crate) gap: f64,
}

/// All policies of a list in one pool.
pub(crate) struct Row {
    pub(crate) workload: String,
    /// `trace` or `logical`.
    pub(crate) order: &'static str,
    pub(crate) streams: u32,
    /// Pages in the pool as a share of the workload's.
    pub(crate) pool: f64,
    pub(crate) counted: Vec<Counted>,
}

impl Row {
    /// What the policy that was given by this name missed.
    pub(crate) fn of(&self, policy: &str) -> Result<&Counted, String> {
        let found = self.counted.iter().find(|counted| counted.policy == policy);
        found.ok_or_else(|| format!("{}: no policy {policy} was run", self.workload))
    }

    /// What the JSON file has of it.
    pub(crate) fn json(&self, seed: u64) -> Vec<Value> {
        let cell = |counted: &Counted| {
            json!({
                "workload": self.workload, "streams": self.streams, "pool": self.pool, "policy": counted.policy,
                "hit_rate": counted.hit_rate, "bytes_read": counted.misses * PAGE_BYTES, "order": self.order,
                "of_belady": counted.of_belady, "gap_closed": counted.gap, "seed": seed,
            })
        };
        self.counted.iter().map(cell).collect()
    }

    fn add(&mut self, trace: &Trace, policy: &str, misses: u64, belady: u64) {
        let clock = self.counted.first().map_or(misses, |first| first.misses);
        let way = clock as f64 - belady as f64;
        self.counted.push(Counted {
            policy: policy.to_owned(),
            misses,
            hit_rate: 1.0 - misses as f64 / trace.requests().len() as f64,
            of_belady: misses as f64 / belady as f64,
            gap: if way > 0.0 { (clock as f64 - misses as f64) / way } else { 1.0 },
        });
    }
}

/// Runs each policy of `policies` in a pool of this share. In logical time each makes an order of
/// its own, on which its Belady is taken.
pub(crate) fn row(
    trace: &Trace,
    policies: &[PolicySpec],
    interleaving: Interleaving,
    (streams, pool): (u32, f64),
    seed: u64,
) -> Result<Row, String> {
    let frames = frames(trace, pool);
    let fixed = interleaving == Interleaving::Fixed;
    let belady = if fixed { misses(trace, &spec(BELADY)?, frames, seed)? } else { 0 };
    let mut row = Row {
        workload: trace.name.clone(),
        order: if fixed { "trace" } else { "logical" },
        streams,
        pool,
        counted: Vec::new(),
    };
    for policy in policies {
        let outcome = simulate(trace, policy, frames, seed, interleaving).map_err(|e| e.to_string())?;
        let belady = outcome.logical.map_or(belady, |logical| logical.opt_misses);
        row.add(trace, policy.name(), outcome.counts.misses, belady);
    }
    if fixed {
        row.add(trace, BELADY, belady, belady);
    }
    Ok(row)
}

/// Adds [`LIMIT`] to a row in the order of the trace.
pub(crate) fn add_foretold(row: &mut Row, trace: &Trace, seed: u64) -> Result<(), String> {
    let belady = row.of(BELADY)?.misses;
    let outcome = simulate_foretold(trace, &spec(EVERY_FRAME)?, frames(trace, row.pool), seed);
    row.add(trace, LIMIT, outcome.map_err(|e| e.to_string())?.counts.misses, belady);
    Ok(())
}

fn misses(trace: &Trace, policy: &PolicySpec, frames: u32, seed: u64) -> Result<u64, String> {
    let outcome = simulate(trace, policy, frames, seed, Interleaving::Fixed).map_err(|e| e.to_string())?;
    Ok(outcome.counts.misses)
}

pub(crate) fn spec(policy: &str) -> Result<PolicySpec, String> {
    PolicySpec::parse(policy).map_err(|e| e.to_string())
}

pub(crate) fn specs(policies: &str) -> Result<Vec<PolicySpec>, String> {
    PolicySpec::parse_list(policies).map_err(|e| e.to_string())
}
