//! What a client has on its connection: settings and prepared statements.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::ScalarValue;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::parameters::numbered;
use crate::connection::check_room;
use crate::entries::{Entry, shown};
use crate::keeping::Kept;
use crate::problem::Problem;
use crate::server::{Account, Server};
use crate::settings::{Settings, Shared};
use crate::statements::{self, Own, Statement};
use crate::stop::Stop;

/// A user on a connection.
pub(super) struct Session {
    pub(super) server: Arc<Server>,
    pub(super) user: String,
    pub(super) account: Arc<Account>,
    pub(super) settings: Shared,
    prepared: Mutex<Statements>,
}

#[derive(Default)]
struct Statements {
    all: HashMap<Bytes, Arc<Prepared>>,
    given: u64,
}

/// A statement and, once they have come, its parameters.
pub(super) struct Prepared {
    pub(super) statement: Arc<Statement>,
    pub(super) values: Mutex<Vec<ScalarValue>>,
    _kept: Kept,
}

impl Session {
    pub(super) fn new(server: &Arc<Server>, user: &str) -> Result<Self, Problem> {
        let settings = Settings::of(user, server.limits.statement_timeout, &BTreeMap::new())?.shared();
        Ok(Self {
            server: Arc::clone(server),
            user: user.to_owned(),
            account: server.account_of(user, &settings)?,
            settings,
            prepared: Mutex::default(),
        })
    }

    /// Plans the one statement of a text.
    pub(super) async fn plan(&self, sql: &str) -> Result<Arc<Statement>, Problem> {
        let sql = numbered(sql);
        let mut all = self.stop_alone().of(statements::read(&sql)).await?;
        let mut statement = match (all.pop(), all.is_empty()) {
            (None, _) => Statement::empty(),
            (Some(parsed), true) => {
                // What lasts for a transaction has lasted for the statement before.
                self.settings.lock().commit();
                let settings = self.settings.lock().clone();
                let plan = Statement::of(&self.account.ctx, parsed, sql.len(), &[], &settings);
                self.stop_alone().of(plan).await?
            }
            _ => return Err(Problem::error("42601", "a request is one statement, and not several")),
        };
        statement.text = shown(&sql);
        Ok(Arc::new(statement))
    }

    /// Keeps a statement; the handle that its client names it by.
    pub(super) fn keep(&self, statement: Arc<Statement>, sql_bytes: usize) -> Result<Bytes, Problem> {
        let kept = self.account.keeper.keep(statement.bytes(sql_bytes), "a prepared statement")?;
        let mut prepared = self.prepared.lock();
        check_room(prepared.all.len())?;
        prepared.given += 1;
        let handle = Bytes::copy_from_slice(&prepared.given.to_be_bytes());
        prepared.all.insert(handle.clone(), Arc::new(Prepared { statement, values: Mutex::default(), _kept: kept }));
        Ok(handle)
    }

    pub(super) fn prepared(&self, handle: &Bytes) -> Result<Arc<Prepared>, Problem> {
        let missing = || Problem::error("26000", "this connection has no such prepared statement");
        self.prepared.lock().all.get(handle).cloned().ok_or_else(missing)
    }

    pub(super) fn close(&self, handle: &Bytes) {
        self.prepared.lock().all.remove(handle);
    }

    /// Does what a statement wants of the connection.
    pub(super) fn own(&self, own: &Own) -> Result<(), Problem> {
        let mut settings = self.settings.lock();
        match own {
            Own::Set(assignments) => {
                for (name, value) in assignments {
                    settings.set(name, value)?;
                }
            }
            Own::Reset(name) => settings.reset(name)?,
            Own::ResetAll => settings.reset_all(),
            // Flight SQL has no transactions: nothing would take these back.
            Own::SetLocal(_) => {
                return Err(Problem::error(
                    "0A000",
                    "SET LOCAL needs a transaction, and Flight SQL has none; write SET",
                ));
            }
            Own::Begin | Own::Commit { .. } | Own::Rollback { .. } => {}
            Own::Savepoint(_) | Own::Release(_) | Own::RollbackTo(_) => {}
            Own::Nothing(_) => {}
            Own::Deallocate(_) | Own::Close(_) | Own::Discard => {
                return Err(Problem::error("0A000", "statements of Flight SQL are closed by their handles"));
            }
        }
        Ok(())
    }

    /// What ends a statement before it is done, `cancel` among it. That the client has gone is seen
    /// by whoever drops the statement then.
    fn stop(&self, cancel: watch::Receiver<u64>) -> Stop {
        let deadline = self.settings.lock().statement_timeout().map(|limit| Instant::now() + limit);
        Stop { cancel, gone: watch::channel(false).1, closing: self.server.closing.subscribe(), deadline }
    }

    /// The same for what nobody else knows of, as it does not run yet.
    pub(super) fn stop_alone(&self) -> Stop {
        self.stop(watch::channel(0).1)
    }

    /// The same for what others may cancel.
    pub(super) fn stop_of(&self, entry: &Entry) -> Stop {
        self.stop(entry.cancel.subscribe())
    }
}
