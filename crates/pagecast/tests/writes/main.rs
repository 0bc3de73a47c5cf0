//! Pages that change: who may change what, what reaches storage, and what is said when it cannot.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

mod double;
mod failing;
mod files;
mod order;
mod together;

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use pagecast::storage::{Device, Fault, FaultStorage, Faults, MemoryFiles, WriteFault};
use pagecast::{
    DoubleWriteOptions, Format, Log, Lsn, PolicySpec, Pool, PoolError, PoolOptions, Relation, SEAL_BYTES, WriteOptions,
    WriterOptions,
};

const PAGE: usize = 4096;

/// No rounds of the background writer, so that what is written is what the test says.
fn by_hand() -> WriterOptions {
    WriterOptions::default().interval(Duration::from_secs(3600)).rate(64 << 20).dirty_share(0.0)
}

/// A log that keeps nothing but how far it is.
#[derive(Default)]
struct Counter {
    end: AtomicU64,
    durable: AtomicU64,
    broken: AtomicU64,
}

impl Counter {
    fn append(&self) -> Lsn {
        Lsn(self.end.fetch_add(1, SeqCst) + 1)
    }
}

impl Log for Counter {
    fn flush_to(&self, lsn: Lsn) -> io::Result<Lsn> {
        match self.broken.load(SeqCst) {
            0 => Ok(Lsn(self.durable.fetch_max(lsn.0, SeqCst).max(lsn.0))),
            1 => Err(io::Error::other("the log's disk is full")),
            _ => Ok(Lsn(lsn.0 - 1)),
        }
    }
}

struct Setup {
    files: MemoryFiles,
    faults: Faults,
    options: PoolOptions,
}

/// A pool of about `memory` bytes over a file `table` of 64 pages of fives, whose requests meet
/// planned faults.
fn setup(memory: u64, policy: &str) -> Setup {
    let (files, faults) = (MemoryFiles::new(), Faults::default());
    files.write("table", vec![5; 64 * PAGE]);
    let device = Device::new(FaultStorage { files: files.clone(), faults: faults.clone() }, None);
    let policy = PolicySpec::parse(policy).unwrap();
    let options =
        PoolOptions::default().memory(memory).page_size(PAGE as u32).policy(policy).device(device).writer(by_hand());
    Setup { files, faults, options }
}

fn raw() -> WriteOptions {
    WriteOptions::default()
}

fn sealed() -> WriteOptions {
    WriteOptions::default().create(true).format(Format::Sealed)
}

fn fill(table: &Relation, block: u32, byte: u8) {
    table.pin_mut(block, None).unwrap().fill(byte);
}

fn stored(files: &MemoryFiles, name: &str, block: usize) -> Vec<u8> {
    files.read(Path::new(name)).unwrap()[block * PAGE..(block + 1) * PAGE].to_vec()
}
