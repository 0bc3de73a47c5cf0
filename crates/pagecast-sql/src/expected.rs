//! Queries that come back, by SQL: `SELECT * FROM pagecast_expected()` lists what is known of them,
//! and `SELECT pagecast_forget('...')` has one forgotten. `SET pagecast.again_in` says when those
//! of a session come again.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Float32Array, Int64Array, StringArray, TimestampSecondArray, UInt32Array,
};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use pagecast::Pool;
use pagecast::forecast::Template;
use pagecast_datafusion::{Host, RecurringOptions};

const LISTS: &str = "pagecast_expected";
const FORGETS: &str = "pagecast_forget";

/// Adds both functions to a session.
pub(crate) fn install(ctx: &SessionContext, host: &Arc<Host>) {
    ctx.register_udtf(LISTS, Arc::new(Lists(Arc::clone(host))));
    let host = Arc::clone(host);
    let forget = move |arguments: &[ColumnarValue]| {
        let names = ColumnarValue::values_to_arrays(arguments)?;
        let names = names[0].as_string::<i32>();
        let forgotten = |name: Option<&str>| Some(host.pool().forget(u64::from_str_radix(name?, 16).ok()?));
        // What is no fingerprint is not known.
        let known: BooleanArray = names.iter().map(|name| name.map(|_| forgotten(name).unwrap_or(false))).collect();
        Ok(ColumnarValue::Array(Arc::new(known)))
    };
    let (text, known) = (vec![DataType::Utf8], DataType::Boolean);
    ctx.register_udf(create_udf(FORGETS, text, known, Volatility::Volatile, Arc::new(forget)));
}

/// Has a session's queries expected again after so many seconds, 0 being when it is learned: what
/// `SET pagecast.again_in` does, for hosts that have settings of their own.
pub fn set_again_in(ctx: &SessionContext, seconds: u32) {
    let state = ctx.state_ref();
    let is_so = |options: &RecurringOptions| options.again_in == seconds;
    if state.read().config().options().extensions.get().is_none_or(is_so) {
        return;
    }
    if let Some(options) = state.write().config_mut().options_mut().extensions.get_mut::<RecurringOptions>() {
        options.again_in = seconds;
    }
}

struct Lists(Arc<Host>);

impl std::fmt::Debug for Lists {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(LISTS)
    }
}

impl TableFunctionImpl for Lists {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        if !args.exprs().is_empty() {
            return plan_err!("{LISTS} takes no arguments");
        }
        let time = DataType::Timestamp(TimeUnit::Second, Some("UTC".into()));
        let fields = vec![
            Field::new("query", DataType::Utf8, false),
            Field::new("reads", DataType::Utf8, true),
            Field::new("starts", DataType::UInt32, false),
            Field::new("expected_at", time, true),
            Field::new("trust", DataType::Float32, false),
            Field::new("came", DataType::UInt32, false),
            Field::new("failed", DataType::UInt32, false),
            Field::new("gap_seconds", DataType::Int64, true),
            Field::new("in_memory", DataType::Float32, true),
        ];
        let host = Arc::clone(&self.0);
        pagecast_delta::when_run(Schema::new(fields), move || Ok(known(&host)))
    }
}

/// The share of what the next run of a query will read that is in memory, from 0 to 1; `None` where
/// it is not expected.
pub fn in_memory(pool: &Pool, known: &Template) -> Option<f32> {
    let (resident, pages) = pool.in_memory(known.scan()?);
    (pages > 0).then(|| resident as f32 / pages as f32)
}

/// What is known, in the order in which it is due.
fn known(host: &Host) -> Vec<ArrayRef> {
    let mut known = host.pool().templates();
    let due = |template: &Template| template.due().unwrap_or(f64::INFINITY);
    known.sort_by(|a, b| due(a).total_cmp(&due(b)));
    let names = known.iter().map(|known| format!("{:016x}", known.query().fingerprint));
    let reads = known.iter().map(|known| host.reads_of(known.query().fingerprint));
    let gap = |known: &Template| Some(known.rhythm().longest_gap() as i64).filter(|_| known.due().is_some());
    vec![
        Arc::new(StringArray::from_iter_values(names)),
        Arc::new(StringArray::from_iter(reads)),
        Arc::new(UInt32Array::from_iter_values(known.iter().map(Template::starts_seen))),
        Arc::new(
            TimestampSecondArray::from_iter(known.iter().map(|known| known.due().map(|due| due as i64)))
                .with_timezone("UTC"),
        ),
        Arc::new(Float32Array::from_iter_values(known.iter().map(Template::trust))),
        Arc::new(UInt32Array::from_iter_values(known.iter().map(|known| known.outcomes().0))),
        Arc::new(UInt32Array::from_iter_values(known.iter().map(|known| known.outcomes().1))),
        Arc::new(Int64Array::from_iter(known.iter().map(gap))),
        Arc::new(Float32Array::from_iter(known.iter().map(|known| in_memory(host.pool(), known)))),
    ]
}
