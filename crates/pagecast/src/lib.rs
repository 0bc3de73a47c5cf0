//! A buffer pool that knows what queries will read next.
//!
//! Start with [`Pool`]. Files are opened through a [`storage::Device`] and are [`Relation`]s of fixed pages. Whoever will
//! read much announces it as a [`Scan`]; the policy then keeps the pages that are wanted soonest.
//!
//! | module | is |
//! |---|---|
//! | [`storage`] | where pages come from: local files, io_uring, declared speed, memory, faults |
//! | `cache` | frames, page table, loads: the protocol, with its invariants |
//! | `frame_memory`, `processor_cache` | the frames' bytes; a hint to the processor: with `ring`, `slot` and `registered` of `storage::uring`, the only unsafe code |
//! | `io` | the threads that read |
//! | `write` | pages that change: log, seals, write-back, checkpoint, double writes |
//! | `pool`, `session`, `read`, `pin`, `pin_mut`, `scan`, `relation` | what users call |
//! | `prefetch` | pages that are brought before they are asked for |
//! | `resize`, `shares` | the pool's size while it is in use; what parts of it are bounded or kept |
//! | `snapshot`, [`metrics`] | what an operator sees |
//! | [`warm`] | the hottest pages, kept over a restart |
//! | `options`, `stats` | how memory is divided, what is counted |
#![deny(unsafe_code)]

mod blocking;
mod cache;
mod error;
#[allow(unsafe_code)]
mod frame_memory;
mod io;
mod machine_memory;
pub mod metrics;
mod options;
mod pin;
mod pin_mut;
mod pool;
mod prefetch;
#[allow(unsafe_code)]
mod processor_cache;
mod read;
mod relation;
mod request;
mod resize;
mod scan;
mod session;
mod shares;
mod snapshot;
mod stats;
pub mod storage;
mod sync;
pub mod warm;
mod write;

pub use cache::FrameCounts;
pub use error::PoolError;
pub use options::{MemoryUse, PoolOptions, PrefetchOptions, Recorder};
pub use pagecast_core::policy::{self, Batching, PolicySpec};
pub use pagecast_core::predictor::{self, PredictorConfig};
pub use pagecast_core::{PageId, RelationId, ScanId};
pub use pin::Pin;
pub use pin_mut::PinMut;
pub use pool::Pool;
pub use read::{ReadResult, ReadStats};
pub use relation::Relation;
pub use resize::Resized;
pub use scan::Scan;
pub use session::Session;
pub use snapshot::{RelationRequests, RelationView, Snapshot};
pub use stats::PoolStats;
pub use write::{DoubleWriteOptions, Format, Log, Lsn, SEAL_BYTES, WriteOptions, WriterOptions, Written};

/// The largest page, in bytes: one request of the storage.
pub const MAX_PAGE_SIZE: u32 = storage::MAX_REQUEST as u32;

/// The examples of the documents, compiled and run with the other doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embed.md")]
#[doc = include_str!("../../../docs/writes.md")]
struct Documents;
