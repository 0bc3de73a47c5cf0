//! An executor that dies: every query ends, right or with an error.

use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use pagecast::storage::FaultStore;

use crate::answers::{answer, assert_right, silence, until_asked};
use crate::cluster::{Cluster, Routing};
use crate::tables::{RANGE, alone, objects};
use crate::tpch::round;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_whose_executor_dies_ends_and_the_others_take_its_ranges() {
    let store = objects().await;
    let silent = FaultStore::new(store.clone());
    let stores: Vec<Arc<dyn ObjectStore>> = vec![store.clone(), Arc::new(silent.clone()), store];
    let mut cluster = Cluster::over(stores, 4 << 20, Routing::Home(RANGE)).await;
    silence(&silent);
    let mut dying = cluster.nodes.remove(1);
    let kill = async {
        // The executor waits for a store that does not answer: it is in the middle.
        until_asked(&silent).await;
        dying.kill();
    };
    let (ended, ()) = tokio::join!(answer(&cluster.ctx, 1), kill);
    match ended {
        Ok(result) => {
            println!("right");
            assert_right(&alone().await, 1, &result, "an executor died").await;
        }
        Err(error) => {
            println!("{error}");
            assert!(error.len() > 20, "an error that says nothing: {error}");
        }
    }
    for _ in 0..1200 {
        if cluster.known().await == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(cluster.known().await, 2, "the scheduler has not missed the executor");
    round(&cluster, "two executors are left").await;
}
