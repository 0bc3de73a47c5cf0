//! What depends on who asks, and when: who is connected and what they do, settings, roles, and the
//! functions beside them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray, new_empty_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::prelude::SessionContext;
use pagecast::Pool;
use pagecast_sql::Classed;
use pagecast_sql::values::by_arrays;

use super::cells::{self, Row, Value, row};
use super::columns::LIVE;
use super::functions;
use super::made::Made;
use super::{DATABASE, DATABASE_OID, OWNER_OID, USER_OID};
use crate::entries::{Entries, Entry, Transaction};
use crate::problem::{Problem, Refused};
use crate::settings::Shared;

/// Who asks.
#[derive(Clone)]
pub(crate) struct Asker {
    /// The number of the connection, or 0 where it has none.
    pub(crate) pid: i32,
    pub(crate) user: String,
    /// Whether the user sees and ends what others run.
    pub(crate) administrator: bool,
    pub(crate) entries: Arc<Entries>,
    pub(crate) settings: Shared,
}

impl std::fmt::Debug for Asker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asker").field("pid", &self.pid).field("user", &self.user).finish_non_exhaustive()
    }
}

impl Asker {
    fn may_see(&self, entry: &Entry) -> bool {
        self.administrator || entry.user == self.user
    }

    /// Ends the statement of a connection, or the connection. Says whether there is one.
    fn end(&self, pid: i32, whole: bool) -> Result<bool> {
        let Some(entry) = self.entries.get(pid) else { return Ok(false) };
        if !self.may_see(&entry) {
            let what = "connections of others are ended by who is marked admin in the file of users";
            return Err(DataFusionError::External(Box::new(Refused(what.to_owned()))));
        }
        match whole {
            true => _ = entry.ended.send_replace(true),
            false => entry.cancel.send_modify(|count| *count += 1),
        }
        Ok(true)
    }
}

/// The same session for one who asks.
pub(crate) fn of_session(ctx: &SessionContext, asker: Asker) -> SessionContext {
    let mut state = SessionStateBuilder::new_from_existing(ctx.state());
    let config = state.config().take().unwrap_or_default();
    let asker = Arc::new(asker);
    *state.config() = Some(config.with_extension(Arc::clone(&asker)));
    let ctx = SessionContext::new_with_state(state.build());
    functions::of_user(&ctx, &asker.user);
    for (name, asks) in [
        ("current_setting", Asks::Setting),
        ("set_config", Asks::Set),
        ("in_search_path", Asks::Searched),
        ("pg_backend_pid", Asks::Number),
        ("pg_cancel_backend", Asks::Cancel),
        ("pg_terminate_backend", Asks::Terminate),
    ] {
        // A setting may be another one as soon as `set_config` was called beside it.
        let volatility = if asks == Asks::Number { Volatility::Stable } else { Volatility::Volatile };
        let signature = Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], volatility);
        let function = Function { name, asks, asker: Arc::clone(&asker), signature };
        ctx.register_udf(ScalarUDF::new_from_impl(function));
    }
    ctx
}

/// Before a statement runs: what the session has set of the options that it runs with.
pub(crate) fn apply_settings(ctx: &SessionContext) {
    let asker = ctx.state_ref().read().config().get_extension::<Asker>();
    if let Some(asker) = asker {
        pagecast_sql::set_again_in(ctx, asker.settings.lock().again_in());
    }
}

/// What is asked of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Asks {
    /// What a setting is.
    Setting,
    /// Sets it.
    Set,
    /// Whether tables of a schema are found without its name.
    Searched,
    Number,
    Cancel,
    Terminate,
}

/// A function of the connection that calls it.
#[derive(Debug)]
struct Function {
    name: &'static str,
    asks: Asks,
    asker: Arc<Asker>,
    signature: Signature,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.asks == other.asks && Arc::ptr_eq(&self.asker, &other.asker)
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.asks, self.asker.pid).hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.asks {
            Asks::Setting | Asks::Set => DataType::Utf8,
            Asks::Number => DataType::Int32,
            Asks::Searched | Asks::Cancel | Asks::Terminate => DataType::Boolean,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.asks == Asks::Number {
            return Ok(ColumnarValue::Scalar(ScalarValue::Int32(Some(self.asker.pid))));
        }
        // What has no rows changes nothing.
        if args.number_rows == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(args.return_type())));
        }
        by_arrays(&args, |arguments| self.answered(arguments))
    }
}

