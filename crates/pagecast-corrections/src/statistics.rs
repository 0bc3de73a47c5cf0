//! What may be concluded from the statistics of a Parquet file, for all who conclude something:
//! pruning of row groups and pages, constant columns, counts, bounds, order, joins and Bloom
//! filters.
//!
//! DataFusion 55.2 believes a footer further than the format promises
//! (<https://github.com/apache/datafusion/issues/15812> for NaN,
//! <https://github.com/apache/datafusion/issues/8335> for orders of bytes). So what is no promise
//! is taken out of a footer before DataFusion sees it. A new kind of distrust is a line of
//! [`Doubt::of`]:
//!
//! * A column that may be NULL and has no `null_count` has an unknown number of NULLs.
//! * Old writers compared bytes in ways of their own, and some types have no order.
//! * Bounds of floats leave out NaN, which is greater than all numbers, and do not tell 0 from -0.
//!   A Bloom filter holds bytes, in which 0 and -0 differ.
//! * Rows are sorted within a row group. Nothing is said of a file that has several.
//! * A count of distinct values may be an estimate.
//!
//! The file goes when DataFusion asks all of that itself. Cost: a copy of the columns of a footer,
//! once for each time that it is loaded.

use datafusion::common::stats::Precision;
use datafusion::common::{ScalarValue, Statistics};
use parquet::basic::{ColumnOrder, LogicalType, SortOrder, Type};
use parquet::errors::Result;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData, SortingColumn,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::{Statistics as Bounds, ValueStatistics};

/// A footer without what is no promise, in its statistics, its page index, its Bloom filters and
/// its order.
///
/// # Errors
/// A row group has another number of columns than the file.
pub fn believed(footer: ParquetMetaData) -> Result<ParquetMetaData> {
    let file = footer.file_metadata().clone();
    let mut footer = footer.into_builder();
    let mut row_groups = footer.take_row_groups();
    take_out_of_pages(&file, &row_groups, &mut footer);
    for row_group in &mut row_groups {
        row_group.columns_mut().iter_mut().enumerate().try_for_each(|(leaf, column)| correct(&file, leaf, column))?;
    }
    Ok(footer.set_row_groups(in_order(&file, row_groups)?).build())
}

/// What a table's format or DataFusion knows of a file, without what is no promise.
#[must_use]
pub fn believed_of_file(mut statistics: Statistics) -> Statistics {
    for column in &mut statistics.column_statistics {
        column.distinct_count = std::mem::take(&mut column.distinct_count).to_inexact();
        if is_float(&column.max_value) || is_float(&column.min_value) {
            column.max_value = Precision::Absent;
            column.min_value = match std::mem::take(&mut column.min_value) {
                Precision::Exact(value) => lowest(value).map_or(Precision::Absent, Precision::Exact),
                Precision::Inexact(value) => lowest(value).map_or(Precision::Absent, Precision::Inexact),
                Precision::Absent => Precision::Absent,
            };
        }
    }
    statistics
}

fn is_float(bound: &Precision<ScalarValue>) -> bool {
    bound.get_value().is_some_and(|value| value.data_type().is_floating())
}

/// A lower bound that holds for -0, too; none if it is NaN, or NULL.
fn lowest(value: ScalarValue) -> Option<ScalarValue> {
    match value {
        ScalarValue::Float32(Some(value)) => at_least(value, -0.0).map(ScalarValue::from),
        ScalarValue::Float64(Some(value)) => at_least(value, -0.0).map(ScalarValue::from),
        _ => None,
    }
}

fn at_least<T: PartialEq + PartialOrd>(value: T, zero: T) -> Option<T> {
    match value.partial_cmp(&zero)? {
        std::cmp::Ordering::Equal => Some(zero),
        _ => Some(value),
    }
}

/// How far the statistics of a column chunk are no promise.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doubt {
    None,
    /// The least value is one, but there may be greater ones than the greatest.
    Greatest,
    Bounds,
    All,
}

impl Doubt {
    fn of(file: &FileMetaData, leaf: usize, column: &ColumnChunkMetaData) -> Self {
        let (Some(bounds), known) = (column.statistics(), column.column_descr()) else { return Self::None };
        let bytes = matches!(column.column_type(), Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY | Type::INT96);
        let order = file.column_orders().and_then(|orders| orders.get(leaf));
        match () {
            () if bounds.null_count_opt().is_none() && known.max_def_level() > 0 => Self::All,
            () if known.sort_order() == SortOrder::UNDEFINED || column.column_type() == Type::INT96 => Self::Bounds,
            () if matches!(order, Some(ColumnOrder::UNKNOWN)) || bytes && order.is_none() => Self::Bounds,
            () if bounds.is_min_max_deprecated() && (bytes || !known.sort_order().is_signed()) => Self::Bounds,
            () if known.logical_type_ref() == Some(&LogicalType::Float16) => Self::Bounds,
            () if matches!(column.column_type(), Type::FLOAT | Type::DOUBLE) => Self::Greatest,
            () => Self::None,
        }
    }
}

