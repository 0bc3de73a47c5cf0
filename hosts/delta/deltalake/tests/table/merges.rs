//! MERGE, which numbers the rows of each file to tell them apart.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, displayable};
use datafusion::prelude::{SessionContext, col, lit};
use deltalake::DeltaTableError;
use pagecast_datafusion::Delivery;
use std::sync::Mutex;

use super::data::{deliveries, open, pooled, register, rows, run, session, written};

/// Keeps how scans with row numbers are executed: the plan from there on, and how many partitions
/// read the files.
#[derive(Default)]
struct Seen(Mutex<Vec<(String, usize)>>);

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seen")
    }
}

impl Seen {
    fn note(&self, plan: &Arc<dyn ExecutionPlan>) {
        let text = displayable(plan.as_ref()).indent(true).to_string();
        if text.starts_with("DeltaScanExec") && text.lines().next().unwrap().contains("row_index_column=") {
            let mut source = Arc::clone(plan);
            while let Some(child) = source.children().first().map(|&child| Arc::clone(child)) {
                source = child;
            }
            let partitions = source.output_partitioning().partition_count();
            self.0.lock().unwrap().push((text, partitions));
        }
        plan.children().into_iter().for_each(|child| self.note(child));
    }
}

impl PhysicalOptimizerRule for Seen {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        self.note(&plan);
        Ok(plan)
    }

    fn name(&self) -> &str {
        "seen"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What a merge did: rows updated, deleted, inserted and copied.
type Done = [usize; 4];

/// Rows of the table whose `id` is among these change or go, and the others of these come.
async fn merge(
    ctx: &SessionContext,
    folder: &Path,
    seen: &Arc<Seen>,
    sources: &[&str],
) -> Result<Done, DeltaTableError> {
    let state = SessionStateBuilder::new_from_existing(ctx.state()).with_physical_optimizer_rule(Arc::clone(seen) as _);
    let source = sources.iter().map(|ids| format!("SELECT * FROM new WHERE {ids}")).collect::<Vec<_>>();
    let source = ctx.sql(&source.join(" UNION ALL ")).await?;
    let merged = open(folder)
        .await
        .merge(source, col("target.id").eq(col("source.id")))
        .with_session_state(Arc::new(state.build()))
        .with_source_alias("source")
        .with_target_alias("target")
        .when_matched_delete(|delete| delete.predicate(col("source.part").eq(lit(2_i64))))?
        .when_matched_update(|update| {
            update.update("text", col("source.text")).update("part", col("target.part") + lit(100_i64))
        })?
        .when_not_matched_insert(|insert| {
            insert.set("id", col("source.id")).set("part", col("source.part")).set("text", col("source.text"))
        })?
        .await?;
    let did = merged.1;
    Ok([
        did.num_target_rows_updated,
        did.num_target_rows_deleted,
        did.num_target_rows_inserted,
        did.num_target_rows_copied,
    ])
}

/// A table of two files and a session's source of new rows.
async fn begun(ctx: &SessionContext, folder: &Path) {
    written(folder, &[0..6000, 6000..9000]).await;
    ctx.register_batch("new", rows(0..10_000)).unwrap();
}

const ALL: &str = "SELECT * FROM t ORDER BY id";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_does_the_same() {
    const SOURCES: [&str; 2] = ["id % 11 = 4 AND id < 4000", "id % 13 = 5 AND id > 5500"];
    let folder = tempfile::tempdir().unwrap();
    let (stock, seen) = (session(), Arc::default());
    begun(&stock, folder.path()).await;
    let done = merge(&stock, folder.path(), &seen, &SOURCES).await.unwrap();
    assert!(done.iter().all(|&rows| rows > 50), "{done:?}");
    register(&stock, folder.path()).await;
    let after = run(&stock, ALL).await;
    // DataFusion itself divides the files among partitions, whose rows then come as they come: the
    // numbers tell rows apart and do not say where in the file they are.
    let (plan, partitions) = seen.0.lock().unwrap().remove(0);
    assert_eq!(partitions, 3, "{plan}");
    assert!(plan.contains("CoalescePartitionsExec"), "{plan}");

    for options in deliveries() {
        let folder = tempfile::tempdir().unwrap();
        let ((ctx, host), seen) = (pooled(options), Arc::default());
        begun(&ctx, folder.path()).await;
        assert_eq!(merge(&ctx, folder.path(), &seen, &SOURCES).await.unwrap(), done, "{options:?}");
        assert!(host.pool().stats().requests > 0);
        assert_eq!(host.out_of_order_scans() > 0, options.delivery == Delivery::OutOfOrder, "{options:?}");
        let (plan, partitions) = seen.0.lock().unwrap().remove(0);
        assert_eq!(partitions, 3, "{plan}");
        assert_eq!(plan.contains("delivery=out-of-order"), options.delivery == Delivery::OutOfOrder, "{plan}");
        assert_eq!(host.refused_plans(), 0);
        register(&ctx, folder.path()).await;
        assert_eq!(run(&ctx, ALL).await, after, "{options:?}");
    }
}

/// A row of the table that two rows of the source meet is found by its number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_that_changes_a_row_twice_is_refused() {
    const SOURCES: [&str; 2] = ["id % 11 = 4 AND id < 4000", "id IN (15, 7000)"];
    let stock = (session(), "without a pool".to_owned());
    let pooled = deliveries().map(|options| (pooled(options).0, format!("{options:?}")));
    for (ctx, how) in [stock].into_iter().chain(pooled) {
        let folder = tempfile::tempdir().unwrap();
        begun(&ctx, folder.path()).await;
        let fault = merge(&ctx, folder.path(), &Arc::default(), &SOURCES).await.unwrap_err().to_string();
        assert!(fault.contains("multiple source rows"), "{how}: {fault}");
        merge(&ctx, folder.path(), &Arc::default(), &SOURCES[..1]).await.unwrap();
    }
}

/// Without a row that could be changed twice nothing is numbered, and the scan leaves out files by
/// what the join has seen of the source.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_that_only_inserts_does_the_same() {
    let stock = (session(), "without a pool".to_owned());
    let pooled = deliveries().map(|options| (pooled(options).0, format!("{options:?}")));
    for (ctx, how) in [stock].into_iter().chain(pooled) {
        let folder = tempfile::tempdir().unwrap();
        begun(&ctx, folder.path()).await;
        let source = ctx.sql("SELECT * FROM new WHERE id > 5900 AND id % 3 = 0").await.unwrap();
        let (_, did) = open(folder.path())
            .await
            .merge(source, col("target.id").eq(col("source.id")))
            .with_session_state(Arc::new(ctx.state()))
            .with_source_alias("source")
            .with_target_alias("target")
            .with_streaming(true)
            .when_not_matched_insert(|insert| {
                insert.set("id", col("source.id")).set("part", col("source.part")).set("text", col("source.text"))
            })
            .unwrap()
            .await
            .unwrap();
        assert_eq!((did.num_target_rows_inserted, did.num_target_rows_updated), (334, 0), "{how}");
        register(&ctx, folder.path()).await;
        let all = run(&ctx, "SELECT count(text), sum(id), count(DISTINCT id) FROM t").await;
        let sum = (0..10_000).filter(|id| *id < 9000 || id % 3 == 0).sum::<i64>().to_string();
        assert!(all[3].contains("| 9334 ") && all[3].contains(&sum), "{how}: {all:?}");
    }
}
