//! Three workers on loopback, each with its own pool, beside one process.
#![allow(clippy::unwrap_used)]

mod affinity;
mod answers;
mod cluster;
mod documents;
#[path = "../../../datafusion/tests/host/files.rs"]
mod files;
mod killed;
mod refusing;
#[path = "../../../datafusion/tests/host/rows.rs"]
mod rows;
mod tables;
mod tpch;
