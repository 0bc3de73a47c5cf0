//! What a statement wants of the connection itself: settings, transactions, and names it lets go.

use pgwire::messages::PgWireBackendMessage as Reply;
use pgwire::messages::response::NoticeResponse;
use tokio::io::AsyncWrite;

use super::{Connection, Session, Transaction, no_portal};
use crate::problem::Problem;
use crate::statements::Own;

impl<W: AsyncWrite + Unpin> Connection<W> {
    /// Does what a statement wants of the connection; the word that it is done with.
    pub(super) fn own(&mut self, own: &Own) -> Result<&'static str, Problem> {
        Ok(match own {
            Own::Begin => {
                self.session.transaction = Transaction::Open;
                self.settings.lock().begin();
                "BEGIN"
            }
            Own::Commit { chain } => self.end(true, *chain),
            Own::Rollback { chain } => self.end(false, *chain),
            Own::Savepoint(name) => {
                self.check_open("SAVEPOINT")?;
                self.settings.lock().savepoint(name);
                "SAVEPOINT"
            }
            Own::Release(name) => {
                self.check_open("RELEASE SAVEPOINT")?;
                self.settings.lock().release(name)?;
                "RELEASE"
            }
            Own::RollbackTo(name) => {
                self.check_open("ROLLBACK TO SAVEPOINT")?;
                self.settings.lock().roll_back_to(name)?;
                self.session.transaction = Transaction::Open;
                "ROLLBACK"
            }
            Own::Set(assignments) => {
                // All of them or none.
                let mut settings = self.settings.lock().clone();
                assignments.iter().try_for_each(|(name, value)| settings.set(name, value))?;
                *self.settings.lock() = settings;
                "SET"
            }
            Own::SetLocal(assignments) => {
                let mut settings = self.settings.lock().clone();
                assignments.iter().try_for_each(|(name, value)| settings.set_local(name, value))?;
                *self.settings.lock() = settings;
                if self.session.transaction == Transaction::None {
                    self.warn("25P01", "SET LOCAL can only be used in transaction blocks")?;
                }
                "SET"
            }
            Own::Reset(name) => {
                self.settings.lock().reset(name)?;
                "RESET"
            }
            Own::ResetAll => {
                self.settings.lock().reset_all();
                "RESET"
            }
            Own::Deallocate(name) => {
                match name {
                    Some(name) => {
                        self.statement(Some(name))?;
                        self.session.statements.remove(name);
                    }
                    None => self.session.statements.clear(),
                }
                "DEALLOCATE"
            }
            Own::Close(name) => {
                match name {
                    Some(name) => _ = self.session.portals.remove(name).ok_or_else(|| no_portal(name))?,
                    None => self.session.portals.clear(),
                }
                "CLOSE CURSOR"
            }
            Own::Discard => {
                self.session = Session { transaction: self.session.transaction, ..Session::default() };
                self.settings.lock().reset_all();
                "DISCARD ALL"
            }
            Own::Nothing(tag) => tag,
        })
    }

    /// Ends a transaction. One that has failed is rolled back, whatever is asked for.
    fn end(&mut self, commit: bool, chain: bool) -> &'static str {
        let (was, commit) = (self.session.transaction, commit && self.session.transaction != Transaction::Failed);
        self.session.transaction = Transaction::None;
        self.session.portals.clear();
        if commit {
            self.settings.lock().commit();
        } else {
            self.settings.lock().roll_back();
        }
        if chain && was != Transaction::None {
            self.session.transaction = Transaction::Open;
            self.settings.lock().begin();
        }
        self.before = self.settings.lock().clone();
        if commit { "COMMIT" } else { "ROLLBACK" }
    }

    fn check_open(&self, what: &str) -> Result<(), Problem> {
        match self.session.transaction {
            Transaction::None => Err(Problem::error("25P01", format!("{what} can only be used in transaction blocks"))),
            Transaction::Open | Transaction::Failed => Ok(()),
        }
    }

    fn warn(&mut self, code: &str, message: &str) -> Result<(), Problem> {
        let fields = [(b'S', "WARNING"), (b'V', "WARNING"), (b'C', code), (b'M', message)];
        let fields = fields.into_iter().map(|(kind, text)| (kind, text.to_owned())).collect();
        self.put(Reply::NoticeResponse(NoticeResponse::new(fields)))
    }
}
