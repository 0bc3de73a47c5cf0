//! Reads of byte ranges whose pages are resident, against pinning the pages and copying them into a
//! buffer that is there already: what is left is what a read gives beyond the copy, memory of its
//! own above all.

use std::hint::black_box;
use std::time::Instant;

use pagecast::storage::{Device, MemoryFiles};
use pagecast::{Pool, PoolOptions, Relation};

use crate::rounds::{Figure, pairs};

const PAGE_SIZE: u32 = 64 << 10;
const FILE: u64 = 32 << 20;

/// Nanoseconds per MiB, by the length of a range.
pub(crate) fn measure(rounds: usize) -> Result<Vec<(u64, Figure)>, String> {
    let files = MemoryFiles::new();
    files.write("pages", (0..FILE).map(|i| (i >> 12) as u8).collect::<Vec<u8>>());
    let options = PoolOptions::default().memory(2 * FILE).page_size(PAGE_SIZE).device(Device::new(files, None));
    let pool = Pool::new(options).map_err(|e| e.to_string())?;
    let relation = pool.open("pages".as_ref()).map_err(|e| e.to_string())?;
    let lengths = [64 << 10, 1 << 20, 8 << 20];
    Ok(lengths.map(|length| (length, pairs(rounds, || read(&relation, length), || copy(&relation, length)))).into())
}

fn read(relation: &Relation, length: u64) -> f64 {
    nanoseconds_per_mib(length, |start| {
        let read = relation.read_blocking(std::slice::from_ref(&(start..start + length)), None).expect("in the file");
        black_box(read);
    })
}

fn copy(relation: &Relation, length: u64) -> f64 {
    let mut buffer = vec![1; length as usize];
    nanoseconds_per_mib(length, |start| {
        let first = (start / u64::from(PAGE_SIZE)) as u32;
        for (block, part) in (first..).zip(buffer.chunks_mut(PAGE_SIZE as usize)) {
            part.copy_from_slice(&relation.pin(block, None).expect("resident"));
        }
        black_box(&mut buffer);
    })
}

/// The file four times over, range after range.
fn nanoseconds_per_mib(length: u64, mut visit: impl FnMut(u64)) -> f64 {
    let begun = Instant::now();
    for _ in 0..4 {
        (0..FILE).step_by(length as usize).for_each(&mut visit);
    }
    begun.elapsed().as_nanos() as f64 / ((4 * FILE) >> 20) as f64
}
