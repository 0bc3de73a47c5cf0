//! The executor of a process: one pool, under the scans of all plans that it is sent.

use std::fmt;
use std::sync::Arc;

use ballista_core::JobId;
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor};
use ballista_executor::executor_process::ExecutorProcessConfig;
use datafusion::common::Result;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use datafusion::prelude::SessionConfig;
use pagecast::Pool;
use pagecast_cluster::WorkerPool;
use pagecast_datafusion::{Host, HostOptions};

use crate::BallistaHostError;

/// Makes the executor of a process. Make one, and keep it: its pool is what the executor remembers.
///
/// Plans come from a scheduler that knows of no pool. The executor puts its pool under their scans
/// when they arrive, and all tasks share it.
#[derive(Debug)]
pub struct PooledExecutor(Arc<WorkerPool>);

impl PooledExecutor {
    /// An executor that reads through `pool`, with the stores and temporary files of `runtime`.
    /// Object stores are registered with `runtime`, before or after.
    ///
    /// # Errors
    ///
    /// `options` ask for joins in strokes, or the pool's host refuses
    /// ([`BallistaHostError::Pool`]).
    pub fn new(pool: Pool, runtime: Arc<RuntimeEnv>, options: HostOptions) -> Result<Self, BallistaHostError> {
        Ok(Self(Arc::new(WorkerPool::new(pool, runtime, options)?)))
    }

    /// The pool, and what is kept beside it.
    pub fn host(&self) -> &Arc<Host> {
        self.0.host()
    }

    /// `config` with the pool: its runtime and its execution engine are set. An engine that it has
    /// already gets the plans with the pool in them. Without one it is Ballista's default
    /// engine, but with no pool of connections to other executors: Ballista keeps that to itself.
    /// A runtime that `config` has is replaced by the one that this executor was made with.
    #[must_use]
    pub fn configure(&self, mut config: ExecutorProcessConfig) -> ExecutorProcessConfig {
        let runtime = Arc::clone(self.0.runtime());
        config.override_runtime_producer = Some(Arc::new(move |_| Ok(Arc::clone(&runtime))));
        let usual = || Arc::new(DefaultExecutionEngine::new()) as Arc<dyn ExecutionEngine>;
        let inner = config.override_execution_engine.take().unwrap_or_else(usual);
        config.override_execution_engine = Some(Arc::new(PooledEngine { pool: Arc::clone(&self.0), inner }));
        config
    }
}

/// Another engine, which gets plans with the pool in them.
struct PooledEngine {
    pool: Arc<WorkerPool>,
    inner: Arc<dyn ExecutionEngine>,
}

impl fmt::Debug for PooledEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledEngine").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl ExecutionEngine for PooledEngine {
    fn create_query_stage_exec(
        &self,
        job: JobId,
        stage: usize,
        task: usize,
        partitions: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        folder: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        // The root writes files and gives out a summary. What is written is its child: an order
        // that the child promises is one that a later stage may rely on.
        let children = plan.children().into_iter().cloned();
        let pooled = children.map(|child| self.pool.put_under(child, config.options()));
        let pooled = pooled.collect::<Result<Vec<_>>>()?;
        let plan = replace_children_if_necessary(plan, pooled)?;
        self.inner.create_query_stage_exec(job, stage, task, partitions, plan, folder, config)
    }
}
