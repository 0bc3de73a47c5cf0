//! Balance, and what moves when workers come and go, counted. The figures that a test prints are
//! those of the laboratory's note.
#![allow(clippy::unwrap_used)]

use super::{Load, RangeId, Workers, mix};

fn workers(count: usize) -> Workers {
    Workers::new((0..count).map(|worker| format!("http://worker-{worker}:50051")))
}

/// Ranges of some files, of which the last one of each is smaller.
fn ranges(count: usize, of_a_file: usize) -> Vec<Load> {
    let range = |i: usize| {
        let (file, number) = (i / of_a_file, i % of_a_file);
        let is_last = number + 1 == of_a_file;
        let bytes = if is_last { mix(file as u64) % (64 << 20) } else { 64 << 20 };
        Load { id: RangeId::new("s3://lake", &format!("t/part-{file}.parquet"), number as u64), bytes }
    };
    (0..count).map(range).collect()
}

struct Balance {
    /// The fullest worker's bytes, beside the mean.
    fullest: f64,
    emptiest: f64,
    /// Share of ranges that are not on their first choice.
    second: f64,
}

fn balance(workers: &Workers, ranges: &[Load], homes: &[usize]) -> Balance {
    let mut loads = vec![0u64; workers.len()];
    for (range, &home) in ranges.iter().zip(homes) {
        loads[home] += range.bytes.max(1);
    }
    let mean = loads.iter().sum::<u64>() as f64 / loads.len() as f64;
    // Of many, a hundredth tells.
    let step = ranges.len().div_ceil(20_000);
    let some = || ranges.iter().zip(homes).step_by(step);
    let away = some().filter(|(range, home)| workers.first_choice(range.id) != Some(**home));
    Balance {
        fullest: loads.iter().copied().max().unwrap() as f64 / mean,
        emptiest: loads.iter().copied().min().unwrap() as f64 / mean,
        second: away.count() as f64 / some().count() as f64,
    }
}

/// The share of ranges whose worker is another one: of all, and those that went from a worker that
/// stayed to one that was there before.
fn moved(before: (&Workers, &[usize]), after: (&Workers, &[usize])) -> (f64, f64) {
    let place = |workers: &Workers, name| workers.names().binary_search(name).ok();
    let now: Vec<Option<usize>> = before.0.names().iter().map(|name| place(after.0, name)).collect();
    let was: Vec<Option<usize>> = after.0.names().iter().map(|name| place(before.0, name)).collect();
    let (mut all, mut needless) = (0, 0);
    for (&from, &to) in before.1.iter().zip(after.1) {
        let is_other = now[from] != Some(to);
        all += usize::from(is_other);
        needless += usize::from(is_other && now[from].is_some() && was[to].is_some());
    }
    (all as f64 / before.1.len() as f64, needless as f64 / before.1.len() as f64)
}

/// Places `count` ranges on `fleet` workers, then on more and on fewer, and prints a line for each.
fn simulate(fleet: usize, count: usize, changes: &[i64]) -> Vec<(Balance, f64, f64)> {
    let ranges = ranges(count, 16);
    let first = workers(fleet);
    let homes = first.place(&ranges);
    let report = |name: &str, balance: &Balance, moved: f64, needless: f64| {
        let Balance { fullest, emptiest, second } = balance;
        println!(
            "{count} ranges, {name}: fullest {fullest:.4}, emptiest {emptiest:.4} of the mean, {second:.5} not on their first choice, {moved:.5} moved, {needless:.5} between workers that stayed"
        );
    };
    let start = balance(&first, &ranges, &homes);
    report(&format!("{fleet} workers"), &start, 0.0, 0.0);
    let mut results = vec![(start, 0.0, 0.0)];
    for &change in changes {
        let now = workers(fleet.saturating_add_signed(change as isize));
        let after = now.place(&ranges);
        let (share, needless) = moved((&first, &homes), (&now, &after));
        let balance = balance(&now, &ranges, &after);
        report(&format!("{change:+} workers"), &balance, share, needless);
        results.push((balance, share, needless));
    }
    results
}

#[test]
fn a_thousand_workers_and_a_million_ranges() {
    let results = simulate(1000, 1_000_000, &[1, -50]);
    let change = [0.0, 1.0 / 1001.0, 50.0 / 1000.0];
    for ((balance, moved, needless), share) in results.iter().zip(change) {
        assert!(balance.fullest < 1.25 && balance.emptiest > 0.8, "{} {}", balance.fullest, balance.emptiest);
        assert!((moved - share).abs() < 0.1 * share + 1e-9, "{moved} moved for a share of {share}");
        assert!(*needless == 0.0, "{needless} moved for nothing");
    }
}

#[test]
fn ten_ranges_a_worker_stay_below_the_bound() {
    let results = simulate(1000, 10_000, &[1, -1, 50, -50]);
    for (balance, moved, _) in &results {
        // A worker that is not full yet may get one more range: a tenth of the mean.
        assert!(balance.fullest < 1.25 + 0.12, "{}", balance.fullest);
        assert!(*moved < 0.12, "{moved}");
    }
}

#[test]
fn three_workers_share_a_table() {
    for count in [6, 12, 30, 60, 120] {
        let results = simulate(3, count, &[1, -1]);
        for (balance, ..) in &results {
            let largest = 4.0 / count as f64;
            assert!(balance.fullest < 1.25 + 1.2 * largest, "{}", balance.fullest);
        }
    }
}

#[test]
fn the_order_of_listing_changes_nothing() {
    let (workers, mut ranges) = (workers(7), ranges(500, 5));
    let mut homes = workers.place(&ranges);
    ranges.reverse();
    homes.reverse();
    assert_eq!(workers.place(&ranges), homes);
    let shuffled = Workers::new(workers.names().iter().rev().chain(workers.names()).cloned());
    assert_eq!(shuffled, workers);
}

#[test]
fn one_worker_has_all_and_none_has_none() {
    let ranges = ranges(20, 4);
    assert_eq!(workers(1).place(&ranges), [0; 20]);
    assert_eq!(workers(0).place(&ranges), [0; 0]);
    assert_eq!(workers(0).first_choice(ranges[0].id), None);
    assert_eq!(workers(3).place(&[]), [0; 0]);
}

#[test]
fn ranges_without_bytes_are_spread() {
    let ranges: Vec<Load> = ranges(300, 4).into_iter().map(|range| Load { bytes: 0, ..range }).collect();
    let homes = workers(3).place(&ranges);
    for worker in 0..3 {
        let has = homes.iter().filter(|&&home| home == worker).count();
        assert!((60..=126).contains(&has), "worker {worker} has {has} of 300");
    }
}

#[test]
fn ids_are_the_same_in_every_version() {
    // Another value would send every range of a running fleet to another worker.
    assert_eq!(RangeId::new("s3://lake", "t/part-0.parquet", 3), RangeId(3_558_991_256_766_630_412));
    assert_ne!(RangeId::new("ab", "c", 0), RangeId::new("a", "bc", 0));
    assert_ne!(RangeId::new("a", "b", 0), RangeId::new("a", "b", 1));
}
