//! Intervals: DataFusion has two kinds, of months, days and the rest, and of time alone. PostgreSQL
//! has the first, with months of 30 days and days of 24 hours where two are compared.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, IntervalMonthDayNanoArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, DurationMicrosecondType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, ScalarFunctionArgs, ScalarUDF};

use super::calculation::{Gives, by_arrays, call, error, function};
use super::calendar::{Moment, days_in};
use super::to_char::micros;
use crate::values::DAY;

pub(super) const KIND: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

pub(super) fn is_interval(kind: &DataType) -> bool {
    matches!(kind, DataType::Interval(_) | DataType::Duration(_))
}

/// What an interval is compared and sorted by.
pub(super) fn key(expr: Expr) -> Expr {
    let run = |args: &ScalarFunctionArgs| {
        by_arrays(args, |arrays| {
            let parts = parts(&arrays[0])?;
            let parts = parts.as_primitive::<IntervalMonthDayNanoType>();
            let key = |part: IntervalMonthDayNano| {
                let days = i128::from(part.months) * 30 + i128::from(part.days);
                days * i128::from(DAY) * 1000 + i128::from(part.nanoseconds)
            };
            let keys: Decimal128Array = parts.iter().map(|part| part.map(key)).collect();
            Ok(Arc::new(keys.with_precision_and_scale(38, 0)?) as ArrayRef)
        })
    };
    call("interval_key", Gives::Always(DataType::Decimal128(38, 0)), run, vec![expr])
}

/// The time between two moments in days and the rest, as PostgreSQL has it.
pub(super) fn in_days(expr: Expr) -> Expr {
    let run = |args: &ScalarFunctionArgs| by_arrays(args, |arrays| parts(&arrays[0]));
    call("interval_in_days", Gives::Always(KIND), run, vec![expr])
}

/// Intervals of either kind as months, days and the rest.
pub(super) fn parts(array: &ArrayRef) -> Result<ArrayRef> {
    if !matches!(array.data_type(), DataType::Duration(_)) {
        return Ok(cast(array, &KIND)?);
    }
    let micros = cast(array, &DataType::Duration(TimeUnit::Microsecond))?;
    let part = |micros: i64| {
        let days = i32::try_from(micros / DAY).ok()?;
        Some(IntervalMonthDayNano::new(0, days, micros % DAY * 1000))
    };
    let parts = micros.as_primitive::<DurationMicrosecondType>().iter();
    Ok(Arc::new(parts.map(|micros| micros.and_then(part)).collect::<IntervalMonthDayNanoArray>()))
}

/// `age(later, earlier)`: years, months, days and the time between them.
pub(super) fn age() -> ScalarUDF {
    let kind = |arguments: &[DataType]| {
        let is_moment = |kind: &DataType| matches!(kind, DataType::Timestamp(..) | DataType::Date32 | DataType::Null);
        match arguments {
            [later, earlier] if is_moment(later) && is_moment(earlier) => Ok(KIND),
            _ => Err(super::calculation::refused("age takes two timestamps here; write age(now(), x)")),
        }
    };
    function("age", Gives::By(kind), |args: &ScalarFunctionArgs| {
        by_arrays(args, |arrays| {
            let (later, earlier) = (micros(&arrays[0])?, micros(&arrays[1])?);
            let later = later.as_primitive::<TimestampMicrosecondType>().iter();
            let earlier = earlier.as_primitive::<TimestampMicrosecondType>().iter();
            let ages = later.zip(earlier).map(|pair| match pair {
                (Some(later), Some(earlier)) => between(later, earlier).map(Some),
                _ => Ok(None),
            });
            Ok(Arc::new(ages.collect::<Result<IntervalMonthDayNanoArray>>()?) as ArrayRef)
        })
    })
}

fn between(later: i64, earlier: i64) -> Result<IntervalMonthDayNano> {
    let sign = if later < earlier { -1 } else { 1 };
    let (high, low) = (Moment::of(later.max(earlier)), Moment::of(later.min(earlier)));
    let mut months = (high.year - low.year) * 12 + high.month - low.month;
    let (mut days, mut micros) = (high.day - low.day, high.micros - low.micros);
    if micros < 0 {
        (micros, days) = (micros + DAY, days - 1);
    }
    while days < 0 {
        // The month that is not full is the earlier one's.
        (days, months) = (days + days_in(low.year, low.month), months - 1);
    }
    let out_of_range = |_| error("22008", "interval out of range");
    let months = i32::try_from(sign * months).map_err(out_of_range)?;
    let days = i32::try_from(sign * days).map_err(out_of_range)?;
    Ok(IntervalMonthDayNano::new(months, days, sign * micros * 1000))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::calendar::days_of;
    use super::*;

    #[test]
    fn ages_are_years_months_and_days() {
        let at = |year, month, day, hours: i64| days_of(year, month, day) * DAY + hours * 3_600_000_000;
        let age = |later, earlier| {
            let age = between(later, earlier).unwrap();
            (age.months, age.days, age.nanoseconds / 3_600_000_000_000)
        };
        assert_eq!(age(at(2024, 3, 1, 0), at(2023, 1, 15, 12)), (13, 16, 12));
        assert_eq!(age(at(2024, 3, 1, 0), at(2023, 1, 15, 0)), (13, 17, 0));
        assert_eq!(age(at(2024, 1, 1, 0), at(2024, 1, 1, 1)), (0, 0, -1));
    }
}
