//! Hosts that misbehave, through the policies that believe them: scans that stall, lie, go back or
//! come by the thousand, and clocks that stand still. What each costs is printed (`--nocapture`)
//! and bounded.
#![allow(clippy::unwrap_used)]

use pagecast_core::RelationId;
use pagecast_core::oracle::NoScans;
use pagecast_core::policy::{Access, PolicySpec, names};
use pagecast_core::predictor::Run;
use pagecast_sim::generate::generate;
use pagecast_sim::replay::{PageIds, accesses, belady_misses, replay};
use pagecast_sim::simulation::{Interleaving, simulate};
use pagecast_sim::trace::{Action, Extent, Record, Registration, Source, Trace, TraceError};

const PAGES: u32 = 2_000;
const FRAMES: u32 = 500;
/// A stream that the workload has not.
const STRANGER: u32 = 8;
/// Of what is missed among honest scans alone.
const LIMIT: f64 = 1.25;
const PREDICTIVE: [&str; 4] = ["pbm-paper", "pbm-pq", "pbm(history=off)", "pbm"];

struct Records(std::vec::IntoIter<Record>);

impl Source for Records {
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        Ok(self.0.next())
    }
}

/// Eight streams of scans that behave.
fn honest() -> Vec<Record> {
    let mut source = generate(&format!("sequential(streams=8,queries=4,pages={PAGES})"), 3).unwrap();
    std::iter::from_fn(|| source.next().unwrap()).collect()
}

/// What the workload's scans read and write.
fn relation(records: &[Record]) -> RelationId {
    let page = records.iter().find_map(|record| match record.action {
        Action::Request { page, .. } => Some(page),
        _ => None,
    });
    page.unwrap().relation()
}

/// The strangers' scans come first, so that theirs are the first numbers.
fn joined(strangers: Vec<Record>, scans: u32, honest: Vec<Record>) -> Vec<Record> {
    let later = |mut record: Record| {
        match &mut record.action {
            Action::Register(registration) => registration.scan += scans,
            Action::Request { scan: Some(scan), .. } | Action::Report { scan, .. } | Action::Finish { scan } => {
                *scan += scans
            }
            _ => {}
        }
        record
    };
    strangers.into_iter().chain(honest.into_iter().map(later)).collect()
}

fn registered(relation: RelationId, scan: u32, first: u32, blocks: u32) -> Record {
    let run = Run { first, blocks, position: 0, span: u64::from(blocks) };
    let parts = vec![(relation, Extent::Runs(vec![run]))];
    let registration = Registration { scan, kind: 0, length: u64::from(blocks), parts, template: None };
    Record { stream: STRANGER, action: Action::Register(Box::new(registration)) }
}

/// Misses by policy, in the order of [`PREDICTIVE`], and of LRU.
fn misses(records: Vec<Record>) -> (Vec<u64>, u64) {
    let trace = Trace::load("adversary", &mut Records(records.into_iter())).unwrap();
    let of = |policy: &str| {
        let spec = PolicySpec::parse(policy).unwrap();
        simulate(&trace, &spec, FRAMES, 1, Interleaving::Fixed).unwrap().counts.misses
    };
    (PREDICTIVE.into_iter().map(of).collect(), of("lru"))
}

/// No policy misses more than `limit` times what it misses among scans that behave, and none more
/// than LRU, which hears nothing.
fn bounded(case: &str, records: Vec<Record>, limit: f64) {
    let (usual, _) = misses(honest());
    let (with, lru) = misses(records);
    for ((policy, usual), with) in PREDICTIVE.iter().zip(usual).zip(with) {
        println!("{case}: {policy} {usual} -> {with}, lru {lru}");
        assert!(with as f64 <= usual as f64 * limit, "{case}: {policy} {usual} -> {with}");
        assert!(with <= lru, "{case}: {policy} {with}, lru {lru}");
    }
}

/// It comes to the middle of the table and stays there: what lies ahead of it is always wanted.
#[test]
fn a_scan_that_stalls_for_ever() {
    let honest = honest();
    let mut strangers = vec![registered(relation(&honest), 0, 0, PAGES)];
    let reports = (1..=10).map(|step| Action::Report { scan: 0, position: 50 * step });
    strangers.extend(reports.map(|action| Record { stream: STRANGER, action }));
    bounded("stalled", joined(strangers, 1, honest), LIMIT);
}

#[test]
fn one_that_registers_everything_and_reads_nothing() {
    let honest = honest();
    let strangers = vec![registered(relation(&honest), 0, 0, u32::MAX)];
    bounded("everything", joined(strangers, 1, honest), LIMIT);
}

/// After each report every scan says that it is back at half of the way.
#[test]
fn scans_that_jump_backwards() {
    let mut records = Vec::new();
    for record in honest() {
        let back = match record.action {
            Action::Report { scan, position } => Some(Action::Report { scan, position: position / 2 }),
            _ => None,
        };
        let stream = record.stream;
        records.push(record);
        records.extend(back.map(|action| Record { stream, action }));
    }
    bounded("backwards", records, 1.0);
}

/// At once, of all sizes, and none of them reads. Most end as they began; a hundred stay and say
/// nothing.
#[test]
fn ten_thousand_registrations() {
    const SCANS: u32 = 10_000;
    let honest = honest();
    let relation = relation(&honest);
    let begun = (0..SCANS).map(|scan| registered(relation, scan, scan % PAGES, 1 + scan % 97));
    let ended = (100..SCANS).map(|scan| Record { stream: STRANGER, action: Action::Finish { scan } });
    bounded("10,000", joined(begun.chain(ended).collect(), SCANS, honest), LIMIT);
}

/// No order is told by time then, and every policy of the catalog still finds a victim whenever it
/// must; those that keep an order of their own do not even notice.
#[test]
fn clocks_that_stand_still_or_run_back() {
    let trace: Vec<_> = honest()
        .iter()
        .filter_map(|record| match record.action {
            Action::Request { page, .. } => Some(page),
            _ => None,
        })
        .collect();
    let fewest = belady_misses(&trace, FRAMES, |_| ()).unwrap();
    let clocks: [fn(u64) -> u64; 3] = [|_| 0, |_| u64::MAX, |at| u64::MAX - at];
    for spec in names().map(|name| PolicySpec::parse(name).unwrap()).filter(|spec| !spec.needs_trace()) {
        let misses = |clock: fn(u64) -> u64| {
            let accesses = accesses(&trace).map(|access| Access { at: clock(access.at), ..access });
            replay(accesses, PageIds::Sparse, &spec, FRAMES, 1, &NoScans, |_| ()).unwrap().misses
        };
        let usual = misses(|at| at);
        for clock in clocks {
            let found = misses(clock);
            assert!(fewest <= found && found <= trace.len() as u64, "{spec}: {found}");
            if ["fifo", "lru", "arc", "2q", "lirs", "clock", "sieve", "s3-fifo"].contains(&spec.name()) {
                assert_eq!(found, usual, "{spec}");
            }
        }
    }
}
