//! Requests for rows, for tuple buffers: how skewed they are, and how far hot rows lie together.
//!
//! Rows have ranks by Zipf's law. With `clustering` c, the rows of a page are dealt out in ranks
//! that follow each other, c of a page at a time. Pages come in a new random order each time round;
//! 0 puts every row in a random place, and 1 fills page after page. A wide query reads `width` rows
//! of a page, from the one that it drew. Each of them is a request. A write writes whole rows.
//!
//! With `epochs` above 1 the trace has as many parts. Each but the first draws its clustering and
//! its share of wide queries anew, and deals the rows out again. Scans of 4 to 6 % of the table run
//! beside, one after the other, so that they make the part `scans` of all requests. Without
//! `register` nobody is told of them.

use super::call::Call;
use super::program::{Program, Step, TABLE, scan};
use super::zipf::{Zipf, shuffled};
use crate::trace::Rows;
use pagecast_core::PageId;
use pagecast_core::random::Random;

pub(super) const ABOUT: &str = "rows by Zipf's law, hot ones scattered or together: requests, pages, page (bytes), rows (per page), \
                                bytes (of a row), skew, clustering, wide (share of queries), width (rows), writes (share), \
                                epochs, scans (share of requests), register";

/// What an epoch after the first may have.
const CLUSTERINGS: [f64; 5] = [0.0, 0.125, 0.25, 0.5, 1.0];
const WIDES: [f64; 2] = [0.0, 0.5];

/// Which row has which rank: the row's number, page by page.
fn dealt(pages: u32, rows: u32, clustering: f64, random: &mut Random) -> Vec<u32> {
    let together = (f64::from(rows) * clustering).round() as u32;
    if together <= 1 {
        return shuffled(pages * rows, random);
    }
    let mut order = Vec::with_capacity((pages * rows) as usize);
    for first in (0..rows).step_by(together as usize) {
        for page in shuffled(pages, random) {
            order.extend((first..rows.min(first + together)).map(|row| page * rows + row));
        }
    }
    order
}

pub(super) fn make(call: &mut Call, random: &mut Random) -> Result<Vec<Program>, String> {
    let requests = call.count("requests", 3_000_000, 1, 1 << 27)?;
    let pages = call.count("pages", 32_768, 25, 1 << 26)?;
    let page = call.count("page", 4096, 512, 1 << 20)?;
    let bytes = call.count("bytes", 128, 1, 1 << 20)?;
    let rows = call.count("rows", (page / bytes).max(1), 1, 1 << 16)?;
    let skew = call.number("skew", 0.99, 0.0, 3.0)?;
    let clustering = call.number("clustering", 0.0, 0.0, 1.0)?;
    let wide = call.number("wide", 0.0, 0.0, 1.0)?;
    let width = call.count("width", 8.min(rows), 1, rows)?;
    let writes = call.number("writes", 0.0, 0.0, 1.0)?;
    let epochs = call.count("epochs", 1, 1, 1000)?;
    let scans = call.number("scans", 0.0, 0.0, 0.9)?;
    let registers = call.value(
        "register",
        true,
        |text| ["off", "on"].iter().position(|word| *word == text).map(|at| at == 1),
        "on or off",
        |on| if *on { "on" } else { "off" }.to_owned(),
    )?;
    call.bounded(u64::from(requests))?;
    call.bounded(u64::from(pages) * u64::from(rows))?;
    let layout = Rows { page, count: rows, bytes };
    if !layout.fit() {
        return Err(format!("workload `tuples`: {rows} rows of {bytes} bytes do not fit in a page of {page}"));
    }
    let scanned = (f64::from(requests) * scans) as u32;
    let percent = ((scans * 100.0).round() as u32).clamp(u32::from(scanned > 0), 99);
    let zipf = Zipf::new(pages * rows, skew);
    let mut program = vec![Step::Rows(TABLE, Box::new(layout)), Step::Pace(percent.max(1))];
    let (end, mut made) = (requests - scanned, 0);
    for epoch in 0..epochs {
        let (clustering, wide) = match epoch {
            0 => (clustering, wide),
            _ => (CLUSTERINGS[random.below(5) as usize], WIDES[random.below(2) as usize]),
        };
        let order = dealt(pages, rows, clustering, random);
        let last = (u64::from(end) * u64::from(epoch + 1) / u64::from(epochs)) as u32;
        while made < last {
            let row = order[zipf.draw(random) as usize];
            let write = random.unit() < writes;
            let width = if random.unit() < wide { width.min(last - made) } else { 1 };
            made += width;
            let item = |at: u32| Step::Tuple(PageId::new(TABLE, row / rows), (row % rows + at) % rows, write);
            program.extend((0..width).map(item));
        }
    }
    let mut programs = vec![program];
    if scanned > 0 {
        programs.push(scans_beside(scanned, 100 - percent, pages, registers, random));
    }
    Ok(programs)
}

/// Scans that ask for `requests` pages in all.
fn scans_beside(requests: u32, pace: u32, pages: u32, registers: bool, random: &mut Random) -> Program {
    let mut program = vec![Step::Pace(pace)];
    let mut left = requests;
    while left > 0 {
        let blocks = (pages / 25 + random.below(pages / 50 + 1)).min(left);
        let first = random.below(pages - blocks + 1);
        if registers {
            scan(&mut program, TABLE, first, blocks, 16);
        } else {
            program.extend((first..first + blocks).map(|block| Step::Point(PageId::new(TABLE, block), false)));
        }
        left -= blocks;
    }
    program
}
