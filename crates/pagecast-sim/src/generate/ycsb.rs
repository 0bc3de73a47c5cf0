//! YCSB point reads with scans mixed in, after Khalaji et al., PVLDB 18(13) 2025, section 6.6.
//!
//! Point operations draw a row by Zipf's law (exponent 0, 0.75 and 0.99 in the paper), hot rows
//! scattered over the table; 7 rows a page, as 40 million rows in 44 GiB of 8 KiB pages give. A
//! scan begins at a random page and reads between 4 % and 6 % of the table. 6.6.1 varies the scans
//! per million operations; so many scans that they make a share s of all reads, as in 6.6.2, are
//! `1e6 * s / ((1 - s) * 0.05 * pages)`. Our choices: the size of the table, reads of heap pages
//! only (an index stays resident), and which share of the point operations writes.

use super::call::Call;
use super::program::{Program, Step, TABLE, scan};
use super::zipf::Scrambled;
use pagecast_core::PageId;
use pagecast_core::random::Random;

pub(super) const ABOUT: &str = "point reads, scrambled Zipf, with scans of 4 to 6 % mixed in (PVLDB 2025, 6.6): streams, \
                                operations, skew, scans (per million operations), writes (share), pages, rows (per page), report";

pub(super) fn make(call: &mut Call, random: &mut Random) -> Result<Vec<Program>, String> {
    let streams = call.count("streams", 32, 1, 1024)?;
    let operations = call.count("operations", 1_000_000, 1, 1 << 27)?;
    let skew = call.number("skew", 0.99, 0.0, 3.0)?;
    let scans = call.number("scans", 8.0, 0.0, 1_000_000.0)?;
    let writes = call.number("writes", 0.0, 0.0, 1.0)?;
    let pages = call.count("pages", 20_000, 25, 1 << 26)?;
    let rows = call.count("rows", 7, 1, 256)?;
    let report = call.count("report", 16, 1, 1 << 20)?;
    let (low, high) = (pages / 25, pages * 3 / 50);
    let per_operation = scans / 1e6;
    call.bounded(u64::from(operations) + (f64::from(operations) * per_operation * f64::from(high)) as u64)?;
    call.bounded(u64::from(pages) * u64::from(rows))?;
    let table = Scrambled::new(pages, rows, skew, random);
    let mut stream = |number: u32| {
        let mut program = Vec::new();
        let share = operations / streams + u32::from(number < operations % streams);
        for _ in 0..share {
            if random.unit() < per_operation {
                let blocks = low + random.below(high - low + 1);
                scan(&mut program, TABLE, random.below(pages - blocks + 1), blocks, report);
            } else {
                let page = PageId::new(TABLE, table.draw(random));
                program.push(Step::Point(page, random.unit() < writes));
            }
        }
        program
    };
    Ok((0..streams).map(&mut stream).collect())
}
