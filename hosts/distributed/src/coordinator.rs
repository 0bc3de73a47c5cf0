//! The session in which queries are planned, and the one that must have no pool.

use std::num::NonZeroU64;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::grpc::DefaultChannelResolver;
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedExt, RouteTasksEvent, ScaleUpLeafNodeEvent,
    SessionStateBuilderExt,
};
use pagecast_cluster::affinity::Workers;
use pagecast_cluster::dealing::homes;
use pagecast_cluster::has_pool;
use pagecast_cluster::ranges::{may_be_dealt_out, parquet_scan};
use url::Url;

use crate::channel::NamedChannels;
use crate::leaf::scale_up;
use crate::route::route;
use crate::{DistributedError, Members};

/// How a session sends its scans to workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CoordinatorOptions {
    /// Bytes between two borders of a file. Row groups that begin between them go to one worker.
    /// All coordinators of a cluster need the same. Default: 64 MiB, at least 1.
    pub range_bytes: u64,
}

impl Default for CoordinatorOptions {
    fn default() -> Self {
        Self { range_bytes: 64 << 20 }
    }
}

impl CoordinatorOptions {
    /// Sets [`CoordinatorOptions::range_bytes`].
    #[must_use]
    pub fn range_bytes(self, range_bytes: u64) -> Self {
        Self { range_bytes }
    }
}

/// Makes a session plan for the workers of `members`, with each range of a Parquet file at home on
/// one of them.
///
/// It sets the planner of [`datafusion_distributed`] and its handlers for scans and routes. A
/// planner that the builder has already is asked first; set none afterwards. Channels to workers
/// are those of its default resolver, and errors name the worker. Unions read all their inputs in
/// all tasks (`children_isolator_unions` is off), or routes would not fit.
///
/// # Errors
///
/// The session has a pool ([`DistributedError::PoolOnCoordinator`]; if it gets one later, its
/// queries fail with this), or `range_bytes` is 0.
pub fn distribute(
    mut builder: SessionStateBuilder,
    members: &Members,
    options: CoordinatorOptions,
) -> Result<SessionStateBuilder, DistributedError> {
    let step = NonZeroU64::new(options.range_bytes).ok_or(DistributedError::NoRange)?;
    let inherited = builder.physical_optimizers().as_ref().is_some_and(|optimizer| has_pool(&optimizer.rules));
    if inherited || builder.physical_optimizer_rules().as_deref().is_some_and(has_pool) {
        return Err(DistributedError::PoolOnCoordinator);
    }
    let (counting, cutting, routing) = (members.clone(), members.clone(), members.clone());
    let mut builder = builder
        .with_distributed_worker_resolver(members.clone())
        .with_distributed_channel_resolver(NamedChannels(Arc::new(DefaultChannelResolver::default())))
        .with_distributed_planner()
        .with_distributed_desired_task_count_handler(move |event: DesiredTaskCountEvent<'_>| {
            let config = parquet_scan(event.plan.as_ref()).filter(|config| may_be_dealt_out(config))?;
            Some(Ok(DesiredTaskCountEventResponse::desired(homes(config, &known(&counting), step))))
        })
        .with_distributed_scale_up_leaf_node_handler(move |event: ScaleUpLeafNodeEvent<'_>| {
            scale_up(event, &known(&cutting), step)
        })
        .with_distributed_route_tasks_handler(move |event: RouteTasksEvent<'_>| route(&event, &routing.urls(), step));
    let options = builder.config().get_or_insert_default().options_mut();
    if let Some(distributed) = options.extensions.get_mut::<datafusion_distributed::DistributedConfig>() {
        distributed.children_isolator_unions = false;
    }
    let inner = builder.query_planner().take();
    Ok(match inner {
        Some(inner) => builder.with_query_planner(Arc::new(WithoutPool { inner })),
        None => builder,
    })
}

fn known(members: &Members) -> Workers {
    Workers::new(members.urls().iter().map(Url::as_str))
}

/// Plans nothing for a session that got a pool after all: its scans could not be sent, and the
/// planner would quietly run them here.
#[derive(Debug)]
struct WithoutPool {
    inner: Arc<dyn QueryPlanner + Send + Sync>,
}

#[async_trait]
impl QueryPlanner for WithoutPool {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let state = session.as_any().downcast_ref::<SessionState>();
        if state.is_some_and(|state| has_pool(state.physical_optimizers())) {
            return Err(DistributedError::PoolOnCoordinator.into());
        }
        self.inner.create_physical_plan(plan, session).await
    }
}
