//! What all connections share: the engine, its limits, and who is there.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;
use pagecast::Pool;
use pagecast_sql::Engine;
use parking_lot::Mutex;
use pgwire::messages::startup::SecretKey;
use pgwire::messages::{PgWireBackendMessage, ProtocolVersion};
use pgwire::tokio::TlsAcceptor;
use pgwire::tokio::server::MaybeTls;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::catalog;
use super::connection::Connection;
use super::memory::Capped;
use super::problem::Problem;
use super::settings::Settings;
use super::startup::{Hello, Purpose, authenticate, negotiate, plain, welcome};
use super::stop::Closing;
use super::users::{User, Users, random};
use super::wire::{self, Reader, Writer};
use crate::watch::{Running, Shadow, Watched};

/// How long a client may take to say who it is.
pub(super) const STARTUP: Duration = Duration::from_secs(10);
/// How long somebody who guesses passwords waits for each answer.
pub(super) const WRONG_PASSWORD: Duration = Duration::from_millis(300);
/// Bytes of a key that cancels, for clients that take more than four.
pub(super) const KEY_BYTES: usize = 32;
/// Characters of a statement that others see.
const SHOWN_SQL: usize = 200;

/// What clients may use.
#[derive(Debug)]
pub(super) struct Limits {
    /// Most clients that are connected.
    pub(super) connections: usize,
    /// Most queries that run.
    pub(super) queries: usize,
    /// Most bytes of a message.
    pub(super) message: usize,
    /// Of a statement, unless its client says otherwise; 0 for none.
    pub(super) statement_timeout: Duration,
    pub(super) idle_timeout: Option<Duration>,
    /// Most bytes that DataFusion may take for one user.
    pub(super) user_memory: Option<u64>,
}

