//! Memory for a predictor or a manager.

use pagecast_core::sync::atomic::AtomicU64;
use std::sync::Arc;

pub(super) type Words = Arc<[AtomicU64]>;

/// Words of memory for a predictor or a manager.
pub(super) fn words(count: usize) -> Words {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}
