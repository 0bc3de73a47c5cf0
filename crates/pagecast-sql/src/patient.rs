//! Statements that find too little memory begin anew: in turn, and then with less.
//!
//! A sort or a join that would fit fails when others hold the memory, or when its own partitions
//! take it from each other, and whether they do is chance. So a statement that has handed on no
//! rows is given up where it fails. It runs again when it has the turn of large ones, of which one
//! runs at a time beside small ones; then with [joins that go to disk](grace_join), and in
//! one partition. What a statement needed by itself it gets at once when it comes again. The error
//! stands where that does not help and nobody else holds anything.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::dataframe::DataFrame;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::{DdlStatement, Explain, LogicalPlan, WriteOp};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt, stream};
use pagecast_datafusion::expect;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};

use crate::budget::is_want_of_memory;
use crate::explained;
use crate::grace_join;
use crate::held::{self, Held};
use crate::need::{Need, planned, planned_to_fit};
use crate::temporary;

/// How long a statement tries while others hold memory, and how long it waits for its turn while
/// whoever has that hands on no rows.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first pause between two attempts beside others; each one is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(50);
/// Statements whose needs are known; with more all are forgotten.
const MOST_KNOWN: usize = 1000;

/// The turn of large statements.
static TURN: Semaphore = Semaphore::const_new(1);
/// Batches that were handed on by who had it.
static HANDED_ON: AtomicU64 = AtomicU64::new(0);
/// What statements needed, by their plans.
static KNOWN: Mutex<HashMap<u64, Need, BuildHasherDefault<DefaultHasher>>> =
    Mutex::new(HashMap::with_hasher(BuildHasherDefault::new()));

/// Plans a statement. It runs when its rows are asked for.
///
/// # Errors
///
/// It has no plan.
pub async fn execute(frame: DataFrame) -> Result<SendableRecordBatchStream> {
    let session = Arc::new(frame.task_ctx());
    let explained = move |error| temporary::explained(&session, error);
    let plan = frame.logical_plan();
    if is_done_once(plan) {
        let rows = frame.execute_stream().await?;
        return Ok(Box::pin(RecordBatchStreamAdapter::new(rows.schema(), rows.map_err(explained))));
    }
    let (key, need) = known(plan);
    let (state, logical) = frame.into_parts();
    let (mut plan, need) = planned_to_fit(&state, &logical, need).await?;
    if let LogicalPlan::Explain(explain) = &logical {
        plan = as_it_would_run(&state, explain, plan).await?;
    }
    let schema = plan.schema();
    let begun =
        Begun { state, logical, key, need, rows: None, turn: None, is_beside: false, failed: None, pause: PAUSE };
    let rows = stream::try_unfold((Some(plan), begun), |(plan, mut begun)| async move {
        let next = match plan {
            Some(plan) => begun.first(plan).await?,
            None => begun.next().await.transpose()?,
        };
        HANDED_ON.fetch_add(u64::from(begun.turn.is_some()), Relaxed);
        Ok(next.map(|batch| (batch, (None, begun))))
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.map_err(explained))))
}

/// The key of a plan, and what its statement is known to need.
fn known(plan: &LogicalPlan) -> (u64, Need) {
    let key = BuildHasherDefault::<DefaultHasher>::default().hash_one(plan);
    (key, KNOWN.lock().get(&key).copied().unwrap_or_default())
}

/// What EXPLAIN shows, as it would run now.
async fn as_it_would_run(
    state: &SessionState,
    explain: &Explain,
    shown: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    // What has no plan is said so.
    let runs = planned_to_fit(state, &explain.plan, known(&explain.plan).1).await;
    let Ok((runs, _)) = runs else { return Ok(shown) };
    expect(&runs, &state.task_ctx()).await?;
    Ok(explained::with(shown, explain, &runs, state))
}

/// Does at once what a plan makes. The rows of a table that is made come like those of a query; one
/// that fails is not there.
pub(crate) async fn made(ctx: &SessionContext, plan: LogicalPlan) -> Result<DataFrame> {
    if !matches!(plan, LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(_))) {
        return ctx.execute_logical_plan(plan).await;
    }
    match ctx.execute_logical_plan(plan.clone()).await {
        Err(error) if is_want_of_memory(&error) => {
            let mut state = ctx.state();
            *state.config_mut() = grace_join::preferred(state.config().clone()).with_target_partitions(1);
            SessionContext::new_with_state(state).execute_logical_plan(plan).await
        }
        made => made,
    }
}

