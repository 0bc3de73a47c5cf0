//! Three workers with a pool each, on loopback, and a session that sends its queries to them. The
//! code of `docs/distributed.md`.
//!
//! ```sh
//! cargo run --manifest-path hosts/distributed/Cargo.toml --example cluster
//! ```

use std::path::Path;
use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use pagecast::{Pool, PoolOptions};
use pagecast_datafusion::HostOptions;
use pagecast_distributed::{CoordinatorOptions, Members, PooledWorker, distribute};
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    write_orders(folder.path()).await?;

    // In life, each worker is a process on a machine of its own.
    let (mut urls, mut pools) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        urls.push(format!("http://{}", listener.local_addr()?));
        let pool = Pool::new(PoolOptions::default().memory(64 << 20))?;
        pools.push(pool.clone());
        tokio::spawn(serve(pool, listener));
    }

    let ctx = coordinator(&urls)?;
    let orders = folder.path().to_str().ok_or("a folder with a strange name")?;
    ctx.register_parquet("orders", orders, ParquetReadOptions::default()).await?;
    let read = || pools.iter().map(|pool| pool.stats().bytes_read).collect::<Vec<_>>();
    for round in 1..=2 {
        let before = read();
        let urgent = ctx.sql("SELECT customer, sum(price) FROM orders WHERE urgent GROUP BY customer").await?;
        let rows = urgent.count().await?;
        let bytes: Vec<u64> = read().iter().zip(&before).map(|(now, before)| now - before).collect();
        println!("round {round}: {rows} customers; bytes read by the workers: {bytes:?}");
        assert_eq!(rows, 1000);
        assert_eq!(bytes.iter().all(|&bytes| bytes == 0), round == 2);
    }
    Ok(())
}

/// A worker: serves plans until its process ends.
async fn serve(pool: Pool, listener: TcpListener) -> Outcome<()> {
    let worker = PooledWorker::new(pool, Arc::new(RuntimeEnv::default()), HostOptions::default())?;
    Server::builder()
        .add_service(worker.worker().into_worker_server())
        .serve_with_incoming(TcpIncoming::from(listener))
        .await?;
    Ok(())
}

/// The session that plans queries for the workers.
fn coordinator(urls: &[String]) -> Outcome<SessionContext> {
    let members = Members::new(urls)?;
    let builder = SessionStateBuilder::new().with_default_features();
    // Unless tables are as small as here, the default of 64 MiB is right.
    let options = CoordinatorOptions::default().range_bytes(1 << 20);
    let builder = distribute(builder, &members, options)?;
    Ok(SessionContext::new_with_state(builder.build()))
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
