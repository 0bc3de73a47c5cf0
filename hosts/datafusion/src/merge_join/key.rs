//! Keys as statistics give them, and the filter of those between two cuts.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, IsNullExpr, Literal};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::{ColumnOrder, Type};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::page_index::column_index::ColumnIndexMetaData;

use super::cuts::{Interval, Piece};

/// A key of a type that has an order and no values beyond it. All keys of a join are of one type.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Key(ScalarValue);

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal)
    }
}

/// Whether keys of this type can be cut. Statistics of floats leave out NaN.
pub(crate) fn has_order(of: &DataType) -> bool {
    use DataType::{Date32, Date64, Decimal128, Time32, Time64, Timestamp, Utf8, Utf8View};
    of.is_integer()
        || matches!(of, Date32 | Date64 | Decimal128(..) | Time32(_) | Time64(_) | Timestamp(..) | Utf8 | Utf8View)
}

/// What a footer says of the keys of some row groups, in the column `field`. The bytes of each, and
/// those of dictionaries, are for the caller to add.
pub(crate) fn pieces(
    footer: &ParquetMetaData,
    row_groups: &[usize],
    field: &Field,
) -> Result<Vec<Piece<Key>>, &'static str> {
    const NONE: &str = "row groups have no statistics of the key";
    let schema = footer.file_metadata().schema_descr();
    let leaf = (0..schema.num_columns()).find(|&leaf| schema.column(leaf).path().parts() == [field.name().as_str()]);
    let leaf = leaf.ok_or("a file does not have the key")?;
    check_order(footer, leaf, field)?;
    let converter = StatisticsConverter::from_column_index(leaf, field, schema).map_err(|_| NONE)?;
    let converter = converter.with_missing_null_counts_as_zero(false);
    let of = || row_groups.iter().map(|&number| footer.row_group(number));
    for statistics in of().filter_map(|row_group| row_group.column(leaf).statistics()) {
        let has_keys = statistics.min_bytes_opt().is_some();
        // Old writers compared bytes in ways of their own.
        if has_keys && statistics.is_min_max_deprecated() {
            return Err("statistics of the key are of an old kind");
        }
        let is_exact = statistics.min_is_exact() && statistics.max_is_exact();
        if has_keys && !is_exact && matches!(field.data_type(), DataType::Utf8 | DataType::Utf8View) {
            return Err("statistics of the key are truncated");
        }
    }
    let (mins, maxes) = (converter.row_group_mins(of()), converter.row_group_maxes(of()));
    let (mins, maxes) = mins.ok().zip(maxes.ok()).ok_or(NONE)?;
    let nulls = converter.row_group_null_counts(of()).map_err(|_| NONE)?;
    let key = |values: &dyn Array, at| ScalarValue::try_from_array(values, at).map(Key).map_err(|_| NONE);
    let mut pieces = Vec::new();
    for (at, row_group) in of().enumerate().filter(|(_, row_group)| row_group.num_rows() > 0) {
        let null_count = nulls.is_valid(at).then(|| nulls.value(at));
        let keys = match (mins.is_valid(at) && maxes.is_valid(at), null_count) {
            (true, _) => Some((key(&mins, at)?, key(&maxes, at)?)),
            (false, Some(nulls)) if nulls == row_group.num_rows() as u64 => None,
            (false, _) => return Err(NONE),
        };
        let parts = parts(footer, row_groups[at], leaf);
        pieces.push(Piece { keys, nulls: null_count != Some(0), bytes: 0, dictionaries: 0, parts });
    }
    Ok(pieces)
}

/// Fails unless bounds in the file are bounds of the table's values. A cast to the table's type may
/// change what a number in the footer means, or the order.
fn check_order(footer: &ParquetMetaData, leaf: usize, field: &Field) -> Result<(), &'static str> {
    let metadata = footer.file_metadata();
    let in_file = parquet_to_arrow_schema(metadata.schema_descr(), metadata.key_value_metadata());
    let in_file = in_file.ok().and_then(|schema| schema.field_with_name(field.name()).cloned().ok());
    let in_file = in_file.ok_or("a file does not have the key")?;
    let is_text = |of: &DataType| matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    if in_file.data_type() != field.data_type() && !(is_text(in_file.data_type()) && is_text(field.data_type())) {
        return Err("a file has the key in another type");
    }
    let is_bytes = matches!(
        metadata.schema_descr().column(leaf).physical_type(),
        Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY | Type::INT96
    );
    if is_bytes && !matches!(metadata.column_order(leaf), ColumnOrder::TYPE_DEFINED_ORDER(_)) {
        return Err("a file does not say in which order its bytes are");
    }
    Ok(())
}

/// Pages of a column chunk, if their keys are known and ascend or descend; else a cut leaves most
/// of them on both sides.
fn parts(footer: &ParquetMetaData, row_group: usize, leaf: usize) -> u64 {
    let keys = footer.column_index().and_then(|index| index.get(row_group)?.get(leaf));
    let pages = footer.offset_index().and_then(|index| index.get(row_group)?.get(leaf));
    pages
        .filter(|_| keys.is_some_and(ColumnIndexMetaData::is_sorted))
        .map_or(1, |pages| pages.page_locations().len().max(1) as u64)
}

impl Interval<Key> {
    /// Whether all rows that a piece may have are of the interval, on this side.
    pub(crate) fn covers(&self, piece: &Piece<Key>, side: usize) -> bool {
        let all_keys = piece.keys.as_ref().is_none_or(|(min, max)| {
            self.from.as_ref().is_none_or(|from| from <= min) && self.to.as_ref().is_none_or(|to| max < to)
        });
        all_keys && (self.nulls[side] || !piece.nulls)
    }

    /// The filter that lets through the rows of one side whose `key` is of the interval; none if
    /// that is all of them that matter.
    pub(crate) fn filter(&self, key: &Arc<dyn PhysicalExpr>, side: usize) -> Option<Arc<dyn PhysicalExpr>> {
        let compare = |operator, bound: &Key| -> Arc<dyn PhysicalExpr> {
            let bound = Arc::new(Literal::new(bound.0.clone()));
            Arc::new(BinaryExpr::new(Arc::clone(key), operator, bound))
        };
        let from = self.from.as_ref().map(|from| compare(Operator::GtEq, from));
        let to = self.to.as_ref().map(|to| compare(Operator::Lt, to));
        let keys = both(from, to, Operator::And)?;
        let nulls = self.nulls[side].then(|| Arc::new(IsNullExpr::new(Arc::clone(key))) as _);
        both(Some(keys), nulls, Operator::Or)
    }
}

/// Two expressions joined by `operator`, or the one that there is.
pub(crate) fn both(
    one: Option<Arc<dyn PhysicalExpr>>,
    other: Option<Arc<dyn PhysicalExpr>>,
    operator: Operator,
) -> Option<Arc<dyn PhysicalExpr>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Arc::new(BinaryExpr::new(one, operator, other))),
        (one, other) => one.or(other),
    }
}
