#![allow(clippy::unwrap_used)]
use super::*;
use crate::simulation::{Interleaving, simulate};
use crate::trace::{Action, Extent, Source, Trace};
use pagecast_core::predictor::Run;

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
            "recurring" => "(days=1,templates=6,tables=2,grow=1,stop=50%,drift=50%,lie=50%)".to_owned(),
            "loop" => "(pages=50,rounds=3,streams=2)".to_owned(),
            "tuples" => "(requests=9000,pages=500,epochs=3,wide=50%,writes=10%,scans=20%)".to_owned(),
            "amg" => "(queries=3000,pages=500,epochs=3)".to_owned(),
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
        // At every time half of the reads are point reads, not only in the whole; when scans start
        // one by one, later.
        let middle = 600_000..1_400_000;
        let points = middle.clone().filter(|&at| trace.scan(at).is_none()).count();
        assert!((points as f64 / middle.len() as f64 - 0.5).abs() < 0.01, "{name}: {points}");
    }
}

/// A scan as its records tell it: what it registered, then its reports and its pages.
struct Told {
    kind: u8,
    run: Run,
    /// How far from its place a page may be read.
    scatter: u64,
    /// Pages in order, each with the last position reported before it.
    pages: Vec<(u64, u32)>,
}

fn told(text: &str) -> Vec<Told> {
    let mut source = generate(text, 7).unwrap();
    let (mut scans, mut position): (Vec<Told>, Vec<u64>) = Default::default();
    while let Some(record) = source.next().unwrap() {
        match record.action {
            Action::Register(r) => {
                let (run, scatter) = match &r.parts[0].1 {
                    Extent::Runs(runs) => (runs[0], 0),
                    Extent::Correlated { run, scatter, .. } => (*run, *scatter),
                };
                scans.push(Told { kind: r.kind, run, scatter, pages: Vec::new() });
                position.push(0);
            }
            Action::Report { scan, position: at } => position[scan as usize] = at,
            Action::Request { page, scan: Some(scan), .. } => {
                scans[scan as usize].pages.push((position[scan as usize], page.block()));
            }
            _ => {}
        }
    }
    scans
}

/// What an almost sequential scan says holds: its pages lie in its run, no further from its place
/// than it said.
#[test]
fn an_almost_sequential_scan_keeps_its_word() {
    let scans = told("sequential-index(streams=4,queries=3,pages=900,stray=20,report=5)");
    assert_eq!(scans.len(), 12);
    for scan in scans {
        assert_eq!(scan.kind, program::CORRELATED);
        assert!((20..25).contains(&scan.scatter), "two deviations of even straying by 20: {}", scan.scatter);
        let mut last = 0;
        for (place, block) in &scan.pages {
            assert!((scan.run.first..scan.run.first + scan.run.blocks).contains(block));
            // Between two reports the place is up to 5 pages further.
            let from = u64::from(block - scan.run.first).abs_diff(*place);
            assert!(from <= scan.scatter + 5, "page {block} is {from} pages from {place}");
            last = *place;
        }
        // And it gets there: at the end what is left is what keys stray over.
        assert!(u64::from(scan.run.blocks) - last <= 20 + 5 + 1, "{last} of {}", scan.run.blocks);
    }
}

/// An entry of the index leads every scan to the same page, and scans overlap, so that one can
/// follow another.
#[test]
fn trailing_scans_follow_each_other() {
    let scans = told("trailing-index(streams=8,queries=3,pages=900)");
    let mut page_of = std::collections::HashMap::new();
    let mut followed = 0;
    for scan in &scans {
        assert_eq!(scan.kind, program::INDEXED);
        for (position, block) in &scan.pages {
            assert!(*position < scan.run.span);
            let known = page_of.insert(u64::from(scan.run.first) + position, *block);
            assert!(known.is_none_or(|page| page == *block));
            followed += u32::from(known.is_some());
        }
    }
    assert!(followed > 0);
    // The fixed part of the keys lies on nearly all pages, as the paper says, and a query on up to
    // half of them.
    let trace = load("trailing-index(streams=8,queries=6,pages=900)");
    assert!(trace.unique() > 800, "{}", trace.unique());
    let mut of_one: Vec<u32> = scans[0].pages.iter().map(|page| page.1).collect();
    of_one.sort_unstable();
    of_one.dedup();
    assert!((300..450).contains(&of_one.len()), "{}", of_one.len());
}

#[test]
fn point_reads_make_their_share() {
    for workload in ["sequential", "trailing-index", "sequential-index"] {
        let trace = load(&format!("{workload}(streams=8,queries=4,pages=3000,points=30%)"));
        let points = (0..trace.requests().len()).filter(|&at| trace.scan(at).is_none()).count();
        let share = points as f64 / trace.requests().len() as f64;
        assert!((0.27..0.33).contains(&share), "{workload}: {share}");
    }
    // Without them every read is a scan's.
    let trace = load("trailing-index(streams=8,queries=4,pages=3000)");
    assert!((0..trace.requests().len()).all(|at| trace.scan(at).is_some()));
}

#[test]
fn concurrent_scans_are_concurrent() {
    let trace = load("dynzipf-like-cs");
    let mut last: Vec<_> = (1_000_000..1_001_000).filter_map(|at| trace.scan(at)).collect();
    last.sort_unstable();
    last.dedup();
    assert_eq!(last.len(), 16);
}

