//! Queries in a closed loop.
#![allow(clippy::unwrap_used)]

use pagecast_core::policy::PolicySpec;
use pagecast_core::{PageId, RelationId, Tick};
use pagecast_sim::closed::{
    Delivery, Figures, Machine, Outcome, Query, ScanProgram, Settings, Stop, Table, Workload, base_times, run,
};

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
        let scan =
            ScanProgram { table: 0, columns: vec![0], joined: None, rows, row_cost: 0.0, in_order: false, stop: None };
        Query { kind, after: 0, scans: vec![scan] }
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
    assert_eq!(ends(&[&[0], &[1]], "opportunistic"), [20, 10], "in any order, but nobody lets the short one go first");
}

const DELIVERIES: [&str; 10] = [
    "ordered",
    "attach",
    "elevator(window=0)",
    "elevator",
    "throttled(gap=1)",
    "unordered",
    "unordered(outstanding=1,workers=3)",
    "unordered(outstanding=4,least=5)",
    "opportunistic(workers=2)",
    "static(scans=3)",
];

fn made(workload: &str, seed: u64) -> Workload {
    Workload::make(workload, seed).unwrap()
}

/// Pages and units that the scans of a workload read, each as often as there are scans.
fn demand(workload: &Workload) -> (u64, u64) {
    let (mut pages, mut units) = (0, 0);
    for scan in workload.streams.iter().flatten().flat_map(|query| &query.scans) {
        let table = &workload.tables[scan.table];
        for unit in 0..u64::from(table.units) {
            let start = scan.rows.start.max(unit * table.rows);
            let end = scan.rows.end.min((unit + 1) * table.rows);
            units += u64::from(start < end);
            for &column in &scan.columns {
                let of_column = u64::from(table.columns[column]);
                // Beginnings of pages are rounded down.
                let begin = |page: u64| unit * table.rows + page * table.rows / of_column;
                pages +=
                    (0..of_column).filter(|&page| begin(page).max(start) < begin(page + 1).min(end)).count() as u64;
            }
        }
    }
    (pages, units)
}

/// However scans get their rows: each page is asked for once by each scan that needs it, each
/// chunk is taken once, and streams end, with a pool of any size.
#[test]
fn every_scan_reads_what_it_needs_once() {
    for seed in 1..4 {
        let tables = if seed == 3 { 2 } else { 1 };
        let units = 12 / tables;
        let text = format!("speeds(streams=6,queries=3,tables={tables},units={units},sizes=10+40+100,ordered=20%)");
        let workload = made(&text, seed);
        let (pages, units) = demand(&workload);
        for delivery in DELIVERIES {
            // A unit has 16 pages.
            for frames in [1, 5, 40, 192] {
                let outcome = outcome(&workload, Machine::default(), delivery, "pbm", frames);
                let case = format!("{delivery} with {frames} frames, seed {seed}");
                // Shares of a scan may meet inside a page. In units no others do.
                let split = delivery.starts_with("static");
                let requests = outcome.counts.requests;
                assert!(
                    requests == pages || (split && requests > pages && requests < pages * 5 / 4),
                    "{case}: {requests}"
                );
                assert!(outcome.reads <= 2 * requests && outcome.streams.iter().all(|&end| end > 0), "{case}");
                let pictures = outcome.pictures.unwrap();
                let steps = pictures.steps.len() as u64;
                assert!(steps == units || (split && steps > units), "{case}: {steps} of {units}");
                if delivery == "ordered" {
                    assert_eq!((outcome.chunks, pictures.loads.len()), (0, 0), "{case}");
                }
            }
        }
    }
}

/// The pool holds everything: each page is read once, whatever the delivery.
#[test]
fn nothing_is_gained_where_everything_fits() {
    let workload = made("speeds(streams=8,queries=2,units=20,sizes=50+100)", 1);
    let whole = workload.pages();
    let reads = |delivery| outcome(&workload, Machine::default(), delivery, "pbm", whole).reads;
    let ordered = reads("ordered");
    assert!(DELIVERIES.into_iter().all(|delivery| reads(delivery) == ordered));
}

