//! The pool of a worker's process.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::config::ConfigOptions;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use pagecast::Pool;
use pagecast_datafusion::{Host, HostError, HostOptions, install_with};
use thiserror::Error;

/// What pagecast calls its optimizer rule.
const RULE: &str = "pagecast";

/// A rule of a session's physical optimizer.
pub type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Whether a session with these rules reads through a pool of its own. Its scans cannot be sent to
/// workers, and an engine that divides scans among tasks would read them once for each task.
pub fn has_pool(rules: &[Rule]) -> bool {
    rules.iter().any(|rule| rule.name() == RULE)
}

/// Why a worker gets no pool.
#[derive(Clone, Debug, Error)]
pub enum WorkerPoolError {
    /// Joins in chunks change the shape of a plan, which a worker must keep.
    #[error("workers cannot join in chunks: the plan that they run must keep its shape; leave join_memory unset")]
    JoinsInChunks,
    /// The pool's host refuses.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// A pool in the service of the plans that a worker is sent. Make one for a process, and keep it:
/// it is what the worker remembers.
pub struct WorkerPool {
    host: Arc<Host>,
    runtime: Arc<RuntimeEnv>,
    rule: Rule,
}

impl WorkerPool {
    /// A worker's pool, with the stores and the memory of `runtime`. Object stores are registered
    /// with `runtime`, before or after. Workers plan nothing ([`HostOptions::plans`]).
    ///
    /// # Errors
    ///
    /// `options` ask for joins in chunks ([`WorkerPoolError::JoinsInChunks`]), or the pool's host
    /// refuses.
    pub fn new(pool: Pool, runtime: Arc<RuntimeEnv>, options: HostOptions) -> Result<Self, WorkerPoolError> {
        if options.join_memory.is_some() {
            return Err(WorkerPoolError::JoinsInChunks);
        }
        // A session that runs nothing: it tells what the host makes of one.
        let state = SessionStateBuilder::new().with_default_features().with_runtime_env(runtime).build();
        let session = SessionContext::new_with_state(state);
        let host = install_with(&session, pool, options.plans(false))?;
        let state = session.state();
        let rule = state.physical_optimizers().iter().rfind(|rule| rule.name() == RULE).cloned();
        let rule = rule.ok_or_else(|| HostError::Runtime {
            source: Arc::new(DataFusionError::Internal("the pool's rule is not where install put it".to_owned())),
        })?;
        Ok(Self { host, runtime: Arc::clone(state.runtime_env()), rule })
    }

    /// The pool, and what is kept beside it.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// The runtime in which the worker's plans run: its stores read through the pool.
    pub fn runtime(&self) -> &Arc<RuntimeEnv> {
        &self.runtime
    }

    /// `plan` with the pool under its scans of Parquet files. It keeps its shape.
    ///
    /// # Errors
    ///
    /// Those of the rule; it has none today.
    pub fn put_under(&self, plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        self.rule.optimize(plan, options)
    }
}

impl fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerPool").field("host", &self.host).finish_non_exhaustive()
    }
}
