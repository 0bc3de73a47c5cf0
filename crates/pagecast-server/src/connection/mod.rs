//! One client: its prepared statements, its portals and its transaction, which holds nothing here.

mod copy;
mod own;
mod portals;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pgwire::messages::data::{FieldDescription, NoData, ParameterDescription, RowDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete, TARGET_TYPE_BYTE_PORTAL,
    TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::response::{EmptyQueryResponse, ReadyForQuery, TransactionStatus};
use pgwire::messages::startup::ParameterStatus;
use pgwire::messages::{PgWireBackendMessage as Reply, PgWireFrontendMessage as Message};
use tokio::io::AsyncWrite;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::entries::{Transaction, shown};
use crate::keeping::Kept;
use crate::notices::{About, short};
use crate::parameters;
use crate::problem::Problem;
use crate::rows::{self, Format};
use crate::server::Client;
use crate::settings::{Settings, Shared};
use crate::statements::{self, Own, Statement, Work};
use crate::stop::{Closing, Stop, happens, shutdown};
use crate::wire::{Incoming, Received, Writer};
use portals::{Portal, State};

/// Prepared statements and portals that one client may have.
const MOST_NAMED: usize = 4096;
/// Portals of one client that have given some of their rows.
const MOST_OPEN: usize = 16;
/// How long a client that is told to leave may take to read that.
const FAREWELL: Duration = Duration::from_secs(1);

/// A client that has proved who it is.
pub(super) struct Connection<W> {
    pub(super) client: Client,
    settings: Shared,
    /// What they were when nothing was under way last. An error outside of a transaction brings
    /// them back.
    before: Settings,
    /// What the client has heard of them.
    told: Vec<(String, String)>,
    pub(super) writer: Writer<W>,
    messages: mpsc::Receiver<Received>,
    gone: watch::Receiver<bool>,
    closing: watch::Receiver<Closing>,
    pub(super) session: Session,
}

/// What the client has made of the connection.
#[derive(Default)]
pub(super) struct Session {
    statements: HashMap<String, Named>,
    portals: HashMap<String, Portal>,
    transaction: Transaction,
    /// After an error of the extended protocol everything up to the next Sync is skipped.
    skipping: bool,
}

/// A prepared statement, and what is counted for it.
struct Named {
    statement: Arc<Statement>,
    _kept: Kept,
}

impl<W: AsyncWrite + Unpin> Connection<W> {
    pub(super) fn new(
        client: Client,
        settings: Shared,
        writer: Writer<W>,
        messages: mpsc::Receiver<Received>,
        gone: watch::Receiver<bool>,
        closing: watch::Receiver<Closing>,
    ) -> Self {
        let before = settings.lock().clone();
        let (told, session) = (before.reported().collect(), Session::default());
        Self { client, settings, before, told, writer, messages, gone, closing, session }
    }

    /// Answers until the client leaves or is told to.
    pub(super) async fn run(mut self) {
        let Err(problem) = self.answer_all().await else { return };
        if problem.message.contains("--write-timeout") {
            self.client.server.notices.of(About::Slow, || {
                format!("a connection of user \"{}\" ends: {}", short(&self.client.entry.user), problem.message)
            });
        }
        // What it held is others' while the client reads its last words.
        self.session = Session::default();
        let told = async {
            self.writer.put(Reply::ErrorResponse(problem.response()))?;
            self.writer.shutdown().await?;
            happens(&mut self.gone, |gone| *gone).await;
            std::io::Result::Ok(())
        };
        // Nobody is left to tell of an error in here.
        let _ = timeout(FAREWELL, told).await;
    }

    /// Ends with the fatal problem that ends the connection, or without one if the client left.
    async fn answer_all(&mut self) -> Result<(), Problem> {
        self.ready()?;
        loop {
            if self.messages.is_empty() {
                let (mut stop, writer) = (self.stop(), &mut self.writer);
                stop.of(writer.flush()).await.or_else(only_fatal)?;
            }
            let Some(incoming) = self.next().await? else { return Ok(()) };
            let message = incoming.message;
            if self.session.skipping && !matches!(message, Message::Sync(_)) {
                continue;
            }
            let extended = message.is_extended_query();
            let Err(problem) = self.answer(message).await else { continue };
            if problem.fatal {
                return Err(problem);
            }
            self.put(Reply::ErrorResponse(problem.response()))?;
            match self.session.transaction {
                Transaction::Open => self.session.transaction = Transaction::Failed,
                Transaction::Failed => {}
                Transaction::None => *self.settings.lock() = self.before.clone(),
            }
            if extended {
                self.session.skipping = true;
            } else {
                self.ready()?;
            }
        }
    }