/// What all connections share.
pub(super) struct Server {
    pub(super) engine: Engine,
    /// A clock beside the pool, for who watches.
    shadow: Option<Arc<Shadow>>,
    pub(super) users: Option<Users>,
    tls: Option<TlsAcceptor>,
    pub(super) limits: Limits,
    /// Places among the clients that are connected.
    pub(super) room: Arc<Semaphore>,
    /// Places among the queries that run.
    pub(super) places: Arc<Semaphore>,
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
        shadow: Option<Arc<Shadow>>,
    ) -> anyhow::Result<Self> {
        let room = Arc::new(Semaphore::new(limits.connections));
        let places = Arc::new(Semaphore::new(limits.queries));
        let (closing, _) = watch::channel(Closing::No);
        let mut server = Self {
            engine,
            shadow,
            users: None,
            tls,
            limits,
            room,
            places,
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
        let places = user.and_then(|user| user.queries).map(|queries| Arc::new(Semaphore::new(queries)));
        Ok(Account { ctx, places })
    }

    /// Serves one connection to its end.
    pub(super) async fn serve(self: Arc<Self>, tcp: TcpStream) {
        let (mut stream, mut buffer) = (plain(tcp), BytesMut::new());
        let opened = timeout(STARTUP, negotiate(&mut stream, &mut buffer, self.tls.as_ref())).await;
        let problem = match opened {
            Ok(Ok(Some(Purpose::Session(hello)))) => match stream.take() {
                Some(stream) => return self.session(stream, buffer, hello).await,
                None => return,
            },
            Ok(Ok(Some(Purpose::Cancel { pid, key }))) => return self.cancel(pid, &key),
            Ok(Ok(None)) | Err(_) => return,
            Ok(Err(problem)) => problem,
        };
        if let Some(stream) = stream {
            let (mut read, write) = tokio::io::split(stream);
            say_last(&mut Writer::new(write), wire::drain(&mut read), &problem).await;
        }
    }

    /// Lets the client in, and answers it until it leaves.
    async fn session(self: Arc<Self>, stream: MaybeTls, buffer: BytesMut, hello: Hello) {
        let (read, write) = tokio::io::split(stream);
        let mut reader = Reader::new(read, buffer, hello.version, self.limits.message);
        let mut writer = Writer::new(write);
        let user = match timeout(STARTUP, authenticate(&hello, self.users.as_ref(), &mut reader, &mut writer)).await {
            Ok(Ok(user)) => user,
            Ok(Err(problem)) => {
                if problem.code == "28P01" {
                    tokio::time::sleep(WRONG_PASSWORD).await;
                }
                return say_last(&mut writer, reader.drain(), &problem).await;
            }
            Err(_) => return,
        };
        match self.admit(&user, &hello) {
            Err(problem) => say_last(&mut writer, reader.drain(), &problem).await,
            Ok((registered, account, settings)) => {
                for message in welcome(registered.pid, registered.secret(hello.version), &settings) {
                    if writer.put(message).is_err() {
                        return;
                    }
                }
                let (sender, messages) = wire::channel();
                let (gone, is_gone) = watch::channel(false);
                // Ends with the connection, and so does what it reads for.
                let mut reading = JoinSet::new();
                reading.spawn(reader.read_all(sender, gone));
                let closing = self.closing.subscribe();
                let client = Client { server: Arc::clone(&self), account, entry: Arc::clone(&registered.entry) };
                Connection::new(client, settings, writer, messages, is_gone, closing).run().await;
            }
        }
    }

    fn admit(self: &Arc<Self>, user: &str, hello: &Hello) -> Result<(Registered, Arc<Account>, Settings), Problem> {
        let settings = Settings::of(user, self.limits.statement_timeout, &hello.parameters)?;
        let account = self.account_of(user)?;
        let key = if hello.version == ProtocolVersion::PROTOCOL3_0 { 4 } else { KEY_BYTES };
        Ok((self.register(user, key)?, account, settings))
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
    fn cancel(&self, pid: i32, key: &[u8]) {
        let entry = self.entries.lock().get(&pid).cloned();
        if let Some(entry) = entry.filter(|entry| entry.key == key) {
            entry.cancel.send_modify(|count| *count += 1);
        }
    }
}

impl Watched for Server {
    fn pool(&self) -> Option<Pool> {
        Some(self.engine.pool.clone())
    }

    fn shadow(&self) -> Option<Arc<Shadow>> {
        self.shadow.clone()
    }

    fn doing(&self) -> String {
        String::new()
    }

    fn connected(&self) -> usize {
        self.limits.connections - self.room.available_permits()
    }

    fn running(&self) -> Vec<Running> {
        let entries = self.entries.lock();
        let running = |(pid, entry): (&i32, &Arc<Entry>)| {
            let Doing { sql, since, sent } = entry.doing.lock().clone()?;
            let rows = sent.load(Ordering::Relaxed);
            Some(Running { number: i64::from(*pid), user: entry.user.clone(), sql, since, rows })
        };
        entries.iter().filter_map(running).collect()
    }
}

/// A connection while it is there, or what one of Flight SQL runs.
pub(super) struct Registered {
    server: Arc<Server>,
    pid: i32,
    pub(super) entry: Arc<Entry>,
}

impl Registered {
    fn secret(&self, version: ProtocolVersion) -> SecretKey {
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

/// Tells a client why it is not served, and waits a moment for it to hang up, which is what `rest`
/// ends with.
async fn say_last<W: AsyncWrite + Unpin>(writer: &mut Writer<W>, rest: impl Future<Output = ()>, problem: &Problem) {
    let said = async {
        writer.put(PgWireBackendMessage::ErrorResponse(problem.response()))?;
        writer.shutdown().await?;
        rest.await;
        std::io::Result::Ok(())
    };
    let _ = timeout(Duration::from_secs(1), said).await;
}

/// Turns a connection away, without waiting for what it wants.
pub(super) async fn turn_away(tcp: TcpStream, problem: Problem) {
    let (mut read, write) = tokio::io::split(tcp);
    say_last(&mut Writer::new(write), wire::drain(&mut read), &problem).await;
}
