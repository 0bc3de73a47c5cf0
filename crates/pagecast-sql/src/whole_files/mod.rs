//! Files that a statement writes are there whole or not at all.
//!
//! DataFusion 55 finishes a file where its rows end, also if they end in an error, and the old file
//! of that name is gone by then (<https://github.com/apache/datafusion/pull/9648> took out what
//! gave files up). So what COPY and INSERT write goes to a store of theirs, which keeps it beside
//! until all rows are written. An error, Ctrl-C or a timeout leave what was there as it was.

mod staging;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::config::ConfigOptions;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion::prelude::SessionContext;
use futures::{TryStreamExt, stream};

use staging::Staging;

/// Has the files of a session's statements written whole.
pub(crate) fn install(ctx: &SessionContext) {
    let state = ctx.state_ref();
    let mut state = state.write();
    *state = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(state.session_id().to_owned())
        .with_physical_optimizer_rule(Arc::new(WholeFiles))
        .build();
}

#[derive(Debug)]
struct WholeFiles;

impl PhysicalOptimizerRule for WholeFiles {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let whole = plan.transform_up(|plan| {
            let writes = plan.is::<DataSinkExec>();
            Ok(if writes { Transformed::yes(Arc::new(WholeFilesExec { plan }) as _) } else { Transformed::no(plan) })
        });
        whole.map(|whole| whole.data)
    }

    fn name(&self) -> &'static str {
        "whole files"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What writes files, which are in their places when it ends.
#[derive(Debug)]
struct WholeFilesExec {
    plan: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for WholeFilesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("WholeFilesExec")
    }
}

impl ExecutionPlan for WholeFilesExec {
    fn name(&self) -> &'static str {
        "WholeFilesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.plan]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = children.pop().unwrap_or_else(|| Arc::clone(&self.plan));
        Ok(Arc::new(Self { plan }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (runtime, staging) = (context.runtime_env(), Arc::new(Staging::new(&context)));
        let runtime = RuntimeEnv { object_store_registry: Arc::clone(&staging) as _, ..runtime.as_ref().clone() };
        let context = TaskContext::new(
            context.task_id(),
            context.session_id(),
            context.session_config().clone(),
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            Arc::new(runtime),
        );
        let counts = self.plan.execute(partition, Arc::new(context))?;
        let schema = counts.schema();
        let whole = async move {
            let counts: Result<Vec<_>> = counts.try_collect().await;
            let counts = counts.map_err(|error| staging.failure().map_or(error, DataFusionError::from))?;
            staging.commit().await?;
            Ok::<_, DataFusionError>(stream::iter(counts.into_iter().map(Ok)))
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(whole).try_flatten())))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use pagecast::files::faults::{Plan, Planned};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    /// Tasks that are given up end a little later.
    async fn until(is_so: impl Fn() -> bool) {
        while !is_so() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    async fn run(sql: &str) -> Result<()> {
        let ctx = SessionContext::new();
        install(&ctx);
        ctx.sql(sql).await?.collect().await.map(drop)
    }

    #[tokio::test]
    async fn a_copy_that_fails_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        for kind in ["csv", "json", "parquet", "arrow"] {
            let path = folder.path().join(format!("target.{kind}"));
            fs::write(&path, "old").unwrap();
            // The last of its rows has no quotient; rows before it fill more than one buffer.
            let fails = format!(
                "COPY (SELECT value, repeat('x', 100) AS s, 1 / (300000 - value) AS q FROM range(1, 300001)) TO '{}'",
                path.display()
            );
            assert!(run(&fails).await.unwrap_err().to_string().contains("zero"), "{kind}");
            until(|| names(folder.path()).len() == 1).await;
            assert_eq!(fs::read(&path).unwrap(), b"old", "{kind}");
            run(&fails.replace("300001)", "300000)")).await.unwrap();
            assert!(fs::metadata(&path).unwrap().len() > 1000);
            assert_eq!(names(folder.path()).len(), 1, "{kind}");
            fs::remove_file(path).unwrap();
        }
    }

