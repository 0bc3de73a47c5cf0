//! The two index microbenchmarks of Khalaji et al., PVLDB 18(13) 2025.
//!
//! Section 6.3, trailing scans: the index order has nothing to do with the order of the heap, and all queries lie in a
//! small part of the keys, so that they follow each other through the same pages. Section 6.4: the index order is
//! almost that of the heap. Scans over an index are not registered, as in the paper's own comparison: what a predictor
//! can make of them is the predictor's affair. Our choices: rows per page, the size of the table, and that a key's place
//! strays evenly by up to `stray` pages to either side in the second.

use super::call::Call;
use super::program::{Program, Step, TABLE};
use super::zipf::shuffled;
use pagecast_core::PageId;
use pagecast_core::random::Random;

pub(super) const ABOUT_TRAILING: &str = "index scans in no order of the heap, all in a small part of the keys (PVLDB \
                                         2025, 6.3): streams, queries, range, within, pages, rows (per page)";
pub(super) const ABOUT_SEQUENTIAL: &str = "index scans almost in the order of the heap (PVLDB 2025, 6.4): streams, \
                                           queries, range, pages, rows (per page), stray (pages)";

pub(super) fn trailing(call: &mut Call, random: &mut Random) -> Result<Vec<Program>, String> {
    let streams = call.count("streams", 32, 1, 1024)?;
    let queries = call.count("queries", 6, 1, 1 << 16)?;
    let range = call.number("range", 0.01, 1e-6, 1.0)?;
    let within = call.number("within", 0.05, 1e-6, 1.0)?;
    let (pages, rows) = table(call)?;
    if within < range {
        return Err(format!("workload `{}`: the range {range} does not fit within {within}", call.name()));
    }
    let keys = pages * rows;
    let length = ((f64::from(keys) * range) as u32).max(1);
    let spread = ((f64::from(keys) * within) as u32).max(length);
    call.bounded(u64::from(streams) * u64::from(queries) * u64::from(length))?;
    // Row i of the table has the key order[i]; only the keys that queries can reach are needed.
    let heap: Vec<u32> = shuffled(keys, random).into_iter().take(spread as usize).map(|row| row / rows).collect();
    let mut stream = || {
        let mut program = Vec::new();
        for _ in 0..queries {
            let first = random.below(spread - length + 1) as usize;
            read(&mut program, heap[first..first + length as usize].iter().copied());
        }
        program
    };
    Ok((0..streams).map(|_| stream()).collect())
}

pub(super) fn almost_sequential(call: &mut Call, random: &mut Random) -> Result<Vec<Program>, String> {
    let streams = call.count("streams", 32, 1, 1024)?;
    let queries = call.count("queries", 16, 1, 1 << 16)?;
    let range = call.number("range", 0.1, 1e-6, 1.0)?;
    let (pages, rows) = table(call)?;
    let stray = call.count("stray", 8, 0, 1 << 16)?;
    let length = ((f64::from(pages) * range) as u32).max(1);
    call.bounded(u64::from(streams) * u64::from(queries) * u64::from(length) * u64::from(rows))?;
    // Where each row lies, once and for all: the same keys lead every query to the same pages.
    let heap: Vec<u32> = (0..pages * rows)
        .map(|key| (key / rows + random.below(2 * stray + 1)).saturating_sub(stray).min(pages - 1))
        .collect();
    let mut stream = || {
        let mut program = Vec::new();
        for _ in 0..queries {
            let first = (random.below(pages - length + 1) * rows) as usize;
            read(&mut program, heap[first..first + (length * rows) as usize].iter().copied());
        }
        program
    };
    Ok((0..streams).map(|_| stream()).collect())
}

fn table(call: &mut Call) -> Result<(u32, u32), String> {
    let pages = call.count("pages", 20_000, 1, 1 << 22)?;
    let rows = call.count("rows", 8, 1, 256)?;
    call.bounded(u64::from(pages) * u64::from(rows))?;
    Ok((pages, rows))
}

/// Reads the pages of an index scan. One that stays on a page holds its pin: that is one request.
fn read(program: &mut Program, blocks: impl Iterator<Item = u32>) {
    let mut last = None;
    for block in blocks {
        if last.replace(block) != Some(block) {
            program.push(Step::Point(PageId::new(TABLE, block), false));
        }
    }
}
