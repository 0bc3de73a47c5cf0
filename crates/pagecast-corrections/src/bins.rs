//! `date_bin` and `date_trunc` of moments that are no nanoseconds: years before 1678 and after
//! 2261.
//!
//! DataFusion 55.2 computes in nanoseconds of 64 bits whatever the unit of the column is. Where
//! they end, `date_bin` is NULL and `date_trunc` fails. Then, and only then, they are computed
//! here. The file goes when both compute in the unit of their column.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::datatypes::{
    DataType, FieldRef, IntervalMonthDayNano, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampSecondType,
};
use chrono::{DateTime, Datelike, Months, Utc};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::functions::datetime::{date_bin, date_trunc};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// The functions in the place of DataFusion's.
pub(crate) fn functions() -> [ScalarUDF; 2] {
    [date_bin(), date_trunc()].map(|inner| ScalarUDF::new_from_impl(OfAllYears { inner }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfAllYears {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for OfAllYears {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(input)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, given) = (args.number_rows, args.args.clone());
        let found = self.inner.invoke_with_args(args);
        let is_constant = matches!(given[1], ColumnarValue::Scalar(_));
        let rows = if is_constant { 1 } else { rows };
        let Some(bins) = Bins::of(&given) else { return found };
        let moments = given[1].to_array(rows)?;
        match &found {
            Ok(binned) if binned.to_array(rows)?.null_count() == moments.null_count() => return found,
            _ => {}
        }
        let binned: ArrayRef = match moments.data_type() {
            DataType::Timestamp(TimeUnit::Second, _) => bins.all::<TimestampSecondType>(&moments, 1_000_000_000)?,
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                bins.all::<TimestampMillisecondType>(&moments, 1_000_000)?
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => bins.all::<TimestampMicrosecondType>(&moments, 1_000)?,
            _ => return found,
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&binned, 0)?),
            false => ColumnarValue::Array(binned),
        })
    }
}

/// Nanoseconds of a day.
const DAY: i128 = 86_400_000_000_000;

/// Bins as wide as `stride`, from `origin` on, in nanoseconds since 1970.
struct Bins {
    stride: IntervalMonthDayNano,
    origin: i128,
}

impl Bins {
    /// Those that the arguments of a function say, if they are of moments.
    fn of(arguments: &[ColumnarValue]) -> Option<Self> {
        let stride = match &arguments[0] {
            ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(stride)) => (*stride)?,
            ColumnarValue::Scalar(ScalarValue::IntervalDayTime(stride)) => {
                let stride = (*stride)?;
                IntervalMonthDayNano::new(0, stride.days, i64::from(stride.milliseconds) * 1_000_000)
            }
            ColumnarValue::Scalar(word) => return Self::called(word.try_as_str().flatten()?),
            _ => return None,
        };
        let origin = match arguments.get(2) {
            None => 0,
            Some(ColumnarValue::Scalar(ScalarValue::TimestampNanosecond(origin, _))) => i128::from((*origin)?),
            Some(_) => return None,
        };
        Some(Self { stride, origin })
    }

    /// Those of a word of `date_trunc`. A week begins on Monday, and 1970 on a Thursday.
    fn called(word: &str) -> Option<Self> {
        let (months, days, nanoseconds, origin) = match word.to_ascii_lowercase().as_str() {
            "year" => (12, 0, 0, 0),
            "quarter" => (3, 0, 0, 0),
            "month" => (1, 0, 0, 0),
            "week" => (0, 7, 0, -3),
            "day" => (0, 1, 0, 0),
            "hour" => (0, 0, 3_600_000_000_000, 0),
            "minute" => (0, 0, 60_000_000_000, 0),
            "second" => (0, 0, 1_000_000_000, 0),
            "millisecond" => (0, 0, 1_000_000, 0),
            "microsecond" => (0, 0, 1_000, 0),
            _ => return None,
        };
        Some(Self { stride: IntervalMonthDayNano::new(months, days, nanoseconds), origin: origin * DAY })
    }

    /// The bins of these moments, of which one has so many nanoseconds.
    fn all<T: ArrowPrimitiveType<Native = i64>>(&self, moments: &ArrayRef, unit: i128) -> Result<ArrayRef> {
        let bins = moments.as_primitive::<T>().try_unary::<_, T, DataFusionError>(|moment| self.bin(moment, unit))?;
        Ok(Arc::new(bins.with_data_type(moments.data_type().clone())))
    }

    fn bin(&self, moment: i64, unit: i128) -> Result<i64> {
        let nanoseconds = i128::from(moment) * unit;
        let begin = match self.stride.months {
            0 => {
                let stride = i128::from(self.stride.days) * DAY + i128::from(self.stride.nanoseconds);
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
