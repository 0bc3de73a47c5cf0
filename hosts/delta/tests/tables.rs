//! Delta tables under DataFusion, read through a pool and changed by SQL.
#![allow(clippy::unwrap_used)]

mod table {
    mod changes;
    mod data;
    mod faults;
    mod peers;
    mod scans;
}
