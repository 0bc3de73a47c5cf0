//! Our miss counts beside those of independent simulators, on the real traces in
//! `../shared/traces`.
//!
//! The table is printed (`cargo test --release -p pagecast-sim --test reference -- --nocapture`). A
//! debug build takes the traces below 200,000 requests, a release build all. Without the folder the
//! test says that it is skipped.
#![allow(clippy::unwrap_used)]

use pagecast_core::PageId;
use pagecast_core::oracle::NoScans;
use pagecast_core::policy::{NextUses, PolicySpec};
use pagecast_sim::replay::{PageIds, accesses, belady, replay};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

mod shared_traces;
use shared_traces::{folder, pages, requests_of};

/// What must hold between us and the references.
#[derive(Clone, Copy)]
enum Rule {
    /// Equal to each of them.
    Equal,
    /// Between the smallest and the largest of them, both widened by this part.
    Within(f64),
    /// The same, judged only where the first of them has a value: the others are known to differ
    /// from it by more.
    Beside(f64),
}

/// Our policy, the references' names for the same algorithm at the same parameters, and the rule.
const PAIRS: &[(&str, &[&str], Rule)] = &[
    ("lru", &["LRU"], Rule::Equal),
    ("opt", &["Belady"], Rule::Equal),
    ("fifo", &["FIFO"], Rule::Equal),
    ("lfu", &["LFU(in-cache)"], Rule::Equal),
    ("arc", &["ARC"], Rule::Within(0.01)),
    ("car", &["CAR"], Rule::Within(0.01)),
    ("2q(in=25%,out=50%)", &["2Q(Ain=.25,Aout=.5)", "2Q(in=.2,out=.5)"], Rule::Within(0.01)),
    ("lirs", &["LIRS", "LIRS(hot=.99,nr=2x)"], Rule::Within(0.03)),
    ("clock-pro", &["ClockPro"], Rule::Within(0.03)),
    ("w-tinylfu", &["WTinyLFU(w=.01,prot=.8)", "WTinyLFU(SLRU,w=.01)"], Rule::Beside(0.03)),
    ("sieve", &["SIEVE"], Rule::Within(0.01)),
    // Sampled, and so off by chance.
    ("hyperbolic", &["Hyperbolic"], Rule::Within(0.02)),
    ("s3-fifo(threshold=1)", &["S3FIFO(.1,.9,thr=1)"], Rule::Within(0.03)),
    ("s3-fifo(threshold=2)", &["S3FIFO(.1,.9,thr=2)"], Rule::Within(0.03)),
    ("clock(max=1,init=0)", &["Clock", "Clock(bits=1)"], Rule::Within(0.01)),
    ("clock(max=3,init=0)", &["Clock(bits=2)"], Rule::Within(0.01)),
    ("clock(max=7,init=1)", &["Clock(bits=3,init=1)"], Rule::Within(0.01)),
];

/// Below this size a single page is worth percents: shown, not judged, unless the rule is equality.
const JUDGED_FROM_PAGES: u32 = 100;

struct Reference {
    simulator: String,
    policy: String,
    misses: u64,
}

/// The references by trace and size.
fn references(folder: &Path) -> BTreeMap<String, BTreeMap<u32, Vec<Reference>>> {
    let mut all: BTreeMap<String, BTreeMap<u32, Vec<Reference>>> = BTreeMap::new();
    for line in fs::read_to_string(folder.join("REFERENCE.tsv")).unwrap().lines().skip(1) {
        let [simulator, trace, policy, size, _requests, misses, _trust] =
            line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let reference =
            Reference { simulator: simulator.into(), policy: policy.into(), misses: misses.parse().unwrap() };
        all.entry(trace.into()).or_default().entry(size.parse().unwrap()).or_default().push(reference);
    }
    all
}