    /// The next message. A client that says nothing for too long is told to leave, and its portals
    /// end before.
    async fn next(&mut self) -> Result<Option<Incoming>, Problem> {
        let limits = &self.client.server.limits;
        let (idle, portal) = (limits.idle_timeout.map(|limit| Instant::now() + limit), limits.portal_timeout);
        let within = self
            .settings
            .lock()
            .idle_in_transaction_timeout()
            .filter(|_| self.session.transaction != Transaction::None);
        let within = within.map(|limit| Instant::now() + limit);
        loop {
            let late = portal.and_then(|limit| Some(self.session.oldest()? + limit));
            tokio::select! {
                biased;
                () = happens(&mut self.closing, |closing| *closing != Closing::No) => return Err(shutdown(*self.closing.borrow())),
                message = self.messages.recv() => return message.transpose(),
                () = at(late) => self.session.end_late(portal),
                () = at(within) => {
                    let what = "terminating connection due to idle-in-transaction timeout";
                    return Err(Problem::fatal("25P03", what));
                }
                () = at(idle) => {
                    let what = "terminating connection: nothing was asked for too long (--idle-timeout)";
                    return Err(Problem::fatal("57P05", what));
                }
            }
        }
    }

    async fn answer(&mut self, message: Message) -> Result<(), Problem> {
        match message {
            Message::Query(query) => self.query(&query.query).await,
            Message::Parse(parse) => self.parse(parse).await,
            Message::Bind(bind) => self.bind(&bind),
            Message::Describe(describe) => self.describe(&describe),
            Message::Execute(execute) => self.execute(&execute).await,
            Message::Close(close) => self.close(&close),
            Message::Flush(_) => {
                let (mut stop, writer) = (self.stop(), &mut self.writer);
                stop.of(writer.flush()).await
            }
            Message::Sync(_) => {
                self.session.skipping = false;
                if self.session.transaction == Transaction::None {
                    self.session.portals.clear();
                }
                self.ready()
            }
            // As PostgreSQL does where no COPY is under way.
            Message::CopyData(_) | Message::CopyDone(_) | Message::CopyFail(_) => Ok(()),
            _ => Err(Problem::fatal("08P01", "a message came that has no place here")),
        }
    }

    /// The simple protocol: all statements of a text, one after the other.
    async fn query(&mut self, sql: &str) -> Result<(), Problem> {
        self.session.portals.remove("");
        self.client.entry.begin(shown(sql));
        let ran = self.run_all(sql).await;
        self.client.entry.end();
        ran?;
        self.ready()
    }

    /// Reading a long text is part of its first statement, for its timeout and for who cancels it.
    async fn run_all(&mut self, sql: &str) -> Result<(), Problem> {
        let mut stop = self.stop();
        let all = stop.of(statements::read(sql)).await?;
        if all.is_empty() {
            self.put(Reply::EmptyQueryResponse(EmptyQueryResponse::new()))?;
        }
        for (at, parsed) in all.into_iter().enumerate() {
            if at > 0 {
                stop.deadline = self.stop().deadline;
            }
            let settings = self.settings.lock().clone();
            let planned = Statement::of(&self.client.account.ctx, parsed, sql.len(), &[], &settings);
            let statement = Arc::new(stop.of(planned).await?);
            self.check_transaction(&statement)?;
            if !statement.parameters.is_empty() {
                return Err(Problem::error("42P02", "there is no parameter $1: this protocol has none"));
            }
            if let Some(fields) = self.fields(&statement, &[])? {
                self.put(Reply::RowDescription(RowDescription::new(fields)))?;
            }
            let mut portal = Portal::new(statement, Vec::new(), Vec::new(), self.client.account.keeper.nothing());
            self.advance(&mut portal, 0, &mut stop).await?;
        }
        Ok(())
    }

