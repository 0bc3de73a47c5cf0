//! Intervals of Parquet: months, days and milliseconds in 12 bytes.
//!
//! arrow-rs 59 reads them as days and time, without the months
//! (`parquet/src/arrow/array_reader/fixed_len_byte_array.rs`). Here a column of them is read as its
//! bytes, which become Arrow's intervals of months, days and nanoseconds. The file goes when
//! arrow-rs reads that type.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, IntervalUnit};

/// The mark of a column of a file whose bytes are intervals.
pub(crate) const MARK: (&str, &str) = ("pagecast:type", "interval");

/// Whether the 12 bytes of a column of a file are an interval.
pub(crate) fn is_in_file(field: &Field) -> bool {
    *field.data_type() == DataType::FixedSizeBinary(12) && field.metadata().get(MARK.0).is_some_and(|of| of == MARK.1)
}

/// The same column as a table has it.
pub(crate) fn as_interval(field: &Field) -> Field {
    let mut notes = field.metadata().clone();
    notes.remove(MARK.0);
    field.clone().with_data_type(DataType::Interval(IntervalUnit::MonthDayNano)).with_metadata(notes)
}

/// The intervals of these 12 bytes each; nothing if it is something else.
pub fn intervals(values: &ArrayRef) -> Option<ArrayRef> {
    let bytes = values.as_fixed_size_binary_opt().filter(|bytes| bytes.value_length() == 12)?;
    let interval = |bytes: &[u8]| {
        let part = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        // Parts are not signed. More than half of what they can say was a negative one.
        let (months, days, millis) = (part(0)? as i32, part(4)? as i32, part(8)?);
        Some(IntervalMonthDayNano::new(months, days, i64::from(millis) * 1_000_000))
    };
    Some(Arc::new(IntervalMonthDayNanoArray::from_iter(bytes.iter().map(|bytes| bytes.and_then(interval)))))
}
