//! What pairs of TPC-H queries read of the same bytes: Table 7.1 of Świtakowski 2011.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use pagecast::{Pool, PoolOptions};

use crate::data::{Session, query};

/// By file, stretches that a query reads, in their order and apart from each other.
type Volume = BTreeMap<PathBuf, Vec<Range<u64>>>;

async fn volume(number: usize) -> Volume {
    let ctx = Session::plain(2).tpch().await;
    let host = pagecast_datafusion::install(&ctx, Pool::new(PoolOptions::default().memory(16 << 20)).unwrap()).unwrap();
    let mut volume = Volume::new();
    // Query 15 is a view, a query and the view's end; only the query reads.
    for statement in query(number).split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        let plan = ctx.sql(statement).await.unwrap();
        let plan = plan.create_physical_plan().await.unwrap();
        for read in host.planned_reads(&plan, &ctx.task_ctx()).await.unwrap() {
            volume.entry(read.path).or_default().extend(read.bytes);
        }
    }
    volume.values_mut().for_each(join);
    volume
}

/// Joins what overlaps or touches.
fn join(ranges: &mut Vec<Range<u64>>) {
    ranges.sort_unstable_by_key(|range| range.start);
    let all = std::mem::take(ranges);
    for range in all {
        match ranges.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => ranges.push(range),
        }
    }
}

/// Bytes that both read.
fn shared(one: &Volume, other: &Volume) -> u64 {
    let both = |path: &PathBuf, ranges: &[Range<u64>]| -> u64 {
        let others = other.get(path).map_or(&[][..], Vec::as_slice);
        let overlap = |a: &Range<u64>, b: &Range<u64>| a.end.min(b.end).saturating_sub(a.start.max(b.start));
        ranges.iter().map(|range| others.iter().map(|other| overlap(range, other)).sum::<u64>()).sum()
    };
    one.iter().map(|(path, ranges)| both(path, ranges)).sum()
}

/// As in the thesis most pairs share little, and those that share most are scans of lineitem's same
/// columns without a bound on dates: 9, 17 and 19. Run with --nocapture for the table.
#[tokio::test]
async fn most_pairs_of_queries_share_little() {
    let mut volumes = Vec::new();
    for number in 1..=22 {
        volumes.push(volume(number).await);
    }
    let mut union = Volume::new();
    for (path, ranges) in volumes.iter().flatten() {
        union.entry(path.clone()).or_default().extend(ranges.iter().cloned());
    }
    union.values_mut().for_each(join);
    let touched = shared(&union, &union);
    println!("kB of {} that each pair reads; the last of a row is the query's own", touched / 1000);
    let (mut own, mut pairs) = (Vec::new(), BTreeMap::new());
    for (i, one) in volumes.iter().enumerate() {
        let row: Vec<u64> = volumes[..=i].iter().map(|other| shared(one, other)).collect();
        println!("Q{:<3}{}", i + 1, row.iter().map(|bytes| format!("{:6}", bytes / 1000)).collect::<String>());
        own.push(row[i]);
        pairs.extend(row[..i].iter().enumerate().map(|(j, &bytes)| ((j + 1, i + 1), bytes)));
    }
    let at_most = |share: f64| pairs.values().filter(|&&bytes| bytes as f64 <= share * touched as f64).count();
    println!("of {} pairs {} share nothing, {} at most 1 % of all", pairs.len(), at_most(0.0), at_most(0.01));
    assert!(at_most(0.0) > pairs.len() / 4 && at_most(0.01) > pairs.len() * 2 / 5);
    // Nearly all that 17 reads.
    for cluster in [(9, 17), (9, 19), (17, 19)] {
        assert!(pairs[&cluster] > own[17 - 1] * 95 / 100, "{cluster:?}");
    }
    assert!(own.iter().sum::<u64>() > 3 * touched, "queries ask for much more than there is");
}
