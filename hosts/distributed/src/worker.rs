//! The worker of a process: one pool, under the scans of all plans that it is sent.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::SessionContext;
use datafusion_distributed::{
    DefaultSessionBuilder, DistributedExt, Worker, WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse,
    WorkerQueryContext, WorkerSessionBuilder, get_distributed_channel_resolver,
};
use pagecast::Pool;
use pagecast_datafusion::{Host, HostOptions, install_with};

use crate::DistributedError;
use crate::channel::NamedChannels;

/// What pagecast calls its optimizer rule.
const RULE: &str = "pagecast";

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Whether a session with these rules reads through a pool of its own.
pub(crate) fn has_pool(rules: &[Rule]) -> bool {
    rules.iter().any(|rule| rule.name() == RULE)
}

/// Makes the worker of a process. Make one, and keep it: its pool is what the worker remembers.
///
/// Plans come from a coordinator that knows of no pool. The worker puts its pool under their scans
/// when they arrive, and all queries share it.
pub struct PooledWorker {
    host: Arc<Host>,
    runtime: Arc<RuntimeEnv>,
    rule: Rule,
}

impl PooledWorker {
    /// A worker that reads through `pool`, with the stores and the memory of `runtime`. Object
    /// stores are registered with `runtime`, before or after.
    ///
    /// # Errors
    ///
    /// `options` ask for joins in strokes ([`DistributedError::JoinsInStrokes`]), or the pool's
    /// host refuses.
    pub fn new(pool: Pool, runtime: Arc<RuntimeEnv>, options: HostOptions) -> Result<Self, DistributedError> {
        if options.join_in_strokes {
            return Err(DistributedError::JoinsInStrokes);
        }
        // A session that runs nothing: it tells what the host makes of one.
        let state = SessionStateBuilder::new().with_default_features().with_runtime_env(runtime).build();
        let session = SessionContext::new_with_state(state);
        let host = install_with(&session, pool, options)?;
        let state = session.state();
        let rule = state.physical_optimizers().iter().rfind(|rule| rule.name() == RULE).cloned();
        let rule = rule.ok_or_else(|| pagecast_datafusion::HostError::Runtime {
            source: Arc::new(DataFusionError::Internal("the pool's rule is not where install put it".to_owned())),
        })?;
        Ok(Self { host, runtime: Arc::clone(state.runtime_env()), rule })
    }

    /// The pool, and what is kept beside it.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// The worker, with DataFusion's own sessions. [`Worker::into_worker_server`] makes it a
    /// service.
    pub fn worker(&self) -> Worker {
        self.worker_with(DefaultSessionBuilder)
    }

    /// The worker, with sessions as `sessions` builds them: functions, codecs, options. They keep
    /// the runtime that they are given.
    pub fn worker_with(&self, sessions: impl WorkerSessionBuilder + Send + Sync + 'static) -> Worker {
        let pooled = PooledSessions { sessions, rule: Arc::clone(&self.rule) };
        Worker::from_session_builder(pooled).with_runtime_env(Arc::clone(&self.runtime))
    }
}

impl fmt::Debug for PooledWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledWorker").field("host", &self.host).finish_non_exhaustive()
    }
}

/// The sessions of a worker, each with the rule for the plan that it will be sent.
struct PooledSessions<S> {
    sessions: S,
    rule: Rule,
}

#[async_trait]
impl<S: WorkerSessionBuilder + Send + Sync> WorkerSessionBuilder for PooledSessions<S> {
    async fn build_session_state(&self, query: WorkerQueryContext) -> Result<SessionState> {
        let mut state = self.sessions.build_session_state(query).await?;
        let channels = get_distributed_channel_resolver(&state.task_ctx());
        state.set_distributed_channel_resolver(NamedChannels(channels));
        let rule = Arc::clone(&self.rule);
        // A worker optimizes nothing, so that rules of its sessions never run.
        state.set_distributed_worker_plan_rewrite_handler(move |event: WorkerPlanRewriteEvent<'_>| {
            let plan = rule.optimize(event.plan, event.session_config.options())?;
            Ok(WorkerPlanRewriteEventResponse::new(plan))
        });
        Ok(state)
    }
}
