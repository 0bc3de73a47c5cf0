//! A cluster on loopback: a scheduler, and executors with a runtime, a pool and a meter on their
//! store each.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use ballista_core::extension::SessionStateExt;
use ballista_core::utils::default_session_builder;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::{BallistaCluster, ClusterState};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionContext;
use object_store::ObjectStore;
use pagecast::Pool;
use pagecast::storage::MeteredStore;
use pagecast_ballista::{PooledExecutor, SchedulerOptions, at_home};
use pagecast_datafusion::HostOptions;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::tables::{URL, config, objects, pool_options, with_tables};

/// Of a scan, and of what is between two stages: two for each executor.
pub(crate) const PARTITIONS: usize = 6;

/// An executor is given up when nothing was heard of it for so long. Long enough for a machine that
/// is starved.
const SILENCE_SECONDS: u64 = 20;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A port of loopback that nobody had a moment ago.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// An executor, as a process has it.
pub(crate) struct Node {
    pub(crate) pooled: PooledExecutor,
    pub(crate) store: MeteredStore,
    pub(crate) name: String,
    _folder: TempDir,
    runtime: Option<Runtime>,
}

impl Node {
    /// Serves tasks of the scheduler at `scheduler`, with a pool of `memory` bytes over `store`.
    fn start(store: Arc<dyn ObjectStore>, memory: u64, scheduler: u16) -> Self {
        let store = MeteredStore::new(store, None);
        let environment = RuntimeEnv::default();
        environment.register_object_store(&URL.parse().unwrap(), Arc::new(store.clone()));
        let pool = Pool::new(pool_options(memory)).unwrap();
        let options = HostOptions::default().least_strokes(1);
        let pooled = PooledExecutor::new(pool, Arc::new(environment), options).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let port_of_data = port();
        let config = pooled.configure(ExecutorProcessConfig {
            external_host: Some("127.0.0.1".to_owned()),
            port: port_of_data,
            grpc_port: port(),
            scheduler_host: "127.0.0.1".to_owned(),
            scheduler_port: scheduler,
            scheduler_connect_timeout_seconds: 60,
            vcores: 2,
            work_dir: Some(folder.path().to_str().unwrap().to_owned()),
            executor_heartbeat_interval_seconds: 1,
            memory_pool_size: Some(0),
            ..ExecutorProcessConfig::default()
        });
        let runtime = runtime();
        runtime.spawn(async move {
            if let Err(error) = start_executor_process(Arc::new(config)).await {
                println!("an executor ended: {error}");
            }
        });
        let name = format!("127.0.0.1:{port_of_data}");
        Self { pooled, store, name, _folder: folder, runtime: Some(runtime) }
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

/// How partitions get to executors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Routing {
    /// Ranges at home, of so many bytes.
    Home(u64),
    /// As Ballista does.
    Default,
}

pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) ctx: SessionContext,
    state: Arc<dyn ClusterState>,
    scheduler: Option<Runtime>,
}

impl Cluster {
    /// Three executors, with a pool of `memory` bytes each over a store of their own.
    pub(crate) async fn start(memory: u64, routing: Routing) -> Self {
        let store = objects().await;
        Self::over((0..3).map(|_| store.clone() as Arc<dyn ObjectStore>).collect(), memory, routing).await
    }

    /// An executor over each store.
    pub(crate) async fn over(stores: Vec<Arc<dyn ObjectStore>>, memory: u64, routing: Routing) -> Self {
        let port = port();
        let (cluster, config) = scheduler(port, routing).await;
        let state = cluster.cluster_state();
        let runtime = runtime();
        let address = format!("127.0.0.1:{port}").parse().unwrap();
        runtime.spawn(start_server(cluster, address, Arc::new(config)));
        let nodes: Vec<Node> = stores.into_iter().map(|store| Node::start(store, memory, port)).collect();
        for _ in 0..1200 {
            if state.registered_executor_metadata().await.len() == nodes.len() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(state.registered_executor_metadata().await.len(), nodes.len(), "executors have not come");
        let ctx = client(port).await;
        Self { nodes, ctx, state, scheduler: Some(runtime) }
    }

    /// Bytes that the executors have read from the store.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.nodes.iter().map(Node::bytes_read).sum()
    }

    /// How many executors the scheduler knows.
    pub(crate) async fn known(&self) -> usize {
        self.state.registered_executor_metadata().await.len()
    }

    /// Nothing is left of any query: no scan, no pin.
    pub(crate) async fn assert_idle(&self) {
        for node in self.nodes.iter().filter(|node| node.runtime.is_some()) {
            let pool = node.pooled.host().pool();
            let left = || (pool.scans().len(), pool.unordered_scans().len(), pool.pinned());
            for _ in 0..600 {
                if left() == (0, 0, 0) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert_eq!(left(), (0, 0, 0), "scans, members and pins left on {}", node.name);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.clear();
        if let Some(runtime) = self.scheduler.take() {
            runtime.shutdown_background();
        }
    }
}

async fn scheduler(port: u16, routing: Routing) -> (BallistaCluster, SchedulerConfig) {
    let store = objects().await;
    let sessions = move |config| {
        let state = default_session_builder(config)?;
        state.runtime_env().register_object_store(&URL.parse().unwrap(), store.clone());
        Ok(state)
    };
    let mut config = SchedulerConfig::default().with_port(port).with_override_session_builder(Arc::new(sessions));
    config.executor_timeout_seconds = SILENCE_SECONDS;
    config.expire_dead_executor_interval_seconds = 1;
    match routing {
        Routing::Home(bytes) => at_home(config, SchedulerOptions::default().range_bytes(bytes)).await.unwrap(),
        Routing::Default => (BallistaCluster::new_from_config(&config).await.unwrap(), config),
    }
}

/// A session that sends its queries to the scheduler.
async fn client(scheduler: u16) -> SessionContext {
    let config = config().with_target_partitions(PARTITIONS);
    let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
    let state = state.upgrade_for_ballista(format!("http://127.0.0.1:{scheduler}")).unwrap();
    with_tables(SessionContext::new_with_state(state)).await
}
