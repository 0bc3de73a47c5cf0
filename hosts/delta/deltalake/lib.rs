//! Tests alone: tables of the `deltalake` crate read through a pool.
