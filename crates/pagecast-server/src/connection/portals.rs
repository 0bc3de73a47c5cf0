//! Portals of a connection: statements with their parameters, run on for some rows or for all.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use pgwire::messages::PgWireBackendMessage as Reply;
use pgwire::messages::extendedquery::PortalSuspended;
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};
use tokio::io::AsyncWrite;
use tokio::time::Instant;

use super::{Connection, Named, check_room, no_portal};
use crate::entries::Transaction;
use crate::execution::{Execution, Fetched};
use crate::keeping::Kept;
use crate::parameters;
use crate::problem::Problem;
use crate::rows::Format;
use crate::statements::{self, Statement, Work};
use crate::stop::Stop;

/// A statement with its parameters.
pub(super) struct Portal {
    pub(super) statement: Arc<Statement>,
    pub(super) values: Vec<ScalarValue>,
    pub(super) formats: Vec<i16>,
    pub(super) state: State,
    /// When its rows were asked for last.
    pub(super) asked: Instant,
    _kept: Kept,
}

pub(super) enum State {
    New,
    Open(Box<Execution>),
    Done,
    /// It was left open for too long.
    Late,
}

impl Portal {
    pub(super) fn new(statement: Arc<Statement>, values: Vec<ScalarValue>, formats: Vec<i16>, kept: Kept) -> Self {
        Self { statement, values, formats, state: State::New, asked: Instant::now(), _kept: kept }
    }

    /// Whether it has given some of its rows, and has others.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }
}

impl<W: AsyncWrite + Unpin> Connection<W> {
    /// Runs a portal on for up to `limit` rows, 0 for all.
    pub(super) async fn advance(&mut self, portal: &mut Portal, limit: usize, stop: &mut Stop) -> Result<(), Problem> {
        let statement = Arc::clone(&portal.statement);
        let rows = match &statement.work {
            Work::Empty => return self.put(Reply::EmptyQueryResponse(EmptyQueryResponse::new())),
            Work::Own(own) => {
                let tag = self.own(own)?;
                return self.put(Reply::CommandComplete(CommandComplete::new(tag.to_owned())));
            }
            Work::Declare { name, statement } => {
                let (name, statement) = (name.clone(), Arc::clone(statement));
                return self.declare(name, statement, std::mem::take(&mut portal.values));
            }
            Work::Fetch { name, limit } => {
                let (name, limit, formats) = (name.clone(), *limit, portal.formats.clone());
                return self.fetch(name, limit, &formats, stop).await;
            }
            Work::Prepare { name, statement, bytes } => {
                return self.prepare(name.clone(), Arc::clone(statement), *bytes);
            }
            Work::Execute { name, values } => {
                // From here on the portal is one of that statement.
                portal.values = self.values_of(name, values)?;
                portal.statement = Arc::clone(self.statement(Some(name))?);
                return Box::pin(self.advance(portal, limit, stop)).await;
            }
            Work::Copy { rows, layout } => return self.copy(rows, layout, stop).await,
            Work::Rows(rows) => rows,
        };
        let formats = portal.formats.clone();
        let fetched = self.rows_of(portal, rows, limit, &formats, stop).await?;
        if fetched.suspended {
            return self.put(Reply::PortalSuspended(PortalSuspended::new()));
        }
        let tag = if rows.tag == "SELECT" { format!("SELECT {}", fetched.rows) } else { rows.tag.to_owned() };
        self.put(Reply::CommandComplete(CommandComplete::new(tag)))
    }

    fn prepare(&mut self, name: String, statement: Arc<Statement>, bytes: usize) -> Result<(), Problem> {
        if self.session.statements.contains_key(&name) {
            return Err(Problem::error("42P05", format!("prepared statement \"{name}\" already exists")));
        }
        check_room(self.session.statements.len())?;
        let kept = self.client.account.keeper.keep(statement.bytes(bytes), "a prepared statement")?;
        self.session.statements.insert(name, Named { statement, _kept: kept });
        self.put(Reply::CommandComplete(CommandComplete::new("PREPARE".to_owned())))
    }

    /// Texts as the values of a statement's parameters.
    fn values_of(&self, name: &str, texts: &[Option<String>]) -> Result<Vec<ScalarValue>, Problem> {
        let statement = self.statement(Some(name))?;
        let (given, wanted) = (texts.len(), statement.parameters.len());
        if given != wanted {
            return Err(Problem::error("42601", format!("{name} takes {wanted} parameters, and {given} came")));
        }
        let mut values = Vec::with_capacity(given);
        for (number, (text, (oid, kind))) in texts.iter().zip(&statement.parameters).enumerate() {
            let bytes = text.as_ref().map(String::as_bytes);
            values.push(parameters::value(number + 1, *oid, kind, Format::Text, bytes)?);
        }
        Ok(values)
    }

    fn declare(&mut self, name: String, statement: Arc<Statement>, values: Vec<ScalarValue>) -> Result<(), Problem> {
        if self.session.transaction == Transaction::None {
            return Err(Problem::error("25P01", "DECLARE CURSOR can only be used in transaction blocks"));
        }
        if self.session.portals.contains_key(&name) {
            return Err(Problem::error("42P03", format!("cursor \"{name}\" is there already")));
        }
        check_room(self.session.portals.len())?;
        let kept = self.client.account.keeper.nothing();
        self.session.portals.insert(name, Portal::new(statement, values, Vec::new(), kept));
        self.put(Reply::CommandComplete(CommandComplete::new("DECLARE CURSOR".to_owned())))
    }

    /// Rows of a cursor, in the formats that this FETCH wants.
    async fn fetch(&mut self, name: String, limit: usize, formats: &[i16], stop: &mut Stop) -> Result<(), Problem> {
        let mut portal = self.session.portals.remove(&name).ok_or_else(|| no_portal(&name))?;
        let statement = Arc::clone(&portal.statement);
        let Work::Rows(rows) = &statement.work else { return Err(no_portal(&name)) };
        let fetched = self.rows_of(&mut portal, rows, limit, formats, stop).await?;
        portal.asked = Instant::now();
        self.session.portals.insert(name, portal);
        self.put(Reply::CommandComplete(CommandComplete::new(format!("FETCH {}", fetched.rows))))
    }

    /// Sends up to `limit` rows of a portal, 0 for all.
    async fn rows_of(
        &mut self,
        portal: &mut Portal,
        rows: &statements::Rows,
        limit: usize,
        formats: &[i16],
        stop: &mut Stop,
    ) -> Result<Fetched, Problem> {
        if matches!(portal.state, State::New) {
            let values = std::mem::take(&mut portal.values);
            let started = Execution::start(&self.client, rows, values, formats, stop).await?;
            portal.state = State::Open(Box::new(started));
            portal.formats = formats.to_vec();
        }
        if matches!(portal.state, State::Late) {
            let what = "the portal has ended: nobody asked for its rows for too long (--portal-timeout)";
            return Err(Problem::error("25P03", what));
        }
        let State::Open(execution) = &mut portal.state else { return Ok(Fetched { rows: 0, suspended: false }) };
        if portal.formats != formats {
            execution.write_as(&rows.schema, formats)?;
            portal.formats = formats.to_vec();
        }
        let fetched = execution.fetch(&self.client, limit, &mut self.writer, stop).await?;
        match fetched.suspended {
            true => self.session.check_open()?,
            false => portal.state = State::Done,
        }
        Ok(fetched)
    }
}
