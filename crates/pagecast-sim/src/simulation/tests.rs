#![allow(clippy::unwrap_used)]
use super::*;
use crate::generate::generate;
use crate::trace::{Action, Extent, Record, Registration, Source, TraceError};
use pagecast_core::RelationId;
use pagecast_core::predictor::Run;

struct Records(std::vec::IntoIter<Record>);

impl Source for Records {
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        Ok(self.0.next())
    }
}

fn trace(records: Vec<Record>) -> Trace {
    Trace::load("test", &mut Records(records.into_iter())).unwrap()
}

fn read(stream: u32, block: u32) -> Record {
    let page = PageId::new(RelationId(1), block);
    Record { stream, action: Action::Request { page, write: false, scan: None } }
}

/// A scan of blocks 0 to `blocks`, registered, reporting after every block, by stream `stream`.
fn scan(stream: u32, number: u32, blocks: u32) -> Vec<Record> {
    let run = Run { first: 0, blocks, position: 0, span: u64::from(blocks) };
    let parts = vec![(RelationId(1), Extent::Runs(vec![run]))];
    let registration = Registration { scan: number, kind: 0, length: u64::from(blocks), parts, template: None };
    let mut records = vec![Record { stream, action: Action::Register(Box::new(registration)) }];
    for block in 0..blocks {
        let page = PageId::new(RelationId(1), block);
        records.push(Record { stream, action: Action::Request { page, write: false, scan: Some(number) } });
        records.push(Record { stream, action: Action::Report { scan: number, position: u64::from(block) + 1 } });
    }
    records.push(Record { stream, action: Action::Finish { scan: number } });
    records
}

#[test]
fn a_miss_costs_its_latency_and_a_hit_only_the_work() {
    // Stream 0 reads one page ten times: a miss and nine hits. Stream 1 reads ten pages: ten
    // misses.
    let mut records: Vec<Record> = (0..10).map(|_| read(0, 0)).collect();
    records.extend((1..11).map(|block| read(1, block)));
    let trace = trace(records);
    let outcome = simulate(&trace, &"lru".parse().unwrap(), 20, 1, Interleaving::Logical { latency: 9 }).unwrap();
    let logical = outcome.logical.unwrap();
    assert_eq!(outcome.counts.misses, 11);
    assert_eq!((logical.ticks, logical.opt_misses), (10 * (1 + 9), 11));
}

#[test]
fn a_slow_stream_takes_its_pace_and_waits() {
    let mut records = vec![
        Record { stream: 0, action: Action::Pace { ticks: 5 } },
        Record { stream: 0, action: Action::Wait { until: 100 } },
    ];
    records.extend((0..10).map(|block| read(0, block)));
    let outcome =
        simulate(&trace(records), &"lru".parse().unwrap(), 20, 1, Interleaving::Logical { latency: 2 }).unwrap();
    assert_eq!(outcome.logical.unwrap().ticks, 100 + 10 * 7);
}

#[test]
fn predictions_come_from_registered_scans() {
    // Four scans of 200 blocks, 50 apart, in a pool of 60: a page that a follower will read is
    // worth keeping, the others are not. LRU keeps only what the last scans read, and loses each
    // page just before the follower comes.
    let scans: Vec<_> = (0..4).map(|number| scan(number, number, 200)).collect();
    let mut cursors: Vec<_> = scans.into_iter().map(|records| records.into_iter().peekable()).collect();
    let mut records = Vec::new();
    for step in 0..4 * 200 {
        for (number, cursor) in cursors.iter_mut().enumerate() {
            if step < number * 50 {
                break;
            }
            // The registration with the first block; then a block with its report; the end with the
            // last.
            while let Some(record) = cursor.next() {
                let reported = matches!(record.action, Action::Report { .. });
                records.push(record);
                if reported && !matches!(cursor.peek().map(|r| &r.action), Some(Action::Finish { .. })) {
                    break;
                }
            }
        }
    }
    let trace = trace(records);
    assert!(trace.has_scans());
    let misses = |policy: &str, interleaving| {
        simulate(&trace, &policy.parse().unwrap(), 60, 1, interleaving).unwrap().counts.misses
    };
    let (lru, pbm) = (misses("lru", Interleaving::Fixed), misses("pbm(samples=60)", Interleaving::Fixed));
    let opt = misses("opt", Interleaving::Fixed);
    assert!(opt <= pbm && pbm * 10 < lru * 7, "opt {opt}, pbm {pbm}, lru {lru}");
}

