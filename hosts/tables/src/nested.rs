//! Values of columns whose parts have other names, types or places in a file than in the table.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, StructArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Fields, Schema};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use pagecast_corrections::intervals::intervals;
use pagecast_corrections::uuid;

use crate::columns::Column;

/// The values as this type. `parts` says how the parts of the values are found.
///
/// # Errors
/// A value is none of the type, or a part is missing that has no NULL.
pub fn as_type(values: &ArrayRef, kind: &DataType, parts: &[Column]) -> Result<ArrayRef> {
    if values.data_type() == kind {
        return Ok(Arc::clone(values));
    }
    let part = |at: usize| parts.get(at).map_or(&[][..], |part| &part.parts);
    match (kind, values.data_type()) {
        (DataType::Struct(fields), DataType::Struct(_)) => as_struct(values.as_struct(), fields, parts),
        (DataType::List(element), DataType::List(_)) => {
            let list = values.as_list::<i32>();
            let items = as_type(list.values(), element.data_type(), part(0))?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(Arc::clone(element), offsets, items, nulls)?))
        }
        (DataType::Map(entries, sorted), DataType::Map(..)) => {
            let map = values.as_map();
            let DataType::Struct(fields) = entries.data_type() else { return exec_err!("a map without entries") };
            let pairs = [map.keys(), map.values()].into_iter().zip(fields).enumerate();
            let pairs = pairs.map(|(at, (values, field))| as_type(values, field.data_type(), part(at)));
            let pairs = StructArray::try_new(fields.clone(), pairs.collect::<Result<_>>()?, None)?;
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, *sorted)?))
        }
        (DataType::Utf8View, DataType::FixedSizeBinary(_)) if let Some(texts) = uuid::texts(values) => Ok(texts),
        (DataType::Interval(_), DataType::FixedSizeBinary(_)) if let Some(of) = intervals(values) => Ok(of),
        // A value that does not fit is an error, and no NULL.
        _ => Ok(cast_with_options(values, kind, &CastOptions { safe: false, ..CastOptions::default() })?),
    }
}

fn as_struct(values: &StructArray, fields: &Fields, parts: &[Column]) -> Result<ArrayRef> {
    let of_field = |(at, field): (usize, &FieldRef)| {
        let part = parts.get(at);
        match part.and_then(|part| part.place(values.fields())) {
            Some(place) => as_type(values.column(place), field.data_type(), part.map_or(&[], |part| &part.parts)),
            None => match part.and_then(|part| part.default.as_ref()) {
                Some(value) => value.cast_to(field.data_type())?.to_array_of_size(values.len()),
                None => Ok(new_null_array(field.data_type(), values.len())),
            },
        }
    };
    let columns = fields.iter().enumerate().map(of_field).collect::<Result<_>>()?;
    let (rows, nulls) = (values.len(), values.nulls().cloned());
    Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, rows)?))
}

/// A nested column or one of UUIDs of a file as the table has it.
#[derive(Debug, Eq)]
pub(crate) struct AsInTable {
    pub(crate) column: Arc<dyn PhysicalExpr>,
    pub(crate) to: FieldRef,
    /// How files have the columns, and which of them this is.
    pub(crate) found_as: (Arc<[Column]>, usize),
}

impl PartialEq for AsInTable {
    fn eq(&self, other: &Self) -> bool {
        self.column.eq(&other.column) && self.to == other.to && self.found_as == other.found_as
    }
}

impl Hash for AsInTable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.column, &self.to, self.found_as.1).hash(state);
    }
}

impl fmt::Display for AsInTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.column)
    }
}

impl PhysicalExpr for AsInTable {
    fn data_type(&self, _input: &Schema) -> Result<DataType> {
        Ok(self.to.data_type().clone())
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.column.nullable(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let values = self.column.evaluate(batch)?.into_array(batch.num_rows())?;
        let (columns, at) = &self.found_as;
        Ok(ColumnarValue::Array(as_type(&values, self.to.data_type(), &columns[*at].parts)?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let column = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.column));
        Ok(Arc::new(Self { column, to: Arc::clone(&self.to), found_as: self.found_as.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.column.fmt_sql(f)
    }
}
