//! What all connections share: the engine, its limits, and who is there.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;
use pagecast::Pool;
use pagecast_sql::Engine;
use parking_lot::Mutex;
use pgwire::messages::ProtocolVersion;
use pgwire::messages::startup::SecretKey;
use pgwire::tokio::TlsAcceptor;
use tokio::sync::{Semaphore, watch};

use super::catalog;
use super::guesses::Guesses;
use super::keeping::{Keeper, Part};
use super::lobby::Lobby;
use super::memory::Capped;
use super::notices::{About, Notices, Say};
use super::problem::Problem;
use super::room::{self, Room, Seat};
use super::settings::Settings;
use super::startup::Hello;
use super::stop::Closing;
use super::users::{User, Users, random};

/// How long a client may take to say who it is.
pub(super) const STARTUP: Duration = Duration::from_secs(10);
/// Bytes of a key that cancels, for clients that take more than four.
pub(super) const KEY_BYTES: usize = 32;
/// Places of statements that read the catalog alone, beside those of all queries.
const CATALOG_PLACES: usize = 4;
/// Characters of a statement that others see.
const SHOWN_SQL: usize = 200;

/// What clients may use.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most clients that are connected, at least 1.
    pub connections: usize,
    /// Most queries that run, at least 1.
    pub queries: usize,
    /// Most bytes of a message.
    pub message: usize,
    /// Longest that a statement may take, unless its client says otherwise; 0 for no limit.
    pub statement_timeout: Duration,
    /// Longest that a client may stay without asking anything.
    pub idle_timeout: Option<Duration>,
    /// Longest that a portal stays open whose rows nobody asks for.
    pub portal_timeout: Option<Duration>,
    /// Longest that a client may read nothing of what it is sent.
    pub write_timeout: Option<Duration>,
    /// Most bytes that DataFusion may take for one user.
    pub user_memory: Option<u64>,
}

/// A query that runs.
#[derive(Clone, Debug)]
pub struct Running {
    /// The number of its connection.
    pub number: i32,
    /// Who asked.
    pub user: String,
    /// The statement, or its beginning.
    pub sql: Arc<str>,
    /// When it began.
    pub since: Instant,
    /// Rows that its client was sent.
    pub rows: u64,
}

/// What all connections share.
pub struct Server {
    pub(super) engine: Engine,
    pub(super) notices: Notices,
    pub(super) users: Option<Users>,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) limits: Limits,
    pub(super) lobby: Arc<Lobby>,
    pub(super) guesses: Guesses,
    room: Room,
    /// Places among the queries that run.
    pub(super) places: Arc<Semaphore>,
    pub(super) catalog_places: Arc<Semaphore>,
    /// What all users may keep while nothing runs for them.
    kept: Arc<Part>,
    /// What each user of --users has.
    accounts: HashMap<String, Arc<Account>>,
    entries: Mutex<HashMap<i32, Arc<Entry>>>,
    next_pid: AtomicI32,
    pub(super) closing: watch::Sender<Closing>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// DataFusion for one user.
pub(super) struct Account {
    pub(super) ctx: SessionContext,
    /// Places among the queries of this user, if they are limited.
    pub(super) places: Option<Arc<Semaphore>>,
    /// Places of the user's clients, if they are limited.
    connections: Option<Arc<Semaphore>>,
    administrator: bool,
    /// Counts what the user's clients keep while nothing runs for them.
    pub(super) keeper: Arc<Keeper>,
}

/// One client, as its queries need it.
pub(super) struct Client {
    pub(super) server: Arc<Server>,
    pub(super) account: Arc<Account>,
    pub(super) entry: Arc<Entry>,
}

/// A connection as others see it.
pub(super) struct Entry {
    key: Vec<u8>,
    /// Changes to end the statement that runs.
    pub(super) cancel: watch::Sender<u64>,
    user: String,
    doing: Mutex<Option<Doing>>,
    sent: Arc<AtomicU64>,
}