/// Index scans in no order of the table: a policy that knows when a page is wanted next keeps what
/// the scans in front have shown to those behind them, which without marks it would not know.
#[test]
fn index_scans_follow_the_marks_of_those_in_front() {
    let mut source = generate("trailing-index(streams=8,queries=4,pages=2000,range=0.02)", 3).unwrap();
    let trace = Trace::load("trailing", &mut source).unwrap();
    let misses = |policy: &str| {
        simulate(&trace, &policy.parse().unwrap(), 400, 1, Interleaving::Logical { latency: 10 }).unwrap().counts.misses
    };
    let (random, lru, pbm) = (misses("random"), misses("lru"), misses("pbm-paper(samples=20)"));
    println!("random {random}, lru {lru}, pbm-paper {pbm}");
    assert!(pbm * 100 < random.min(lru) * 95);
}

#[test]
fn a_refused_registration_is_named() {
    let mut records = scan(0, 0, 4);
    if let Action::Register(registration) = &mut records[0].action {
        registration.kind = 200;
    }
    for interleaving in [Interleaving::Fixed, Interleaving::Logical { latency: 1 }] {
        let error = simulate(&trace(records.clone()), &"pbm".parse().unwrap(), 2, 1, interleaving).unwrap_err();
        assert!(error.to_string().starts_with("test: scan 0 cannot be registered: "), "{error}");
    }
}

#[test]
fn both_page_tables_agree() {
    let records: Vec<_> = (0..3000u32).map(|i| read(0, i * i % 257)).collect();
    let mut with_scan = scan(1, 0, 1);
    with_scan.extend(records.iter().cloned());
    let mut without = vec![read(1, 0)];
    without.extend(records);
    for policy in ["lru", "clock", "opt"] {
        let misses = |records: &Vec<Record>| {
            let trace = trace(records.clone());
            simulate(&trace, &policy.parse().unwrap(), 50, 1, Interleaving::Fixed).unwrap().counts.misses
        };
        assert_eq!(misses(&with_scan), misses(&without), "{policy}");
    }
}

/// Both orders make the same requests: each page as often, as many writes.
#[test]
fn logical_time_makes_the_same_requests() {
    let workload = "ycsb(streams=9,operations=4000,pages=300,scans=3000,writes=0.3)";
    let trace = Trace::load("ycsb", &mut generate(workload, 3).unwrap()).unwrap();
    let options = Options::of(Interleaving::Logical { latency: 7 });
    let scans = RefCell::new(Scans::of(&trace, &options, false));
    let missed = Cell::new(true);
    let watch = Watch::default();
    let mut feed = Logical::new(&trace, &scans, &missed, 7, &watch);
    let made: Vec<Access> = feed.by_ref().collect();
    let count = |accesses: &mut dyn Iterator<Item = (u64, bool, bool)>| {
        let mut all: Vec<_> = accesses.collect();
        all.sort_unstable();
        all
    };
    let request =
        |at: usize| (trace.pages()[trace.requests()[at] as usize].raw(), trace.is_write(at), trace.scan(at).is_some());
    assert_eq!(
        count(&mut made.iter().map(|access| (access.page.raw(), access.write, access.scan.is_some()))),
        count(&mut (0..trace.requests().len()).map(request)),
    );
    assert!(made.is_sorted_by_key(|access| access.at));
    assert!(trace.writes() > 0 && trace.has_scans());
}

/// Told by the trace, a policy that looks at every frame stands between its own estimates and
/// Belady.
#[test]
fn what_the_trace_tells_is_a_limit() {
    let workload = "sequential(streams=8,queries=4,pages=600)";
    let trace = Trace::load(workload, &mut generate(workload, 5).unwrap()).unwrap();
    let misses =
        |policy: &str| simulate(&trace, &policy.parse().unwrap(), 150, 1, Interleaving::Fixed).unwrap().counts.misses;
    let every = PolicySpec::parse("pbm(samples=all,history=off)").unwrap();
    let told = simulate_foretold(&trace, &every, 150, 1).unwrap().counts.misses;
    let (opt, estimated, paper) = (misses("opt"), misses(every.name()), misses("pbm-paper"));
    println!("opt {opt}, told {told}, estimated {estimated}, pbm-paper {paper}");
    assert!(opt < told && told <= estimated && estimated < paper);
}

