//! A buffer pool that knows what queries will read next.