/// What a connection does.
#[derive(Clone, Debug)]
pub(super) struct Doing {
    pub(super) sql: Arc<str>,
    pub(super) since: Instant,
    /// Rows that were sent.
    sent: Arc<AtomicU64>,
}

/// As much of a statement as others see.
pub(super) fn shown(sql: &str) -> Arc<str> {
    sql.trim().chars().take(SHOWN_SQL).collect::<String>().into()
}

impl Entry {
    pub(super) fn user(&self) -> &str {
        &self.user
    }

    /// Notes that a statement begins.
    pub(super) fn begin(&self, sql: Arc<str>) {
        self.sent.store(0, Ordering::Relaxed);
        *self.doing.lock() = Some(Doing { sql, since: Instant::now(), sent: Arc::clone(&self.sent) });
    }

    /// Notes that so many rows were sent.
    pub(super) fn sent(&self, rows: usize) {
        self.sent.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        *self.doing.lock() = None;
    }
}

impl Server {
    pub(super) fn new(
        engine: Engine,
        users: Option<Users>,
        tls: Option<TlsAcceptor>,
        limits: Limits,
        say: Say,
    ) -> anyhow::Result<Self> {
        let administrators = users.iter().flat_map(Users::iter).any(|(_, user)| user.administrator);
        let room = Room::new(limits.connections, administrators);
        let kept = Part::of_all(engine.ctx.runtime_env().memory_pool.as_ref());
        let places = Arc::new(Semaphore::new(limits.queries));
        let (closing, _) = watch::channel(Closing::No);
        let mut server = Self {
            engine,
            notices: Notices::new(say),
            users: None,
            tls,
            limits,
            lobby: Arc::default(),
            guesses: Guesses::default(),
            room,
            places,
            catalog_places: Arc::new(Semaphore::new(CATALOG_PLACES)),
            kept,
            accounts: HashMap::new(),
            entries: Mutex::default(),
            next_pid: AtomicI32::new(1),
            closing,
        };
        for (name, user) in users.iter().flat_map(Users::iter) {
            let account = server.account(name, Some(user))?;
            server.accounts.insert(name.clone(), Arc::new(account));
        }
        server.users = users;
        Ok(server)
    }

    /// DataFusion for a user: the tables, rules and caches of all, a memory of its own, and a share
    /// of the pool.
    fn account(&self, name: &str, user: Option<&User>) -> anyhow::Result<Account> {
        let state = self.engine.ctx.state();
        let mut runtime = Arc::clone(state.runtime_env());
        if let Some(limit) = user.and_then(|user| user.memory).or(self.limits.user_memory) {
            let capped = Capped::new(usize::try_from(limit)?, Arc::clone(&runtime.memory_pool));
            runtime = RuntimeEnvBuilder::from_runtime_env(&runtime).with_memory_pool(Arc::new(capped)).build_arc()?;
        }
        let mut state = SessionStateBuilder::new_from_existing(state).with_runtime_env(runtime);
        if let Some(share) = user.and_then(|user| user.share) {
            let pool = &self.engine.pool;
            let frames = (f64::from(pool.frames()) * share) as u32;
            // The scans of the user find it there.
            let config = state.config().take().unwrap_or_default();
            *state.config() = Some(config.with_extension(Arc::new(pool.share(frames))));
        }
        let state = state.build();
        let ctx = SessionContext::new_with_state(state);
        catalog::of_user(&ctx, name);
        let limited = |most: Option<usize>| most.map(|most| Arc::new(Semaphore::new(most)));
        let keeper = Arc::new(Keeper::new(&self.kept, &ctx.runtime_env().memory_pool));
        Ok(Account {
            ctx,
            places: limited(user.map(|user| user.queries.unwrap_or_else(|| self.queries_of_one()))),
            connections: limited(user.and_then(|user| user.connections)),
            administrator: user.is_some_and(|user| user.administrator),
            keeper,
        })
    }

