//! Who is connected, and what they do.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use pagecast_sql::Held;
use parking_lot::Mutex;
use pgwire::messages::ProtocolVersion;
use pgwire::messages::startup::SecretKey;
use tokio::sync::watch;

use super::settings::Shared;

/// Characters of a statement that others see.
const SHOWN_SQL: usize = 200;

/// A query that runs.
#[derive(Clone, Debug)]
pub struct Running {
    /// The number of its connection.
    pub number: i32,
    /// Who asked.
    pub user: String,
    /// Where the client is, as far as that is known.
    pub address: Option<SocketAddr>,
    /// The statement, or its beginning.
    pub sql: Arc<str>,
    /// When it began.
    pub since: Instant,
    /// Rows that its client was sent.
    pub rows: u64,
    /// Whether it waits for a place among the queries.
    pub waits: bool,
    /// Bytes of the heap that it holds; 0 in a program whose heap is not counted.
    pub memory: u64,
}

/// All connections.
#[derive(Default)]
pub(super) struct Entries {
    all: Mutex<HashMap<i32, Arc<Entry>>>,
    given: AtomicI32,
}

/// A connection as others see it.
pub(super) struct Entry {
    key: Vec<u8>,
    /// Changes to end the statement that runs.
    pub(super) cancel: watch::Sender<u64>,
    /// Whether another connection ends this one.
    pub(super) ended: watch::Sender<bool>,
    pub(super) user: String,
    pub(super) address: Option<SocketAddr>,
    pub(super) since: SystemTime,
    doing: Mutex<Option<Doing>>,
    /// Where it is in its transaction.
    pub(super) transaction: Mutex<Transaction>,
    pub(super) settings: Shared,
    sent: Arc<AtomicU64>,
    waits: AtomicBool,
    /// Of the query that runs.
    held: Mutex<Option<Held>>,
}

/// What a connection does, or did last.
#[derive(Clone, Debug)]
pub(super) struct Doing {
    pub(super) sql: Arc<str>,
    since: Instant,
    pub(super) began: SystemTime,
    pub(super) done: Option<SystemTime>,
    /// Rows that were sent.
    sent: Arc<AtomicU64>,
}

/// Where a connection is in its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Transaction {
    #[default]
    None,
    Open,
    Failed,
}

/// As much of a statement as others see.
pub(super) fn shown(sql: &str) -> Arc<str> {
    sql.trim().chars().take(SHOWN_SQL).collect::<String>().into()
}

impl Entry {
    /// Notes that a statement begins.
    pub(super) fn begin(&self, sql: Arc<str>) {
        self.sent.store(0, Ordering::Relaxed);
        let sent = Arc::clone(&self.sent);
        let (since, began) = (Instant::now(), SystemTime::now());
        *self.doing.lock() = Some(Doing { sql, since, began, done: None, sent });
    }

    /// Notes that so many rows were sent.
    pub(super) fn sent(&self, rows: usize) {
        self.sent.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Notes that its query waits for a place, as long as what this gives is held.
    pub(super) fn waiting(&self) -> Waiting<'_> {
        self.waits.store(true, Ordering::Relaxed);
        Waiting(self)
    }

    /// Notes whose memory is that of the query that runs.
    pub(super) fn hold(&self, held: Held) {
        *self.held.lock() = Some(held);
    }

    pub(super) fn end(&self) {
        *self.held.lock() = None;
        if let Some(doing) = &mut *self.doing.lock() {
            doing.done = Some(SystemTime::now());
        }
    }

    pub(super) fn doing(&self) -> Option<Doing> {
        self.doing.lock().clone()
    }
}

/// A query of a connection waits.
pub(super) struct Waiting<'a>(&'a Entry);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waits.store(false, Ordering::Relaxed);
    }
}

impl Entries {
    /// Adds a connection with a key that cancels what it runs.
    pub(super) fn add(
        self: &Arc<Self>,
        user: &str,
        key: Vec<u8>,
        address: Option<SocketAddr>,
        settings: &Shared,
    ) -> Registered {
        let entry = Arc::new(Entry {
            key,
            cancel: watch::channel(0).0,
            ended: watch::channel(false).0,
            user: user.to_owned(),
            address,
            since: SystemTime::now(),
            doing: Mutex::default(),
            transaction: Mutex::default(),
            settings: Arc::clone(settings),
            sent: Arc::default(),
            waits: AtomicBool::new(false),
            held: Mutex::default(),
        });
        let pid = self.given.fetch_add(1, Ordering::Relaxed) + 1;
        self.all.lock().insert(pid, Arc::clone(&entry));
        Registered { entries: Arc::clone(self), pid, entry }
    }

    pub(super) fn get(&self, pid: i32) -> Option<Arc<Entry>> {
        self.all.lock().get(&pid).cloned()
    }

    /// All of them, by their numbers.
    pub(super) fn all(&self) -> Vec<(i32, Arc<Entry>)> {
        let mut all: Vec<_> = self.all.lock().iter().map(|(pid, entry)| (*pid, Arc::clone(entry))).collect();
        all.sort_by_key(|(pid, _)| *pid);
        all
    }

    /// The queries that run.
    pub(super) fn running(&self) -> Vec<Running> {
        let all = self.all.lock();
        let running = |(pid, entry): (&i32, &Arc<Entry>)| {
            let Doing { sql, since, sent, .. } = entry.doing().filter(|doing| doing.done.is_none())?;
            let rows = sent.load(Ordering::Relaxed);
            let memory = entry.held.lock().as_ref().map_or(0, |held| held.bytes() as u64);
            let (user, address, waits) = (entry.user.clone(), entry.address, entry.waits.load(Ordering::Relaxed));
            Some(Running { number: *pid, user, address, sql, since, rows, waits, memory })
        };
        all.iter().filter_map(running).collect()
    }

    /// Ends the statement of a connection. Says whether it is there.
    pub(super) fn end(&self, pid: i32) -> bool {
        let entry = self.get(pid);
        if let Some(entry) = &entry {
            entry.cancel.send_modify(|count| *count += 1);
        }
        entry.is_some()
    }

    /// Ends the statement of another connection, for whoever knows its key. Others learn nothing.
    pub(super) fn cancel(&self, pid: i32, key: &[u8]) {
        if let Some(entry) = self.get(pid).filter(|entry| entry.key == key) {
            entry.cancel.send_modify(|count| *count += 1);
        }
    }
}

/// A connection while it is there, or what one of Flight SQL runs.
pub(super) struct Registered {
    entries: Arc<Entries>,
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
        self.entries.all.lock().remove(&self.pid);
    }
}
