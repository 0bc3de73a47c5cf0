//! The two index microbenchmarks of Khalaji et al., PVLDB 18(13) 2025.
//!
//! Section 6.3, trailing scans: the index order has nothing to do with the order of the heap, and
//! all queries lie in a small part of the keys, so that they follow each other through the same
//! pages. Section 6.4: the index order is almost that of the heap. Both run 8 to 64 streams.
//!
//! What a host knows of such a scan is in the trace, what a predictor makes of it is the
//! predictor's affair (section 4.4.2 and 4.4.3). A trailing scan registers the entries of the index
//! that it goes through, as blocks of a relation of their own, and reports before each page which
//! entry leads to it: that tells who follows whom. An almost sequential scan registers the stretch
//! of the heap that its keys stray over, and how far from its place a page may be read: that
//! follows from the correlation of the two orders, which is measured here as a planner would. It
//! reports the page that a row of perfect order would be in.
//!
//! Rows per page in the first are the paper's (300 million lineitems in 44 GiB of 8 KiB pages are
//! 52), since with them 5 % of the keys lie on nearly all pages. How far keys stray in the second
//! follows from TPC-H's dates: the table is in the order of the later of receipt and commit date,
//! the index in that of the ship date, and the days between them deviate by 0.7 % of all days; so
//! do pages that stray evenly by up to 1.2 %, 240 of 20,000. Our choices: the size of the table, 8
//! rows a page in the second, which would else ask 50 million times, and the even distribution.
//! `points` mixes Zipfian point reads in, which the paper's experiments do not have.

use super::call::Call;
use super::points::Points;
use super::program::{Beginning, CORRELATED, INDEX, INDEXED, Program, Step, TABLE, begin, stretch};
use super::zipf::shuffled;
use crate::trace::Extent;
use pagecast_core::PageId;
use pagecast_core::predictor::scatter;
use pagecast_core::random::Random;

pub(super) const ABOUT_TRAILING: &str = "index scans in no order of the heap, all in a small part of the keys (PVLDB \
                                         2025, 6.3): streams, queries, range, within, pages, rows (per page), points (share of \
                                         all reads), skew";
pub(super) const ABOUT_SEQUENTIAL: &str = "index scans almost in the order of the heap (PVLDB 2025, 6.4): streams, \
                                           queries, range, pages, rows (per page), stray (pages), report (pages between \
                                           reports), points (share of all reads), skew";

pub(super) fn trailing(call: &mut Call, random: &mut Random) -> Result<Vec<Program>, String> {
    let streams = call.count("streams", 32, 1, 1024)?;
    let queries = call.count("queries", 6, 1, 1 << 16)?;
    let range = call.number("range", 0.01, 1e-6, 1.0)?;
    let within = call.number("within", 0.05, 1e-6, 1.0)?;
    let (pages, rows) = table(call, 52)?;
    let points = Points::of(call)?;
    if within < range {
        return Err(format!("workload `{}`: the range {range} does not fit within {within}", call.name()));
    }
    let keys = pages * rows;
    let length = ((f64::from(keys) * range) as u32).max(1);
    let spread = ((f64::from(keys) * within) as u32).max(length);
    points.bounded(call, u64::from(streams) * u64::from(queries) * u64::from(length))?;
    // Row i of the table has the key order[i]; only the keys that queries can reach are needed.
    let heap: Vec<u32> = shuffled(keys, random).into_iter().take(spread as usize).map(|row| row / rows).collect();
    let mut stream = |_| {
        let mut program = Vec::new();
        for _ in 0..queries {
            let first = random.below(spread - length + 1);
            begin(&mut program, INDEXED, INDEX, stretch(first, length));
            let blocks = &heap[first as usize..(first + length) as usize];
            for (entry, block) in visits(blocks) {
                program.push(Step::Report(entry as u64));
                program.push(Step::Scan(PageId::new(TABLE, block)));
            }
            program.push(Step::End);
        }
        program
    };
    let programs = (0..streams).map(&mut stream).collect();
    points.mixed_into(programs, pages, call, random)
}