    /// Queries that a user runs at once who has no limit: others find a place beside them.
    fn queries_of_one(&self) -> usize {
        self.limits.queries - self.limits.queries / 4
    }

    pub(super) fn admit(self: &Arc<Self>, user: &str, hello: &Hello) -> Result<(Registered, Settings), Problem> {
        let settings = Settings::of(user, self.limits.statement_timeout, &hello.parameters)?;
        let key = if hello.version == ProtocolVersion::PROTOCOL3_0 { 4 } else { KEY_BYTES };
        Ok((self.register(user, key)?, settings))
    }

    /// Clients that are connected.
    pub fn connected(&self) -> usize {
        self.room.taken()
    }

    /// A place for a client that is logged in.
    pub(super) fn seat(&self, user: &str, account: &Account, address: IpAddr) -> Result<Seat, Problem> {
        let seat = self.room.enter(user, account.administrator, account.connections.as_ref());
        seat.inspect_err(|problem| self.notices.of(About::Refused, || room::refused(user, address, problem)))
    }

    /// The queries that run.
    pub fn running(&self) -> Vec<Running> {
        let entries = self.entries.lock();
        let running = |(pid, entry): (&i32, &Arc<Entry>)| {
            let Doing { sql, since, sent } = entry.doing.lock().clone()?;
            let rows = sent.load(Ordering::Relaxed);
            Some(Running { number: *pid, user: entry.user.clone(), sql, since, rows })
        };
        entries.iter().filter_map(running).collect()
    }

    /// The pool that all read through.
    pub fn pool(&self) -> &Pool {
        &self.engine.pool
    }

    /// What a user has who was let in.
    pub(super) fn account_of(&self, user: &str) -> Result<Arc<Account>, Problem> {
        match self.accounts.get(user) {
            Some(account) => Ok(Arc::clone(account)),
            None => Ok(Arc::new(self.account(user, None).map_err(fatal)?)),
        }
    }

    /// Somebody who runs statements, with a key of so many bytes that cancels them.
    pub(super) fn register(self: &Arc<Self>, user: &str, key_bytes: usize) -> Result<Registered, Problem> {
        let key = random(key_bytes).map_err(fatal)?;
        let (cancel, _) = watch::channel(0);
        let entry =
            Arc::new(Entry { key, cancel, user: user.to_owned(), doing: Mutex::default(), sent: Arc::default() });
        let pid = self.next_pid.fetch_add(1, Ordering::Relaxed);
        self.entries.lock().insert(pid, Arc::clone(&entry));
        Ok(Registered { server: Arc::clone(self), pid, entry })
    }

    /// Ends the statement of another connection, for whoever knows its key. Others learn nothing.
    pub(super) fn cancel(&self, pid: i32, key: &[u8]) {
        let entry = self.entries.lock().get(&pid).cloned();
        if let Some(entry) = entry.filter(|entry| entry.key == key) {
            entry.cancel.send_modify(|count| *count += 1);
        }
    }
}

/// A connection while it is there, or what one of Flight SQL runs.
pub(super) struct Registered {
    server: Arc<Server>,
    pub(super) pid: i32,
    pub(super) entry: Arc<Entry>,
}

impl Registered {
    pub(super) fn secret(&self, version: ProtocolVersion) -> SecretKey {
        match (version, <[u8; 4]>::try_from(self.entry.key.as_slice())) {
            (ProtocolVersion::PROTOCOL3_0, Ok(key)) => SecretKey::I32(i32::from_be_bytes(key)),
            _ => SecretKey::Bytes(Bytes::copy_from_slice(&self.entry.key)),
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.server.entries.lock().remove(&self.pid);
    }
}

fn fatal(error: anyhow::Error) -> Problem {
    Problem::fatal("XX000", format!("{error:#}"))
}