/// On scans alone `pbm` knows what `pbm(history=off)` does, and of pages that nobody wants how
/// often scans read where they lie: no more than a point behind in any of these pools, and ahead in
/// all of them together. In the order of the trace: in logical time other draws alone make more
/// difference.
#[test]
fn on_scans_alone_pbm_loses_nothing_by_what_it_learns() {
    let workload = "sequential(streams=8,queries=8,pages=2000)";
    let mut sums = (0, 0);
    for seed in 1..=3 {
        let trace = Trace::load(workload, &mut generate(workload, seed).unwrap()).unwrap();
        for frames in [300, 600, 900, 1200, 1600] {
            let misses = |policy: &str| {
                simulate(&trace, &policy.parse().unwrap(), frames, seed, Interleaving::Fixed).unwrap().counts.misses
            };
            let (auto, off) = (misses("pbm"), misses("pbm(history=off)"));
            println!("seed {seed}, {frames} frames: {auto} misses, {off} without");
            let bound = off + trace.requests().len() as u64 / 100;
            assert!(auto <= bound, "seed {seed}, {frames} frames: {auto} misses, {off} without");
            sums = (sums.0 + auto, sums.1 + off);
        }
    }
    assert!(sums.0 < sums.1, "{sums:?}");
}

/// Where scans ask for the same part again and again, pages of it are kept for the next that nobody
/// has registered yet.
#[test]
fn what_scans_read_often_stays_for_the_next() {
    for (workload, frames, saved) in [
        ("sequential(streams=8,queries=8,pages=2000,recent=0.8)", 500, 5),
        ("sequential(streams=32,queries=4,pages=800,tables=4)", 1100, 3),
    ] {
        let trace = Trace::load(workload, &mut generate(workload, 1).unwrap()).unwrap();
        let misses = |policy: &str| {
            simulate(&trace, &policy.parse().unwrap(), frames, 1, Interleaving::Fixed).unwrap().counts.misses
        };
        let (auto, off) = (misses("pbm"), misses("pbm(history=off)"));
        println!("{workload}: {auto} misses, {off} without");
        assert!(auto * 100 < off * (100 - saved), "{workload}: {auto} misses, {off} without");
    }
}

fn bitmaps() -> Trace {
    let workload = "bitmap(streams=6,queries=4,pages=1200,run=2)";
    Trace::load(workload, &mut generate(workload, 5).unwrap()).unwrap()
}

/// A bitset says as much as its runs. A bound that the runs do not fit costs misses, and no more
/// than knowing nothing.
#[test]
fn bitsets_are_their_runs_and_a_tight_bound_costs_misses() {
    let trace = bitmaps();
    let misses = |policy: &str, scan_words, bitsets| {
        let options = Options { scan_words, bitsets, ..Options::of(Interleaving::Fixed) };
        simulate_with(&trace, &policy.parse().unwrap(), 200, 1, &options).unwrap().counts.misses
    };
    let exact = misses("pbm-paper", 0, false);
    assert_eq!(exact, misses("pbm-paper", 0, true));
    // 360 blocks are 6 words and a rank, or some 36 runs.
    assert_eq!(exact, misses("pbm-paper", 8, true));
    let (coarse, unknown) = (misses("pbm-paper", 8, false), misses("random", 0, false));
    println!("exact {exact}, one run {coarse}, random {unknown}");
    assert!(exact < coarse && coarse < unknown);
}

/// A small recurring workload, and the misses of a policy on it in logical time.
fn misses_of(workload: &str, policy: &str) -> u64 {
    let trace = Trace::load("recurring", &mut crate::generate::generate(workload, 5).unwrap()).unwrap();
    let logical = Interleaving::Logical { latency: 10 };
    simulate(&trace, &policy.parse().unwrap(), trace.unique() / 5, 1, logical).unwrap().counts.misses
}

#[test]
fn what_is_expected_stays() {
    let workload = "recurring(days=1,templates=20,tables=4,pattern=peaks,one_off=40%)";
    let [with, without] = ["pbm(forecast=on)", "pbm"].map(|policy| misses_of(workload, policy));
    assert!(with * 100 < without * 90, "{with} {without}");
}

#[test]
fn a_forecast_without_what_comes_back_changes_nothing() {
    // Where each query comes once nothing is expected, and every choice is the same.
    let workload = "sequential(streams=4,queries=4,pages=2000)";
    assert_eq!(misses_of(workload, "pbm(forecast=on)"), misses_of(workload, "pbm"));
    let workload = "recurring(days=1,templates=1,tables=4,pattern=bursts,one_off=95%)";
    let [with, without] = ["pbm(forecast=on)", "pbm"].map(|policy| misses_of(workload, policy) as f64);
    assert!((with / without - 1.0).abs() < 0.01, "{with} {without}");
}
