//! A cap on the memory of one user, under the cap of all.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, human_readable_size,
};

/// What one user's queries may take, taken from what all may take.
#[derive(Debug)]
pub(super) struct Capped {
    own: GreedyMemoryPool,
    all: Arc<dyn MemoryPool>,
    limit: usize,
}

impl Capped {
    pub(super) fn new(limit: usize, all: Arc<dyn MemoryPool>) -> Self {
        Self { own: GreedyMemoryPool::new(limit), all, limit }
    }
}

impl fmt::Display for Capped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a user's cap of {}", human_readable_size(self.limit))
    }
}

impl MemoryPool for Capped {
    fn name(&self) -> &str {
        "user"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.all.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.all.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.own.grow(reservation, additional);
        self.all.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.own.shrink(reservation, shrink);
        self.all.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.own.try_grow(reservation, additional)?;
        self.all.try_grow(reservation, additional).inspect_err(|_| self.own.shrink(reservation, additional))
    }

    fn reserved(&self) -> usize {
        self.own.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}