    #[tokio::test]
    async fn a_copy_that_is_given_up_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/target.csv");
        let rows = "SELECT a.value, b.value FROM range(100000) a, range(100000) b";
        let endless = format!("COPY ({rows}) TO '{}'", path.display());
        let running = tokio::spawn(async move { run(&endless).await });
        until(|| path.parent().unwrap().exists()).await;
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        until(|| names(folder.path()).is_empty()).await;
    }

    #[tokio::test]
    async fn parts_of_a_table_come_together() {
        let folder = tempfile::tempdir().unwrap();
        let parts = |most: u32| {
            format!(
                "COPY (SELECT value, value % 3 AS k, 1 / (70000 - value) AS q FROM range(1, {most})) TO '{}' \
                 STORED AS PARQUET PARTITIONED BY (k)",
                folder.path().join("parts").display()
            )
        };
        assert!(run(&parts(70_001)).await.is_err());
        until(|| names(folder.path()).is_empty()).await;
        run(&parts(70_000)).await.unwrap();
        assert_eq!(names(&folder.path().join("parts")), ["k=0", "k=1", "k=2"]);
    }

    /// All files beneath a folder, by their paths in it.
    fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        for name in names(folder) {
            let path = folder.join(&name);
            if path.is_dir() {
                // A folder without a file is a thing that was left, too.
                let inside = files(&path);
                assert!(!inside.is_empty(), "{}", path.display());
                found.extend(inside.into_iter().map(|(file, bytes)| (format!("{name}/{file}"), bytes)));
            } else {
                found.insert(name, fs::read(path).unwrap());
            }
        }
        found
    }

    /// Has each call of the file system fail in turn that the statement makes beneath a folder,
    /// which is as `fill` makes it. Each file there is as it was or as it becomes, and no other is.
    async fn fail_at_each_call(fill: impl Fn(&Path), statement: impl Fn(&Path) -> Vec<String>, how: Planned) {
        // The names of an INSERT's files are never the same: its rows are compared, whole files.
        let filled = |folder: &Path| {
            fill(folder);
            (files(folder), statement(folder))
        };
        let folder = tempfile::tempdir().unwrap();
        let (_, sql) = filled(folder.path());
        run_all(&sql).await.unwrap();
        let whole = files(folder.path());
        for call in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let (old, sql) = filled(folder.path());
            let plan = Plan::new(folder.path(), call, how);
            let done = run_all(&sql).await;
            let Some(what) = plan.failed() else {
                done.unwrap();
                assert_eq!(files(folder.path()).len(), whole.len());
                assert!(call > 5, "{sql:?}");
                return;
            };
            let is_left = || done.is_err() && names(folder.path()).iter().any(|name| name.starts_with(".pagecast"));
            until(|| !is_left()).await;
            for (name, bytes) in &files(folder.path()) {
                let is_new = whole.get(name).is_some_and(|new| new == bytes)
                    || !whole.contains_key(name) && whole.values().any(|new| new == bytes);
                assert!(is_new || old.get(name) == Some(bytes), "{what} of {sql:?}: {name}");
            }
            let found = files(folder.path());
            assert!(old.keys().all(|name| found.contains_key(name)), "{what} of {sql:?}: a file is gone");
            match done {
                // Nobody hears of a removal that fails: in its place it is another file.
                Ok(()) => assert_eq!(what, "removing it"),
                Err(error) => {
                    let error = error.to_string();
                    let folder = folder.path().to_str().unwrap();
                    assert!(error.contains("cannot write ") && error.contains(folder), "{what}: {error}");
                    assert!(error.contains("as planned"), "{what}: {error}");
                }
            }
        }
    }

    async fn run_all(statements: &[String]) -> Result<()> {
        let ctx = SessionContext::new();
        install(&ctx);
        for sql in statements {
            ctx.sql(sql).await?.collect().await?;
        }
        Ok(())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn whichever_call_fails_copy_leaves_old_files_or_whole_ones() {
        for (kind, how) in ["csv", "json", "parquet", "arrow"]
            .into_iter()
            .flat_map(|kind| [(kind, Planned::Nothing), (kind, Planned::All)])
        {
            let copy = |folder: &Path| {
                let path = folder.join("new/target").with_extension(kind);
                vec![format!("COPY (SELECT value, repeat('x', 99) FROM range(9000)) TO '{}'", path.display())]
            };
            fail_at_each_call(|_| {}, copy, how).await;
            let old = |folder: &Path| {
                fs::create_dir(folder.join("new")).unwrap();
                fs::write(folder.join("new/target").with_extension(kind), "old").unwrap();
            };
            fail_at_each_call(old, copy, how).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn whichever_call_fails_parts_and_inserts_are_whole() {
        for how in [Planned::Nothing, Planned::All] {
            let parts = |folder: &Path| {
                let path = folder.join("parts");
                let rows = "SELECT value, value % 2 AS k FROM range(10)";
                vec![format!("COPY ({rows}) TO '{}' STORED AS CSV PARTITIONED BY (k)", path.display())]
            };
            fail_at_each_call(|_| {}, parts, how).await;
            let insert = |folder: &Path| {
                let path = folder.display();
                vec![
                    format!("CREATE EXTERNAL TABLE t (v BIGINT) STORED AS CSV LOCATION '{path}/'"),
                    "INSERT INTO t SELECT value FROM range(10)".to_owned(),
                ]
            };
            fail_at_each_call(|folder| fs::write(folder.join("old.csv"), "v\n1\n").unwrap(), insert, how).await;
        }
    }
}
