//! Delta tables under DataFusion, read through a pool and changed by SQL.
#![allow(clippy::unwrap_used)]

mod table {
    mod changes;
    mod crashes;
    mod data;
    mod faults;
    mod features;
    mod hostile;
    mod lifetimes;
    mod peers;
    mod places;
    mod scans;
    mod tpch;
    mod upkeep;
    mod vacuum;
    mod writers;
}
