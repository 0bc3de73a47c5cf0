//! Tables that the `iceberg` library writes the manifests of, in every version of the format:
//! what is read, what is refused, and damage of every file.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "table/data.rs"]
mod data;
#[path = "table/hostile.rs"]
mod hostile;
#[path = "table/rest.rs"]
mod rest;
#[path = "table/scans.rs"]
mod scans;
