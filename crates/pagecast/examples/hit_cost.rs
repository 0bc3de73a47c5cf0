//! What a hit costs, in instructions and in time:
//!
//! ```text
//! valgrind --tool=callgrind target/release/examples/hit_cost pin 100000
//! ```
//!
//! and again with 200000. The difference is 100,000 hits, whatever the start took. Prints
//! nanoseconds a hit, the least of ten rounds.
//!
//! `pin` pins resident pages, `copy` copies 128 bytes out of them, `item` reads as many bytes of
//! pages that have left. `miss` pins pages that have left, each for the first time since.

use std::hint::black_box;
use std::time::Instant;

use pagecast::storage::{Device, MemoryFiles};
use pagecast::{FixedRows, Pool, PoolError, PoolOptions, Relation, Session, TupleId, TupleOptions, Tuples};

const PAGE: usize = 4096;
const PAGES: u32 = 2048;

fn main() -> Result<(), PoolError> {
    let mut arguments = std::env::args().skip(1);
    let (what, hits) = (arguments.next().unwrap_or_default(), arguments.next());
    let hits: u32 = hits.and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let files = MemoryFiles::new();
    files.write("table", vec![7; PAGES as usize * PAGE]);
    let options = PoolOptions::default().page_size(PAGE as u32).policy("clock".parse()?);
    let options = match what.as_str() {
        // Two thirds of the pages do not fit, and their items do.
        "item" => options.memory(4 << 20).tuples(TupleOptions::default().learn(false)),
        "miss" => options.memory(4 << 20),
        _ => options.memory(16 << 20),
    };
    let pool = Pool::new(options.device(Device::new(files, None)))?;
    let table = pool.open("table".as_ref())?;
    let rows = pool.tuples(&table, FixedRows { first: 0, row: 128 })?;
    let mut session = pool.session();
    for block in (0..8).flat_map(|_| 0..PAGES) {
        black_box(hit(&what, &mut session, (&table, &rows), block)?);
    }
    let before = pool.stats().loads;
    let (mut sum, mut least) = (0, f64::INFINITY);
    for _ in 0..10 {
        let begun = Instant::now();
        for hit_number in 0..hits / 10 {
            // Round all pages, which is what no policy keeps half of.
            let block = hit_number.wrapping_mul(0x9e37_79b9) % PAGES;
            sum += hit(&what, &mut session, (&table, &rows), block)?;
        }
        least = least.min(begun.elapsed().as_nanos() as f64 / f64::from((hits / 10).max(1)));
    }
    black_box(sum);
    println!("{what}: {least:.1} ns a hit, {} loads meanwhile", pool.stats().loads - before);
    Ok(())
}

fn hit(
    what: &str,
    session: &mut Session<'_>,
    (table, rows): (&Relation, &Tuples),
    block: u32,
) -> Result<u32, PoolError> {
    let mut bytes = [0; 128];
    match what {
        "pin" | "miss" => bytes[5] = session.pin(table, block, None)?[5],
        "item" => drop(session.read_tuple(rows, TupleId { block, item: 1 }, &mut bytes)?),
        _ => {
            if session.try_copy(table, block, 128, &mut bytes, None).is_none() {
                bytes[5] = session.pin(table, block, None)?[5];
            }
        }
    }
    Ok(u32::from(bytes[5]))
}
