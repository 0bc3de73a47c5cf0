//! What depends on who asks, and when: who is connected and what they do, settings, roles, and the
//! functions beside them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::datasource::{MemTable, TableType};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use pagecast::Pool;

use super::cells::{self, Row, Value, row};
use super::columns::LIVE;
use super::functions;
use super::{DATABASE, DATABASE_OID, OWNER_OID, USER_OID};
use crate::entries::{Entries, Entry, Transaction};
use crate::problem::Refused;
use crate::settings;

/// Who asks.
#[derive(Clone)]
pub(crate) struct Asker {
    /// The number of the connection, or 0 where it has none.
    pub(crate) pid: i32,
    pub(crate) user: String,
    /// Whether the user sees and ends what others run.
    pub(crate) administrator: bool,
    pub(crate) entries: Arc<Entries>,
    pub(crate) entry: Option<Arc<Entry>>,
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

    /// What a setting is for whoever asks.
    fn setting(&self, name: &str) -> Option<String> {
        let set = self.entry.as_ref().and_then(|entry| entry.at_rest().settings);
        set.and_then(|set| set.get(name)).map(|(_, value)| value).or_else(|| settings::at_first(name))
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
        ("pg_backend_pid", Asks::Number),
        ("pg_cancel_backend", Asks::Cancel),
        ("pg_terminate_backend", Asks::Terminate),
    ] {
        let volatility = match asks {
            Asks::Setting | Asks::Number => Volatility::Stable,
            Asks::Cancel | Asks::Terminate => Volatility::Volatile,
        };
        let signature = Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], volatility);
        let function = Function { name, asks, asker: Arc::clone(&asker), signature };
        ctx.register_udf(ScalarUDF::new_from_impl(function));
    }
    ctx
}

/// What is asked of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Asks {
    Setting,
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
            Asks::Setting => DataType::Utf8,
            Asks::Number => DataType::Int32,
            Asks::Cancel | Asks::Terminate => DataType::Boolean,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.asks == Asks::Number {
            return Ok(ColumnarValue::Scalar(ScalarValue::Int32(Some(self.asker.pid))));
        }
        let (rows, name) = (args.number_rows, self.name);
        let first = args.args.into_iter().next();
        let first = first.ok_or_else(|| DataFusionError::Plan(format!("{name} takes an argument")))?;
        let answered: ArrayRef = match self.asks {
            Asks::Setting => {
                let names = cast(&first.into_array(rows)?, &DataType::Utf8)?;
                let values = names.as_string::<i32>().iter().map(|name| self.asker.setting(name?));
                Arc::new(StringArray::from_iter(values))
            }
            _ => {
                let pids = cast(&first.into_array(rows)?, &DataType::Int32)?;
                let pids = pids.as_primitive::<Int32Type>().iter();
                let end = |pid: Option<i32>| pid.map(|pid| self.asker.end(pid, self.asks == Asks::Terminate));
                let ended = pids.map(|pid| end(pid).transpose()).collect::<Result<Vec<_>>>()?;
                Arc::new(BooleanArray::from(ended))
            }
        };
        match answered.len() {
            1 => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&answered, 0)?)),
            _ => Ok(ColumnarValue::Array(answered)),
        }
    }
}

/// A table whose rows are made when a statement asks for them.
#[derive(Debug)]
struct Live {
    name: &'static str,
    columns: &'static str,
    pool: Pool,
}

/// All tables of that kind.
pub(super) fn all(pool: &Pool) -> impl Iterator<Item = (&'static str, Arc<dyn TableProvider>)> {
    LIVE.iter().map(|&(name, columns)| -> (_, Arc<dyn TableProvider>) {
        (name, Arc::new(Live { name, columns, pool: pool.clone() }))
    })
}

#[async_trait]
impl TableProvider for Live {
    fn schema(&self) -> SchemaRef {
        cells::schema(self.columns)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let asker = session.config().get_extension::<Asker>();
        let rows = asker.map_or_else(Vec::new, |asker| self.rows(&asker));
        let batch = cells::batch(self.columns, &rows).map_err(|error| DataFusionError::Internal(error.to_string()))?;
        MemTable::try_new(self.schema(), vec![vec![batch]])?.scan(session, projection, filters, limit).await
    }
}

impl Live {
    fn rows(&self, asker: &Asker) -> Vec<Row> {
        match self.name {
            "pg_roles" => roles(asker).map(|(oid, name)| role(oid, name)).collect(),
            "pg_settings" => all_settings(asker),
            "pg_stat_activity" => asker.entries.all().iter().map(|(pid, entry)| activity(asker, *pid, entry)).collect(),
            "pg_stat_database" => {
                let (stats, connected) = (self.pool.stats(), asker.entries.all().len() as i64);
                vec![row! {
                    datid: DATABASE_OID, datname: DATABASE, numbackends: connected,
                    blks_read: stats.requests.saturating_sub(stats.hits) as i64, blks_hit: stats.hits as i64,
                }]
            }
            "pg_user" => roles(asker).map(|(oid, name)| row! { usename: name, usesysid: oid }).collect(),
            _ => Vec::new(),
        }
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
    let Some(set) = asker.entry.as_ref().and_then(|entry| entry.at_rest().settings) else { return Vec::new() };
    let setting = |(name, value, first, can_change): (&'static str, &str, &'static str, bool)| {
        row! {
            name: name, setting: value, category: "Client Connection Defaults", short_desc: "",
            context: if can_change { "user" } else { "internal" }, vartype: "string",
            source: if value == first { "default" } else { "session" }, boot_val: first, reset_val: first,
        }
    };
    set.all().map(setting).collect()
}

/// A connection. What it asks is for its user and for admins.
fn activity(asker: &Asker, pid: i32, entry: &Entry) -> Row {
    let (rest, doing) = (entry.at_rest(), entry.doing());
    let application = rest.settings.as_ref().and_then(|set| set.get("application_name")).map(|(_, name)| name);
    let is_active = doing.as_ref().is_some_and(|doing| doing.done.is_none());
    let state = match rest.transaction {
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
