//! The sequential microbenchmark of Khalaji et al., PVLDB 18(13) 2025, section 6.2.
//!
//! Streams of queries, each a scan of a random range of one clustered table; ranges are of equal
//! length. The paper mixes TPC-H Q1 (eight aggregates) and Q6: here each query draws one of two
//! paces. Our choices: the factor between the paces, the size of the table (theirs has 5.6 million
//! pages), and a range is blocks, not dates. They run 8 to 64 streams.
//!
//! The paper's experiment does not have: `points`, Zipfian point reads of the table mixed in;
//! `recent`, so that some scans ask for the last fifth of the table only, as reports on a table in
//! the order of time do; and `tables`, of equal size, each of them scanned half as often as the one
//! before.

use super::call::Call;
use super::points::Points;
use super::program::{Program, Step, TABLE, scan};
use pagecast_core::RelationId;
use pagecast_core::random::Random;

pub(super) const ABOUT: &str = "parallel scans of random ranges of one table (PVLDB 2025, 6.2): streams, queries, \
                                range, pages, slow (pace of a Q1 where a Q6 has 1), report (pages between reports), recent (share of the scans \
                                that are of the last fifth of the table), tables (of so many pages each; each is scanned half as often as the \
                                one before), points (share of all reads, of the first table), skew";

pub(super) fn make(call: &mut Call, random: &mut Random) -> Result<Vec<Program>, String> {
    let streams = call.count("streams", 32, 1, 1024)?;
    let queries = call.count("queries", 16, 1, 1 << 16)?;
    let range = call.number("range", 0.1, 1e-6, 1.0)?;
    let pages = call.count("pages", 20_000, 1, 1 << 26)?;
    let slow = call.count("slow", 3, 1, 1000)?;
    let report = call.count("report", 16, 1, 1 << 20)?;
    let recent = call.number("recent", 0.0, 0.0, 1.0)?;
    let tables = call.count("tables", 1, 1, 16)?;
    let points = Points::of(call)?;
    let blocks = ((f64::from(pages) * range) as u32).max(1);
    points.bounded(call, u64::from(streams) * u64::from(queries) * u64::from(blocks))?;
    let mut stream = |_| {
        let mut program = Vec::new();
        for _ in 0..queries {
            let pace = if random.below(2) == 0 { 1 } else { slow };
            program.push(Step::Pace(pace));
            let table = if tables > 1 { random.next().leading_zeros().min(tables - 1) } else { 0 };
            // The first draws of older workloads are to stay what they were.
            let first = if recent > 0.0 && random.unit() < recent { pages - (pages / 5).max(blocks) } else { 0 };
            let start = first + random.below(pages - first - blocks + 1);
            scan(&mut program, RelationId(TABLE.0 + table), start, blocks, report);
        }
        program
    };
    let programs = (0..streams).map(&mut stream).collect();
    points.mixed_into(programs, pages, call, random)
}
