//! What a scheduler is started with.

use std::num::NonZeroU64;
use std::sync::Arc;

use ballista_core::utils::default_session_builder;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::{SchedulerConfig, TaskDistributionPolicy};
use ballista_scheduler::scheduler_server::SessionBuilder;
use pagecast_cluster::has_pool;

use crate::BallistaHostError;
use crate::policy::AtHome;

/// How a scheduler sends scans to executors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SchedulerOptions {
    /// Bytes between two borders of a file. Row groups that begin between them go to one executor.
    /// Default: 64 MiB, at least 1.
    pub range_bytes: u64,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        Self { range_bytes: 64 << 20 }
    }
}

impl SchedulerOptions {
    /// Sets [`SchedulerOptions::range_bytes`].
    #[must_use]
    pub fn range_bytes(self, range_bytes: u64) -> Self {
        Self { range_bytes }
    }
}

/// A cluster in memory, and `config` with the policy that sends each range of a Parquet file to the
/// executor where it is at home. Both go to Ballista's `start_server`.
///
/// An executor's name is its host and port, not its id: one that starts anew on the same port has
/// what it had. Sessions are built as `config` says; one that has a pool is refused, and so are its
/// queries.
///
/// # Errors
///
/// `range_bytes` is 0, or Ballista does not make the cluster.
pub async fn at_home(
    mut config: SchedulerConfig,
    options: SchedulerOptions,
) -> Result<(BallistaCluster, SchedulerConfig), BallistaHostError> {
    let step = NonZeroU64::new(options.range_bytes).ok_or(BallistaHostError::NoRange)?;
    let sessions = config.override_session_builder.take().unwrap_or_else(|| Arc::new(default_session_builder));
    config.override_session_builder = Some(without_pool(sessions));
    let cluster = BallistaCluster::new_from_config(&config).await?;
    let policy = AtHome::new(cluster.cluster_state(), step);
    let config = config.with_task_distribution(TaskDistributionPolicy::Custom(Arc::new(policy)));
    Ok((cluster, config))
}

/// Builds the sessions of another builder that have no pool. A scan that reads through a pool deals
/// its row groups out to whoever asks. A task that got some of its partitions would read them all.
fn without_pool(sessions: SessionBuilder) -> SessionBuilder {
    Arc::new(move |config| {
        let state = sessions(config)?;
        if has_pool(state.physical_optimizers()) {
            return Err(BallistaHostError::PoolOnScheduler.into());
        }
        Ok(state)
    })
}