/// One scan alone reads each of its pages once, in the same time but for what overlaps: in any
/// order it works on a unit when all of it is there.
#[test]
fn nothing_is_lost_by_a_scan_alone() {
    let workload = made("speeds(streams=1,queries=1,units=50,sizes=100)", 1);
    let alone = |delivery| outcome(&workload, Machine::default(), delivery, "pbm", 64);
    let ordered = alone("ordered");
    for delivery in ["attach", "elevator", "throttled"] {
        assert_eq!(alone(delivery), ordered, "{delivery}: nobody to share with");
    }
    for delivery in ["unordered", "unordered(workers=4)", "opportunistic(workers=2)"] {
        let any = alone(delivery);
        assert_eq!(any.reads, ordered.reads, "{delivery}");
        assert!(any.total < ordered.total * 103 / 100, "{delivery}: {} and {}", any.total, ordered.total);
    }
}

/// Two scans of a whole table in a pool of a tenth. Of equal speeds, the second one saves reads if
/// it begins where the first is. Of a fast and a slow one, the fast one saves some if it waits. One
/// cursor reads each page once, and the fast one is as slow as the other.
#[test]
fn scans_in_order_that_keep_together_read_less() {
    let of = |costs: [f64; 2], delivery: &str| {
        let mut workload = made("speeds(streams=2,queries=1,units=60,sizes=100,speeds=F)", 1);
        for (stream, cost) in workload.streams.iter_mut().zip(costs) {
            stream[0].scans[0].row_cost = cost;
        }
        workload.streams[1][0].after = SECOND;
        let frames = workload.pages() / 10;
        outcome(&workload, Machine { bandwidth: 4e8, ..Machine::default() }, delivery, "pbm", frames)
    };
    let pages = of([100.0, 100.0], "ordered(ahead=0)").counts.requests / 2;
    let [ordered, attach] = ["ordered", "attach"].map(|delivery| of([100.0, 100.0], delivery).reads);
    assert!(attach < ordered * 4 / 5 && attach < pages * 5 / 4, "{ordered} and {attach} of {pages}");
    let deliveries = ["attach", "throttled(gap=1)", "throttled(gap=1,slower=1000%,group=60)", "elevator"];
    let runs = deliveries.map(|delivery| of([100.0, 20.0], delivery));
    let reads: Vec<_> = runs.iter().map(|run| run.reads).collect();
    let fast: Vec<_> = runs.iter().map(|run| run.streams[1] - SECOND).collect();
    println!("{pages} pages, {ordered} and {attach}, {reads:?} in {fast:?}");
    assert!(reads.is_sorted_by(|more, less| more > less) || reads[2] == reads[3], "{reads:?}");
    assert!(fast.is_sorted() && fast[1] < fast[0] * 2 && fast[3] > fast[0] * 3, "{fast:?}");
}

/// What is needed by scans that run is counted up and down to nothing.
#[test]
fn sharing_begins_with_what_the_first_queries_need() {
    let workload = made("columns(streams=3,queries=1,sets=ABC,share=100%,units=4)", 1);
    let bytes = |pages: u64| pages * u64::from(workload.page_bytes);
    for delivery in ["ordered", "unordered"] {
        let sharing = outcome(&workload, Machine::default(), delivery, "lru", 100).pictures.unwrap().sharing;
        let most = sharing.iter().map(|moment| moment.bytes[2]).max();
        assert_eq!(most, Some(bytes(4 * 48)), "{delivery}: all three scans need three columns");
        assert_eq!(sharing.last().unwrap().bytes, [0; 5], "{delivery}");
        assert!(sharing.iter().all(|moment| moment.bytes.iter().sum::<u64>() <= bytes(4 * 48)), "{delivery}");
    }
}

