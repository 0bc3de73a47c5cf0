//! What all connections share: the engine, its limits, and what each user has.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;
use pagecast::Pool;
use pagecast_sql::Engine;
use pgwire::messages::ProtocolVersion;
use pgwire::tokio::TlsAcceptor;
use tokio::sync::{Semaphore, watch};

use super::catalog::{self, Asker};
use super::entries::{Entries, Entry, Registered, Running};
use super::frames::Hello;
use super::guesses::Guesses;
use super::keeping::{Keeper, Part};
use super::lobby::Lobby;
use super::memory::Capped;
use super::notices::{About, Notices, Say};
use super::problem::Problem;
use super::room::{self, Room, Seat};
use super::settings::{Settings, Shared};
use super::stop::Closing;
use super::turns::Turns;
use super::users::{User, Users, random};

/// How long a client may take to say who it is.
pub(super) const STARTUP: Duration = Duration::from_secs(10);
/// Bytes of a key that cancels, for clients that take more than four.
pub(super) const KEY_BYTES: usize = 32;
/// Places of statements that read the catalog alone, beside those of all queries.
const CATALOG_PLACES: usize = 4;

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
    pub(super) places: Arc<Turns>,
    pub(super) catalog_places: Arc<Semaphore>,
    /// What all users may keep while nothing runs for them.
    kept: Arc<Part>,
    /// What each user of --users has.
    accounts: HashMap<String, Arc<Account>>,
    /// What everybody else has, where nobody needs a name.
    anybody: Option<Account>,
    entries: Arc<Entries>,
    pub(super) closing: watch::Sender<Closing>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// DataFusion for one user, or for one connection of a user.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) ctx: SessionContext,
    /// Whether the user sees and ends what others run.
    administrator: bool,
    /// Places among the queries of this user, if they are limited.
    pub(super) places: Option<Arc<Semaphore>>,
    /// Places of the user's clients, if they are limited.
    connections: Option<Arc<Semaphore>>,
    /// Counts what the user's clients keep while nothing runs for them.
    pub(super) keeper: Arc<Keeper>,
}

/// One client, as its queries need it.
pub(super) struct Client {
    pub(super) server: Arc<Server>,
    pub(super) account: Arc<Account>,
    pub(super) entry: Arc<Entry>,
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
        let places = Turns::new(limits.queries);
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
            anybody: None,
            entries: Arc::default(),
            closing,
        };
        for (name, user) in users.iter().flat_map(Users::iter) {
            let account = server.account(Some(user))?;
            server.accounts.insert(name.clone(), Arc::new(account));
        }
        if users.is_none() {
            server.anybody = Some(server.account(None)?);
        }
        server.users = users;
        Ok(server)
    }

    /// DataFusion for a user: the tables, rules and caches of all, a memory of its own, and a share
    /// of the pool.
    fn account(&self, user: Option<&User>) -> anyhow::Result<Account> {
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
        // `information_schema` is the catalog's, and not DataFusion's.
        let config = state.config().take().unwrap_or_default();
        *state.config() = Some(config.with_information_schema(false));
        let ctx = SessionContext::new_with_state(state.build());
        let limited = |most: Option<usize>| most.map(|most| Arc::new(Semaphore::new(most)));
        let keeper = Arc::new(Keeper::new(&self.kept, &ctx.runtime_env().memory_pool));
        Ok(Account {
            ctx,
            // Where nobody says who may what, everybody may all.
            administrator: user.is_none_or(|user| user.administrator),
            places: limited(user.map(|user| user.queries.unwrap_or_else(|| self.queries_of_one()))),
            connections: limited(user.and_then(|user| user.connections)),
            keeper,
        })
    }

    /// Queries that a user runs at once who has no limit: others find a place beside them.
    fn queries_of_one(&self) -> usize {
        self.limits.queries - self.limits.queries / 4
    }

    /// A connection of a user, of whom `shared` is what all connections share.
    pub(super) fn admit(
        &self,
        user: &str,
        shared: &Account,
        hello: &Hello,
        address: Option<SocketAddr>,
    ) -> Result<(Registered, Arc<Account>, Shared), Problem> {
        let settings = Settings::of(user, self.limits.statement_timeout, &hello.parameters)?.shared();
        let bytes = if hello.version == ProtocolVersion::PROTOCOL3_0 { 4 } else { KEY_BYTES };
        let registered = self.entries.add(user, random(bytes).map_err(fatal)?, address, &settings);
        let account = self.asking(shared, user, registered.pid, &settings);
        Ok((registered, Arc::new(account), settings))
    }

    /// What a user has, for one connection: the catalog answers whoever asks.
    fn asking(&self, shared: &Account, user: &str, pid: i32, settings: &Shared) -> Account {
        let (administrator, entries, settings) =
            (shared.administrator, Arc::clone(&self.entries), Arc::clone(settings));
        let asker = Asker { pid, user: user.to_owned(), administrator, entries, settings };
        let ctx = catalog::of_session(&shared.ctx, asker);
        Account { ctx, ..shared.clone() }
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
        self.entries.running()
    }

    /// Ends the query of a connection. Says whether the connection is there.
    pub fn end_query(&self, number: i32) -> bool {
        self.entries.end(number)
    }

    /// What a query that comes back reads, in words, by its fingerprint; if it ran of late.
    pub fn reads_of(&self, fingerprint: u64) -> Option<String> {
        self.engine.host.reads_of(fingerprint)
    }

    /// The pool that all read through.
    pub fn pool(&self) -> &Pool {
        &self.engine.pool
    }

    /// What a user has who was let in, without a connection of its own.
    pub(super) fn account_of(&self, user: &str, settings: &Shared) -> Result<Arc<Account>, Problem> {
        Ok(Arc::new(self.asking(&*self.shared(user)?, user, 0, settings)))
    }

    /// What all connections of a user share.
    pub(super) fn shared(&self, user: &str) -> Result<Arc<Account>, Problem> {
        if let Some(account) = self.accounts.get(user) {
            return Ok(Arc::clone(account));
        }
        let missing = || Problem::fatal("28000", format!("nobody is called \"{user}\""));
        let anybody = self.anybody.as_ref().ok_or_else(missing)?;
        // Where nobody has a name, each connection keeps as much as a user may.
        let keeper = Arc::new(Keeper::new(&self.kept, &anybody.ctx.runtime_env().memory_pool));
        Ok(Arc::new(Account { keeper, ..anybody.clone() }))
    }

    /// Somebody who runs statements, with a key of so many bytes that cancels them.
    pub(super) fn register(&self, user: &str, key_bytes: usize, settings: &Shared) -> Result<Registered, Problem> {
        Ok(self.entries.add(user, random(key_bytes).map_err(fatal)?, None, settings))
    }

    /// Ends the statement of another connection, for whoever knows its key. Others learn nothing.
    pub(super) fn cancel(&self, pid: i32, key: &[u8]) {
        self.entries.cancel(pid, key);
    }
}

fn fatal(error: anyhow::Error) -> Problem {
    Problem::fatal("XX000", format!("{error:#}"))
}
