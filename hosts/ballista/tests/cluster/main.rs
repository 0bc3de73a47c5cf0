//! A scheduler and three executors on loopback, each with its own pool, beside one process.
#![allow(clippy::unwrap_used)]

mod affinity;
#[path = "../../../distributed/tests/cluster/answers.rs"]
mod answers;
mod cluster;
mod documents;

#[path = "../../../datafusion/tests/host/files.rs"]
mod files;
mod killed;
mod refusing;
#[path = "../../../datafusion/tests/host/rows.rs"]
mod rows;
#[path = "../../../distributed/tests/cluster/tables.rs"]
mod tables;
mod tpch;
