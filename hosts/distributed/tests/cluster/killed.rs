//! A worker that dies: every query ends, right or with an error that says who is missing.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use pagecast::storage::FaultStore;

use crate::answers::{answer, assert_right, silence, until_asked};
use crate::cluster::{Cluster, Node, Routing};
use crate::tables::{RANGE, objects};
use crate::tpch::round;

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
    silence(&silent);
    let mut dying = cluster.nodes.remove(1);
    let kill = async {
        // The worker waits for a store that does not answer: it is in the middle.
        until_asked(&silent).await;
        dying.kill();
    };
    let (ended, ()) = tokio::join!(answer(&cluster.ctx, 1), kill);
    let (error, url) = (ended.unwrap_err(), &dying.url);
    println!("{error}");
    assert!(error.contains(url), "{error}");
    let error = answer(&cluster.ctx, 1).await.unwrap_err();
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
        let answers = join_all(numbers.iter().map(|&number| answer(&cluster.ctx, number)));
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
