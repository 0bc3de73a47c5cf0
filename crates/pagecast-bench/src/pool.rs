//! Hit path and eviction cost of the pool against other caches.

fn main() {}
