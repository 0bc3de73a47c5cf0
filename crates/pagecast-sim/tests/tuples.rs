//! Buffers of tuples as users see them: traces that name tuples, equal bytes, published buffers.
#![allow(clippy::unwrap_used)]

use pagecast_sim::generate::generate;
use pagecast_sim::trace::{Format, Rows, Trace, read_from};
use pagecast_sim::tuples::{TupleOptions, TupleOutcome, TupleSpec, simulate_tuples};

const ROWS: Rows = Rows { page: 1024, count: 8, bytes: 128 };

fn text(lines: &str, format: &str) -> Result<Trace, String> {
    let format: Format = format.parse().unwrap();
    let input = std::io::Cursor::new(lines.to_owned());
    let mut source = read_from(input, "a trace".as_ref(), &format).map_err(|error| error.to_string())?;
    Trace::load("a trace", source.as_mut()).map_err(|error| error.to_string())
}

fn options(memory: u64) -> TupleOptions {
    TupleOptions { memory, rows: ROWS, skip: 0.0, checkpoint: None, seed: 1 }
}

fn run(trace: &Trace, policy: &str, buffer: &str, options: &TupleOptions) -> TupleOutcome {
    let buffer = TupleSpec::parse(buffer).unwrap();
    simulate_tuples(trace, &policy.parse().unwrap(), buffer, options).unwrap()
}

fn misses(trace: &Trace, buffer: &str, memory: u64) -> u64 {
    run(trace, "lru", buffer, &options(memory)).counts.misses
}

#[test]
fn text_and_csv_name_tuples() {
    let lines = text("7 r 1 3\n7 w 1 4\n8 r 1\n", "text").unwrap();
    let csv = text("block,op,table,tuple\n7,r,1,3\n7,w,1,4\n8,r,1,\n", "csv").unwrap();
    for trace in [lines, csv] {
        let items: Vec<_> = (0..3).map(|at| (trace.requests()[at], trace.item(at), trace.is_write(at))).collect();
        assert_eq!(items, [(0, Some(3), false), (0, Some(4), true), (1, None, false)]);
    }
    for (lines, format) in [("7 r 1 4294967295\n", "text"), ("page,tuple\n7,x\n", "csv")] {
        assert!(text(lines, format).unwrap_err().contains("is no whole number below 2^32 - 1"), "{lines}");
    }
    assert!(text("page,cell\n1,2\n", "csv(tuple=row)").unwrap_err().contains("no column `row`"));
}

/// By hand. Of the memory 12 KiB are set aside for LRU, and a page of 1024 takes about 1200.
#[test]
fn what_leaves_f_goes_to_s_by_its_tuples() {
    let trace = text("1 r 1 0\n2 r 1 0\n3 r 1 0\n1 r 1 0\n1 r 1 5\n1 r 1 0\n", "text").unwrap();
    let mg = run(&trace, "lru", "mg(f=25%)", &options(40_000)).counts;
    // F has five pages, and all tuples are found in theirs.
    assert_eq!((mg.misses, mg.tuple_hits), (3, 0));
    let small = run(&trace, "lru", "mg(f=10%)", &options(22_000)).counts;
    // One page in F: 1, 2 and 3 are read; 1.0 is in S; 1.5 is not, and brings page 1 back whole.
    assert_eq!((small.misses, small.tuple_hits), (4, 1));
}

#[test]
fn a_dirty_tuple_of_mg_costs_a_read_and_a_write_when_it_leaves() {
    let trace = text("1 w 1 0\n2 r 1 0\n1 w 1 1\n", "text").unwrap();
    let options = TupleOptions { checkpoint: Some(3), ..options(14_000) };
    let counts = run(&trace, "lru", "mg(f=10%)", &options).counts;
    // The second write finds page 1 in S and goes there unread; the checkpoint cleans it.
    assert_eq!((counts.misses, counts.tuple_hits, counts.cleaning_reads, counts.write_backs), (2, 1, 1, 1));
}

#[test]
fn a_dense_page_of_amg_stays_whole_if_p_has_room() {
    let wide: String = (1..=40).flat_map(|page| (0..8).map(move |row| format!("{page} r 1 {row}\n"))).collect();
    let trace = text(&wide.repeat(20), "text").unwrap();
    let amg = |options| misses(&trace, options, 64 * 1024);
    assert_eq!(amg("amg(f=50%,rate=50%)"), amg("amg(f=50%,rate=100%)"), "all of each page is asked for");
    assert!(amg("amg(f=20%,spill=on)") <= misses(&trace, "mg(f=20%)", 64 * 1024));
}

#[test]
fn every_buffer_keeps_to_its_bytes_and_none_beats_the_bound() {
    let trace = Trace::load("t", &mut generate("tuples(requests=150000,pages=2000)", 3).unwrap()).unwrap();
    let options = TupleOptions { skip: 0.33, ..options(1 << 20) };
    let counted = trace.requests().len() as u64 - (trace.requests().len() as f64 * 0.33) as u64;
    let of = |buffer| run(&trace, "lru", buffer, &options);
    let bound = of("bound").counts;
    assert!(bound.misses <= of("bound(pages)").counts.misses);
    for buffer in ["off", "row(50%)", "mg", "amg", "amg(spill=on)", "share=50%", "share=97%", "learn"] {
        let outcome = of(buffer);
        assert_eq!(outcome.counts.requests, counted, "{buffer}");
        assert!(outcome.counts.misses > bound.misses, "{buffer}");
        assert!(u64::from(outcome.frames) * 4096 < options.memory, "{buffer}");
    }
    let (off, ours) = (of("off"), of("share=97%"));
    assert!(ours.frames < off.frames, "counters of visits are paid for");
    assert!(of("learn").frames < ours.frames, "and so is what learns");
    assert!(ours.counts.misses * 10 < off.counts.misses * 7, "{ours:?} {off:?}");
    assert!(of("learn").counts.misses * 10 < off.counts.misses * 8);
}

#[test]
fn buffers_are_told_apart_by_name() {
    for text in ["off", "row(50%)", "mg(f=20%)", "amg(f=20%,rate=50%,spill=on)", "share=15%", "learn", "bound(pages)"] {
        assert_eq!(TupleSpec::parse(text).unwrap().to_string(), text);
    }
    for (text, part) in [
        ("share=98%", "0% to 97%"),
        ("mg(rate=5%)", "it takes f"),
        ("learn(fast)", "takes no parameters"),
        ("row(", "does not end"),
        ("rows", "there are off"),
    ] {
        assert!(TupleSpec::parse(text).unwrap_err().contains(part), "{text}");
    }
}
