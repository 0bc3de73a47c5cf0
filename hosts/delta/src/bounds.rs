//! The statistics that the log has of a new file: its rows, and the bounds of its columns.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Schema};
use arrow::util::display::array_value_to_string;
use datafusion::common::{DataFusionError, ScalarValue};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::ParquetMetaData;
use serde_json::{Map, Value, json};

use crate::error::Result;

/// Columns beyond these have no bounds, as other writers have it, too.
const COLUMNS: usize = 32;

pub(crate) fn of_footer(footer: &ParquetMetaData, schema: &Schema) -> Result<Value> {
    let (mut min, mut max, mut nulls) = (Map::new(), Map::new(), Map::new());
    let parquet = footer.file_metadata().schema_descr();
    for field in schema.fields().iter().take(COLUMNS).filter(|field| !field.data_type().is_nested()) {
        let column = StatisticsConverter::try_new(field.name(), schema, parquet).map_err(DataFusionError::from)?;
        let counts = column.row_group_null_counts(footer.row_groups()).map_err(DataFusionError::from)?;
        if counts.null_count() == 0 {
            nulls.insert(field.name().clone(), counts.iter().flatten().sum::<u64>().into());
        }
        if !is_ordered(field.data_type()) {
            continue;
        }
        let lows = column.row_group_mins(footer.row_groups()).map_err(DataFusionError::from)?;
        let highs = column.row_group_maxes(footer.row_groups()).map_err(DataFusionError::from)?;
        // A row group without values has no bounds, and any other must have them.
        let empty = |i: usize| {
            let rows = footer.row_group(i).num_rows() as u64;
            counts.is_valid(i) && counts.value(i) == rows
        };
        let known = (0..footer.num_row_groups()).all(|i| empty(i) || (lows.is_valid(i) && highs.is_valid(i)));
        if let (true, Some(low), Some(high)) = (known, extreme(&lows, false)?, extreme(&highs, true)?) {
            min.insert(field.name().clone(), low);
            max.insert(field.name().clone(), high);
        }
    }
    let rows = footer.file_metadata().num_rows();
    Ok(json!({"numRecords": rows, "minValues": min, "maxValues": max, "nullCount": nulls, "tightBounds": true}))
}

/// Whether bounds of such values say where others are. Those of floats do not: a file may have
/// values that are no numbers, which Parquet leaves out. JSON would round long decimals.
fn is_ordered(kind: &DataType) -> bool {
    kind.is_integer()
        || matches!(kind, DataType::Utf8 | DataType::Date32 | DataType::Timestamp(..))
        || matches!(kind, DataType::Decimal128(precision, _) if *precision <= 15)
}

/// The least or greatest of the values, as the log has it.
fn extreme(values: &ArrayRef, greatest: bool) -> Result<Option<Value>> {
    let mut best: Option<(ScalarValue, usize)> = None;
    for i in (0..values.len()).filter(|&i| values.is_valid(i)) {
        let value = ScalarValue::try_from_array(values, i)?;
        let better = best.as_ref().is_none_or(|(best, _)| if greatest { value > *best } else { value < *best });
        if better {
            best = Some((value, i));
        }
    }
    let Some((_, i)) = best else { return Ok(None) };
    let text = array_value_to_string(values, i).map_err(DataFusionError::from)?;
    Ok(if values.data_type().is_integer() || matches!(values.data_type(), DataType::Decimal128(..)) {
        serde_json::from_str(&text).ok()
    } else {
        Some(text.into())
    })
}
