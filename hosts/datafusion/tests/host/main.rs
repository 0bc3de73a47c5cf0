//! The host against stock DataFusion, on real files.
#![allow(clippy::unwrap_used)]

mod data;
mod delivery;
mod faults;
mod files;
mod lifecycle;
mod merge_join;
mod namesakes;
mod objects;
mod opener;
mod order;
mod peak;
mod refusing;
mod row_groups;
mod rows;
mod shared;
mod tables;
mod tpch;
