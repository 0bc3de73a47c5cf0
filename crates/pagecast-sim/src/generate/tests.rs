#![allow(clippy::unwrap_used)]
use super::*;
use crate::simulation::{Interleaving, simulate};
use crate::trace::{Source, Trace};

fn load(text: &str) -> Trace {
    Trace::load(text, &mut generate(text, 7).unwrap()).unwrap()
}

/// The share of all requests that each page takes, hottest first.
fn shares(trace: &Trace) -> Vec<f64> {
    let mut counts = vec![0u32; trace.unique() as usize];
    trace.requests().iter().for_each(|&page| counts[page as usize] += 1);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts.into_iter().map(|count| f64::from(count) / trace.requests().len() as f64).collect()
}

#[test]
fn every_workload_is_made_again_by_its_seed() {
    for (name, _) in workloads() {
        let small = match name {
            "ycsb" => "(operations=3000,pages=500,scans=1000)".to_owned(),
            "loop" => "(pages=50,rounds=3,streams=2)".to_owned(),
            name if name.starts_with("dynzipf") => "(reads=4000,pages=500)".to_owned(),
            _ => "(streams=3,queries=2,pages=500)".to_owned(),
        };
        let text = format!("{name}{small}");
        let all = |seed| {
            let mut source = generate(&text, seed).unwrap();
            std::iter::from_fn(|| source.next().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(all(3), all(3), "{text}");
        assert!(name == "loop" || all(3) != all(4), "{text}");
        // What the origin says makes the same workload once more.
        let origin = generate(&text, 3).unwrap().origin().to_owned();
        let (call, _) = origin.rsplit_once(", seed").unwrap();
        assert_eq!(generate(call, 3).unwrap().origin(), origin);
        // And the predictor accepts its scans, in either interleaving.
        let trace = load(&text);
        for interleaving in [Interleaving::Fixed, Interleaving::Logical { latency: 5 }] {
            let outcome = simulate(&trace, &"pbm".parse().unwrap(), 40, 1, interleaving).unwrap();
            assert_eq!(outcome.counts.requests, trace.requests().len() as u64, "{text}");
        }
    }
}

#[test]
fn dynzipf_has_the_published_moments() {
    for name in ["dynzipf-like", "dynzipf-like-cs"] {
        let trace = load(name);
        let shares = shares(&trace);
        assert_eq!((trace.requests().len(), trace.unique()), (2_000_000, 20_000));
        assert!(shares[0] > 0.02 && shares[0] < 0.023, "{name}: the hottest page takes {}", shares[0]);
        let ten: f64 = shares[..10].iter().sum();
        assert!((0.043..0.047).contains(&ten), "{name}: the ten hottest take {ten}");
        let points = (0..trace.requests().len()).filter(|&at| trace.scan(at).is_none()).count();
        assert_eq!(points, 1_000_000, "{name}");
        // At every time half of the reads are point reads, not only in the whole; when scans start one by one, later.
        let middle = 600_000..1_400_000;
        let points = middle.clone().filter(|&at| trace.scan(at).is_none()).count();
        assert!((points as f64 / middle.len() as f64 - 0.5).abs() < 0.01, "{name}: {points}");
    }
}

#[test]
fn concurrent_scans_are_concurrent() {
    let trace = load("dynzipf-like-cs");
    let mut last: Vec<_> = (1_000_000..1_001_000).filter_map(|at| trace.scan(at)).collect();
    last.sort_unstable();
    last.dedup();
    assert_eq!(last.len(), 16);
}

#[test]
fn faults_are_named() {
    let error = |text| generate(text, 1).unwrap_err();
    assert!(error("lop").starts_with("unknown workload `lop`; there are sequential,"));
    assert_eq!(error("loop(size=3)"), "workload `loop` has no parameter `size`; it has pages, rounds, streams");
    assert_eq!(error("loop(pages=0)"), "workload `loop`: `pages=0` must be a whole number from 1 to 67108864");
    assert!(error("sequential(range=NaN)").contains("must be a number from"));
    assert!(error("loop(pages=9999999,rounds=9999)").contains("ask for less"));
    for text in ["loop(", "loop(pages)", "loop(pages=1,pages=2)"] {
        assert!(!error(text).is_empty(), "{text}");
    }
}
