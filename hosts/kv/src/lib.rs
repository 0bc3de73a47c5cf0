//! An embedded, ordered key-value store on the pagecast pool. Start with [`Store`].
//!
//! It is also the example of an engine on the pool: how pins, the log, checkpoints, scans and
//! tuples are used. Read it in this order; a module uses those above it.
//!
//! | module | shows |
//! |---|---|
//! | `error`, `options`, `batch` | what users say and are told |
//! | `page` | a page's bytes: entries in their order, under the pool's seal |
//! | `items` | entries as the pool's tuples |
//! | `change` | what can happen to a page, now and again after a crash |
//! | `log_file`, `found` | the log's files, and what they say of a store that is opened |
//! | `log` | group commit, and the pool's question before it writes a page |
//! | `pages` | pages through the pool, and a batch's copies of them |
//! | `tree` | the B+-tree, as a batch changes it |
//! | `route` | readers beside a writer, with one pin at a time |
//! | `store` | reads, commits, checkpoints |
//! | `store::inner` | how many pages lead to others: the pool keeps frames for them |
//! | `store::range` | leaves in order, registered as a scan |
//! | `store::open` | files, recovery, the first pages |
//! | `check` | whether all of it is sound |
#![deny(unsafe_code)]

mod batch;
mod change;
mod check;
mod error;
mod found;
mod items;
mod log;
mod log_file;
mod options;
mod page;
mod pages;
mod route;
mod store;
mod tree;

pub use batch::Batch;
pub use check::Statistics;
pub use error::{Error, Result};
pub use options::Options;
pub use store::{Range, Store};

/// The example of the README, compiled and run with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