/// Whether a statement does something that must not be done anew. COPY and INSERT leave nothing
/// where they fail.
fn is_done_once(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Dml(change) => !matches!(change.op, WriteOp::Insert(_)),
        LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => true,
        _ => false,
    }
}

/// Whether a large statement has its turn.
pub(crate) fn is_turn_taken() -> bool {
    TURN.available_permits() == 0
}

struct Begun {
    state: SessionState,
    logical: LogicalPlan,
    key: u64,
    need: Need,
    rows: Option<SendableRecordBatchStream>,
    turn: Option<SemaphorePermit<'static>>,
    /// Whether others held memory when it was begun.
    is_beside: bool,
    /// When it failed first in spite of all.
    failed: Option<Instant>,
    pause: Duration,
}

impl Begun {
    /// The first rows, of the first attempt that has some.
    async fn first(&mut self, mut plan: Arc<dyn ExecutionPlan>) -> Result<Option<RecordBatch>> {
        loop {
            if self.need.turn {
                self.take_turn().await;
            }
            self.is_beside = self.do_others_hold();
            self.rows = Some(execute_stream(plan, self.state.task_ctx())?);
            match self.next().await.transpose() {
                Err(error) if is_want_of_memory(&error) => {
                    // What it holds is given back before it waits.
                    self.rows = None;
                    self.need_more(error).await?;
                    plan = planned(&self.state, &self.logical, self.need).await?;
                }
                first => return first,
            }
        }
    }

    async fn next(&mut self) -> Option<Result<RecordBatch>> {
        self.rows.as_mut()?.next().await
    }

    /// Nothing of it is left while it does not run.
    fn do_others_hold(&self) -> bool {
        self.state.runtime_env().memory_pool.reserved() > 0
    }

    /// Needs more than it had, or waits for what others hold. Fails if they hold nothing.
    async fn need_more(&mut self, error: DataFusionError) -> Result<()> {
        if let Some(need) = self.need.after(&error, &self.logical, held::are_others()) {
            self.need = need;
            let mut known = KNOWN.lock();
            if known.len() >= MOST_KNOWN {
                known.clear();
            }
            // What fails beside others may fit by itself.
            if !self.is_beside {
                known.insert(self.key, self.need);
            }
            return Ok(());
        }
        sleep(self.pause).await;
        self.pause *= 2;
        match (self.is_beside || self.do_others_hold())
            && self.failed.get_or_insert_with(Instant::now).elapsed() < PATIENCE
        {
            true => Ok(()),
            false => Err(error),
        }
    }

