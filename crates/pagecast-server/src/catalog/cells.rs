//! Rows of the catalog, and tables in memory made of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use arrow::array::{
    ArrayRef, BooleanArray, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;

/// A value of a catalog.
#[derive(Clone)]
pub(super) enum Value {
    Number(i64),
    Flag(bool),
    Text(String),
    Time(SystemTime),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<SystemTime> for Value {
    fn from(time: SystemTime) -> Self {
        Self::Time(time)
    }
}

/// The columns of a row that are not 0, false or null.
pub(super) type Row = BTreeMap<&'static str, Value>;

macro_rules! row {
    ($($column:ident: $value:expr),* $(,)?) => {
        $crate::catalog::cells::Row::from([
            $((stringify!($column), $crate::catalog::cells::Value::from($value))),*
        ])
    };
}
pub(super) use row;

/// The type that a letter after a column's name stands for.
fn kind(letter: &str) -> DataType {
    match letter {
        "b" => DataType::Boolean,
        "i" | "n" => DataType::Int32,
        "s" => DataType::Int16,
        "o" => DataType::Int64,
        "T" => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        _ => DataType::Utf8,
    }
}

fn parts(columns: &str) -> impl Iterator<Item = (&str, &str)> {
    columns.split_whitespace().map(|column| column.split_once(':').unwrap_or((column, "t")))
}

/// The schema of columns such as `oid:o`.
pub(super) fn schema(columns: &str) -> SchemaRef {
    let field = |(name, letter)| Field::new(name, kind(letter), matches!(letter, "t" | "n" | "T"));
    Arc::new(Schema::new(parts(columns).map(field).collect::<Vec<_>>()))
}

/// Rows as Arrow has them.
pub(super) fn batch(columns: &str, rows: &[Row]) -> anyhow::Result<RecordBatch> {
    let array = |(name, letter)| array(letter, rows.iter().map(move |row| row.get(name)));
    let arrays = parts(columns).map(array).collect();
    RecordBatch::try_new(schema(columns), arrays).context("rows do not fit their columns")
}

/// A table in memory.
pub(super) fn table(columns: &str, rows: &[Row]) -> anyhow::Result<Arc<dyn TableProvider>> {
    let batch = batch(columns, rows)?;
    Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
}

fn array<'a>(letter: &str, values: impl Iterator<Item = Option<&'a Value>>) -> ArrayRef {
    let number = |value: Option<&Value>| if let Some(Value::Number(number)) = value { *number } else { 0 };
    match letter {
        "b" => Arc::new(BooleanArray::from_iter(values.map(|value| Some(matches!(value, Some(Value::Flag(true))))))),
        "i" => Arc::new(Int32Array::from_iter_values(values.map(|value| number(value) as i32))),
        "n" => Arc::new(Int32Array::from_iter(values.map(|value| value.map(|value| number(Some(value)) as i32)))),
        "s" => Arc::new(Int16Array::from_iter_values(values.map(|value| number(value) as i16))),
        "o" => Arc::new(Int64Array::from_iter_values(values.map(number))),
        "T" => {
            let micros = |value: Option<&Value>| match value {
                Some(Value::Time(time)) => Some(time.duration_since(UNIX_EPOCH).ok()?.as_micros() as i64),
                _ => None,
            };
            Arc::new(TimestampMicrosecondArray::from_iter(values.map(micros)).with_timezone("+00:00"))
        }
        _ => Arc::new(StringArray::from_iter(values.map(|value| match value {
            Some(Value::Text(text)) => Some(text.as_str()),
            _ => None,
        }))),
    }
}
