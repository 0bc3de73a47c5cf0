//! What a hit costs in instructions:
//!
//! ```text
//! valgrind --tool=callgrind target/release/examples/hit_cost pin 100000
//! ```
//!
//! and again with 200000. The difference is 100,000 hits, whatever the start took.
//!
//! `pin` pins resident pages, `copy` copies 128 bytes out of them.

use std::hint::black_box;

use pagecast::storage::{Device, MemoryFiles};
use pagecast::{Pool, PoolError, PoolOptions};

const PAGES: u32 = 64;
const PAGE: usize = 4096;

fn main() -> Result<(), PoolError> {
    let mut arguments = std::env::args().skip(1);
    let (what, hits) = (arguments.next().unwrap_or_default(), arguments.next());
    let hits: u32 = hits.and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let files = MemoryFiles::new();
    files.write("table", vec![7; 4096 * PAGE]);
    let options = PoolOptions::default().memory(2 << 20).page_size(PAGE as u32).policy("clock".parse()?);
    let pool = Pool::new(options.device(Device::new(files, None)))?;
    let table = pool.open("table".as_ref())?;
    let mut session = pool.session();
    for block in 0..PAGES {
        drop(session.pin(&table, block, None)?);
    }
    let mut sum = 0;
    for hit in 0..hits {
        let block = hit.wrapping_mul(0x9e37_79b9) % PAGES;
        sum += match what.as_str() {
            "pin" => u32::from(session.pin(&table, block, None)?[5]),
            _ => {
                let mut bytes = [0; 128];
                session.try_copy(&table, block, 128, &mut bytes, None);
                u32::from(bytes[5])
            }
        };
    }
    black_box(sum);
    Ok(())
}
