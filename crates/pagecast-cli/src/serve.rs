//! `pagecast serve`: the tables for whoever speaks PostgreSQL's protocol, through one pool. The
//! flags of the server, and the page that shows it at work.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use pagecast::files;
use pagecast::metrics::Endpoint;
use pagecast::warm::Reload;
use pagecast::{Pool, Recorder};
use pagecast_server::{Limits, Listeners, Server, Spoken, TlsAcceptor, Users, acceptor};
use pagecast_sql::query;
use pagecast_sql::shape;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;

use crate::failure::{say, usage};
use crate::interrupt;
use crate::sql::engine::{EngineArgs, bytes};
use crate::units::{self, Size};
use crate::watch::{self, Running, Shadow, Watch, Watched};

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
    /// Where clients of Flight SQL connect (ADBC, JDBC), if they may: 127.0.0.1:31337, or where
    /// ADDR says
    #[cfg(feature = "flight")]
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = pagecast_server::USUAL_FLIGHT)]
    flight: Option<SocketAddr>,
    /// Where the server writes, when it stops, which pages are in memory and which queries come
    /// back; it reads the file when it starts
    #[arg(long, value_name = "FILE")]
    remember: Option<PathBuf>,
    /// Users and their passwords: lines of `name password`, after which memory=SIZE, queries=N,
    /// connections=N, share=P% (of the pool) and admin (3 connections are kept for these) may
    /// stand; without it everybody on this machine is let in
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Certificate chain (PEM); clients must then use TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Lets clients connect from elsewhere without TLS, so that others on the way read along
    #[arg(long, conflicts_with = "tls_cert")]
    without_tls: bool,
    /// Most memory that statements of a user may take, where --users does not say otherwise
    /// [default: no limit of its own]
    #[arg(long, value_name = "SIZE", requires = "users")]
    user_memory: Option<Size>,
    /// Most clients that are connected at once; others are turned away
    #[arg(long, value_name = "N", default_value_t = 200)]
    max_connections: usize,
    /// Most queries that run at once; others wait. A user of --users without queries=N has three
    /// quarters of them
    #[arg(long, value_name = "N", default_value_t = 32)]
    max_queries: usize,
    /// Largest message that a client may send
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    max_message: Size,
    /// Longest that a statement may take, its wait for a place and for its reader included, unless
    /// its client sets statement_timeout; 0 for no limit [default: 1h with --users, else no limit]
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    statement_timeout: Option<Duration>,
    /// Longest that a client may stay without asking anything; 0 for no limit
    #[arg(long, value_name = "TIME", value_parser = units::time, default_value = "1h")]
    idle_timeout: Duration,
    /// Longest that a portal or a cursor stays open whose rows nobody asks for; 0 for no limit
    #[arg(long, value_name = "TIME", value_parser = units::time, default_value = "10min")]
    portal_timeout: Duration,
    /// Longest that a client may read nothing of what it is sent; 0 for no limit
    #[arg(long, value_name = "TIME", value_parser = units::time, default_value = "1min")]
    write_timeout: Duration,
    /// Shows the pool at work on a page: http://127.0.0.1:8432, or where ADDR says; who has the
    /// address that is printed sees it, with the token of PAGECAST_UI_TOKEN if that is set
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = watch::USUAL)]
    ui: Option<SocketAddr>,
    /// Gives the numbers of server and pool to Prometheus: http://127.0.0.1:8433/metrics, or where
    /// ADDR says; whoever reaches it can read them
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:8433")]
    metrics: Option<SocketAddr>,
    /// How long statements that run may take to end when the server is shut down
    #[arg(long, value_name = "TIME", value_parser = units::time, default_value = "10s")]
    grace: Duration,
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    query::tell_panics_to_their_queries();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.thread_stack_size(shape::STACK).enable_all().build().context("no runtime")?;
    let served = runtime.block_on(serve(&args));
    // A query that was given up and has not noticed yet is not waited for.
    runtime.shutdown_background();
    files::leave_nothing();
    served
}

async fn serve(args: &Args) -> anyhow::Result<()> {
    interrupt::end_at_a_second_signal();
    let limits = limits(args)?;
    let users = args.users.as_deref().map(Users::read).transpose().context("--users")?;
    let tls = args.tls(Spoken::PostgreSql)?;
    let watch = args.ui.map(Watch::bind).transpose().context("--ui")?;
    args.check_reach("--listen", args.listen)?;
    #[cfg(feature = "flight")]
    let flight_tls = args.flight_tls()?;
    if args.engine.data.is_none() {
        return Err(usage("--data: there is nothing to serve; name a file, a folder or a URL"));
    }
    // Nothing is paid for it without a page.
    let shadow = watch.as_ref().map(|_| Shadow::new(None));
    let recorder = shadow.clone().map(|shadow| shadow as Arc<dyn Recorder>);
    let engine = args.engine.open(true, pagecast_server::session_config(), recorder).await?;
    if let Some(shadow) = &shadow {
        shadow.start(&engine.pool)?;
    }
    for closed in &engine.closed {
        say(&anyhow!("table {} is closed: {:#}", closed.name, closed.fault));
    }
    let tables = engine.tables.len();
    // It brings pages for as long as this is here.
    let _reload = args.remember.as_deref().and_then(|file| recall(&engine.pool, file));
    let server = pagecast_server::open(engine, users, tls, limits, say).await?;
    let postgresql = bind("--listen", args.listen)?;
    let address = postgresql.local_addr().context("--listen")?;
    #[cfg(feature = "flight")]
    let flight = match args.flight {
        Some(address) => {
            let listener = bind("--flight", address)?;
            println!("pagecast speaks Flight SQL on {}", listener.local_addr().context("--flight")?);
            Some((listener, pagecast_server::Flight::start(&server, flight_tls)?))
        }
        None => None,
    };
    // It ends with the server.
    let _metrics = args.metrics.map(|address| metrics(address, &server)).transpose()?;
    let mut watching = None;
    if let Some(watch) = watch {
        println!("pagecast shows its pool on {}", watch.url());
        watching = Some(watch.start(Arc::new(Shown { server: server.clone(), shadow })).context("--ui")?);
    }
    println!("pagecast serves {tables} {} on {address}", if tables == 1 { "table" } else { "tables" });
    let listeners = Listeners {
        postgresql,
        #[cfg(feature = "flight")]
        flight,
    };
    let served = listeners.serve(&server, args.grace).await;
    drop(watching);
    if let Some(file) = &args.remember {
        server.pool().dump_hottest(file, usize::MAX).context("--remember")?;
    }
    served
}

