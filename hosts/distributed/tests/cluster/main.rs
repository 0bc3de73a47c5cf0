//! Three workers on loopback, each with its own pool, beside one process.
#![allow(clippy::unwrap_used)]

mod affinity;
mod cluster;
#[path = "../../../datafusion/tests/host/data.rs"]
#[allow(dead_code)]
mod data;
mod documents;
mod killed;
mod refusing;
#[path = "../../../datafusion/tests/host/rows.rs"]
mod rows;
mod tpch;
