//! `pagecast serve`: the tables for whoever speaks PostgreSQL's protocol, through one pool.

mod catalog;
mod connection;
mod execution;
mod memory;
mod parameters;
mod portals;
mod problem;
mod rewrite;
mod rows;
mod server;
mod settings;
mod startup;
mod statements;
mod stop;
mod tls;
mod types;
mod users;
mod wire;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use datafusion::prelude::SessionConfig;
use pagecast_sql::query;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::failure::{say, usage};
use crate::sql::engine::{EngineArgs, bytes};
use crate::units::{self, Size};
use crate::watch::{self, Watch};
use problem::Problem;
use server::{Limits, Server};
use stop::Closing;
use users::Users;

/// How long the network may not hear of a client before it counts as gone.
const UNHEARD: Duration = Duration::from_secs(120);
/// Most bytes of a message that can be asked for: half of what the protocol has.
const MOST_MESSAGE: u64 = 1 << 29;

/// Serves the tables to clients of PostgreSQL (psql, DBeaver, Metabase, psycopg, SQLAlchemy, JDBC),
/// who read them through one pool.
///
/// Clients read tables and change nothing; they cannot name files. Ctrl-C or SIGTERM lets the
/// statements that run end first, a second one does not.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    engine: EngineArgs,
    /// Where clients connect; port 0 for any that is free
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5432")]
    listen: SocketAddr,
    /// Users and their passwords: lines of `name password`, after which memory=SIZE and queries=N
    /// may stand; without it everybody on this machine is let in
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Certificate chain (PEM); clients must then use TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Most memory that DataFusion may take for sorts, joins and aggregates of all queries
    /// [default: no limit]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// The same for each user, where --users does not say otherwise [default: no limit]
    #[arg(long, value_name = "SIZE", requires = "users")]
    user_memory: Option<Size>,
    /// Most clients that are connected at once; others are turned away
    #[arg(long, value_name = "N", default_value_t = 200)]
    max_connections: usize,
    /// Most queries that run at once; others wait
    #[arg(long, value_name = "N", default_value_t = 32)]
    max_queries: usize,
    /// Largest message that a client may send
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    max_message: Size,
    /// Longest that a statement may take, its wait for a place and for its reader included, unless
    /// its client sets statement_timeout; 0 for no limit
    #[arg(long, value_name = "TIME", value_parser = units::time, default_value = "0")]
    statement_timeout: Duration,
    /// Longest that a client may stay without asking anything; 0 for no limit
    #[arg(long, value_name = "TIME", value_parser = units::time, default_value = "0")]
    idle_timeout: Duration,
    /// Shows the pool at work on a page: http://127.0.0.1:8432, or where ADDR says
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = watch::USUAL)]
    ui: Option<SocketAddr>,
    /// How long statements that run may take to end when the server is shut down
    #[arg(long, value_name = "TIME", value_parser = units::time, default_value = "10s")]
    grace: Duration,
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    query::tell_panics_to_their_queries();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let served = runtime.block_on(serve(&args));
    // A query that was given up and has not noticed yet is not waited for.
    runtime.shutdown_background();
    served
}

async fn serve(args: &Args) -> anyhow::Result<()> {
    let limits = limits(args)?;
    let users = args.users.as_deref().map(Users::read).transpose().context("--users")?;
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(cert), Some(key)) => Some(tls::acceptor(cert, key)?),
        _ => None,
    };
    let watch = args.ui.map(Watch::bind).transpose().context("--ui")?;
    if users.is_none() && !args.listen.ip().is_loopback() {
        let address = args.listen;
        return Err(usage(format!(
            "--listen: {address} can be reached from elsewhere; say who may connect by --users"
        )));
    }
    if args.engine.data.is_none() {
        return Err(usage("--data: there is nothing to serve; name a file, a folder or a URL"));
    }
    let config = SessionConfig::new().with_default_catalog_and_schema(catalog::DATABASE, catalog::SCHEMA);
    let config = config.set_str("datafusion.execution.time_zone", "+00:00");
    let engine = args.engine.open(args.memory, config).await?;
    let tables = engine.tables.len();
    catalog::install(&engine.ctx).await?;
    let server = Arc::new(Server::new(engine, users, tls, limits, args.max_queries)?);
    catalog::status::install(&server)?;
    let listener = TcpListener::bind(args.listen).await;
    let listener =
        listener.map_err(|error| usage(format!("--listen: no clients can connect to {}: {error}", args.listen)))?;
    let address = listener.local_addr().context("--listen")?;
    let mut watching = None;
    if let Some(watch) = watch {
        println!("pagecast shows its pool on http://{}", watch.address());
        watching = Some(watch.start(server.clone()).context("--ui")?);
    }
    println!("pagecast serves {tables} {} on {address}", if tables == 1 { "table" } else { "tables" });
    let served = listen(&server, &listener, args).await;
    drop(watching);
    served
}

