//! A buffer pool that knows what queries will read next.
//!
//! Start with [`Pool`]. Files are opened through a [`storage::Device`] and are [`Relation`]s of
//! fixed pages. Whoever will read much announces it as a [`Scan`]; the policy then keeps the pages
//! that are wanted soonest.
//!
//! The modules, from the bottom up. A module uses those above it in this table and never one below
//! (`tests/layers.rs`).
//!
//! | module | is |
//! |---|---|
//! | `setters` | the methods by which options are set |
//! | `sync` | atomics, locks and threads, exchanged for a schedule explorer's under test |
//! | `processor_cache` | a hint to the processor; unsafe |
//! | `processor_time` | what the process has used of its processors; unsafe |
//! | `machine_memory` | how much memory there is |
//! | `stats` | what is counted |
//! | `seal` | what a page says of itself on storage |
//! | `error` | what can go wrong |
//! | [`files`] | files that are there whole or not at all |
//! | `blocking` | a future awaited by a thread |
//! | [`storage`] | where pages come from: local files, io_uring (unsafe), objects, declared speed, memory, faults |
//! | `buffer` | memory for direct requests |
//! | `flash` | copies of pages on a local device, below memory |
//! | `token` | who has a frame |
//! | `layout` | where a page keeps its items |
//! | `cooperation` | unordered scans: who waits, and whose turn it is to load |
//! | `frame_memory` | the frames' bytes; unsafe |
//! | `cache` | frames, page table, loads, eviction: the protocol, with its invariants |
//! | `paged_file` | open files, cut into pages |
//! | `io` | the threads that read |
//! | `write` | pages that change: log, write-back, checkpoint, double writes |
//! | `options` | what a pool is made of |
//! | `output` | the bytes that a read gives out, filled in any order; unsafe |
//! | `page_guard`, `page_guard_mut` | a page in the caller's hands |
//! | `engine` | requests, reads, pages ahead, and how the memory is divided |
//! | `owned_page_guard` | the same without a borrow |
//! | `relation` | an open file in the caller's hands |
//! | `tuples` | a relation whose items are read one at a time |
//! | `scan`, `unordered`, `session` | what a caller keeps while it reads |
//! | `share` | frames that several scans have together |
//! | `pool` | what users call: [`Pool`], with resize, writes, snapshot and [`warm`] restart |
//! | `pooled_store` | an object store over a pool |
//! | [`metrics`] | a snapshot as Prometheus text |
#![deny(unsafe_code)]

mod blocking;
mod buffer;
mod cache;
mod cooperation;
mod engine;
mod error;
pub mod files;
mod flash;
#[allow(unsafe_code)]
mod frame_memory;
mod io;
mod layout;
mod machine_memory;
pub mod metrics;
mod options;
#[allow(unsafe_code)]
mod output;
mod owned_page_guard;
mod page_guard;
mod page_guard_mut;
mod paged_file;
mod pool;
#[cfg(feature = "object-store")]
mod pooled_store;
#[allow(unsafe_code)]
mod processor_cache;
#[allow(unsafe_code)]
mod processor_time;
mod relation;
mod scan;
mod seal;
mod session;
mod setters;
mod share;
mod stats;
pub mod storage;
mod sync;
mod token;
mod tuples;
mod unordered;
mod write;

/// The disk of the tests, which speaks of this crate as any other would.
#[cfg(all(test, pagecast_shuttle))]
extern crate self as pagecast;
#[cfg(all(test, pagecast_shuttle))]
#[path = "../tests/disk/mod.rs"]
mod disk;

pub use cache::{FrameCounts, TupleStats};
pub use engine::{MemoryUse, ReadResult, ReadStats};
pub use error::{PoolError, UnorderedError};
pub use flash::{FlashAdmission, FlashOptions, FlashView};
pub use layout::{FixedRows, Slotted, TupleLayout};
pub use machine_memory::memory_of_machine;
pub use options::{PoolOptions, PrefetchOptions, Recorder, TupleOptions};
pub use owned_page_guard::OwnedPageGuard;
pub use page_guard::PageGuard;
pub use page_guard_mut::PageGuardMut;
pub use pagecast_core::cooperation::{Chunk, ChunkFault, CooperationConfig, MemberView, Refusal, Unit};
pub use pagecast_core::policy::{Batching, PolicySpec};
pub use pagecast_core::predictor::PredictorConfig;
pub use pagecast_core::{PageId, RelationId, ScanId};
pub use pool::{FrameView, Pool, RelationRequests, RelationView, Resized, Snapshot, warm};
#[cfg(feature = "object-store")]
pub use pooled_store::PooledStore;
pub use relation::Relation;
pub use scan::Scan;
pub use seal::{Format, Lsn, SEAL_BYTES};
pub use session::Session;
pub use share::Share;
pub use stats::PoolStats;
pub use tuples::{TupleId, Tuples};
pub use unordered::{Lease, UnorderedScan, UnorderedSpec};
pub use write::{DoubleWriteOptions, Log, WriteOptions, WriterOptions, Written};

/// Who leaves when a page must come in: the policies by name, and what a name can be wrong about.
pub mod policy {
    pub use pagecast_core::policy::{Batching, LockCounts, MAX_SAMPLES, PolicyError, PolicySpec, names};
}

/// Queries that come back: how they are named, and what is known of them.
pub mod forecast {
    pub use pagecast_core::forecast::{Clock, NextStart, Query, Rhythm, Template};
}

/// What a scan says of itself when it registers, and what is known of it while it runs.
pub mod predictor {
    pub use pagecast_core::predictor::{
        Expectation, FormatError, KINDS, MAX_LENGTH, Pages, PagesFault, Part, PredictorConfig, RegisterError, Run,
        ScanKind, ScanSpec, ScanView, scatter,
    };
}

/// The largest page, in bytes: one request of the storage.
pub const MAX_PAGE_SIZE: u32 = storage::MAX_REQUEST as u32;

/// Says that a test did not run, past the capture of its output, so that nobody takes it for
/// passed.
#[cfg(all(test, not(pagecast_shuttle)))]
fn skipped(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// The examples of the documents, compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embed.md")]
struct Documents;
