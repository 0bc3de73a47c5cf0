//! `date_bin` of moments that are no nanoseconds: years before 1678 and after 2261.
//!
//! DataFusion 55.2 computes in nanoseconds of 64 bits whatever the unit of the column is, and gives
//! NULL where they end. Such rows, which are few, are computed again. The file goes when `date_bin`
//! computes in the unit of its column.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampSecondType,
};
use chrono::{DateTime, Datelike, Months, Utc};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::functions::datetime::date_bin;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

/// The function in the place of DataFusion's.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(DateBin { inner: date_bin() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateBin {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for DateBin {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(input)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, given) = (args.number_rows, args.args.clone());
        let binned = self.inner.invoke_with_args(args)?;
        let Some(bins) = Bins::of(&given) else { return Ok(binned) };
        let is_constant = matches!(given[1], ColumnarValue::Scalar(_));
        let rows = if is_constant { 1 } else { rows };
        let (moments, found) = (given[1].to_array(rows)?, binned.to_array(rows)?);
        if found.null_count() == moments.null_count() {
            return Ok(binned);
        }
        let repaired: ArrayRef = match moments.data_type() {
            DataType::Timestamp(TimeUnit::Second, _) => {
                bins.repair::<TimestampSecondType>(&moments, &found, 1_000_000_000)?
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                bins.repair::<TimestampMillisecondType>(&moments, &found, 1_000_000)?
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                bins.repair::<TimestampMicrosecondType>(&moments, &found, 1_000)?
            }
            _ => found,
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&repaired, 0)?),
            false => ColumnarValue::Array(repaired),
        })
    }
}

/// Bins as wide as `stride`, from `origin` on, in nanoseconds since 1970.
struct Bins {
    stride: IntervalMonthDayNano,
    origin: i128,
}

impl Bins {
    /// Those that the arguments say, if they are of moments.
    fn of(arguments: &[ColumnarValue]) -> Option<Self> {
        let stride = match &arguments[0] {
            ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(stride)) => (*stride)?,
            ColumnarValue::Scalar(ScalarValue::IntervalDayTime(stride)) => {
                let stride = (*stride)?;
                IntervalMonthDayNano::new(0, stride.days, i64::from(stride.milliseconds) * 1_000_000)
            }
            _ => return None,
        };
        let origin = match arguments.get(2) {
            None => 0,
            Some(ColumnarValue::Scalar(ScalarValue::TimestampNanosecond(origin, _))) => i128::from((*origin)?),
            Some(_) => return None,
        };
        Some(Self { stride, origin })
    }

    /// The bins that were `found`, and those of moments for which none was.
    fn repair<T: ArrowPrimitiveType<Native = i64>>(
        &self,
        moments: &ArrayRef,
        found: &ArrayRef,
        unit: i128,
    ) -> Result<ArrayRef> {
        let (moments, found) = (moments.as_primitive::<T>(), found.as_primitive::<T>());
        let mut all = Vec::with_capacity(found.len());
        for row in 0..found.len() {
            all.push(match (found.is_valid(row), moments.is_valid(row)) {
                (true, _) => Some(found.value(row)),
                (false, false) => None,
                (false, true) => Some(self.bin(moments.value(row), unit)?),
            });
        }
        Ok(Arc::new(PrimitiveArray::<T>::from_iter(all).with_data_type(found.data_type().clone())))
    }

    fn bin(&self, moment: i64, unit: i128) -> Result<i64> {
        let nanoseconds = i128::from(moment) * unit;
        let begin = match self.stride.months {
            0 => {
                let stride = i128::from(self.stride.days) * 86_400_000_000_000 + i128::from(self.stride.nanoseconds);
                let stride = stride.max(1);
                Some(self.origin + (nanoseconds - self.origin).div_euclid(stride) * stride)
            }
            months => self.begin_of_months(nanoseconds, i64::from(months)),
        };
        let begin = begin.and_then(|begin| i64::try_from(begin.div_euclid(unit)).ok());
        begin.ok_or_else(|| {
            DataFusionError::Execution(format!("date_bin: {moment} lies in a year that has no calendar"))
        })
    }

    fn begin_of_months(&self, nanoseconds: i128, stride: i64) -> Option<i128> {
        let (moment, origin) = (calendar(nanoseconds)?, calendar(self.origin)?);
        let between =
            i64::from(moment.year() - origin.year()) * 12 + i64::from(moment.month()) - i64::from(origin.month());
        let begin = between.div_euclid(stride) * stride;
        // The origin may lie late in its month.
        let begins = [begin, begin - stride].map(|months| after(origin, months));
        let begin = begins.into_iter().flatten().find(|begin| *begin <= moment)?;
        Some(i128::from(begin.timestamp()) * 1_000_000_000 + i128::from(begin.timestamp_subsec_nanos()))
    }
}

fn calendar(nanoseconds: i128) -> Option<DateTime<Utc>> {
    let seconds = i64::try_from(nanoseconds.div_euclid(1_000_000_000)).ok()?;
    DateTime::from_timestamp(seconds, nanoseconds.rem_euclid(1_000_000_000) as u32)
}

fn after(origin: DateTime<Utc>, months: i64) -> Option<DateTime<Utc>> {
    let count = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
    if months < 0 { origin.checked_sub_months(count) } else { origin.checked_add_months(count) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// As DataFusion computes it, in years that it can: every bin again by the calendar.
    #[test]
    fn bins_of_all_years_are_alike() {
        for (months, days, nanoseconds) in [(1, 0, 0), (7, 0, 0), (0, 1, 0), (0, 0, 90_000_000_000)] {
            let bins = Bins { stride: IntervalMonthDayNano::new(months, days, nanoseconds), origin: 0 };
            for year in [1000, 1500, 1969, 2024, 2300, 9999] {
                let moment = format!("{year}-12-31T23:59:59Z").parse::<DateTime<Utc>>().unwrap();
                let begin = bins.bin(moment.timestamp(), 1_000_000_000).unwrap();
                let next = match months {
                    0 => begin + i64::from(days) * 86_400 + nanoseconds / 1_000_000_000,
                    _ => after(DateTime::from_timestamp(begin, 0).unwrap(), i64::from(months)).unwrap().timestamp(),
                };
                assert!(begin <= moment.timestamp() && moment.timestamp() < next, "{year} {months} {days}");
                assert_eq!(bins.bin(begin, 1_000_000_000).unwrap(), begin);
            }
        }
    }
}
