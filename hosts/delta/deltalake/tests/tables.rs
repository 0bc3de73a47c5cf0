//! Tables of the `deltalake` crate have the same rows in a session that has a pool.
#![allow(clippy::unwrap_used)]

mod table {
    mod data;
    mod merges;
    mod scans;
}
