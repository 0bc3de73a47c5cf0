//! A file of a version.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::Fields;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, DataFusionError, Result, ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::physical_expr::LexOrdering;
use object_store::ObjectMeta;
use object_store::path::Path as StorePath;
use parquet::arrow::arrow_reader::RowSelection;

/// A file of a version, and what the format knows of it.
#[derive(Clone, Debug)]
pub struct TableFile {
    meta: ObjectMeta,
    values: Vec<ScalarValue>,
    statistics: Option<Arc<Statistics>>,
    ordering: Option<LexOrdering>,
    first: u64,
    left: Option<RowSelection>,
}

impl TableFile {
    /// A file of this machine of so many bytes, of which all rows are left.
    ///
    /// # Errors
    /// The path cannot be one of an object store.
    pub fn at(path: &Path, bytes: u64) -> Result<Self> {
        let location =
            StorePath::from_absolute_path(path).map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(Self::of(location, bytes))
    }

    /// A file of a store, of which all rows are left. A format's files never change, so their times
    /// do not matter.
    pub fn of(location: StorePath, bytes: u64) -> Self {
        let last_modified = SystemTime::UNIX_EPOCH.into();
        let meta = ObjectMeta { location, last_modified, size: bytes, e_tag: None, version: None };
        Self { meta, values: Vec::new(), statistics: None, ordering: None, first: 0, left: None }
    }

    /// A file as DataFusion lists it, with these values of the partition columns. Who replaces it
    /// makes another file of it.
    pub fn listed(file: PartitionedFile, values: Vec<ScalarValue>) -> Self {
        let of_files = |statistics: Arc<Statistics>| {
            let mut statistics = Arc::unwrap_or_clone(statistics);
            statistics.column_statistics.truncate(statistics.column_statistics.len() - values.len());
            Arc::new(statistics)
        };
        let statistics = match values.is_empty() {
            true => file.statistics,
            false => file.statistics.map(of_files),
        };
        let (meta, ordering) = (file.object_meta, file.ordering);
        let listed = Self { meta, values, statistics: None, ordering, first: 0, left: None };
        match statistics {
            Some(statistics) => listed.with_statistics(statistics),
            None => listed,
        }
    }

    /// The same with these values of the partition columns, in their order.
    #[must_use]
    pub fn with_values(self, values: Vec<ScalarValue>) -> Self {
        Self { values, ..self }
    }

    /// The same, which has its values already, and of which this is known: of the columns in files,
    /// in their order. Bounds hold for all stored rows.
    #[must_use]
    pub fn with_statistics(self, statistics: Arc<Statistics>) -> Self {
        let of_files = |mut statistics: Statistics| {
            let rows = statistics.num_rows;
            statistics.column_statistics.extend(self.values.iter().map(|value| of_value(value, rows)));
            Arc::new(statistics)
        };
        let statistics = match self.values.is_empty() {
            true => statistics,
            false => of_files(Arc::unwrap_or_clone(statistics)),
        };
        Self { statistics: Some(statistics), ..self }
    }

    /// The same. Its first row has this number among the rows of the version, which who asks for
    /// the positions of rows needs.
    #[must_use]
    pub fn with_first(self, first: u64) -> Self {
        Self { first, ..self }
    }

    /// The same with only these of its `stored` rows. The stretches ascend and do not meet.
    #[must_use]
    pub fn left(self, stored: u64, rows: Vec<Range<usize>>) -> Self {
        let count: usize = rows.iter().map(ExactSizeIterator::len).sum();
        let select = || match stored <= MOST_BITS {
            true => RowSelection::from_boolean_buffer(mask(stored as usize, rows)),
            false => RowSelection::from_consecutive_ranges(rows.into_iter(), stored as usize),
        };
        Self { left: (count as u64 != stored).then(select), ..self }
    }

    /// The same without these of its `stored` rows, which ascend.
    #[must_use]
    pub fn without(self, stored: u64, deleted: impl IntoIterator<Item = u64>) -> Self {
        let (mut left, mut next) = (Vec::new(), 0);
        for row in deleted.into_iter().chain([stored]) {
            if next < row {
                left.push(next as usize..row as usize);
            }
            next = row + 1;
        }
        self.left(stored, left)
    }

    /// Gives its values the types of these columns, as far as they can be that.
    pub(crate) fn fit_values(&mut self, partitions: &Fields) {
        for (value, column) in self.values.iter_mut().zip(partitions) {
            if value.data_type() != *column.data_type()
                && let Ok(fitted) = value.cast_to(column.data_type())
            {
                *value = fitted;
            }
        }
    }

    /// Its values of the partition columns.
    pub(crate) fn values(&self) -> &[ScalarValue] {
        &self.values
    }

    /// What is known of it and of its values.
    pub(crate) fn statistics(&self) -> Option<&Statistics> {
        self.statistics.as_deref()
    }

    /// As DataFusion's source of Parquet takes it, with its first row as one more value if asked.
    pub(crate) fn partitioned(self, with_first: bool) -> PartitionedFile {
        let mut part = PartitionedFile::new_from_meta(self.meta);
        (part.partition_values, part.ordering, part.statistics) = (self.values, self.ordering, self.statistics);
        if with_first {
            let first = ScalarValue::Int64(Some(self.first as i64));
            let of_first = |statistics: Arc<Statistics>| {
                let mut statistics = Arc::unwrap_or_clone(statistics);
                statistics.column_statistics.push(of_value(&first, statistics.num_rows));
                Arc::new(statistics)
            };
            part.statistics = part.statistics.map(of_first);
            part.partition_values.push(first);
        }
        match self.left {
            Some(left) => part.with_extension(ParquetRowSelection::from(left)),
            None => part,
        }
    }
}

/// What is known of a column that has this value in so many rows.
fn of_value(value: &ScalarValue, rows: Precision<usize>) -> ColumnStatistics {
    let mut known = ColumnStatistics::new_unknown();
    if value.is_null() {
        known.null_count = rows;
    } else {
        known.null_count = Precision::Exact(0);
        known.distinct_count = Precision::Exact(1);
        (known.min_value, known.max_value) = (Precision::Exact(value.clone()), Precision::Exact(value.clone()));
    }
    known
}

/// No file has so many rows, but whoever writes metadata can say that it has.
const MOST_BITS: u64 = 1 << 34;

/// A bit for each of so many rows. Where stretches are none of these rows there are more bits than
/// rows, and the scan says so.
fn mask(stored: usize, rows: Vec<Range<usize>>) -> BooleanBuffer {
    let mut mask = BooleanBufferBuilder::new(stored);
    for stretch in rows {
        mask.append_n(stretch.start.saturating_sub(mask.len()), false);
        mask.append_n(stretch.len(), true);
    }
    mask.append_n(stored.saturating_sub(mask.len()), false);
    mask.finish()
}
