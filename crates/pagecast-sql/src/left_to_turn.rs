//! The account of what operators keep, to which the pool gives way. A part of it is left to the
//! large statement that has its turn: it would fail in the middle of its rows if others took all.

use std::fmt;

use datafusion::common::{Result, resources_err};
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, human_readable_size,
};

use crate::budget::Budget;
use crate::held::Held;
use crate::patient::is_turn_taken;

/// The part that is left.
const PART: usize = 4;

#[derive(Debug)]
pub(crate) struct LeftToTurn {
    all: GreedyMemoryPool,
    most: usize,
    /// What it is a part of.
    budget: Budget,
}

impl LeftToTurn {
    /// Of so many bytes of a budget.
    pub(crate) fn new(most: usize, budget: Budget) -> Self {
        Self { all: GreedyMemoryPool::new(most), most, budget }
    }
}

impl fmt::Display for LeftToTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "statements' memory of {}", human_readable_size(self.most))
    }
}

impl MemoryPool for LeftToTurn {
    fn name(&self) -> &str {
        "statements"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.all.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.all.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.all.grow(reservation, additional);
        self.budget.make_room(self.all.reserved() as u64);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.all.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let is_left = self.most - self.most / PART;
        if self.all.reserved().saturating_add(additional) > is_left && is_turn_taken() && !Held::is_current_large() {
            return resources_err!(
                "{additional} bytes more: of {} a quarter is left to a large statement that runs",
                self.most
            );
        }
        self.all.try_grow(reservation, additional)?;
        self.budget.make_room(self.all.reserved() as u64);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.all.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.all.memory_limit()
    }
}
