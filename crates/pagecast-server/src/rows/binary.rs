//! The binary format. PostgreSQL counts time from the year 2000.

use anyhow::anyhow;
use arrow::array::{Array, ArrayRef};
use bytes::{BufMut, BytesMut};

use pagecast_sql::values::DAY;

use crate::types;

/// Days from 1970 to 2000.
pub(crate) const EPOCH_DAYS: i32 = 10_957;
/// Microseconds from 1970 to 2000.
pub(crate) const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * DAY;

pub(super) fn date(days: i32, out: &mut BytesMut) -> anyhow::Result<()> {
    out.put_i32(days.checked_sub(EPOCH_DAYS).ok_or_else(|| anyhow!("a date is out of PostgreSQL's range"))?);
    Ok(())
}

pub(super) fn timestamp(micros: i64, out: &mut BytesMut) -> anyhow::Result<()> {
    out.put_i64(micros.checked_sub(EPOCH_MICROS).ok_or_else(|| anyhow!("a time is out of PostgreSQL's range"))?);
    Ok(())
}

pub(super) fn interval(months: i32, days: i32, micros: i64, out: &mut BytesMut) {
    out.put_i64(micros);
    out.put_i32(days);
    out.put_i32(months);
}

/// One dimension, counted from 1.
pub(super) fn list(values: &ArrayRef, out: &mut BytesMut) -> anyhow::Result<()> {
    let dimensions = i32::from(!values.is_empty());
    out.put_i32(dimensions);
    out.put_i32(i32::from(values.null_count() > 0));
    out.put_u32(types::of_arrow(values.data_type()).oid());
    if dimensions == 1 {
        out.put_i32(i32::try_from(values.len()).map_err(|_| anyhow!("an array is too long for PostgreSQL"))?);
        out.put_i32(1);
    }
    for row in 0..values.len() {
        if values.is_null(row) {
            out.put_i32(-1);
            continue;
        }
        let start = out.len();
        out.put_i32(0);
        super::binary(values, row, out)?;
        let bytes = (out.len() - start - 4) as i32;
        out[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
    }
    Ok(())
}
