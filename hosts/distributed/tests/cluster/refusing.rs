//! What is refused, and how it is said.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionContext;
use pagecast::{Pool, PoolOptions};
use pagecast_cluster::WorkerPoolError;
use pagecast_datafusion::{HostOptions, install};
use pagecast_distributed::{CoordinatorOptions, DistributedError, Members, PooledWorker, distribute};

use crate::cluster::{Cluster, Routing};
use crate::rows::run;
use crate::tables::{RANGE, alone};

fn pool() -> Pool {
    Pool::new(PoolOptions::default().memory(1 << 20)).unwrap()
}

fn builder() -> SessionStateBuilder {
    SessionStateBuilder::new().with_default_features()
}

#[test]
fn a_pool_on_the_coordinator_is_refused_before_it_plans() {
    let ctx = SessionContext::new();
    install(&ctx, pool()).unwrap();
    let members = Members::default();
    let builder = SessionStateBuilder::new_from_existing(ctx.state());
    let refused = distribute(builder, &members, CoordinatorOptions::default()).map(drop);
    assert!(matches!(refused, Err(DistributedError::PoolOnCoordinator)), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_the_coordinator_gets_later_fails_its_queries() {
    let cluster = Cluster::start(1, 1 << 20, Routing::Home(RANGE)).await;
    install(&cluster.ctx, pool()).unwrap();
    let error = cluster.ctx.sql("SELECT count(*) FROM orders").await.unwrap().collect().await.unwrap_err();
    assert!(error.to_string().contains("install pools on the workers alone"), "{error}");
}

#[test]
fn options_that_cannot_hold_are_refused() {
    let refused = distribute(builder(), &Members::default(), CoordinatorOptions::default().range_bytes(0)).map(drop);
    assert!(matches!(refused, Err(DistributedError::NoRange)), "{refused:?}");
    let options = HostOptions::default().join_memory(Some(0));
    let refused = PooledWorker::new(pool(), Arc::new(RuntimeEnv::default()), options);
    assert!(matches!(refused, Err(DistributedError::Pool(WorkerPoolError::JoinsInChunks))), "{refused:?}");
    let members = Members::new(["http://127.0.0.1:1"]).unwrap();
    let refused = members.replace(["http://127.0.0.1:2", "nobody"]);
    assert!(refused.unwrap_err().to_string().contains("`nobody` is not the URL of a worker"));
    assert_eq!(format!("{members:?}"), r#"["http://127.0.0.1:1/"]"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_workers_a_query_runs_where_it_is_planned() {
    let cluster = Cluster::of(Vec::new(), Routing::Home(RANGE)).await;
    let sql = "SELECT count(*), sum(l_orderkey) FROM lineitem";
    assert_eq!(run(&cluster.ctx, sql).await, run(&alone().await, sql).await);
}
