//! The host against stock DataFusion, on real files.
#![allow(clippy::unwrap_used)]

mod data;
mod lifecycle;
mod rows;
mod tables;
mod tpch;