pub(super) fn almost_sequential(call: &mut Call, random: &mut Random) -> Result<Vec<Program>, String> {
    let streams = call.count("streams", 32, 1, 1024)?;
    let queries = call.count("queries", 16, 1, 1 << 16)?;
    let range = call.number("range", 0.1, 1e-6, 1.0)?;
    let (pages, rows) = table(call, 8)?;
    let stray = call.count("stray", 240, 0, 1 << 16)?;
    let report = call.count("report", 16, 1, 1 << 20)?;
    let points = Points::of(call)?;
    let length = ((f64::from(pages) * range) as u32).max(1);
    points.bounded(call, u64::from(streams) * u64::from(queries) * u64::from(length) * u64::from(rows))?;
    // Where each row lies, once and for all: the same keys lead every query to the same pages.
    let heap: Vec<u32> = (0..pages * rows)
        .map(|key| (key / rows + random.below(2 * stray + 1)).saturating_sub(stray).min(pages - 1))
        .collect();
    let scatter = scatter(correlation(&heap, rows), u64::from(pages));
    let mut stream = |_| {
        let mut program = Vec::new();
        for _ in 0..queries {
            let first = random.below(pages - length + 1);
            // The pages that the keys of pages `first` to `first + length` can lie in.
            let (low, high) = (first.saturating_sub(stray), (first + length + stray).min(pages));
            let extent = match scatter {
                Some(scatter) => Extent::Correlated { run: stretch(low, high - low), scatter, descending: false },
                // Nothing is left of the order: nobody can say when a page comes.
                None => Extent::Runs(Vec::new()),
            };
            let entries = u64::from(high - low);
            let beginning = Beginning { kind: CORRELATED, length: entries, relation: TABLE, extent, template: None };
            program.push(Step::Begin(Box::new(beginning)));
            let mut reported = low;
            let blocks = &heap[(first * rows) as usize..((first + length) * rows) as usize];
            for (entry, block) in visits(blocks) {
                let place = first + entry as u32 / rows;
                if place >= reported + report {
                    program.push(Step::Report(u64::from(place - low)));
                    reported = place;
                }
                program.push(Step::Scan(PageId::new(TABLE, block)));
            }
            program.push(Step::End);
        }
        program
    };
    let programs = (0..streams).map(&mut stream).collect();
    points.mixed_into(programs, pages, call, random)
}

/// The correlation between the order of the keys and the blocks that they lie on, as a planner's
/// statistics have it.
fn correlation(heap: &[u32], rows: u32) -> f64 {
    let places = || (0..heap.len()).map(|key| f64::from(key as u32 / rows));
    let blocks = || heap.iter().map(|&block| f64::from(block));
    let count = heap.len() as f64;
    let (place, block) = (places().sum::<f64>() / count, blocks().sum::<f64>() / count);
    let moment =
        |of: &dyn Fn(f64, f64) -> f64| places().zip(blocks()).map(|(p, b)| of(p - place, b - block)).sum::<f64>();
    let variances = moment(&|p, _| p * p) * moment(&|_, b| b * b);
    // A table of one page is in order.
    if variances > 0.0 { moment(&|p, b| p * b) / variances.sqrt() } else { 1.0 }
}

fn table(call: &mut Call, rows: u32) -> Result<(u32, u32), String> {
    let pages = call.count("pages", 20_000, 1, 1 << 22)?;
    let rows = call.count("rows", rows, 1, 256)?;
    call.bounded(u64::from(pages) * u64::from(rows))?;
    Ok((pages, rows))
}

/// The pages that a scan over the rows in `blocks` asks for, each with the row that leads to it: a
/// scan that stays on a page holds its pin, and that is one request.
fn visits(blocks: &[u32]) -> impl Iterator<Item = (usize, u32)> {
    let changes = move |&(row, block): &(usize, u32)| row == 0 || blocks[row - 1] != block;
    blocks.iter().copied().enumerate().filter(changes)
}