/// The same settings give the same run.
#[test]
fn a_run_can_be_repeated() {
    let workload = made("speeds(streams=5,queries=2,units=15)", 7);
    for delivery in DELIVERIES {
        let one = outcome(&workload, Machine::default(), delivery, "pbm", 80);
        assert_eq!(one, outcome(&workload, Machine::default(), delivery, "pbm", 80), "{delivery}");
    }
}

/// Streams that come and go, several tables, queries of one row beside, some that are cancelled and
/// some that are left for minutes: all end, nothing is held or wanted after that.
#[test]
fn a_mixed_day_ends() {
    for seed in 1..4 {
        let workload = made("mixed(streams=8,queries=4,units=12,stops=25%,cancels=25%,points=2)", seed);
        let names = ["stopped", "cancelled", "one row"];
        let [stopped, cancelled, _] = names.map(|name| workload.types.iter().position(|of| of == name).unwrap());
        for delivery in DELIVERIES {
            for frames in [1, 40, 200] {
                let outcome = outcome(&workload, Machine::default(), delivery, "pbm", frames);
                let case = format!("{delivery} with {frames} frames, seed {seed}");
                let ended: usize = outcome.latencies.iter().map(Vec::len).sum();
                assert_eq!(ended, 8 * 4 + 2 * 4 * 50, "{case}");
                assert!(outcome.latencies[stopped].iter().all(|&took| took >= 300 * SECOND), "{case}");
                // All scans of an elevator stop with one.
                let waits = delivery.starts_with("elevator");
                assert!(waits || outcome.latencies[cancelled].iter().all(|&took| took < 300 * SECOND), "{case}");
                // Shares of a scan may meet inside a page.
                let whole = demand(&workload).0 * if delivery.starts_with("static") { 5 } else { 4 } / 4;
                assert!(outcome.counts.requests < whole, "{case}: a cancelled query does not read to its end");
                assert_eq!(outcome.pictures.unwrap().sharing.last().unwrap().bytes, [0; 5], "{case}");
            }
        }
    }
}

/// In any order, a scan that nobody takes rows from for hours costs the others little: they are
/// done as soon as if it were cancelled there. In order its next pages stay.
#[test]
fn a_stopped_scan_is_in_nobodys_way() {
    let others = |delivery, pause: Option<Tick>| -> Tick {
        let end = |seed| {
            let mut workload = made("speeds(streams=9,queries=2,units=60)", seed);
            let rows = workload.tables[0].all_rows();
            let scan = &mut workload.streams[0][0].scans[0];
            (scan.rows, scan.stop) = (0..rows, Some(Stop { rows: rows / 5, pause }));
            workload.streams[0].truncate(1);
            let frames = workload.pages() * 30 / 100;
            *outcome(&workload, Machine::default(), delivery, "pbm", frames).streams[1..].iter().max().unwrap()
        };
        (1..=4).map(end).sum()
    };
    for delivery in ["unordered", "unordered(workers=3)"] {
        let (stopped, cancelled) = (others(delivery, Some(10_000 * SECOND)), others(delivery, None));
        assert!(stopped < cancelled * 105 / 100, "{delivery}: {stopped} and {cancelled}");
    }
}