    /// Whoever waits here for a client does so without a place among those that run.
    async fn take_turn(&mut self) {
        if self.turn.is_some() {
            return;
        }
        if let Some(held) = Held::current() {
            held.become_large();
        }
        let mut turn = pin!(TURN.acquire());
        loop {
            let before = HANDED_ON.load(Relaxed);
            match timeout(PATIENCE, turn.as_mut()).await {
                Ok(turn) => self.turn = turn.ok(),
                Err(_) if before != HANDED_ON.load(Relaxed) => continue,
                Err(_) => {}
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::prelude::SessionConfig;

    use super::*;
    use crate::budget::{Budget, over, over_alone};
    use crate::left_to_turn::LeftToTurn;

    const SORT: &str = "SELECT value, max(repeat('x', 20)) AS s FROM range(400000) GROUP BY value ORDER BY value";

    /// A session with so many megabytes, and partitions that each want ten for their merge.
    fn session(megabytes: usize) -> SessionContext {
        let pool = Arc::new(GreedyMemoryPool::new(megabytes << 20));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
        SessionContext::new_with_config_rt(SessionConfig::new().with_target_partitions(8), runtime)
    }

    async fn rows(ctx: &SessionContext, sql: &str) -> Result<usize> {
        let rows = execute(ctx.sql(sql).await?).await?;
        rows.try_fold(0, async |rows, batch| Ok(rows + batch.num_rows())).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn partitions_that_take_memory_from_each_other_become_one() {
        let ctx = session(32);
        assert!(ctx.sql(SORT).await.unwrap().collect().await.is_err());
        assert_eq!(rows(&ctx, SORT).await.unwrap(), 400_000);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_others_hold_is_waited_for() {
        let ctx = session(32);
        let held = MemoryConsumer::new("another").register(&ctx.runtime_env().memory_pool);
        held.try_grow(31 << 20).unwrap();
        let waiting = tokio::spawn({
            let ctx = ctx.clone();
            async move { rows(&ctx, SORT).await }
        });
        // It has failed, and tries again in its turn.
        while !is_turn_taken() {
            sleep(Duration::from_millis(1)).await;
        }
        drop(held);
        assert_eq!(waiting.await.unwrap().unwrap(), 400_000);
        assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0);
    }

    #[tokio::test]
    async fn a_quarter_is_left_to_who_has_the_turn() {
        let pool: Arc<dyn MemoryPool> = Arc::new(LeftToTurn::new(100, Budget::default()));
        let (small, large) =
            (MemoryConsumer::new("small").register(&pool), MemoryConsumer::new("large").register(&pool));
        let turn = TURN.acquire().await.unwrap();
        let error = small.try_grow(76).unwrap_err().to_string();
        assert!(error.contains("a quarter is left to a large statement"), "{error}");
        small.try_grow(75).unwrap();
        let held = Held::default();
        held.become_large();
        held.counted(async { large.try_grow(25) }).await.unwrap();
        large.free();
        drop(turn);
        small.try_grow(25).unwrap();
    }

    #[tokio::test]
    async fn what_is_over_the_budget_alone_waits_for_nobody() {
        assert!(is_want_of_memory(&over("others hold it".to_owned())));
        assert!(!is_want_of_memory(&over_alone("one call would make too much".to_owned())));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_fits_nowhere_is_an_error() {
        // Rows of one key are never cut.
        let side = "(SELECT value % 1 AS k, repeat('x', 20) || value AS t FROM range(100000))";
        let sql = format!("SELECT count(a.t || b.t) FROM {side} AS a JOIN {side} AS b ON a.k = b.k");
        let error = rows(&little(1 << 20, 1), &sql).await.unwrap_err();
        assert!(is_want_of_memory(&error), "{error}");
    }

    /// With NULLs, and keys that come several times.
    const JOINS: [(&str, &str); 19] = [
        ("b.v", "a JOIN b ON a.k = b.k"),
        ("b.v", "a JOIN b ON a.k = b.k AND a.v < b.v"),
        ("b.v", "a JOIN b ON a.t = b.t AND a.k = b.k AND b.v + a.v < 1000"),
        ("b.v", "a LEFT JOIN b ON a.k = b.k"),
        ("b.v", "a RIGHT JOIN b ON a.k = b.k"),
        ("b.v", "a FULL JOIN b ON a.k = b.k"),
        ("b.v", "a LEFT JOIN b ON a.k = b.k AND a.v < b.v"),
        ("b.v", "a RIGHT JOIN b ON a.k = b.k AND a.v < b.v"),
        ("b.v", "a FULL JOIN b ON a.k = b.k AND a.v + b.v < 1000"),
        ("b.v", "a JOIN b ON a.k::double = b.k::double"),
        ("b.v", "a LEFT JOIN b ON a.k = b.k AND arrow_cast(a.t, 'Dictionary(Int32, Utf8)') = b.t"),
        ("0", "a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.v < a.v)"),
        ("0", "a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k) OR a.v < 3"),
        ("0", "a WHERE a.k NOT IN (SELECT k FROM b WHERE v <> 1)"),
        ("0", "a WHERE a.k NOT IN (SELECT k FROM b WHERE v <> 1 AND k IS NOT NULL)"),
        ("0", "a WHERE a.k NOT IN (SELECT k FROM b WHERE v < 0)"),
        ("b.v", "a JOIN b ON a.k IS NOT DISTINCT FROM b.k"),
        ("0", "a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)"),
        ("0", "a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)"),
    ];

    /// A session with so many bytes, whose joins may go to disk.
    fn little(bytes: usize, partitions: usize) -> SessionContext {
        let pool = Arc::new(GreedyMemoryPool::new(bytes));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
        let config = SessionConfig::new().with_target_partitions(partitions);
        let ctx = SessionContext::new_with_config_rt(config.with_sort_spill_reservation_bytes(100 << 10), runtime);
        pagecast_corrections::install(&ctx, |_| false).unwrap();
        grace_join::install(&ctx);
        ctx
    }

    /// Sums over a join of some rows.
    fn sums((b, join): (&str, &str), rows: usize) -> String {
        let table = |factor: usize| {
            format!(
                "SELECT CASE WHEN value % 3001 = 0 THEN NULL ELSE value * {factor} % {rows} END AS k, \
                 value * 31 % 1009 AS v, repeat('x', 20) || (value % 97)::text AS t FROM range({rows})"
            )
        };
        format!(
            "WITH a AS ({}), b AS ({}) SELECT count(*) AS n, sum(a.k) AS k, sum(a.v) AS a, sum({b}) AS b FROM {join}",
            table(1),
            table(3)
        )
    }

    async fn result(ctx: &SessionContext, sql: &str) -> Result<String> {
        let rows: Vec<_> = execute(ctx.sql(sql).await?).await?.try_collect().await?;
        Ok(pretty_format_batches(&rows)?.to_string())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn first_rows_come_of_a_sort_of_all() {
        let rows = |limit| format!("SELECT value, repeat('x', 90) || value AS t FROM range(200000) ORDER BY t {limit}");
        let sql = format!("SELECT count(*), sum(value) FROM ({})", rows("LIMIT 100000"));
        for partitions in [1, 2] {
            let little = little(5 << 20, partitions);
            assert!(little.sql(&sql).await.unwrap().collect().await.is_err(), "it fits by itself");
            assert_eq!(result(&little, &sql).await.unwrap(), result(&SessionContext::new(), &sql).await.unwrap());
            assert_eq!(self::rows(&little, &rows("LIMIT 150000 OFFSET 7")).await.unwrap(), 150_000);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn distinct_values_are_taken_of_each_column_by_itself() {
        let rows = "(SELECT value * 3 % 150001 AS a, value * 7 % 150011 AS b, value % 10 AS g FROM range(450000))";
        for sql in [
            format!("SELECT count(DISTINCT a), count(DISTINCT b), count(*) FROM {rows}"),
            format!("SELECT g, count(DISTINCT a), count(DISTINCT b) FROM {rows} GROUP BY g ORDER BY g"),
        ] {
            let little = little(2 << 20, 1);
            assert!(little.sql(&sql).await.unwrap().collect().await.is_err(), "it fits by itself");
            assert_eq!(result(&little, &sql).await.unwrap(), result(&SessionContext::new(), &sql).await.unwrap());
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_writes_ends_in_little_memory() {
        let (folder, little) = (tempfile::tempdir().unwrap(), little(5 << 20, 1));
        let path = folder.path().join("t.csv").display().to_string();
        let rows = sums(JOINS[0], 300_000)
            .replace("count(*) AS n, sum(a.k) AS k, sum(a.v) AS a, sum(b.v) AS b", "a.t, b.t AS u");
        let copy = format!("COPY ({rows}) TO '{path}'");
        assert!(little.sql(&copy).await.unwrap().collect().await.is_err(), "it fits by itself");
        let count = result(&SessionContext::new(), &format!("SELECT count(*) AS count FROM ({rows})")).await.unwrap();
        assert_eq!(result(&little, &copy).await.unwrap(), count);
        result(&little, "CREATE TABLE kept (t TEXT, u TEXT)").await.unwrap();
        assert_eq!(result(&little, &format!("INSERT INTO kept {rows}")).await.unwrap(), count);
        assert_eq!(result(&little, "SELECT count(*) AS count FROM kept").await.unwrap(), count);
        let create = format!("CREATE TABLE new AS {rows}");
        assert!(little.sql(&create).await.is_err(), "it fits by itself");
        let plan = little.state().create_logical_plan(&create).await.unwrap();
        made(&little, plan).await.unwrap();
        assert_eq!(result(&little, "SELECT count(*) AS count FROM new").await.unwrap(), count);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn joins_of_any_kind_end_in_little_memory_with_the_same_rows() {
        for (join, partitions) in JOINS.into_iter().zip([1, 2].into_iter().cycle()) {
            let sql = sums(join, 300_000);
            let right = result(&little(1 << 30, 2), &sql).await.unwrap();
            let little = little(5 << 20, partitions);
            let stock = little.sql(&sql).await.unwrap().collect().await;
            assert!(stock.is_err(), "{join:?} fits by itself in {partitions}");
            assert_eq!(result(&little, &sql).await.unwrap(), right, "{join:?} in {partitions}");
        }
    }
}
