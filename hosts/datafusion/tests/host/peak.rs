//! The memory that DataFusion's operators reserve, for tests and for the example of joins.

use std::fmt;

use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool};
use parking_lot::Mutex;

/// Counts what is reserved at most.
#[derive(Debug, Default)]
pub(crate) struct Peak {
    inner: UnboundedMemoryPool,
    most: Mutex<usize>,
}

impl Peak {
    /// The most bytes that were reserved at once.
    pub(crate) fn most(&self) -> usize {
        *self.most.lock()
    }
}

impl fmt::Display for Peak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peak")
    }
}

impl MemoryPool for Peak {
    fn name(&self) -> &str {
        "peak"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
        let mut most = self.most.lock();
        *most = (*most).max(self.inner.reserved());
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.grow(reservation, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }
}
