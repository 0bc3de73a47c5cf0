//! Upkeep of a table by SQL. DataFusion's parser has no OPTIMIZE and no VACUUM, so that they are
//! functions: `SELECT * FROM delta_compact('DIR/t')`, `SELECT * FROM delta_vacuum('DIR/t')`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;

use crate::options::Options;
use crate::sink::blocking;
use crate::table::Table;
use crate::vacuum::{Vacuum, Vacuumed};

/// Files of which more than this share is deleted are written anew where nothing else is said.
const WORN: f64 = 0.1;

/// Writes a table's files anew that have lost many rows. Its one row has the version that came of
/// it, or NULL if there was no such file. Nothing happens before the query runs.
#[derive(Debug)]
pub(crate) struct CompactFunction {
    pub(crate) options: Options,
}

impl TableFunctionImpl for CompactFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let (folder, share) = match args.exprs() {
            [folder] => (folder, WORN),
            [folder, share] => (folder, share_of(share)?),
            _ => return plan_err!("delta_compact takes the table's folder, and from which share of deleted rows on"),
        };
        let folder = folder_of("delta_compact", folder)?;
        let schema = Schema::new(vec![Field::new("version", DataType::UInt64, true)]);
        let options = self.options.clone();
        when_run(schema, move || {
            let version = Table::open_with(&folder, options.clone())?.compact(share)?;
            Ok(vec![Arc::new(UInt64Array::from(vec![version]))])
        })
    }
}

/// Deletes the files that no version within a retention needs. Its rows are these files. Nothing
/// happens before the query runs.
#[derive(Debug)]
pub(crate) struct VacuumFunction {
    pub(crate) options: Options,
}

impl TableFunctionImpl for VacuumFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let mut how = Vacuum::default();
        let (folder, more) = match args.exprs() {
            [folder] => (folder, &[][..]),
            [folder, hours] => (folder, std::slice::from_ref(hours)),
            [folder, _, _] => (folder, &args.exprs()[1..]),
            _ => return plan_err!("delta_vacuum takes the table's folder, hours, and 'dry run' or 'force'"),
        };
        if let Some(hours) = more.first() {
            how.retention = retention(hours)?;
        }
        match more.get(1).map(|how| (how, text_of(how))) {
            None => {}
            Some((_, Some("dry run"))) => how.dry_run = true,
            Some((_, Some("force"))) => how.force = true,
            Some((other, _)) => return plan_err!("delta_vacuum: {other} is neither 'dry run' nor 'force'"),
        }
        let folder = folder_of("delta_vacuum", folder)?;
        let fields = [("file", DataType::Utf8), ("bytes", DataType::UInt64)];
        let schema = Schema::new(fields.map(|(name, kind)| Field::new(name, kind, false)).to_vec());
        let options = self.options.clone();
        when_run(schema, move || {
            let gone = Table::open_with(&folder, options.clone())?.vacuum(how)?;
            let name = |file: &Vacuumed| file.path.strip_prefix(&folder).unwrap_or(&file.path).display().to_string();
            let names = StringArray::from_iter_values(gone.iter().map(name));
            let bytes = UInt64Array::from_iter_values(gone.iter().map(|file| file.bytes));
            Ok(vec![Arc::new(names), Arc::new(bytes)])
        })
    }
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text),
        _ => None,
    }
}

fn folder_of(function: &str, expr: &Expr) -> Result<PathBuf> {
    match text_of(expr) {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => plan_err!("{function}: {expr} is no folder; write it in single quotes"),
    }
}

fn number(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(number)), _) => Some(*number),
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => Some(*number as f64),
        _ => None,
    }
}

fn share_of(expr: &Expr) -> Result<f64> {
    match number(expr).filter(|share| (0.0..=1.0).contains(share)) {
        Some(share) => Ok(share),
        None => plan_err!("delta_compact: {expr} is no share from 0 to 1"),
    }
}

/// A number of hours; NULL is the table's own.
fn retention(expr: &Expr) -> Result<Option<Duration>> {
    if matches!(expr, Expr::Literal(value, _) if value.is_null()) {
        return Ok(None);
    }
    match number(expr).and_then(|hours| Duration::try_from_secs_f64(hours * 3600.0).ok()) {
        Some(retention) => Ok(Some(retention)),
        None => plan_err!("delta_vacuum: {expr} is no number of hours"),
    }
}

/// A table whose one batch has the columns that `work` gives when a query of it runs.
///
/// # Errors
/// None as it stands: DataFusion takes any columns here.
pub fn when_run(
    schema: Schema,
    work: impl Fn() -> Result<Vec<ArrayRef>> + Send + Sync + 'static,
) -> Result<Arc<dyn TableProvider>> {
    let schema = Arc::new(schema);
    let upkeep = Upkeep { schema: Arc::clone(&schema), work: Arc::new(work) };
    Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(upkeep)])?))
}

struct Upkeep {
    schema: SchemaRef,
    work: Arc<dyn Fn() -> Result<Vec<ArrayRef>> + Send + Sync>,
}

impl fmt::Debug for Upkeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upkeep").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl PartitionStream for Upkeep {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (schema, work) = (Arc::clone(&self.schema), Arc::clone(&self.work));
        let batch = blocking(move || Ok(RecordBatch::try_new(schema, work()?)?));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::once(batch)))
    }
}
