//! A cluster on loopback: workers with a runtime, a pool and a meter on their store each.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionContext;
use datafusion_distributed::{DistributedExt, SessionStateBuilderExt};
use object_store::ObjectStore;
use pagecast::Pool;
use pagecast::storage::MeteredStore;
use pagecast_datafusion::HostOptions;
use pagecast_distributed::{CoordinatorOptions, Members, PooledWorker, distribute};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::tables::{URL, config, objects, pool_options, with_tables};

/// A worker, as a process has it.
pub(crate) struct Node {
    pub(crate) pooled: PooledWorker,
    pub(crate) store: MeteredStore,
    pub(crate) url: String,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Node {
    /// Serves on a free port of loopback, with a pool of `memory` bytes over `store`.
    pub(crate) fn start(store: Arc<dyn ObjectStore>, memory: u64) -> Self {
        let store = MeteredStore::new(store, None);
        let environment = RuntimeEnv::default();
        environment.register_object_store(&URL.parse().unwrap(), Arc::new(store.clone()));
        let pool = Pool::new(pool_options(memory)).unwrap();
        let options = HostOptions::default().least_chunks(1);
        let pooled = PooledWorker::new(pool, Arc::new(environment), options).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = pooled.worker().into_worker_server();
        runtime.spawn(async move {
            let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(listener).unwrap());
            Server::builder().add_service(service).serve_with_incoming(incoming).await
        });
        Self { pooled, store, url, runtime: Some(runtime) }
    }

    /// All of its tasks end where they are, and its connections with them.
    pub(crate) fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.store.stats().bytes_read
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How scans get to workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Routing {
    /// Ranges at home, of so many bytes.
    Home(u64),
    /// As datafusion-distributed does.
    Default,
}

pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) members: Members,
    pub(crate) ctx: SessionContext,
}

impl Cluster {
    /// So many workers, with a pool of `memory` bytes each.
    pub(crate) async fn start(workers: usize, memory: u64, routing: Routing) -> Self {
        let store = objects().await;
        let nodes: Vec<Node> = (0..workers).map(|_| Node::start(store.clone(), memory)).collect();
        Self::of(nodes, routing).await
    }

    pub(crate) async fn of(nodes: Vec<Node>, routing: Routing) -> Self {
        let members = Members::new(nodes.iter().map(|node| &node.url)).unwrap();
        let ctx = coordinator(&members, routing).await;
        Self { nodes, members, ctx }
    }

    /// Bytes that the workers have read from the store.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.nodes.iter().map(Node::bytes_read).sum()
    }

    /// Nothing is left of any query: no scan, no pin.
    pub(crate) async fn assert_idle(&self) {
        for node in self.nodes.iter().filter(|node| node.runtime.is_some()) {
            let pool = node.pooled.host().pool();
            let left = || (pool.scans().len(), pool.unordered_scans().len(), pool.pinned());
            // A worker may hear of a query's end after its coordinator.
            for _ in 0..600 {
                if left() == (0, 0, 0) {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            assert_eq!(left(), (0, 0, 0), "scans, members and pins left on {}", node.url);
        }
    }
}

/// A session whose TPC-H tables are in the store, planned for the workers.
pub(crate) async fn coordinator(members: &Members, routing: Routing) -> SessionContext {
    let builder = SessionStateBuilder::new().with_default_features().with_config(config());
    let builder = match routing {
        Routing::Home(bytes) => distribute(builder, members, CoordinatorOptions::default().range_bytes(bytes)).unwrap(),
        Routing::Default => builder.with_distributed_worker_resolver(members.clone()).with_distributed_planner(),
    };
    // The tables are small; they go to all workers all the same.
    let state = builder.with_distributed_file_scan_config_bytes_per_partition(1).unwrap().build();
    with_tables(SessionContext::new_with_state(state)).await
}
