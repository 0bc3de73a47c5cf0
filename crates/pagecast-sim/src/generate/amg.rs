//! The traces of Wang and Jin, "Adaptive Multi-Grained Buffer Management for Database Systems"
//! (Future Internet 13(12), 2021), section 4.1: 1 GB of 4 KB pages with tuples of 128 bytes, 20 %
//! of the pages hot with 80 % of 50 million queries, narrow queries of one tuple and wide ones of
//! several, and from 20 to 80 % of either, reads and writes alike.
//!
//! Not given there, and our choices: a wide query reads 8 neighbouring tuples, and each is a
//! request. Within a page a narrow query draws evenly (`inner=even`), or four times of five from
//! the fifth of the tuples that is the page's own hot one (`inner=skewed`). Hot pages are scattered
//! over the table. A write writes whole tuples. The table is smaller by default, and so is the
//! number of queries.

use super::call::Call;
use super::program::{Program, Step, TABLE};
use super::zipf::shuffled;
use crate::trace::Rows;
use pagecast_core::PageId;
use pagecast_core::random::Random;

pub(super) const ABOUT: &str = "narrow and wide queries, a fifth of the pages hot (AMG-Buffer, 2021, 4.1): queries, pages, rows \
                                (per page), bytes (of a row), hybrid (share of narrow queries), reads (share), width (rows), \
                                inner (even or skewed), epochs (each with a hybrid of its own)";

/// Of the pages a fifth is hot and gets four fifths of the queries; the same within a skewed page.
const HOT: f64 = 0.2;
const OF_QUERIES: f64 = 0.8;

pub(super) fn make(call: &mut Call, random: &mut Random) -> Result<Vec<Program>, String> {
    let queries = call.count("queries", 1_000_000, 1, 1 << 27)?;
    let pages = call.count("pages", 32_768, 10, 1 << 26)?;
    let rows = call.count("rows", 32, 5, 1 << 16)?;
    let bytes = call.count("bytes", 128, 1, 1 << 16)?;
    let hybrid = call.number("hybrid", 0.5, 0.0, 1.0)?;
    let reads = call.number("reads", 0.5, 0.0, 1.0)?;
    let width = call.count("width", 8.min(rows), 1, rows)?;
    let words = ["even", "skewed"];
    let inner = call.value(
        "inner",
        0,
        |text| words.iter().position(|word| *word == text),
        "even or skewed",
        |at| words[*at].to_owned(),
    )?;
    let epochs = call.count("epochs", 1, 1, 10_000)?;
    call.bounded(u64::from(queries) * u64::from(width))?;
    call.bounded(u64::from(pages) * u64::from(rows))?;
    let page = rows.checked_mul(bytes).filter(|&page| page <= Rows::MOST);
    let page = page.ok_or_else(|| format!("workload `amg`: {rows} rows of {bytes} bytes make too large a page"))?;
    let order = shuffled(pages, random);
    let mut program = vec![Step::Rows(TABLE, Box::new(Rows { page, count: rows, bytes }))];
    let mut now = hybrid;
    for query in 0..queries {
        if epochs > 1 && query.is_multiple_of(queries.div_ceil(epochs)) {
            now = f64::from(1 + random.below(9)) / 10.0;
        }
        let block = order[hot_first(pages, random) as usize];
        let write = random.unit() >= reads;
        let (first, width) = match random.unit() < now {
            // The hot fifth of a page begins where a hash of its number says.
            true if inner == 1 => ((hot_first(rows, random) + Random::new(block.into()).below(rows)) % rows, 1),
            true => (random.below(rows), 1),
            false => (random.below(rows), width),
        };
        let item = |at: u32| Step::Tuple(PageId::new(TABLE, block), (first + at) % rows, write);
        program.extend((0..width).map(item));
    }
    Ok(vec![program])
}

/// A number below `count`, with four fifths of the draws for the lowest fifth.
fn hot_first(count: u32, random: &mut Random) -> u32 {
    let hot = ((f64::from(count) * HOT) as u32).max(1);
    if random.unit() < OF_QUERIES { random.below(hot) } else { hot + random.below(count - hot) }
}
