#![allow(clippy::unwrap_used)]

use pagecast::{Pool, PoolOptions};

use super::*;

fn run(first: u32, blocks: u32, position: u64) -> Run {
    Run { first, blocks, position, span: 0 }
}

#[test]
fn ranges_become_runs_of_blocks() {
    assert_eq!(runs(&[], 4096, 5), []);
    assert_eq!(runs(&[100..100, 200..200], 4096, 5), []);
    assert_eq!(runs(&[10..4096, 8192..8193], 4096, 5), [run(0, 1, 5), run(2, 1, 5)]);
    // Neighbours and ranges within one block are one run, in whatever order they come.
    assert_eq!(runs(&[9000..9001, 8192..8200, 4095..8192], 4096, 0), [run(0, 3, 0)]);
}

/// A pool's answer to these runs of one relation.
fn register(runs: &[(RelationId, Vec<Run>)]) {
    let pool = Pool::new(PoolOptions::default().memory(1 << 20).page_size(4096)).unwrap();
    let parts: Vec<_> =
        runs.iter().map(|(relation, runs)| Part { relation: *relation, pages: Pages::Runs(runs) }).collect();
    pool.register(&ScanSpec { kind: PARQUET_SCAN, length: 1000, parts: &parts }).unwrap();
}

#[test]
fn row_groups_that_meet_in_a_block_keep_both_positions() {
    let (a, b) = (RelationId(1), RelationId(2));
    let expected =
        [(a, vec![run(0, 3, 0), run(5, 1, 0)]), (a, vec![run(5, 4, 10)]), (b, vec![run(0, 9, 20)]), (b, vec![])];
    let gathered = by_relation(&expected);
    assert_eq!(gathered, [(a, vec![run(0, 3, 0), run(5, 1, 0), run(5, 4, 10)]), (b, vec![run(0, 9, 20)])]);
    register(&gathered);
}

#[test]
fn row_groups_that_lie_inside_others_stay_covered() {
    let a = RelationId(1);
    let gathered = by_relation(&[(a, vec![run(0, 10, 0), run(20, 5, 0)]), (a, vec![run(3, 2, 50), run(12, 1, 50)])]);
    assert_eq!(gathered, [(a, vec![run(0, 10, 0), run(3, 7, 50), run(12, 1, 50), run(20, 5, 0)])]);
    register(&gathered);
}