fn misses(policy: &PolicySpec, pages: &[PageId], unique: u32, frames: u32) -> u64 {
    let ids = PageIds::Dense(unique);
    let counts = if policy.needs_trace() {
        belady(accesses(pages), NextUses::of(pages), ids, frames, |_| ())
    } else {
        replay(accesses(pages), ids, policy, frames, 42, &NoScans, |_| ())
    };
    counts.unwrap().misses
}

/// Prints one line and returns it if it breaks the rule.
fn judge(
    (trace, size): (&str, u32),
    (ours, misses): (&str, u64),
    (rule, first): (Rule, &str),
    references: &[&Reference],
) -> Option<String> {
    let low = references.iter().map(|reference| reference.misses).min().unwrap();
    let high = references.iter().map(|reference| reference.misses).max().unwrap();
    let within = |part: f64| misses as f64 >= low as f64 * (1.0 - part) && misses as f64 <= high as f64 * (1.0 + part);
    let large = size >= JUDGED_FROM_PAGES;
    let (holds, judged) = match rule {
        Rule::Equal => (misses == low && misses == high, true),
        Rule::Within(part) => (within(part), large),
        Rule::Beside(part) => (within(part), large && references.iter().any(|reference| reference.policy == first)),
    };
    let nearest = if misses < low { low } else { misses.min(high) };
    let off = (misses as f64 / nearest as f64 - 1.0) * 100.0;
    let theirs: Vec<String> = references
        .iter()
        .map(|reference| format!("{} {} {}", &reference.simulator[..8], reference.policy, reference.misses))
        .collect();
    let verdict = match (judged, holds) {
        (true, false) => "BREAKS",
        (true, true) => "holds",
        (false, _) => "shown",
    };
    let line = format!("{trace:17} {size:8} {ours:30} {misses:9} {off:+7.2}% {verdict:6} {}", theirs.join(", "));
    if off != 0.0 {
        println!("{line}");
    }
    (judged && !holds).then_some(line)
}

#[test]
fn miss_counts_agree_with_independent_simulators() {
    let Some(folder) = folder("miss_counts_agree_with_independent_simulators") else { return };
    let mut broken = Vec::new();
    for (trace, sizes) in references(&folder) {
        if cfg!(debug_assertions) && requests_of(&folder, &trace) > 200_000 {
            continue;
        }
        let (pages, unique) = pages(&folder, &trace);
        for (ours, theirs, rule) in PAIRS {
            let spec = PolicySpec::parse(ours).unwrap();
            for (&size, references) in &sizes {
                let references: Vec<&Reference> =
                    references.iter().filter(|reference| theirs.contains(&reference.policy.as_str())).collect();
                if !references.is_empty() {
                    let misses = misses(&spec, &pages, unique, size);
                    broken.extend(judge((&trace, size), (ours, misses), (*rule, theirs[0]), &references));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{} rules broken:\n{}", broken.len(), broken.join("\n"));
}

/// The hit ratios that the ARC paper (FAST 2003, table III) prints for its OLTP trace at 1,000
/// pages, in percent. Its LRU-2 was tuned to the trace; ours runs with its defaults.
#[test]
fn hit_ratios_agree_with_the_arc_paper() {
    let Some(folder) = folder("hit_ratios_agree_with_the_arc_paper") else { return };
    let (pages, unique) = pages(&folder, "arc-oltp");
    for (policy, published, tolerance) in
        [("lru", 32.83, 0.01), ("arc", 38.93, 0.5), ("lru-k(k=2)", 39.3, 1.0), ("opt", 53.61, 0.01)]
    {
        let misses = misses(&PolicySpec::parse(policy).unwrap(), &pages, unique, 1000);
        let ratio = 100.0 * (1.0 - misses as f64 / pages.len() as f64);
        println!("arc-oltp 1000 {policy:12} {ratio:.2} %, published {published}");
        assert!((ratio - published).abs() <= tolerance, "{policy}: {ratio:.2} %, published {published} %");
    }
}
