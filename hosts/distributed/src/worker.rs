//! The worker of a process: one pool, under the scans of all plans that it is sent.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_distributed::{
    DefaultSessionBuilder, DistributedExt, Worker, WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse,
    WorkerQueryContext, WorkerSessionBuilder, get_distributed_channel_resolver,
};
use pagecast::Pool;
use pagecast_cluster::WorkerPool;
use pagecast_datafusion::{Host, HostOptions};

use crate::DistributedError;
use crate::channel::NamedChannels;

/// Makes the worker of a process. Make one, and keep it: its pool is what the worker remembers.
///
/// Plans come from a coordinator that knows of no pool. The worker puts its pool under their scans
/// when they arrive, and all queries share it.
pub struct PooledWorker(Arc<WorkerPool>);

impl PooledWorker {
    /// A worker that reads through `pool`, with the stores and the memory of `runtime`. Object
    /// stores are registered with `runtime`, before or after.
    ///
    /// # Errors
    ///
    /// `options` ask for joins in chunks, or the pool's host refuses
    /// ([`DistributedError::Pool`]).
    pub fn new(pool: Pool, runtime: Arc<RuntimeEnv>, options: HostOptions) -> Result<Self, DistributedError> {
        Ok(Self(Arc::new(WorkerPool::new(pool, runtime, options)?)))
    }

    /// The pool, and what is kept beside it.
    pub fn host(&self) -> &Arc<Host> {
        self.0.host()
    }

    /// The worker, with DataFusion's own sessions. [`Worker::into_worker_server`] makes it a
    /// service.
    pub fn worker(&self) -> Worker {
        self.worker_with(DefaultSessionBuilder)
    }

    /// The worker, with sessions as `sessions` builds them: functions, codecs, options. They keep
    /// the runtime that they are given.
    pub fn worker_with(&self, sessions: impl WorkerSessionBuilder + Send + Sync + 'static) -> Worker {
        let pooled = PooledSessions { sessions, pool: Arc::clone(&self.0) };
        Worker::from_session_builder(pooled).with_runtime_env(Arc::clone(self.0.runtime()))
    }
}

impl fmt::Debug for PooledWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PooledWorker").field(&self.0).finish()
    }
}

/// The sessions of a worker, each with the pool for the plan that it will be sent.
struct PooledSessions<S> {
    sessions: S,
    pool: Arc<WorkerPool>,
}

#[async_trait]
impl<S: WorkerSessionBuilder + Send + Sync> WorkerSessionBuilder for PooledSessions<S> {
    async fn build_session_state(&self, query: WorkerQueryContext) -> Result<SessionState> {
        let mut state = self.sessions.build_session_state(query).await?;
        let channels = get_distributed_channel_resolver(&state.task_ctx());
        state.set_distributed_channel_resolver(NamedChannels(channels));
        let pool = Arc::clone(&self.pool);
        // A worker optimizes nothing, so that rules of its sessions never run.
        state.set_distributed_worker_plan_rewrite_handler(move |event: WorkerPlanRewriteEvent<'_>| {
            let plan = pool.put_under(event.plan, event.session_config.options())?;
            Ok(WorkerPlanRewriteEventResponse::new(plan))
        });
        Ok(state)
    }
}