    async fn parse(&mut self, parse: Parse) -> Result<(), Problem> {
        let name = parse.name.unwrap_or_default();
        if !name.is_empty() && self.session.statements.contains_key(&name) {
            return Err(Problem::error("42P05", format!("prepared statement \"{name}\" is there already")));
        }
        check_room(self.session.statements.len())?;
        let mut stop = self.stop();
        let mut all = stop.of(statements::read(&parse.query)).await?;
        let mut statement = match (all.pop(), all.is_empty()) {
            (None, _) => Statement::empty(),
            (Some(parsed), true) => {
                let settings = self.settings.lock().clone();
                let (ctx, bytes, oids) = (&self.client.account.ctx, parse.query.len(), &parse.type_oids);
                stop.of(Statement::of(ctx, parsed, bytes, oids, &settings)).await?
            }
            _ => return Err(Problem::error("42601", "a prepared statement is one statement, and not several")),
        };
        statement.text = shown(&parse.query);
        self.check_transaction(&statement)?;
        let _kept = self.client.account.keeper.keep(statement.bytes(parse.query.len()), "a prepared statement")?;
        self.session.statements.insert(name, Named { statement: Arc::new(statement), _kept });
        self.put(Reply::ParseComplete(ParseComplete::new()))
    }

    fn bind(&mut self, bind: &Bind) -> Result<(), Problem> {
        let statement = Arc::clone(self.statement(bind.statement_name.as_deref())?);
        let (given, wanted) = (bind.parameters.len(), statement.parameters.len());
        if given != wanted {
            return Err(Problem::error("08P01", format!("{given} parameters came for a statement of {wanted}")));
        }
        let value = |(number, (oid, kind)): (usize, &(u32, arrow::datatypes::DataType))| {
            let format = Format::of(&bind.parameter_format_codes, number);
            let bytes = bind.parameters[number].as_deref();
            parameters::value(number + 1, *oid, kind, format, bytes)
        };
        let bytes = bind.parameters.iter().flatten().map(|bytes| bytes.len()).sum::<usize>();
        let kept = self.client.account.keeper.keep(2 * bytes, "a portal")?;
        let values = statement.parameters.iter().enumerate().map(value).collect::<Result<_, _>>()?;
        let name = bind.portal_name.clone().unwrap_or_default();
        if !name.is_empty() && self.session.portals.contains_key(&name) {
            return Err(Problem::error("42P03", format!("portal \"{name}\" is there already")));
        }
        check_room(self.session.portals.len())?;
        let formats = bind.result_column_format_codes.clone();
        self.session.portals.insert(name, Portal::new(statement, values, formats, kept));
        self.put(Reply::BindComplete(BindComplete::new()))
    }

    fn statement(&self, name: Option<&str>) -> Result<&Arc<Statement>, Problem> {
        let name = name.unwrap_or_default();
        let missing = || Problem::error("26000", format!("there is no prepared statement \"{name}\""));
        self.session.statements.get(name).map(|named| &named.statement).ok_or_else(missing)
    }

    fn describe(&mut self, describe: &Describe) -> Result<(), Problem> {
        let (statement, formats) = match describe.target_type {
            TARGET_TYPE_BYTE_STATEMENT => {
                let statement = Arc::clone(self.statement(describe.name.as_deref())?);
                let types = statement.parameters.iter().map(|(oid, _)| *oid).collect();
                self.put(Reply::ParameterDescription(ParameterDescription::new(types)))?;
                (statement, Vec::new())
            }
            TARGET_TYPE_BYTE_PORTAL => {
                let name = describe.name.as_deref().unwrap_or_default();
                let portal = self.session.portals.get(name).ok_or_else(|| no_portal(name))?;
                (Arc::clone(&portal.statement), portal.formats.clone())
            }
            other => return Err(Problem::error("08P01", format!("nothing is described as {other}"))),
        };
        match self.fields(&statement, &formats)? {
            Some(fields) => self.put(Reply::RowDescription(RowDescription::new(fields))),
            None => self.put(Reply::NoData(NoData::new())),
        }
    }

    /// What the rows of a statement look like, if it gives some.
    fn fields(&self, statement: &Statement, formats: &[i16]) -> Result<Option<Vec<FieldDescription>>, Problem> {
        match &statement.work {
            Work::Rows(rows) => Ok(Some(rows::describe(&rows.schema, &rows.names, formats))),
            Work::Fetch { name, .. } => {
                let portal = self.session.portals.get(name).ok_or_else(|| no_portal(name))?;
                self.fields(&Arc::clone(&portal.statement), formats)
            }
            Work::Execute { name, .. } => self.fields(&Arc::clone(self.statement(Some(name))?), formats),
            Work::Empty | Work::Own(_) | Work::Declare { .. } | Work::Prepare { .. } | Work::Copy { .. } => Ok(None),
        }
    }

