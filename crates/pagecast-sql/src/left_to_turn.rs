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

/// Whoever keeps this part of all memory and can write it, or hand it on, does so where the heap is
/// full: operators take more than they account for, and reads would end the statement. Of less
/// there would be too many files.
const WORTH_IT: usize = 16;

/// What hands rows from partition to partition. It is always given what it asks for, so that it
/// spills none: two that spill into one pool may wait for each other for ever, and nothing says so
/// (<https://github.com/apache/datafusion/issues/24883>, mended for a release after 55.2). If it
/// holds too much, the heap is over its limit, and the statement begins anew in one partition,
/// where nobody hands rows on.
const HANDS_ON: &str = "RepartitionExec[";

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
        let can_spill = reservation.consumer().can_spill();
        // A sort that merges what it has kept asks nobody else for a second. Who can spill would
        // sort and write all that it holds if it were refused: it is given whatever it asks for,
        // and its next batch tells it.
        let has_ended = match Held::check_current() {
            Err(ended) if !can_spill => return Err(ended),
            checked => checked.is_err(),
        };
        if has_ended || additional == 0 || reservation.consumer().name().starts_with(HANDS_ON) {
            self.grow(reservation, additional);
            return Ok(());
        }
        let is_left = self.most - self.most / PART;
        if self.all.reserved().saturating_add(additional) > is_left && is_turn_taken() && !Held::is_current_large() {
            return resources_err!(
                "{additional} bytes more: of {} a quarter is left to a large statement that runs",
                self.most
            );
        }
        let is_worth_it = can_spill && reservation.size() >= self.most / WORTH_IT;
        if is_worth_it && !self.budget.is_free(additional as u64) {
            return resources_err!("{additional} bytes more: the heap is full, and what is kept can be given up");
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::{ExecutionPlan, collect};
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;
    use crate::budget::tests::budget;

    fn spills(plan: &Arc<dyn ExecutionPlan>) -> usize {
        let own = plan.metrics().and_then(|metrics| metrics.spill_count()).unwrap_or(0);
        own + plan.children().into_iter().map(spills).sum::<usize>()
    }

    /// Rows that go from partition to partition, and how often they were spilled, where another has
    /// all memory.
    async fn handed_on(pool: Arc<dyn MemoryPool>) -> (usize, usize) {
        let all = MemoryConsumer::new("another").register(&pool);
        all.try_grow(1000).unwrap();
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
        let ctx = SessionContext::new_with_config_rt(SessionConfig::new().with_target_partitions(2), runtime);
        let plan = ctx.sql("SELECT value + 1 AS v FROM range(100000) WHERE value % 3 <> 1").await.unwrap();
        let plan = plan.create_physical_plan().await.unwrap();
        let rows = collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
        (rows.iter().map(|rows| rows.num_rows()).sum(), spills(&plan))
    }

    #[tokio::test]
    async fn an_ended_statement_is_given_nothing_unless_it_would_spill() {
        let (held, pool) = (Held::default(), Arc::new(LeftToTurn::new(1000, Budget::default())) as Arc<dyn MemoryPool>);
        let of = |can_spill| MemoryConsumer::new("a sort").with_can_spill(can_spill).register(&pool);
        let (merges, spills) = (of(false), of(true));
        let grown = async |more| held.counted(async { (merges.try_grow(1), spills.try_grow(more)) }).await;
        assert!(matches!(grown(1).await, (Ok(()), Ok(()))));
        assert!(grown(1000).await.1.is_err());
        held.end();
        let (merges, spills) = grown(1000).await;
        assert!(merges.unwrap_err().to_string().contains("ended"));
        spills.unwrap();
        assert_eq!(pool.reserved(), 1003);
    }

    #[tokio::test]
    async fn what_can_be_given_up_is_where_the_heap_is_full() {
        let pool: Arc<dyn MemoryPool> = Arc::new(LeftToTurn::new(1 << 20, budget(64 << 20)));
        let sort = |can_spill| MemoryConsumer::new("a sort").with_can_spill(can_spill).register(&pool);
        let (spills, holds) = (sort(true), sort(false));
        let kept = Vec::<u8>::with_capacity(4 << 30);
        // Few bytes are not worth a file.
        spills.try_grow(100 << 10).unwrap();
        assert!(spills.try_grow(1).unwrap_err().to_string().contains("the heap is full"));
        holds.try_grow(100 << 10).unwrap();
        holds.try_grow(1).unwrap();
        spills.try_grow(0).unwrap();
        drop(kept);
    }

    #[tokio::test]
    async fn what_hands_rows_on_spills_none() {
        let (rows, spills) = handed_on(Arc::new(GreedyMemoryPool::new(1000))).await;
        assert!(rows == 66_667 && spills > 0, "the engine mends it itself: {spills} spills");
        assert_eq!(handed_on(Arc::new(LeftToTurn::new(1000, Budget::default()))).await, (66_667, 0));
    }
}
