//! What is refused, and how it is said.

use std::sync::Arc;

use ballista_core::utils::{default_config_producer, default_session_builder};
use ballista_scheduler::config::SchedulerConfig;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionContext;
use pagecast::{Pool, PoolOptions};
use pagecast_ballista::{BallistaHostError, PooledExecutor, SchedulerOptions, at_home};
use pagecast_cluster::WorkerPoolError;
use pagecast_datafusion::{HostOptions, install};

fn pool() -> Pool {
    Pool::new(PoolOptions::default().memory(1 << 20)).unwrap()
}

#[tokio::test]
async fn a_pool_in_the_scheduler_is_refused() {
    let sessions = |config| {
        let ctx = SessionContext::new_with_state(default_session_builder(config)?);
        install(&ctx, pool()).unwrap();
        Ok(ctx.state())
    };
    let config = SchedulerConfig::default().with_override_session_builder(Arc::new(sessions));
    let (cluster, _) = at_home(config, SchedulerOptions::default()).await.unwrap();
    let refused = cluster.job_state().create_or_update_session("a", &default_config_producer()).await.map(drop);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("install pools on the executors alone"), "{error}");
}

#[tokio::test]
async fn options_that_cannot_hold_are_refused() {
    let refused = at_home(SchedulerConfig::default(), SchedulerOptions::default().range_bytes(0)).await.map(drop);
    assert!(matches!(refused, Err(BallistaHostError::NoRange)), "{refused:?}");
    let options = HostOptions::default().join_in_strokes(true);
    let refused = PooledExecutor::new(pool(), Arc::new(RuntimeEnv::default()), options);
    assert!(matches!(refused, Err(BallistaHostError::Pool(WorkerPoolError::JoinsInStrokes))), "{refused:?}");
}