    async fn execute(&mut self, execute: &Execute) -> Result<(), Problem> {
        let name = execute.name.as_deref().unwrap_or_default();
        let mut portal = self.session.portals.remove(name).ok_or_else(|| no_portal(name))?;
        self.check_transaction(&portal.statement)?;
        let mut stop = self.stop();
        self.client.entry.begin(Arc::clone(&portal.statement.text));
        // 0 is for all rows, and so is what is below.
        let limit = usize::try_from(execute.max_rows).unwrap_or(0);
        let ran = self.advance(&mut portal, limit, &mut stop).await;
        self.client.entry.end();
        ran?;
        portal.asked = Instant::now();
        // A COMMIT has closed all portals, this one too.
        if matches!(portal.statement.work, Work::Rows(_)) {
            self.session.portals.insert(name.to_owned(), portal);
        }
        Ok(())
    }

    fn close(&mut self, close: &Close) -> Result<(), Problem> {
        let name = close.name.as_deref().unwrap_or_default();
        match close.target_type {
            TARGET_TYPE_BYTE_STATEMENT => _ = self.session.statements.remove(name),
            TARGET_TYPE_BYTE_PORTAL => _ = self.session.portals.remove(name),
            other => return Err(Problem::error("08P01", format!("nothing is closed as {other}"))),
        }
        self.put(Reply::CloseComplete(CloseComplete::new()))
    }

    /// After an error a transaction takes nothing but its end.
    fn check_transaction(&self, statement: &Statement) -> Result<(), Problem> {
        let ends = matches!(&statement.work, Work::Own(Own::Commit { .. } | Own::Rollback { .. } | Own::RollbackTo(_)));
        match self.session.transaction {
            Transaction::Failed if !ends => Err(Problem::error(
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
            )),
            _ => Ok(()),
        }
    }

    fn stop(&self) -> Stop {
        Stop {
            cancel: self.client.entry.cancel.subscribe(),
            gone: self.gone.clone(),
            closing: self.closing.clone(),
            deadline: self.settings.lock().statement_timeout().map(|limit| Instant::now() + limit),
        }
    }

    /// Clients hear of each setting that is another by then.
    fn ready(&mut self) -> Result<(), Problem> {
        *self.client.entry.transaction.lock() = self.session.transaction;
        if self.session.transaction == Transaction::None {
            self.settings.lock().commit();
        }
        self.before = self.settings.lock().clone();
        let told = std::mem::replace(&mut self.told, self.before.reported().collect());
        for (name, value) in self.told.clone().into_iter().filter(|setting| !told.contains(setting)) {
            self.put(Reply::ParameterStatus(ParameterStatus::new(name, value)))?;
        }
        let status = match self.session.transaction {
            Transaction::None => TransactionStatus::Idle,
            Transaction::Open => TransactionStatus::Transaction,
            Transaction::Failed => TransactionStatus::Error,
        };
        self.put(Reply::ReadyForQuery(ReadyForQuery::new(status)))
    }

    pub(super) fn put(&mut self, reply: Reply) -> Result<(), Problem> {
        self.writer.put(reply).map_err(|error| Problem::error("54000", error.to_string()))
    }
}

impl Session {
    /// When the rows of the portal were asked for that has waited longest.
    fn oldest(&self) -> Option<Instant> {
        self.portals.values().filter(|portal| portal.is_open()).map(|portal| portal.asked).min()
    }

    /// Ends the portals that were left open for longer than `limit`.
    fn end_late(&mut self, limit: Option<Duration>) {
        for portal in self.portals.values_mut() {
            if portal.is_open() && limit.is_some_and(|limit| portal.asked.elapsed() >= limit) {
                portal.state = State::Late;
            }
        }
    }

    /// One more portal stays open.
    fn check_open(&self) -> Result<(), Problem> {
        match self.portals.values().filter(|portal| portal.is_open()).count() < MOST_OPEN {
            true => Ok(()),
            false => {
                let what =
                    "portals with rows left is the limit of a connection: read them to their ends, or close some";
                Err(Problem::error("53400", format!("{MOST_OPEN} {what}")))
            }
        }
    }
}

/// Ready at that time, if there is one.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// What ends a statement while its answer is sent is no longer of interest.
fn only_fatal(problem: Problem) -> Result<(), Problem> {
    if problem.fatal { Err(problem) } else { Ok(()) }
}

pub(super) fn no_portal(name: &str) -> Problem {
    Problem::error("34000", format!("there is no portal \"{name}\""))
}

pub(super) fn check_room(named: usize) -> Result<(), Problem> {
    match named < MOST_NAMED {
        true => Ok(()),
        false => Err(Problem::error("53400", format!("a connection has at most {MOST_NAMED} statements and portals"))),
    }
}
