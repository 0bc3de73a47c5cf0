//! The part of pagecast that decides: which pages running scans will read next, and which frame to
//! give up.
//!
//! Nothing here does I/O, reads a clock, spawns or knows a host. Time is a number handed in
//! ([`Tick`]), randomness a seed handed in. The pool, the simulator and the hosts all run this code
//! and no second version of it.
//!
//! * [`predictor`]: scans on their progress axis, and the estimate of a page's next access. Plain
//!   `core`.
//! * [`cooperation`]: which stretch of a table each running scan reads next, and what is loaded for
//!   whom. Plain `core`.
//! * [`forecast`]: queries that come back, and when their scans are expected. Plain `core`.
//! * [`positions`]: rows of a table that has changed, and where they are stored. Feature `alloc`.
//! * [`recurrence`]: what the usual time between the uses of a page says of its next. Plain `core`.
//! * [`steering`]: the choice among buffers of a pool that is not ours, by the predictor and what
//!   usage counts tell. Plain `core`.
//! * [`policy`]: the two policy traits and every replacement policy. Feature `alloc`; the adapter
//!   between the traits needs a mutex and with it feature `std`.
//! * [`tier`]: which of the pages that memory gives up are written to flash, and who makes room
//!   there. Feature `alloc`.
//! * [`tuples`]: which items of an evicted page are kept, who of them gives way, and what share of
//!   the pool they have. Feature `alloc`.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

mod arena;
pub mod cooperation;
pub mod forecast;
mod id;
#[cfg(pagecast_shuttle)]
pub mod mistake;
pub mod oracle;
#[cfg(feature = "alloc")]
pub mod policy;
#[cfg(feature = "alloc")]
pub mod positions;
pub mod predictor;
pub mod random;
pub mod recurrence;
pub mod steering;
pub mod sync;
#[cfg(feature = "alloc")]
pub mod tier;
#[cfg(feature = "alloc")]
pub mod tuples;
mod words;

pub use id::{FrameId, PageId, RelationId, ScanId, Tick};
