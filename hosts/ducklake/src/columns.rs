//! Columns of a table as the catalog has them.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use datafusion::common::ScalarValue;
use pagecast_corrections::uuid;
use pagecast_tables::Column;

use crate::error::{DuckLakeError, Result};

/// A row of the catalog's table of columns.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) kind: String,
    /// The value in files that are older than the column.
    pub(crate) initial: Option<String>,
    pub(crate) nullable: bool,
    /// The column that it is a part of.
    pub(crate) parent: Option<i64>,
    /// Names of it in files without ids.
    pub(crate) names: Vec<String>,
}

/// How deep parts have parts. A hostile catalog could say that a column is a part of itself.
const DEPTH: usize = 64;

/// The column that is `row`, and how files have it. `rows` are all of the table.
pub(crate) fn column(catalog: &Path, row: &Row, rows: &[Row]) -> Result<(FieldRef, Column)> {
    part(catalog, row, rows, DEPTH)
}

fn part(catalog: &Path, row: &Row, rows: &[Row], depth: usize) -> Result<(FieldRef, Column)> {
    let broken = |what: &str| DuckLakeError::broken(catalog, format!("column {} {what}", row.name));
    let depth = depth.checked_sub(1).ok_or_else(|| broken("is a part of itself"))?;
    let inner = rows.iter().filter(|inner| inner.parent == Some(row.id));
    let (fields, parts): (Vec<FieldRef>, Vec<Column>) =
        inner.map(|inner| part(catalog, inner, rows, depth)).collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let kind = match row.kind.as_str() {
        "struct" => DataType::Struct(fields.into()),
        "list" => match &fields[..] {
            [element] => DataType::List(Arc::clone(element)),
            _ => return Err(broken("is a list of no or several types")),
        },
        "map" => match &fields[..] {
            [key, value] => {
                let key = Arc::new(key.as_ref().clone().with_nullable(false));
                let entries = DataType::Struct(Fields::from(vec![key, Arc::clone(value)]));
                DataType::Map(Arc::new(Field::new("key_value", entries, false)), false)
            }
            _ => return Err(broken("is a map without a key and a value")),
        },
        kind => primitive(kind)
            .ok_or_else(|| DuckLakeError::feature(catalog, format!("type {kind} (column {})", row.name)))?,
    };
    let initial = row.initial.as_ref().filter(|text| !text.eq_ignore_ascii_case("null"));
    let default = initial.map(|text| value(text, &kind)).transpose();
    let default = default.map_err(|_| broken("has an initial default that is none of its type"))?;
    let id = i32::try_from(row.id).map_err(|_| broken("has an id beyond those of Parquet"))?;
    let column = Column { id: Some(id), names: row.names.clone(), default, parts };
    // DuckDB says of parts that they are not NULL, and writes NULL.
    let nullable = row.nullable || row.parent.is_some();
    let field = Field::new(&row.name, kind, nullable);
    Ok((Arc::new(if row.kind == "uuid" { uuid::as_text(field) } else { field }), column))
}

/// The type in files; nothing if it is not read here.
fn primitive(kind: &str) -> Option<DataType> {
    let timestamp = |unit| DataType::Timestamp(unit, None);
    Some(match kind {
        "boolean" => DataType::Boolean,
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float32" => DataType::Float32,
        "float64" => DataType::Float64,
        "varchar" | "json" => DataType::Utf8,
        "blob" => DataType::Binary,
        "uuid" => DataType::Utf8View,
        "date" => DataType::Date32,
        "time" => DataType::Time64(TimeUnit::Microsecond),
        "timestamp" | "timestamp_us" | "timestamp_s" => timestamp(TimeUnit::Microsecond),
        "timestamp_ms" => timestamp(TimeUnit::Millisecond),
        "timestamp_ns" => timestamp(TimeUnit::Nanosecond),
        "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        _ => {
            let digits = kind.strip_prefix("decimal(")?.strip_suffix(')')?;
            let (precision, scale) = digits.split_once(',')?;
            let (precision, scale): (u8, i8) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
            let fits = (1..=38).contains(&precision) && (0..=precision as i8).contains(&scale);
            fits.then_some(DataType::Decimal128(precision, scale))?
        }
    })
}

/// The value that a text of the catalog means.
pub(crate) fn value(text: &str, kind: &DataType) -> datafusion::common::Result<ScalarValue> {
    let text = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap_or(text);
    ScalarValue::Utf8(Some(text.to_owned())).cast_to(kind)
}

/// Whether a bound in the catalog is one of all values: texts may be cut, and floats have NaN.
pub(crate) fn has_bounds(kind: &DataType) -> bool {
    kind.is_integer() || matches!(kind, DataType::Date32 | DataType::Decimal128(..) | DataType::Timestamp(..))
}
