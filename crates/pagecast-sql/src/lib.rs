//! SQL over files, object stores and Delta tables, all read through one pool: the part of the
//! `pagecast` command and of the Python package that is the same in both.
//!
//! [`Engine::open`] makes the pool, finds the tables and gives a session of DataFusion over them.
//! [`query::Query`] runs a statement in tasks of its own. Nothing here prints, or knows of a
//! terminal.

#![deny(unsafe_code)]

mod apart;
mod budget;
pub mod check;
mod classed;
mod cut;
mod distinct_apart;
mod engine;
mod error;
mod expected;
mod expected_memory;
mod explained;
mod fault;
pub mod files;
mod folder;
pub mod formats;
mod grace;
mod grace_groups;
pub mod grace_join;
mod grace_windows;
mod heap_unsafe;
mod held;
mod keys;
mod late_columns;
mod left_to_turn;
mod lifted;
mod line;
mod listed;
mod logs;
mod long;
mod named_file;
mod need;
mod order;
pub mod patient;
mod place;
mod plain_texts;
pub mod query;
mod reading;
mod results;
mod schemas;
pub mod semantics;
pub mod shape;
mod shown;
mod sizes;
pub mod statements;
pub mod stores;
pub mod summary;
pub mod syntax;
pub mod tables;
mod temporary;
mod temporary_file;
mod unpacked;
pub mod values;
mod watched;
mod watched_joins;
mod watched_plans;
mod watched_rows;
mod watched_windows;
pub mod weight;
mod whole_files;
mod whole_sorts;
mod workers;

/// What an explorer of schedules replaces.
mod sync {
    pub(crate) use parking_lot::Mutex;
    pub(crate) use std::sync::atomic;
}

pub use budget::OverBudget;
pub use classed::Classed;
pub use engine::{Engine, Options, to_disk};
pub use error::{Misuse, OpenError, Setting};
pub use expected::{in_memory, set_again_in};
pub use fault::Fault;
pub use heap_unsafe::{CountedHeap, HandedOver};
pub use held::Held;
pub use place::Place;
pub use shown::shown;