fn limits(args: &Args) -> anyhow::Result<Limits> {
    let message = bytes("--max-message", args.max_message)?;
    if !(1024..=MOST_MESSAGE).contains(&message) {
        return Err(usage("--max-message: from 1KiB to 512MiB"));
    }
    if args.max_connections == 0 || args.max_queries == 0 {
        return Err(usage("--max-connections, --max-queries: nobody is served with 0"));
    }
    if args.max_connections.max(args.max_queries) > Semaphore::MAX_PERMITS {
        return Err(usage("--max-connections, --max-queries: that many do not fit a machine"));
    }
    let user_memory = args.user_memory.map(|size| bytes("--user-memory", size)).transpose()?;
    if user_memory == Some(0) {
        return Err(usage("--user-memory: no query works without memory; leave the flag out for no limit"));
    }
    Ok(Limits {
        message: message as usize,
        statement_timeout: args.statement_timeout,
        idle_timeout: (!args.idle_timeout.is_zero()).then_some(args.idle_timeout),
        user_memory,
    })
}

/// Takes connections until the server is to end, and lets those end that are there.
async fn listen(server: &Arc<Server>, listener: &TcpListener, args: &Args) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let room = Arc::new(Semaphore::new(args.max_connections));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = signals.next() => break,
            // Each that ends is forgotten here.
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((tcp, _)) => take(server, &room, tcp, &mut connections, args.max_connections),
                Err(error) => {
                    // Of the machine, mostly: too many files are open. It passes.
                    say(&anyhow!("no connection can be taken: {error}"));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
    server.closing.send_replace(Closing::Soon);
    let ended = async { while connections.join_next().await.is_some() {} };
    tokio::select! {
        _ = timeout(args.grace, ended) => {}
        () = signals.next() => {}
    }
    server.closing.send_replace(Closing::Now);
    let ended = async { while connections.join_next().await.is_some() {} };
    // What is left waits for its client to read.
    let _ = timeout(Duration::from_secs(2), ended).await;
    Ok(())
}

fn take(server: &Arc<Server>, room: &Arc<Semaphore>, tcp: TcpStream, connections: &mut JoinSet<()>, most: usize) {
    if let Err(error) = prepare(&tcp) {
        say(&anyhow!("a connection cannot be set up: {error}"));
        return;
    }
    match Arc::clone(room).try_acquire_owned() {
        Ok(place) => {
            let server = Arc::clone(server);
            connections.spawn(async move {
                server.serve(tcp).await;
                drop(place);
            });
        }
        Err(_) => {
            let problem = Problem::fatal("53300", format!("{most} clients are connected, which is the limit"));
            connections.spawn(server::turn_away(tcp, problem));
        }
    }
}

/// A client that vanished without a word is noticed by the network.
fn prepare(tcp: &TcpStream) -> std::io::Result<()> {
    tcp.set_nodelay(true)?;
    let socket = SockRef::from(tcp);
    let alive = TcpKeepalive::new().with_time(UNHEARD / 2).with_interval(UNHEARD / 8).with_retries(4);
    socket.set_tcp_keepalive(&alive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNHEARD))?;
    Ok(())
}

/// Ctrl-C and SIGTERM.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let open = |kind| signal(kind).context("no signals");
        Ok(Self { terminate: open(SignalKind::terminate())?, interrupt: open(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {})
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
