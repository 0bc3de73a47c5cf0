//! What affinity spares the store, counted at the workers' stores.

use crate::answers::{AMPLE, touched};
use crate::cluster::{Cluster, Node, Routing};
use crate::rows::run;
use crate::tables::{RANGE, objects};
use crate::tpch::round;

/// What the workers read from the store in each of `rounds` rounds of all queries.
async fn rounds(cluster: &Cluster, rounds: usize, how: &str) -> Vec<u64> {
    let mut read = Vec::new();
    for _ in 0..rounds {
        let before = cluster.bytes_read();
        round(cluster, how).await;
        read.push(cluster.bytes_read() - before);
    }
    read
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_round_reads_less_than_routes_by_lot_do() {
    let touched = touched().await;
    let memory = touched.div_ceil(3).next_multiple_of(4096);
    let home = Cluster::start(3, memory, Routing::Home(RANGE)).await;
    let at_home = rounds(&home, 2, "ranges at home").await;
    let shares: Vec<u64> = home.nodes.iter().map(Node::bytes_read).collect();
    drop(home);
    let lot = Cluster::start(3, memory, Routing::Default).await;
    let by_lot = rounds(&lot, 2, "routes by lot").await;
    let share = at_home[1] as f64 / by_lot[1] as f64;
    println!(
        "{touched} bytes touched, pools of {memory}: first and second round {at_home:?} at home (workers {shares:?}), \
         {by_lot:?} by lot; second round {share:.3}"
    );
    // Measured: 0.04 to 0.10. The ports are drawn anew each time, and with them the homes: of 60
    // draws in a model the worst had 0.20.
    assert!(share <= 0.3, "{share}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_room_for_all_a_second_round_reads_nothing_at_any_number_of_tasks() {
    let cluster = Cluster::start(3, AMPLE, Routing::Home(RANGE)).await;
    let first = rounds(&cluster, 1, "three tasks").await;
    run(&cluster.ctx, "SET distributed.max_tasks_per_stage = 7").await;
    let again = rounds(&cluster, 1, "seven tasks").await;
    println!("{first:?} bytes, then {again:?} with more tasks than workers");
    assert_eq!(again, [0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_joins_or_leaves_moves_its_share() {
    let mut cluster = Cluster::start(3, AMPLE, Routing::Home(RANGE)).await;
    let first = rounds(&cluster, 1, "three workers").await[0];
    cluster.nodes.push(Node::start(objects().await, AMPLE));
    cluster.members.replace(cluster.nodes.iter().map(|node| &node.url)).unwrap();
    let joined = rounds(&cluster, 1, "a fourth one").await[0];
    let last = cluster.nodes.pop();
    cluster.members.replace(cluster.nodes.iter().map(|node| &node.url)).unwrap();
    let left = rounds(&cluster, 1, "three again").await[0];
    drop(last);
    println!("{first} bytes for three workers, {joined} after a fourth joined, {left} after it left");
    // A quarter, and what the bound on load moves of tables with few ranges. Who had a range before
    // the fourth came still has it.
    assert!(joined > 0 && joined * 2 < first, "{joined} of {first}");
    assert!(left * 10 < first, "{left} of {first}");
}
