//! Columns of files by the names that queries have for them (column mapping). The scan below has
//! the files' names, so that statistics and filters of Parquet are those of its own columns.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, StructArray};
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;

/// The first columns of the scan as these fields; those behind them stay.
pub(crate) fn renamed(scan: Arc<dyn ExecutionPlan>, fields: &[FieldRef]) -> Result<Arc<dyn ExecutionPlan>> {
    let stored = scan.schema();
    let column = |(place, field): (usize, &FieldRef)| -> (Arc<dyn PhysicalExpr>, String) {
        let column = Arc::new(Column::new(field.name(), place));
        match fields.get(place) {
            Some(to) if to.data_type() != field.data_type() => {
                (Arc::new(Renamed { column, to: Arc::clone(to) }), to.name().clone())
            }
            to => (column, to.unwrap_or(field).name().clone()),
        }
    };
    let exprs: Vec<_> = stored.fields().iter().enumerate().map(column).collect();
    Ok(Arc::new(ProjectionExec::try_new(exprs, scan)?))
}

/// A column whose parts have other names.
#[derive(Debug, Eq)]
struct Renamed {
    column: Arc<dyn PhysicalExpr>,
    to: FieldRef,
}

impl PartialEq for Renamed {
    fn eq(&self, other: &Self) -> bool {
        self.column.eq(&other.column) && self.to == other.to
    }
}

impl Hash for Renamed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.column, &self.to).hash(state);
    }
}

impl fmt::Display for Renamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.column)
    }
}

impl PhysicalExpr for Renamed {
    fn data_type(&self, _input: &Schema) -> Result<DataType> {
        Ok(self.to.data_type().clone())
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.column.nullable(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let values = self.column.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(as_type(&values, self.to.data_type())?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let column = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.column));
        Ok(Arc::new(Self { column, to: Arc::clone(&self.to) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.column.fmt_sql(f)
    }
}

/// The same values, whose parts have the names of this type.
pub(crate) fn as_type(values: &ArrayRef, kind: &DataType) -> Result<ArrayRef> {
    Ok(match kind {
        DataType::Struct(fields) => {
            let parts = values.as_struct();
            let columns = parts.columns().iter().zip(fields);
            let columns = columns.map(|(part, field)| as_type(part, field.data_type())).collect::<Result<_>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, parts.nulls().cloned())?)
        }
        DataType::List(element) => {
            let list = values.as_list::<i32>();
            let items = as_type(list.values(), element.data_type())?;
            Arc::new(ListArray::try_new(Arc::clone(element), list.offsets().clone(), items, list.nulls().cloned())?)
        }
        DataType::Map(entries, sorted) => {
            let map = values.as_map();
            let parts = as_type(&(Arc::new(map.entries().clone()) as ArrayRef), entries.data_type())?;
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            Arc::new(MapArray::try_new(Arc::clone(entries), offsets, parts.as_struct().clone(), nulls, *sorted)?)
        }
        _ => Arc::clone(values),
    })
}