/// Millions of steps stay in memory while a workload is made.
#[test]
fn a_step_takes_16_bytes() {
    assert_eq!(size_of::<program::Step>(), 16);
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

/// The share of the requests for rows that the `pages` hottest pages and the `rows` hottest rows
/// take.
fn hottest(text: &str, pages: usize, rows: usize) -> (f64, f64) {
    let trace = load(text);
    let mut of_rows = std::collections::HashMap::new();
    for (at, &page) in trace.requests().iter().enumerate() {
        *of_rows.entry((page, trace.item(at).unwrap())).or_insert(0u32) += 1;
    }
    let mut of_rows: Vec<_> = of_rows.into_values().collect();
    of_rows.sort_unstable_by(|a, b| b.cmp(a));
    let row_share = of_rows[..rows].iter().sum::<u32>();
    (shares(&trace)[..pages].iter().sum(), f64::from(row_share) / trace.requests().len() as f64)
}

#[test]
fn clustering_gathers_the_same_rows_in_fewer_pages() {
    let of = |clustering| hottest(&format!("tuples(requests=200000,pages=1000,clustering={clustering})"), 50, 1600);
    let [scattered, half, clustered] = [0.0, 0.5, 1.0].map(of);
    for (_, rows) in [scattered, half, clustered] {
        // H(1600) / H(32,000) at exponent 0.99 is 0.716; the hottest of a sample have a bit more.
        assert!((rows - 0.718).abs() < 0.01, "the skew of the rows stays: {rows}");
    }
    assert!((clustered.0 - clustered.1).abs() < 0.01, "50 pages are 1600 rows: {clustered:?}");
    assert!(scattered.0 + 0.15 < half.0 && half.0 + 0.03 < clustered.0, "{scattered:?} {half:?} {clustered:?}");
    let (_, uniform) = hottest("tuples(requests=200000,pages=1000,skew=0)", 50, 1600);
    assert!(uniform < 0.1, "{uniform}");
}

#[test]
fn scans_make_their_share_and_rows_say_how_they_lie() {
    for (register, scans) in [("on", true), ("off", false)] {
        let trace =
            load(&format!("tuples(requests=100000,pages=1000,scans=30%,register={register},bytes=100,rows=40)"));
        let rows = (0..trace.requests().len()).filter(|&at| trace.item(at).is_some()).count();
        assert_eq!((trace.requests().len(), rows, trace.has_scans()), (100_000, 70_000, scans));
        // They run beside all the while: a tenth of the trace has its share of them.
        let early = (0..10_000).filter(|&at| trace.item(at).is_none()).count();
        assert!((2_500..3_500).contains(&early), "{early}");
        let layout = trace.rows(pagecast_core::RelationId(1)).unwrap();
        assert_eq!((layout.page, layout.count, layout.bytes), (4096, 40, 100));
    }
}

#[test]
fn a_fifth_of_the_pages_gets_four_fifths_of_the_published_queries() {
    let (pages, rows) = hottest("amg(queries=100000,pages=1000,hybrid=100%,inner=skewed)", 200, 200 * 6);
    assert!((pages - 0.8).abs() < 0.01, "{pages}");
    assert!(rows > 0.5, "the hot fifths of hot pages: {rows}");
    let trace = load("amg(queries=10000,pages=1000,hybrid=50%,reads=20%)");
    let writes = trace.writes() as f64 / trace.requests().len() as f64;
    assert!((writes - 0.8).abs() < 0.02, "{writes}");
    let per_query = trace.requests().len() as f64 / 10_000.0;
    assert!((per_query - 4.5).abs() < 0.1, "half the queries ask for eight tuples: {per_query}");
}

/// The starts of each template that comes again, by what the trace says.
fn starts(text: &str) -> std::collections::HashMap<u64, Vec<u64>> {
    let mut source = generate(text, 3).unwrap();
    let (mut waits, mut starts) = (vec![0; 8], std::collections::HashMap::<u64, Vec<u64>>::new());
    while let Some(record) = source.next().unwrap() {
        match record.action {
            Action::Wait { until } => waits[record.stream as usize] = until,
            Action::Register(scan) => {
                starts.entry(scan.template.unwrap()).or_default().push(waits[record.stream as usize]);
            }
            _ => {}
        }
    }
    starts.retain(|_, starts| starts.len() > 1);
    starts
}

#[test]
fn reports_come_back_as_their_pattern_says() {
    const HOUR: u64 = 3_600_000;
    let of = |pattern: &str| starts(&format!("recurring(days=2,templates=8,pattern={pattern},jitter=0,one_off=20%)"));
    for starts in of("steady").values() {
        let gap = starts[1] - starts[0];
        assert!(starts.windows(2).all(|pair| (pair[1] - pair[0]).abs_diff(gap) <= 1), "{starts:?}");
    }
    assert!(of("daily").values().flatten().all(|at| (7..19).contains(&(at / HOUR % 24))));
    for starts in of("peaks").values() {
        assert!(starts.windows(2).all(|pair| (pair[1] - pair[0]).abs_diff(HOUR) <= 120_000), "{starts:?}");
    }
    for starts in of("bursts").values() {
        let far = starts.windows(2).filter(|pair| pair[1] - pair[0] > 3 * HOUR).count();
        assert!(far > 0 && 2 * far < starts.len(), "{starts:?}");
    }
    let stopped = starts("recurring(days=2,templates=8,stop=100%,pattern=steady)");
    assert!(stopped.values().flatten().all(|&at| at < 24 * HOUR));
}

#[test]
fn one_off_scans_have_their_share() {
    let trace = load("recurring(days=1,templates=10,one_off=25%)");
    let scans: u64 = starts("recurring(days=1,templates=10,one_off=25%)").values().map(|of| of.len() as u64).sum();
    let all = generate("recurring(days=1,templates=10,one_off=25%)", 3)
        .map(|mut made| Trace::load("all", &mut made).unwrap());
    let share = 1.0 - scans as f64 / all.unwrap().scan_count() as f64;
    assert!((0.2..0.3).contains(&share), "{share}");
    assert_eq!((trace.clock().ticks_per_second, trace.clock().start % 86_400), (1000, 0));
}
