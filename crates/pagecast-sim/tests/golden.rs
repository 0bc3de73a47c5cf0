//! What `pbm` misses, to the miss: generated workloads and five small open traces. A change that
//! moves a number is seen; whoever means it writes the new one, which the failing test prints as a
//! line.
//!
//! The columns: pages in the pool, misses with learned history, misses without it, and how many
//! percent of the latter history saves. The failing test never prints another gain: so it notices
//! when misses are written anew and history has stopped gaining, or costs more.
#![allow(clippy::unwrap_used)]

use pagecast_sim::generate::generate;
use pagecast_sim::simulation::{Interleaving, simulate};
use pagecast_sim::trace::{self, Format, Trace};

#[expect(dead_code, reason = "other tests take the pages alone")]
mod shared_traces;

/// A trace, the frames, the misses of `pbm` and of `pbm(history=off)`, and the gain of the first.
type Golden = (&'static str, u32, u64, u64, f64);

const GENERATED: &[Golden] = &[
    ("sequential(streams=8,queries=4,pages=1000)", 300, 1777, 1803, 1.4),
    ("sequential(streams=8,queries=8,pages=1000,recent=0.8)", 250, 1184, 1285, 7.9),
    ("sequential-index(streams=8,queries=2,pages=500,rows=4,stray=24)", 150, 1422, 1421, -0.1),
    ("dynzipf-like(reads=30000,pages=1000)", 100, 18104, 20227, 10.5),
    ("ycsb(streams=8,operations=20000,pages=1000,skew=0.99,scans=1000)", 100, 9469, 11587, 18.3),
    ("ycsb(streams=8,operations=20000,pages=1000,skew=0.75,scans=0)", 400, 7911, 8993, 12.0),
];

const OPEN: &[Golden] = &[
    ("lirs-cs", 281, 5583, 6657, 16.1),
    ("lirs-multi2", 568, 12915, 16594, 22.2),
    ("lirs-2pools", 993, 45651, 45613, -0.1),
    ("lirs-sprite", 353, 42147, 46058, 8.5),
    // Warming up costs 1,947 misses in the first 7,232 requests (8 a frame). History costs
    // 7 in the 128,470 that follow. All other misses are first uses of a page.
    ("corda-vault", 904, 92422, 90468, -2.2),
];

/// How far a gain may be from what is written, in percent of the misses without history.
const TOLERANCE: f64 = 0.5;

/// The lines that differ from what is written, as they would have to be written.
fn differing(golden: &[Golden], load: impl Fn(&str) -> Trace) -> Vec<String> {
    let mut lines = Vec::new();
    for &(name, frames, with, without, gain) in golden {
        let trace = load(name);
        let misses = |policy: &str| {
            simulate(&trace, &policy.parse().unwrap(), frames, 1, Interleaving::Fixed).unwrap().counts.misses
        };
        let found = (misses("pbm"), misses("pbm(history=off)"));
        if found != (with, without) {
            lines.push(format!("    ({name:?}, {frames}, {}, {}, {gain:.1}),", found.0, found.1));
        }
        let gains = 100.0 * (1.0 - found.0 as f64 / found.1 as f64);
        if (gains - gain).abs() > TOLERANCE {
            lines.push(format!("{name} in {frames} frames: history saves {gains:.1} %, and {gain:.1} is written"));
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
