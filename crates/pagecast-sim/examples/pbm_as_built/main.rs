//! Why the authors' PQ reads more than their sampling, and ours does not.
//!
//! Khalaji et al., PVLDB 18(13) 2025, figure 5: streams of scans of a tenth of a table, a pool of
//! 36 %. Both policies are built here as in the authors' server (serene-lamport/postgresql), with a
//! switch for each part in which its queue differs from `pbm-pq`. Blocks come in groups, scans are
//! told from their requests, and a group's estimate is made when its scans change. Their 4,500
//! groups a scan are 500 here, their 128 pages a group 8.
//!
//! `pbm_as_built [STREAMS [SEEDS [fixed|logical [RANGE]]]]`: hit rates in per cent, a line for each
//! step. RANGE is the length of the timeline in scans. Theirs is 511 seconds, some 5 to 20 scans.

mod groups;
mod queue;
mod sampling;

use std::error::Error;
use std::sync::Arc;

use groups::{Built, Groups};
use pagecast_core::Tick;
use pagecast_core::policy::{PolicySpec, SequentialPolicy};
use pagecast_sim::generate::generate;
use pagecast_sim::simulation::{Contender, Interleaving, Options, OwnPolicy, simulate_watched};
use pagecast_sim::trace::Trace;
use pagecast_sim::watch::Watch;
use queue::{AuthorsQueue, SLICES};
use sampling::AuthorsSampling;

const PAGES: u32 = 40_000;
const SCAN: u32 = PAGES / 10;
const GROUP: u32 = 8;
/// Their pages to a group, by which the way is multiplied.
const THEIR_GROUP: u32 = 128;
const LATENCY: u32 = 10;

#[derive(Clone, Copy)]
enum Kind {
    Queue,
    Sampling,
}

#[derive(Clone, Copy)]
struct AsBuilt {
    kind: Kind,
    built: Built,
    slice: Tick,
    seed: u64,
}

impl OwnPolicy for AsBuilt {
    fn name(&self) -> &str {
        "as built"
    }

    fn build(&self, frames: u32, _watch: Arc<Watch>) -> Box<dyn SequentialPolicy> {
        let groups = Groups::new(self.built, PAGES, SCAN);
        match self.kind {
            Kind::Queue => Box::new(AuthorsQueue::new(self.built, groups, (PAGES, frames), self.slice)),
            Kind::Sampling => Box::new(AuthorsSampling::new(groups, self.seed)),
        }
    }
}

/// `pbm-pq` but for where scans and estimates come from, and the steps from there to the authors'.
fn steps(age: Tick) -> Vec<(&'static str, Kind, Built)> {
    let ours = Built {
        group: 1,
        way_times: 1,
        far_is_unwanted: false,
        estimates_passed: true,
        whole_queue: false,
        estimate_age: 0,
    };
    let groups = Built { group: GROUP, ..ours };
    let merged = Built { estimates_passed: false, ..groups };
    let whole = Built { whole_queue: true, ..merged };
    let ends = Built { far_is_unwanted: true, ..whole };
    let theirs = Built { way_times: THEIR_GROUP, ..ends };
    let aged = Built { estimate_age: age, ..groups };
    vec![
        ("queue of pages, estimates when scans change", Kind::Queue, ours),
        ("+ groups", Kind::Queue, groups),
        ("+ passed queues are not estimated anew", Kind::Queue, merged),
        ("+ a whole queue leaves", Kind::Queue, whole),
        ("+ beyond the timeline is unwanted", Kind::Queue, ends),
        ("+ ways times 128: PQ as built", Kind::Queue, theirs),
        ("as built, ways right", Kind::Queue, ends),
        ("as built, the timeline endless", Kind::Queue, Built { far_is_unwanted: false, ..theirs }),
        ("as built, one page leaves", Kind::Queue, Built { whole_queue: false, ..theirs }),
        ("as built, passed queues estimated anew", Kind::Queue, Built { estimates_passed: true, ..theirs }),
        ("queue of pages, and only ways times 128", Kind::Queue, Built { way_times: THEIR_GROUP, ..ours }),
        ("sampling of groups", Kind::Sampling, groups),
        ("+ estimates kept", Kind::Sampling, aged),
        ("+ ways times 128: sampling as built", Kind::Sampling, Built { way_times: THEIR_GROUP, ..aged }),
    ]
}

/// The mean hit rate over the traces, in per cent.
fn rate(
    traces: &[Trace],
    interleaving: Interleaving,
    contender: impl Fn(u64) -> Contender,
) -> Result<f64, Box<dyn Error>> {
    let mut sum = 0.0;
    for (trace, seed) in traces.iter().zip(1..) {
        let (options, watch) = (Options::of(interleaving), Arc::new(Watch::default()));
        let counts = simulate_watched(trace, &contender(seed), PAGES * 36 / 100, seed, &options, &watch)?.counts;
        sum += 100.0 - 100.0 * counts.misses as f64 / counts.requests as f64;
    }
    Ok(sum / traces.len() as f64)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |at: usize, default: &str| arguments.get(at).map_or(default, String::as_str).to_owned();
    let streams: u64 = given(0, "32").parse()?;
    let seeds: u64 = given(1, "3").parse()?;
    let interleaving = match given(2, "logical").as_str() {
        "fixed" => Interleaving::Fixed,
        _ => Interleaving::Logical { latency: LATENCY },
    };
    let range: f64 = given(3, "10").parse()?;
    let traces = (1..=seeds)
        .map(|seed| {
            let workload = format!("sequential(streams={streams},queries=8,pages={PAGES})");
            Ok(Trace::load(&workload, &mut generate(&workload, seed)?)?)
        })
        .collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    // What a scan takes: a turn of all streams a page, or the mean of two paces and a third misses.
    let scan = match interleaving {
        Interleaving::Fixed => streams * u64::from(SCAN),
        Interleaving::Logical { .. } => u64::from(SCAN) * 5,
    };
    let slice = (range * scan as f64 / SLICES as f64) as Tick;
    println!("{streams} streams, {interleaving:?}, timeline of {range} scans, seeds 1 to {seeds}");
    for policy in ["clock", "random", "pbm-pq", "pbm-paper", "pbm"] {
        let spec = PolicySpec::parse(policy)?;
        println!("{:5.1}  {policy}", rate(&traces, interleaving, |_| Contender::Known(spec.clone()))?);
    }
    // Their 10 seconds, of the timeline's 511.
    let age = slice * SLICES / 51;
    for (name, kind, built) in steps(age) {
        let own = |seed| Contender::Own(Arc::new(AsBuilt { kind, built, slice, seed }) as Arc<dyn OwnPolicy>);
        println!("{:5.1}  {name}", rate(&traces, interleaving, own)?);
    }
    Ok(())
}