/// Whether values are equal that have other bytes.
fn has_two_zeros(column: &ColumnChunkMetaData) -> bool {
    matches!(column.column_type(), Type::FLOAT | Type::DOUBLE)
        || column.column_descr().logical_type_ref() == Some(&LogicalType::Float16)
}

fn correct(file: &FileMetaData, leaf: usize, column: &mut ColumnChunkMetaData) -> Result<()> {
    let doubt = Doubt::of(file, leaf, column);
    let without_filter = has_two_zeros(column) && column.bloom_filter_offset().is_some();
    if doubt == Doubt::None && !without_filter {
        return Ok(());
    }
    let left = column.statistics().and_then(|bounds| match doubt {
        Doubt::None => Some(bounds.clone()),
        Doubt::Greatest => Some(without_greatest(bounds)),
        Doubt::Bounds => Some(without_bounds(bounds)),
        Doubt::All => None,
    });
    let mut corrected = column.clone().into_builder().clear_statistics();
    if let Some(left) = left {
        corrected = corrected.set_statistics(left);
    }
    if without_filter {
        corrected = corrected.set_bloom_filter_offset(None).set_bloom_filter_length(None);
    }
    *column = corrected.build()?;
    Ok(())
}

fn without_greatest(bounds: &Bounds) -> Bounds {
    let (distinct, nulls) = (bounds.distinct_count_opt(), bounds.null_count_opt());
    match bounds {
        Bounds::Float(of) => {
            let least = of.min_opt().and_then(|&least| at_least(least, -0.0));
            Bounds::Float(ValueStatistics::new(least, None, distinct, nulls, false))
        }
        Bounds::Double(of) => {
            let least = of.min_opt().and_then(|&least| at_least(least, -0.0));
            Bounds::Double(ValueStatistics::new(least, None, distinct, nulls, false))
        }
        other => without_bounds(other),
    }
}

fn without_bounds(bounds: &Bounds) -> Bounds {
    let (distinct, nulls) = (bounds.distinct_count_opt(), bounds.null_count_opt());
    match bounds {
        Bounds::Boolean(_) => Bounds::boolean(None, None, distinct, nulls, false),
        Bounds::Int32(_) => Bounds::int32(None, None, distinct, nulls, false),
        Bounds::Int64(_) => Bounds::int64(None, None, distinct, nulls, false),
        Bounds::Int96(_) => Bounds::int96(None, None, distinct, nulls, false),
        Bounds::Float(_) => Bounds::float(None, None, distinct, nulls, false),
        Bounds::Double(_) => Bounds::double(None, None, distinct, nulls, false),
        Bounds::ByteArray(_) => Bounds::byte_array(None, None, distinct, nulls, false),
        Bounds::FixedLenByteArray(_) => Bounds::fixed_len_byte_array(None, None, distinct, nulls, false),
    }
}

/// Pages have bounds of the same kinds, and counts that may be missing.
fn take_out_of_pages(file: &FileMetaData, row_groups: &[RowGroupMetaData], footer: &mut ParquetMetaDataBuilder) {
    let Some(mut pages) = footer.take_column_index() else { return };
    for (row_group, of_row_group) in row_groups.iter().zip(&mut pages) {
        for (leaf, (column, of_pages)) in row_group.columns().iter().zip(of_row_group).enumerate() {
            let uncounted = of_pages.null_counts().is_none() && column.column_descr().max_def_level() > 0;
            if uncounted || has_two_zeros(column) || Doubt::of(file, leaf, column) != Doubt::None {
                *of_pages = ColumnIndexMetaData::NONE;
            }
        }
    }
    *footer = std::mem::replace(footer, ParquetMetaDataBuilder::new(file.clone())).set_column_index(Some(pages));
}

/// The row groups, with an order only where it is one of all rows of the file.
fn in_order(file: &FileMetaData, row_groups: Vec<RowGroupMetaData>) -> Result<Vec<RowGroupMetaData>> {
    let alone = row_groups.len() == 1;
    let corrected = |row_group: RowGroupMetaData| match row_group.sorting_columns() {
        None => Ok(row_group),
        Some(columns) => {
            let known =
                columns.iter().take_while(|column| alone && has_order(file, column)).cloned().collect::<Vec<_>>();
            let known = (!known.is_empty()).then_some(known);
            row_group.into_builder().set_sorting_columns(known).build()
        }
    };
    row_groups.into_iter().map(corrected).collect()
}

/// Whether the column is one of the file, no part of another, and of a type in which a writer sorts
/// as a query does.
fn has_order(file: &FileMetaData, sorted: &SortingColumn) -> bool {
    let Ok(leaf) = usize::try_from(sorted.column_idx) else { return false };
    let Some(column) = file.schema_descr().columns().get(leaf) else { return false };
    let is_float = matches!(column.physical_type(), Type::FLOAT | Type::DOUBLE);
    column.path().parts().len() == 1 && !is_float && column.sort_order() != SortOrder::UNDEFINED
}
