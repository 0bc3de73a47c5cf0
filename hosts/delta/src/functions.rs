//! Upkeep of a table by SQL. DataFusion's parser has no OPTIMIZE, so that it is a function:
//! `SELECT * FROM delta_compact('DIR/t')`, or `delta_compact('DIR/t', 0.1)`.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;

use crate::table::Table;

/// Files of which more than this share is deleted are written anew where nothing else is said.
const WORN: f64 = 0.1;

/// Writes a table's files anew that have lost many rows. Its one row has the version that came of
/// it, or NULL if there was no such file. Nothing happens before the query runs.
#[derive(Debug)]
pub(crate) struct Compact;

impl TableFunctionImpl for Compact {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let (folder, share) = match args.exprs() {
            [folder] => (folder, WORN),
            [folder, share] => (folder, number(share)?),
            _ => return plan_err!("delta_compact takes the table's folder, and from which share of deleted rows on"),
        };
        let Expr::Literal(ScalarValue::Utf8(Some(folder)), _) = folder else {
            return plan_err!("delta_compact: {folder} is no folder; write it in single quotes");
        };
        let schema = Arc::new(Schema::new(vec![Field::new("version", DataType::UInt64, true)]));
        let run = Compaction { folder: PathBuf::from(folder), share, schema: Arc::clone(&schema) };
        Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(run)])?))
    }
}

fn number(expr: &Expr) -> Result<f64> {
    let share = match expr {
        Expr::Literal(ScalarValue::Float64(Some(share)), _) => *share,
        Expr::Literal(ScalarValue::Int64(Some(share)), _) => *share as f64,
        _ => -1.0,
    };
    if (0.0..=1.0).contains(&share) { Ok(share) } else { plan_err!("delta_compact: {expr} is no share from 0 to 1") }
}

#[derive(Debug)]
struct Compaction {
    folder: PathBuf,
    share: f64,
    schema: SchemaRef,
}

impl PartitionStream for Compaction {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (folder, share, schema) = (self.folder.clone(), self.share, Arc::clone(&self.schema));
        let compact = async move {
            let version = Table::open(&folder).and_then(|table| table.compact(share)).map_err(DataFusionError::from)?;
            let column: ArrayRef = Arc::new(UInt64Array::from(vec![version]));
            Ok(RecordBatch::try_new(schema, vec![column])?)
        };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::once(compact)))
    }
}
