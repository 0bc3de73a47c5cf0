//! What more than one of the benchmarks measures with.

pub mod eviction;
