//! Queries in a closed loop.
#![allow(clippy::unwrap_used)]

use pagecast_core::policy::PolicySpec;
use pagecast_core::{PageId, RelationId, Tick};
use pagecast_sim::closed::{Delivery, Machine, Outcome, Query, ScanProgram, Settings, Table, Workload, run};

fn outcome(workload: &Workload, machine: Machine, delivery: &str, policy: &str, frames: u32) -> Outcome {
    let (delivery, policy) = (Delivery::parse(delivery).unwrap(), PolicySpec::parse(policy).unwrap());
    let settings = Settings { machine, delivery: &delivery, policy: &policy, frames, seed: 1, record: true };
    run(workload, settings).unwrap()
}

const SECOND: Tick = 1_000_000_000;

/// Table 3.1 of the thesis: 30 pages of a second each, ten frames; one query reads pages 1 to 20,
/// the other 21 to 30, and 16 to 20 and 26 to 30 are resident. Streams are lists of the two.
fn smallest(streams: &[&[usize]]) -> Workload {
    let query = |kind: usize| {
        let rows = [0..20, 20..30][kind].clone();
        let scan = ScanProgram { table: 0, columns: vec![0], rows, row_cost: 0.0, in_order: false };
        Query { kind, scans: vec![scan] }
    };
    let relation = RelationId(1);
    Workload {
        name: "smallest".to_owned(),
        full: "smallest".to_owned(),
        page_bytes: 1 << 20,
        tables: vec![Table { relation, units: 30, rows: 1, columns: vec![1] }],
        types: vec!["Q1".to_owned(), "Q2".to_owned()],
        streams: streams.iter().map(|kinds| kinds.iter().map(|&kind| query(kind)).collect()).collect(),
        resident: (15..20).chain(25..30).map(|block| PageId::new(relation, block)).collect(),
    }
}

/// The seconds at which the two queries are done.
fn ends(streams: &[&[usize]], delivery: &str) -> [Tick; 2] {
    let workload = smallest(streams);
    let machine = Machine { bandwidth: f64::from(1 << 20), ..Machine::default() };
    let outcome = outcome(&workload, machine, delivery, "lru", 10);
    let mut ends = [0; 2];
    for queries in streams {
        let mut end = 0;
        for &kind in *queries {
            end += outcome.latencies[kind][0];
            ends[kind] = end / SECOND;
        }
    }
    ends
}

#[test]
fn the_smallest_example() {
    assert_eq!(ends(&[&[0], &[1]], "ordered(ahead=0)"), [30, 20], "page by page in turns");
    assert_eq!(ends(&[&[0, 1]], "ordered(ahead=0)"), [20, 30], "the first query first");
    assert_eq!(ends(&[&[1, 0]], "ordered(ahead=0)"), [25, 5], "the second query first");
    assert_eq!(ends(&[&[0], &[1]], "unordered"), [20, 5], "in any order");
    assert_eq!(ends(&[&[0], &[1]], "opportunistic"), [20, 5], "in any order, each for itself");
}
