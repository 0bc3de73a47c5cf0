//! A report that comes back, in a pool that other queries fill meanwhile.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use pagecast::forecast::Query;
use pagecast::storage::{Device, MemoryFiles};
use pagecast::{Pool, PoolOptions, Relation};

const PAGE: u64 = 4096;
const ROUNDS: usize = 10;
const REPORT: Query = Query { fingerprint: 7, table: 1, again_in: 0 };

fn pool(policy: &str, files: &MemoryFiles) -> Pool {
    let options = PoolOptions::default().memory(3 << 20).page_size(PAGE as u32).policy(policy.parse().unwrap());
    Pool::new(options.device(Device::new(files.clone(), None))).unwrap()
}

fn files() -> MemoryFiles {
    let files = MemoryFiles::new();
    files.write("report", vec![1; 100 * PAGE as usize]);
    (0..ROUNDS).for_each(|number| files.write(number.to_string(), vec![2; 1000 * PAGE as usize]));
    files
}

/// Reads all pages of the relation, and says how many came from storage.
fn read(pool: &Pool, relation: &Relation, query: Option<Query>) -> u64 {
    let before = pool.stats().loads;
    let scan = pool.scan(relation).unwrap();
    query.into_iter().for_each(|query| scan.recurs(query));
    for block in 0..relation.pages() {
        drop(relation.pin(block, Some(scan.id())).unwrap());
        scan.report(u64::from(block) + 1);
    }
    pool.stats().loads - before
}

/// Rounds of a report and a larger scan that never comes back: pages that the reports of the last
/// five rounds read from storage.
fn misses_of_reports(pool: &Pool) -> u64 {
    let report = pool.open("report".as_ref()).unwrap();
    let mut misses = Vec::new();
    for number in 0..ROUNDS {
        misses.push(read(pool, &report, Some(REPORT)));
        read(pool, &pool.open(number.to_string().as_ref()).unwrap(), None);
        std::thread::sleep(Duration::from_millis(20));
    }
    misses[5..].iter().sum()
}

#[test]
fn pages_of_a_report_stay_until_it_comes_back() {
    let files = files();
    let [with, without] = ["pbm(forecast=on)", "pbm"].map(|policy| misses_of_reports(&pool(policy, &files)));
    assert!(with * 4 < without, "{with} pages were read again, and {without} without forecast");
}

#[test]
fn what_is_forgotten_is_not_expected() {
    let pool = pool("pbm(forecast=on)", &files());
    misses_of_reports(&pool);
    let [expected] = pool.expected()[..] else { panic!("one scan is expected") };
    let (resident, pages) = pool.in_memory(expected.id);
    assert!(resident > 50 && pages == 100, "{resident} of {pages}");
    assert!(pool.forget(REPORT.fingerprint) && !pool.forget(REPORT.fingerprint));
    assert!(pool.expected().is_empty() && pool.templates().is_empty());
}

#[test]
fn what_was_learned_is_known_after_a_restart() {
    let (files, folder) = (files(), tempfile::tempdir().unwrap());
    let hot = folder.path().join("hot");
    let before = pool("pbm(forecast=on)", &files);
    misses_of_reports(&before);
    before.dump_hottest(&hot, usize::MAX).unwrap();
    let after = pool("pbm(forecast=on)", &files);
    let report = after.open("report".as_ref()).unwrap();
    after.reload(&hot).unwrap().wait();
    let starts = || after.templates().iter().map(|known| known.starts_seen()).collect::<Vec<_>>();
    assert_eq!(starts(), [10]);
    read(&after, &report, Some(REPORT));
    assert_eq!(starts(), [11]);
    assert!(!after.expected().is_empty(), "one run is enough");
    // A pool without forecast reads the same file.
    let without = pool("pbm", &files);
    without.reload(&hot).unwrap().wait();
    assert!(without.templates().is_empty());
}
