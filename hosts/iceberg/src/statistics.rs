//! What manifests know of a file's columns.

use std::collections::HashMap;

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};
use iceberg::spec::{DataFile, Datum, NestedField, PrimitiveType, Type};

use crate::columns::{arrow_type, scalar};

/// Statistics of a file of which so many rows are left, for these columns. Bounds hold for all
/// stored rows. They are exact to DataFusion, which prunes by no others; it takes a column for
/// constant only if it knows, too, that there are no NULLs.
pub(crate) fn statistics(file: &DataFile, rows: u64, fields: &[&NestedField]) -> Statistics {
    let of_column = |field: &&NestedField| {
        let bound = |bounds: &HashMap<i32, Datum>| -> Option<_> {
            let value = bounds.get(&field.id).filter(|_| is_bounded(field, file))?;
            scalar(value.literal(), &arrow_type(&field.field_type).ok()?)
        };
        let precise = |bound: Option<_>| bound.map_or(Precision::Absent, Precision::Exact);
        ColumnStatistics::new_unknown()
            .with_min_value(precise(bound(file.lower_bounds())))
            .with_max_value(precise(bound(file.upper_bounds())))
    };
    Statistics {
        num_rows: Precision::Exact(rows as usize),
        total_byte_size: Precision::Inexact(file.file_size_in_bytes() as usize),
        column_statistics: fields.iter().map(of_column).collect(),
    }
}

/// Whether bounds of such a column say where all its values are. Floats that are no numbers lie
/// outside of them, and writers do not agree on the order of bytes.
fn is_bounded(field: &NestedField, file: &DataFile) -> bool {
    match &*field.field_type {
        Type::Primitive(PrimitiveType::Float | PrimitiveType::Double) => {
            file.nan_value_counts().get(&field.id) == Some(&0)
        }
        Type::Primitive(PrimitiveType::Uuid | PrimitiveType::Fixed(_) | PrimitiveType::Binary) => false,
        Type::Primitive(_) => true,
        _ => false,
    }
}