/// Table 6.1 in small: half of the units, two queries a stream. In each size in any order is
/// ahead of in-order PBM, and that of LRU, in all that the table has; and a scan that reads for
/// itself saves as much, but not the latency.
#[test]
fn the_basic_benchmark_in_small() {
    for share in [20, 40, 60, 80] {
        let mean = |delivery: &str, policy: &str| -> [f64; 4] {
            let mut sums = [0.0; 4];
            for seed in 1..=2 {
                let workload = made("speeds(units=120,queries=2)", seed);
                let machine = Machine { bandwidth: 5e7, ..Machine::default() };
                let frames = workload.pages() * share / 100;
                let (delivery, policy) = (Delivery::parse(delivery).unwrap(), policy.parse().unwrap());
                let settings = Settings { machine, delivery: &delivery, policy: &policy, frames, seed, record: false };
                let base = base_times(&workload, machine).unwrap();
                let figures = Figures::of(&workload, &run(&workload, settings).unwrap(), &base);
                let of = [figures.bytes_read, figures.stream_seconds, figures.total_seconds, figures.normalized];
                sums.iter_mut().zip(of).for_each(|(sum, figure)| *sum += figure);
            }
            sums
        };
        let [lru, pbm] = ["lru", "pbm"].map(|policy| mean("ordered", policy));
        let [any, each] = ["unordered", "opportunistic"].map(|delivery| mean(delivery, "pbm"));
        for figure in 0..4 {
            let case = format!("figure {figure} at {share} %: {} {} {}", lru[figure], pbm[figure], any[figure]);
            assert!(any[figure] < pbm[figure] && pbm[figure] < lru[figure], "{case}");
        }
        assert!(each[0] < pbm[0] && each[3] > any[3], "{share} %: {each:?} and {any:?}");
        if share == 40 {
            assert!(any[0] < 0.36 * lru[0] && any[0] < 0.73 * pbm[0], "{} of {} and {}", any[0], lru[0], pbm[0]);
        }
    }
}

#[test]
fn what_there_is_not_is_refused_in_one_line() {
    let workload = |text| Workload::make(text, 1).unwrap_err();
    assert_eq!(workload("mix"), "unknown workload `mix`; there are speeds, columns, joins, mixed");
    assert!(workload("speeds(speeds=X)").contains("`speeds=X` must be letters F and S"));
    assert!(workload("speeds(sizes=0)").contains("`sizes=0` must be per cent"));
    assert!(workload("columns(sets=CA)").contains("in the order of the letters"));
    assert!(workload("columns(rows=3)").contains("has no parameter `rows`; it has streams"));
    assert!(workload("speeds(tables=1000,units=100000)").contains("would have 1600000000 pages; at most"));
    let many = made("speeds(streams=1024,queries=1,units=100000)", 1);
    let (delivery, policy) = (Delivery::parse("static(scans=64)").unwrap(), PolicySpec::parse("lru").unwrap());
    let machine = Machine::default();
    let settings = Settings { machine, delivery: &delivery, policy: &policy, frames: 9, seed: 1, record: false };
    assert!(run(&many, settings).unwrap_err().to_string().contains("fewer streams or units"));
    let delivery = |text| Delivery::parse(text).unwrap_err();
    assert_eq!(
        delivery("any"),
        "unknown delivery `any`; there are ordered, attach, elevator, throttled, unordered, opportunistic, static"
    );
    assert!(delivery("ordered(workers=2)").contains("has no parameter `workers`; it has ahead"));
}

/// Joins along the clustering read less in any order than in that of the keys, each row once.
#[test]
fn joins_read_less_in_any_order() {
    let read = |workload: &Workload, delivery| {
        outcome(workload, Machine::default(), delivery, "pbm", workload.pages() / 4).reads
    };
    let alone =
        |by: &str| Workload::make(&format!("joins(streams=1,queries=1,units=40,sizes=100,mix=CMJ1{by})"), 3).unwrap();
    // CMJ1 reads 8 pages of lineitem and 2 of orders in each unit.
    assert_eq!((read(&alone(""), "ordered"), read(&alone(""), "unordered")), (400, 400));
    let apart = alone(",by=hash");
    assert_eq!((apart.streams[0][0].scans.len(), read(&apart, "unordered")), (2, 400));
    let workload = Workload::make("joins(units=60,sizes=10+50+100)", 3).unwrap();
    let (ordered, unordered) = (read(&workload, "ordered"), read(&workload, "unordered"));
    assert!(unordered * 4 <= ordered * 3, "{unordered} of {ordered}");
}