impl Function {
    fn answered(&self, arguments: &[ArrayRef]) -> Result<ArrayRef> {
        let missing = || error("42883", format!("{} takes more arguments", self.name));
        let column = |at: usize, kind: &DataType| -> Result<ArrayRef> {
            Ok(cast(arguments.get(at).ok_or_else(missing)?, kind)?)
        };
        if matches!(self.asks, Asks::Cancel | Asks::Terminate) {
            let pids = column(0, &DataType::Int32)?;
            let end = |pid: i32| self.asker.end(pid, self.asks == Asks::Terminate);
            let ended = pids.as_primitive::<Int32Type>().iter().map(|pid| pid.map(end).transpose());
            return Ok(Arc::new(ended.collect::<Result<BooleanArray>>()?));
        }
        let names = column(0, &DataType::Utf8)?;
        let names = names.as_string::<i32>();
        let flags = |at: usize| match column(at, &DataType::Boolean) {
            Ok(flags) => flags.as_boolean().iter().map(|flag| flag == Some(true)).collect(),
            Err(_) => vec![false; names.len()],
        };
        Ok(match self.asks {
            Asks::Searched => {
                let settings = self.asker.settings.lock();
                let searched = names.iter().map(|name| Some(settings.searches(name?, &self.asker.user)));
                Arc::new(searched.collect::<BooleanArray>())
            }
            Asks::Setting => {
                let settings = self.asker.settings.lock();
                let value = |(name, missing_ok): (Option<&str>, bool)| match name.map(|name| settings.named(name)) {
                    Some(Err(_)) if missing_ok => Ok(None),
                    value => value.transpose().map_err(external),
                };
                Arc::new(names.iter().zip(flags(1)).map(value).collect::<Result<StringArray>>()?)
            }
            _ => {
                let (values, mut settings) = (column(1, &DataType::Utf8)?, self.asker.settings.lock());
                let set = |((name, value), local): ((Option<&str>, Option<&str>), bool)| {
                    let name = name.ok_or_else(|| error("22004", "SET requires parameter name"))?;
                    settings.configure(name, value, local).map(Some).map_err(external)
                };
                let values = names.iter().zip(values.as_string::<i32>()).zip(flags(2)).map(set);
                Arc::new(values.collect::<Result<StringArray>>()?)
            }
        })
    }
}

fn error(code: &'static str, message: impl Into<String>) -> DataFusionError {
    Classed::new(code, message).into()
}

fn external(problem: Problem) -> DataFusionError {
    Classed::new(problem.code, problem.message).into()
}

/// All tables of that kind.
pub(super) fn all(pool: &Pool) -> impl Iterator<Item = (&'static str, Arc<dyn TableProvider>)> {
    LIVE.iter().map(|&(name, columns)| {
        let pool = pool.clone();
        let made = move |session: &dyn Session| {
            let asker = session.config().get_extension::<Asker>();
            let rows = asker.map_or_else(Vec::new, |asker| rows(name, &pool, &asker));
            cells::batch(columns, &rows).map_err(|error| DataFusionError::Internal(error.to_string()))
        };
        (name, Made::of(cells::schema(columns), Box::new(made)))
    })
}

fn rows(name: &str, pool: &Pool, asker: &Asker) -> Vec<Row> {
    match name {
        "pg_roles" => roles(asker).map(|(oid, name)| role(oid, name)).collect(),
        "pg_settings" => all_settings(asker),
        "pg_stat_activity" => asker.entries.all().iter().map(|(pid, entry)| activity(asker, *pid, entry)).collect(),
        "pg_stat_database" => {
            let (stats, connected) = (pool.stats(), asker.entries.all().len() as i64);
            vec![row! {
                datid: DATABASE_OID, datname: DATABASE, numbackends: connected,
                blks_read: stats.requests.saturating_sub(stats.hits) as i64, blks_hit: stats.hits as i64,
            }]
        }
        "pg_user" => roles(asker).map(|(oid, name)| row! { usename: name, usesysid: oid }).collect(),
        _ => Vec::new(),
    }
}

/// Whom everything belongs to, and who asks: nobody learns here who the others are.
fn roles(asker: &Asker) -> impl Iterator<Item = (i64, &str)> {
    let other = Some((USER_OID, asker.user.as_str())).filter(|(_, user)| *user != DATABASE);
    std::iter::once((OWNER_OID, DATABASE)).chain(other)
}

fn role(oid: i64, name: &str) -> Row {
    row! { oid: oid, rolname: name, rolinherit: true, rolcanlogin: oid != OWNER_OID, rolconnlimit: -1 }
}

fn all_settings(asker: &Asker) -> Vec<Row> {
    let setting = |(name, value, first, can_change): (&'static str, &str, &'static str, bool)| {
        row! {
            name: name, setting: value, category: "Client Connection Defaults", short_desc: "",
            context: if can_change { "user" } else { "internal" }, vartype: "string",
            source: if value == first { "default" } else { "session" }, boot_val: first, reset_val: first,
        }
    };
    asker.settings.lock().all().map(setting).collect()
}

/// A connection. What it asks is for its user and for admins.
fn activity(asker: &Asker, pid: i32, entry: &Entry) -> Row {
    let doing = entry.doing();
    let application = entry.settings.lock().get("application_name").map(|(_, name)| name);
    let is_active = doing.as_ref().is_some_and(|doing| doing.done.is_none());
    let state = match *entry.transaction.lock() {
        _ if is_active => "active",
        Transaction::None => "idle",
        Transaction::Open => "idle in transaction",
        Transaction::Failed => "idle in transaction (aborted)",
    };
    let mut row = row! {
        datid: DATABASE_OID, datname: DATABASE, pid: i64::from(pid), usename: entry.user.as_str(),
        usesysid: if entry.user == asker.user && entry.user != DATABASE { USER_OID } else { OWNER_OID },
        application_name: application.unwrap_or_default().as_str(), backend_start: entry.since, state: state,
        backend_type: "client backend", query: "<insufficient privilege>",
    };
    if let Some(doing) = &doing {
        row.insert("query_start", Value::from(doing.began));
        row.insert("state_change", Value::from(doing.done.unwrap_or(doing.began)));
        if is_active {
            row.insert("xact_start", Value::from(doing.began));
        }
    }
    if asker.may_see(entry) {
        row.insert("query", Value::from(doing.as_ref().map_or("", |doing| &*doing.sql)));
        if let Some(address) = entry.address {
            row.insert("client_addr", Value::from(address.ip().to_string().as_str()));
            row.insert("client_port", Value::from(i64::from(address.port())));
        }
    }
    row
}
