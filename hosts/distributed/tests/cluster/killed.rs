//! A worker that dies: every query ends, right or with an error that says who is missing.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use pagecast::storage::{FaultStore, ObjectFault};

use crate::answers::assert_right;
use crate::cluster::{Cluster, Node, Routing};
use crate::rows::{Row, rows};
use crate::tables::{RANGE, objects, query};
use crate::tpch::round;

/// Longer than any query takes, and than their own time to wait for a plan.
const PATIENCE: Duration = Duration::from_secs(300);

async fn answer(cluster: &Cluster, number: usize) -> Result<Vec<Row>, String> {
    let answer = async {
        let batches = cluster.ctx.sql(&query(number)).await?.collect().await?;
        Ok::<_, datafusion::error::DataFusionError>(rows(&batches))
    };
    let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| panic!("query {number} hangs"));
    answer.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_whose_worker_dies_ends_with_its_name() {
    let store = objects().await;
    let silent = FaultStore::new(store.clone());
    let nodes = vec![
        Node::start(store.clone(), 4 << 20),
        Node::start(Arc::new(silent.clone()), 4 << 20),
        Node::start(store, 4 << 20),
    ];
    let mut cluster = Cluster::of(nodes, Routing::Home(RANGE)).await;
    silent.plan([ObjectFault::Silent]);
    let mut dying = cluster.nodes.remove(1);
    let kill = async {
        // The worker waits for a store that does not answer: it is in the middle.
        while silent.unplan() {
            silent.plan([ObjectFault::Silent]);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        dying.kill();
    };
    let (ended, ()) = tokio::join!(answer(&cluster, 1), kill);
    let (error, url) = (ended.unwrap_err(), &dying.url);
    println!("{error}");
    assert!(error.contains(url), "{error}");
    let error = answer(&cluster, 1).await.unwrap_err();
    println!("{error}");
    assert!(error.contains(url), "{error}");

    cluster.members.replace(cluster.nodes.iter().map(|node| &node.url)).unwrap();
    round(&cluster, "two workers are left").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_at_once_end_right_or_with_an_error() {
    let mut cluster = Cluster::start(3, 1 << 20, Routing::Home(RANGE)).await;
    let mut dying = cluster.nodes.remove(2);
    let (mut right, mut failed) = (0, 0);
    for numbers in (1..=22).collect::<Vec<_>>().chunks(4) {
        let kill = async {
            if numbers.contains(&9) {
                tokio::time::sleep(Duration::from_millis(300)).await;
                dying.kill();
            }
        };
        let answers = join_all(numbers.iter().map(|&number| answer(&cluster, number)));
        let (answers, ()) = tokio::join!(answers, kill);
        for (&number, answer) in numbers.iter().zip(answers) {
            match answer {
                Ok(result) => {
                    assert_right(&cluster.ctx, number, &result, "a worker dies").await;
                    right += 1;
                }
                Err(error) => {
                    assert!(error.contains(&dying.url), "query {number}: {error}");
                    failed += 1;
                }
            }
        }
    }
    println!("{right} queries right, {failed} with an error that names the worker");
    assert!(right >= 8 && failed > 0, "{right} right, {failed} failed");
    cluster.members.replace(cluster.nodes.iter().map(|node| &node.url)).unwrap();
    round(&cluster, "two workers are left").await;
}