/// Brings what the file names, in the background. Without it the server starts cold.
fn recall(pool: &Pool, file: &Path) -> Option<Reload> {
    if !file.exists() {
        return None;
    }
    pool.reload(file).map_err(|error| say(&anyhow::Error::from(error).context("--remember"))).ok()
}

/// The server as its page shows it.
struct Shown {
    server: Arc<Server>,
    shadow: Option<Arc<Shadow>>,
}

impl Watched for Shown {
    fn pool(&self) -> Option<Pool> {
        Some(self.server.pool().clone())
    }

    fn shadow(&self) -> Option<Arc<Shadow>> {
        self.shadow.clone()
    }

    fn doing(&self) -> String {
        String::new()
    }

    fn connected(&self) -> usize {
        self.server.connected()
    }

    fn running(&self) -> Vec<Running> {
        let running = self.server.running().into_iter();
        let shown = running.map(|query| Running {
            number: query.number.into(),
            user: query.user,
            client: query.address.map_or_else(String::new, |address| address.to_string()),
            sql: query.sql,
            since: query.since,
            rows: query.rows,
            waits: query.waits,
            memory: query.memory,
        });
        shown.collect()
    }

    fn reads_of(&self, fingerprint: u64) -> Option<String> {
        self.server.reads_of(fingerprint)
    }

    fn ends_queries(&self) -> bool {
        true
    }

    fn end(&self, number: i64) -> bool {
        i32::try_from(number).is_ok_and(|number| self.server.end_query(number))
    }
}

/// The numbers behind an address.
fn metrics(address: SocketAddr, server: &Arc<Server>) -> anyhow::Result<Endpoint> {
    let asked = Arc::downgrade(server);
    let numbers = move || asked.upgrade().map(|server| server.prometheus()).unwrap_or_default();
    let endpoint = Endpoint::serve(address, numbers);
    let endpoint = endpoint.map_err(|error| usage(format!("--metrics: nobody can ask {address}: {error}")))?;
    println!("pagecast has its numbers at http://{}/metrics", endpoint.address());
    Ok(endpoint)
}

/// Clients find their turn behind that many, or as many as the system allows. Beyond them one that
/// connects waits a second before it tries again.
const BACKLOG: u32 = 1024;

fn bind(flag: &'static str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // On Windows it would let two servers have one port.
        #[cfg(not(windows))]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|error| usage(format!("{flag}: no clients can connect to {address}: {error}")))
}

impl Args {
    /// TLS for clients that speak so.
    fn tls(&self, spoken: Spoken) -> anyhow::Result<Option<TlsAcceptor>> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => acceptor(cert, key, spoken).map(Some),
            _ => Ok(None),
        }
    }

    /// Whoever can be reached from elsewhere asks who is there.
    fn check_reach(&self, flag: &str, address: SocketAddr) -> anyhow::Result<()> {
        if self.users.is_none() && !address.ip().is_loopback() {
            return Err(usage(format!(
                "{flag}: {address} can be reached from elsewhere; say who may connect by --users"
            )));
        }
        if self.tls_cert.is_none() && !self.without_tls && !address.ip().is_loopback() {
            return Err(usage(format!(
                "{flag}: {address} can be reached from elsewhere, and passwords are sent; give --tls-cert and \
                 --tls-key, or --without-tls where nobody reads along"
            )));
        }
        Ok(())
    }

    /// TLS for clients of Flight SQL, who send their passwords.
    #[cfg(feature = "flight")]
    fn flight_tls(&self) -> anyhow::Result<Option<TlsAcceptor>> {
        let tls = self.tls(Spoken::Flight)?;
        let Some(address) = self.flight else { return Ok(None) };
        self.check_reach("--flight", address)?;
        Ok(tls)
    }
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
        connections: args.max_connections,
        queries: args.max_queries,
        message: message as usize,
        // Where others are let in, nobody watches each statement.
        statement_timeout: args.statement_timeout.unwrap_or(match args.users {
            Some(_) => Duration::from_secs(3600),
            None => Duration::ZERO,
        }),
        idle_timeout: unless_zero(args.idle_timeout),
        portal_timeout: unless_zero(args.portal_timeout),
        write_timeout: unless_zero(args.write_timeout),
        user_memory,
    })
}

/// A time limit, if there is one.
fn unless_zero(limit: Duration) -> Option<Duration> {
    (!limit.is_zero()).then_some(limit)
}
