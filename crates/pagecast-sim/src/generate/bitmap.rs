//! Bitmap scans of one table: each reads, in the order of the table, the blocks of a range that an
//! index named.
//!
//! Section 4.4.1 of Khalaji et al., PVLDB 18(13) 2025, says how such scans register; the paper
//! measures them in TPC-H only. So all of this is our choice: a query takes a random range of the
//! table, and of it stretches of 1 to `2 * run - 1` blocks with gaps between them, of which the
//! lengths give `share` of the range. Streams are as in [`super::sequential`].

use super::call::Call;
use super::program::{BITMAP, Beginning, Program, Step, TABLE};
use crate::trace::Extent;
use pagecast_core::PageId;
use pagecast_core::predictor::Run;
use pagecast_core::random::Random;

pub(super) const ABOUT: &str = "bitmap scans, stretches of blocks of random ranges of one table: streams, queries, range, share \
                                (of the range), run (mean blocks of a stretch), pages, slow (pace of a Q1 where a Q6 has 1), report \
                                (pages between reports)";

pub(super) fn make(call: &mut Call, random: &mut Random) -> Result<Vec<Program>, String> {
    let streams = call.count("streams", 32, 1, 1024)?;
    let queries = call.count("queries", 16, 1, 1 << 16)?;
    let range = call.number("range", 0.3, 1e-6, 1.0)?;
    let share = call.number("share", 0.2, 0.001, 0.5)?;
    let run = call.count("run", 4, 1, 1 << 16)?;
    let pages = call.count("pages", 20_000, 1, 1 << 26)?;
    let slow = call.count("slow", 3, 1, 1000)?;
    let report = call.count("report", 16, 1, 1 << 20)?;
    let blocks = ((f64::from(pages) * range) as u32).max(1);
    call.bounded((f64::from(streams) * f64::from(queries) * f64::from(blocks) * share) as u64)?;
    let gap = (f64::from(run) * (1.0 - share) / share) as u32;
    let mut stream = |_| {
        let mut program = Vec::new();
        for _ in 0..queries {
            program.push(Step::Pace(if random.below(2) == 0 { 1 } else { slow }));
            let first = random.below(pages - blocks + 1);
            scan(&mut program, stretches(first, blocks, (run, gap), random), report);
        }
        program
    };
    Ok((0..streams).map(&mut stream).collect())
}

/// Stretches of `run` blocks on average, `gap` apart on average, of the `blocks` blocks from
/// `first` on; at least one. Positions are ranks.
fn stretches(first: u32, blocks: u32, (run, gap): (u32, u32), random: &mut Random) -> Vec<Run> {
    let around = |mean: u32, random: &mut Random| 1 + random.below(2 * mean - 1);
    let mut runs = Vec::new();
    let (mut at, mut position) = (first, 0);
    while at < first + blocks {
        let length = around(run, random).min(first + blocks - at);
        runs.push(Run { first: at, blocks: length, position, span: u64::from(length) });
        position += u64::from(length);
        at += length + around(gap, random);
    }
    runs
}

/// A scan of all blocks of `runs`.
fn scan(program: &mut Program, runs: Vec<Run>, report: u32) {
    let length = runs.iter().map(|run| run.span).sum();
    let blocks: Vec<u32> = runs.iter().flat_map(|run| run.first..run.first + run.blocks).collect();
    let extent = Extent::Runs(runs);
    program.push(Step::Begin(Box::new(Beginning { kind: BITMAP, length, relation: TABLE, extent, template: None })));
    for (done, block) in (1_u64..).zip(blocks) {
        program.push(Step::Scan(PageId::new(TABLE, block)));
        if done % u64::from(report) == 0 || done == length {
            program.push(Step::Report(done));
        }
    }
    program.push(Step::End);
}
