//! What `pbm` misses, to the miss: generated workloads and five small open traces. A change that
//! moves a number is seen; whoever means it writes the new one, which the failing test prints as a
//! line.
//!
//! The columns: pages in the pool, misses with learned history, and without. So the test also
//! notices when history stops gaining where it is to gain, or loses where scans are alone.
#![allow(clippy::unwrap_used)]

use pagecast_sim::generate::generate;
use pagecast_sim::simulation::{Interleaving, simulate};
use pagecast_sim::trace::{self, Format, Trace};

#[expect(dead_code, reason = "other tests take the pages alone")]
mod shared_traces;

/// A trace, the frames, and the misses of `pbm` and of `pbm(history=off)`.
type Golden = (&'static str, u32, u64, u64);

const GENERATED: &[Golden] = &[
    ("sequential(streams=8,queries=4,pages=1000)", 300, 1777, 1803),
    ("sequential(streams=8,queries=8,pages=1000,recent=0.8)", 250, 1184, 1285),
    ("sequential-index(streams=8,queries=2,pages=500,rows=4,stray=24)", 150, 1240, 1241),
    ("dynzipf-like(reads=30000,pages=1000)", 100, 18104, 20227),
    ("ycsb(streams=8,operations=20000,pages=1000,skew=0.99,scans=1000)", 100, 9469, 11587),
    ("ycsb(streams=8,operations=20000,pages=1000,skew=0.75,scans=0)", 400, 7911, 8993),
];

const OPEN: &[Golden] = &[
    ("lirs-cs", 281, 5583, 6657),
    ("lirs-multi2", 568, 12915, 16594),
    ("lirs-2pools", 993, 45651, 45613),
    ("lirs-sprite", 353, 42147, 46058),
    ("corda-vault", 904, 92422, 90468),
];

/// Where history is to save at least [`GAIN`] percent of the misses. Elsewhere it may cost as much.
const GAINS: [&str; 6] = ["dynzipf-like", "ycsb", "recent=0.8", "lirs-cs", "lirs-multi2", "lirs-sprite"];
const GAIN: f64 = 3.0;

/// The lines that differ from what is written, as they would have to be written.
fn differing(golden: &[Golden], load: impl Fn(&str) -> Trace) -> Vec<String> {
    let mut lines = Vec::new();
    for &(name, frames, with, without) in golden {
        let trace = load(name);
        let misses = |policy: &str| {
            simulate(&trace, &policy.parse().unwrap(), frames, 1, Interleaving::Fixed).unwrap().counts.misses
        };
        let found = (misses("pbm"), misses("pbm(history=off)"));
        if found != (with, without) {
            lines.push(format!("    ({name:?}, {frames}, {}, {}),", found.0, found.1));
        }
        let gain = 100.0 * (1.0 - found.0 as f64 / found.1 as f64);
        let least = if GAINS.iter().any(|gains| name.contains(gains)) { GAIN } else { -GAIN };
        if gain < least {
            lines.push(format!("{name} in {frames} frames: history gains {gain:.1} %, at least {least} are wanted"));
        }
    }
    lines
}

#[test]
fn generated_workloads_miss_what_they_missed() {
    let load = |workload: &str| Trace::load(workload, &mut generate(workload, 1).unwrap()).unwrap();
    let lines = differing(GENERATED, load);
    assert!(lines.is_empty(), "misses have changed:\n{}", lines.join("\n"));
}

#[test]
fn open_traces_miss_what_they_missed() {
    let Some(folder) = shared_traces::folder("open_traces_miss_what_they_missed") else { return };
    let load = |name: &str| {
        let path = folder.join("open").join(format!("{name}.txt.gz"));
        Trace::load(name, &mut *trace::open(&path, &Format::Text).unwrap()).unwrap()
    };
    let lines = differing(OPEN, load);
    assert!(lines.is_empty(), "misses have changed:\n{}", lines.join("\n"));
}
