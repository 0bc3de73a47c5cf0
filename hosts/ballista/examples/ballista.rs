//! A scheduler and three executors with a pool each, on loopback, and a session that sends its
//! queries to them. The code of `docs/distributed.md`.
//!
//! ```sh
//! cargo run --manifest-path hosts/ballista/Cargo.toml --example ballista
//! ```

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ballista_core::extension::SessionStateExt;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use pagecast::{Pool, PoolOptions};
use pagecast_ballista::{PooledExecutor, SchedulerOptions, at_home};
use pagecast_datafusion::HostOptions;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    write_orders(folder.path()).await?;

    // In life, each of the four is a process on a machine of its own.
    let port = free_port()?;
    tokio::spawn(scheduler(SchedulerConfig::default().with_port(port), SocketAddr::from(([127, 0, 0, 1], port))));
    let mut pools = Vec::new();
    for _ in 0..3 {
        let pool = Pool::new(PoolOptions::default().memory(64 << 20))?;
        pools.push(pool.clone());
        tokio::spawn(executor(pool, config_of_executor(port)?));
    }
    tokio::time::sleep(Duration::from_secs(5)).await;

    let config = SessionConfig::new().with_target_partitions(6);
    let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
    let ctx = SessionContext::new_with_state(state.upgrade_for_ballista(format!("http://127.0.0.1:{port}"))?);
    let orders = folder.path().to_str().ok_or("a folder with a strange name")?;
    ctx.register_parquet("orders", orders, ParquetReadOptions::default()).await?;
    let read = || pools.iter().map(|pool| pool.stats().bytes_read).collect::<Vec<_>>();
    for round in 1..=2 {
        let before = read();
        let urgent = ctx.sql("SELECT customer, sum(price) FROM orders WHERE urgent GROUP BY customer").await?;
        let rows: usize = urgent.collect().await?.iter().map(|batch| batch.num_rows()).sum();
        let bytes: Vec<u64> = read().iter().zip(&before).map(|(now, before)| now - before).collect();
        println!("round {round}: {rows} customers; bytes read by the executors: {bytes:?}");
        assert_eq!(rows, 1000);
    }
    Ok(())
}

/// An executor: serves tasks until its process ends.
async fn executor(pool: Pool, config: ExecutorProcessConfig) -> Outcome<()> {
    let runtime = Arc::new(RuntimeEnv::default());
    let executor = PooledExecutor::new(pool, runtime, HostOptions::default())?;
    start_executor_process(Arc::new(executor.configure(config))).await?;
    Ok(())
}

/// The scheduler: plans queries and sends tasks to executors until its process ends.
async fn scheduler(config: SchedulerConfig, address: SocketAddr) -> Outcome<()> {
    // Unless tables are as small as here, the default of 64 MiB is right.
    let options = SchedulerOptions::default().range_bytes(1 << 20);
    let (cluster, config) = at_home(config, options).await?;
    start_server(cluster, address, Arc::new(config)).await?;
    Ok(())
}

fn config_of_executor(scheduler: u16) -> Outcome<ExecutorProcessConfig> {
    Ok(ExecutorProcessConfig {
        external_host: Some("127.0.0.1".to_owned()),
        port: free_port()?,
        grpc_port: free_port()?,
        scheduler_host: "127.0.0.1".to_owned(),
        scheduler_port: scheduler,
        scheduler_connect_timeout_seconds: 60,
        vcores: 2,
        ..ExecutorProcessConfig::default()
    })
}

/// A port of loopback that nobody had a moment ago.
fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A table of a million orders in eight files.
async fn write_orders(folder: &Path) -> Outcome<()> {
    let ctx = SessionContext::new();
    for file in 0..8 {
        let (from, to) = (file * 125_000, (file + 1) * 125_000);
        let path = folder.join(format!("{file}.parquet"));
        let sql = format!(
            "COPY (SELECT value AS id, value % 1000 AS customer, value * 7 % 10007 AS price, value % 3 = 0 AS urgent \
             FROM generate_series({from}, {to} - 1)) TO '{}'",
            path.display()
        );
        ctx.sql(&sql).await?.collect().await?;
    }
    Ok(())
}
