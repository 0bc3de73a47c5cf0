//! Texts of values, and dates and timestamps of texts, as PostgreSQL writes and reads them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Date32Array, ListArray, TimestampMicrosecondArray, new_empty_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF};

use super::calculation::{Gives, by_arrays, call, error, function, refused};
use super::calendar::{days_in, days_of, is_year};
use crate::classed::Classed;
use crate::tables;
use crate::values::{self, DAY, decimals};

/// A value as its text. Of a truth value it is the letter t or f.
pub(super) fn text_of(expr: Expr) -> Expr {
    let run = |args: &ScalarFunctionArgs| {
        by_arrays(args, |arrays| {
            let texts = values::texts(&arrays[0]).map_err(|problem| error("22023", problem.to_string()))?;
            Ok(Arc::new(texts) as ArrayRef)
        })
    };
    call("text_of", Gives::Always(DataType::Utf8), run, vec![expr])
}

/// The number of bytes in a value.
pub(super) fn bytes_in(expr: Expr) -> Expr {
    let run = |args: &ScalarFunctionArgs| {
        by_arrays(args, |arrays| {
            let bytes = cast(&arrays[0], &DataType::LargeBinary)?;
            Ok(cast(&arrow::compute::kernels::length::length(&bytes)?, &DataType::Int32)?)
        })
    };
    call("bytes_in", Gives::Always(DataType::Int32), run, vec![expr])
}

/// An array, or an empty one of the same type where there is none.
pub(super) fn array_or_empty() -> ScalarUDF {
    let kind = |arguments: &[DataType]| arguments.first().cloned().ok_or_else(|| error("42883", "an array is missing"));
    function("array_or_empty", Gives::By(kind), |args: &ScalarFunctionArgs| {
        by_arrays(args, |arrays| {
            let Some(lists) = arrays[0].as_list_opt::<i32>() else { return Ok(Arc::clone(&arrays[0])) };
            // A list that is null has no elements, or has some that nobody sees.
            let lengths = (0..lists.len()).map(|row| if lists.is_valid(row) { lists.value(row).len() } else { 0 });
            let offsets = OffsetBuffer::from_lengths(lengths);
            let rows = (0..lists.len()).filter(|&row| lists.is_valid(row)).map(|row| lists.value(row));
            let rows: Vec<ArrayRef> = rows.collect();
            let values: Vec<&dyn Array> = rows.iter().map(AsRef::as_ref).collect();
            let values = if values.is_empty() { lists.values().slice(0, 0) } else { concat(&values)? };
            let DataType::List(element) = lists.data_type() else { return Ok(Arc::clone(&arrays[0])) };
            Ok(Arc::new(ListArray::try_new(Arc::clone(element), offsets, values, None)?) as ArrayRef)
        })
    })
}

/// An array of a text such as `{1,NULL,"two words"}`.
pub(super) fn list_of(text: Expr, kind: &DataType) -> Expr {
    let run = |args: &ScalarFunctionArgs| {
        by_arrays(args, |arrays| {
            let (texts, kind) = (cast(&arrays[0], &DataType::Utf8)?, args.return_type());
            let lists = texts.as_string::<i32>().iter().map(|text| list(text, kind)).collect::<Result<Vec<_>>>()?;
            match lists.is_empty() {
                true => Ok(new_empty_array(kind)),
                false => ScalarValue::iter_to_array(lists),
            }
        })
    };
    call("list_of", Gives::Always(kind.clone()), run, vec![text])
}

fn list(text: Option<&str>, kind: &DataType) -> Result<ScalarValue> {
    let Some(text) = text else { return ScalarValue::try_new_null(kind) };
    if text.trim_start().starts_with('[') || text.replace(char::is_whitespace, "").starts_with("{{") {
        return Err(refused("arrays have one dimension here, which counts from 1; write {a,b}"));
    }
    let read = values::of_text(text, kind).and_then(|list| match decimals::are_both(&list.data_type(), kind) {
        // No digit may go.
        true if list.cast_to(kind)?.cast_to(&list.data_type())? != list => {
            Err(refused("an array of numeric keeps ten digits behind the point here; write numeric(38, 20)[]"))
        }
        _ => list.cast_to(kind),
    });
    read.map_err(|fault| match Classed::of(&fault) {
        Some(_) => fault,
        None => error("22P02", tables::message(&fault)),
    })
}

/// A date or a timestamp of a text.
pub(super) fn moment_of(expr: Expr, kind: &DataType) -> Option<Expr> {
    if let Some(moment) = in_nanoseconds(&expr, kind) {
        return Some(moment);
    }
    let micros = |zone: bool| DataType::Timestamp(TimeUnit::Microsecond, zone.then(|| "+00:00".into()));
    let (name, gives, run): (_, _, fn(&ScalarFunctionArgs) -> Result<ColumnarValue>) = match kind {
        DataType::Date32 => ("date_of", DataType::Date32, |args| {
            by_arrays(args, |arrays| {
                let days = moments(&arrays[0], "date", false)?;
                let days = days.into_iter().map(|at| at.and_then(|at| i32::try_from(at.div_euclid(DAY)).ok()));
                Ok(Arc::new(Date32Array::from_iter(days)) as ArrayRef)
            })
        }),
        DataType::Timestamp(_, None) => ("timestamp_of", micros(false), |args| {
            by_arrays(args, |arrays| {
                let moments = moments(&arrays[0], "timestamp", false)?;
                Ok(Arc::new(TimestampMicrosecondArray::from(moments)) as ArrayRef)
            })
        }),
        DataType::Timestamp(_, Some(_)) => ("timestamptz_of", micros(true), |args| {
            by_arrays(args, |arrays| {
                let moments = moments(&arrays[0], "timestamp with time zone", true)?;
                Ok(Arc::new(TimestampMicrosecondArray::from(moments).with_timezone("+00:00")) as ArrayRef)
            })
        }),
        _ => return None,
    };
    Some(call(name, Gives::Always(gives), run, vec![expr]))
}

/// The timestamp of a literal that says more than microseconds, which columns may hold. PostgreSQL
/// rounds it.
fn in_nanoseconds(expr: &Expr, kind: &DataType) -> Option<Expr> {
    let (Expr::Literal(text, _), DataType::Timestamp(_, zone)) = (expr, kind) else { return None };
    let (_, fraction) = text.try_as_str().flatten()?.split_once('.')?;
    let digits = fraction.split(|digit: char| !digit.is_ascii_digit()).next()?.trim_end_matches('0');
    let moment = (digits.len() > 6).then(|| text.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, zone.clone())));
    Some(Expr::Literal(moment?.ok()?, None))
}

fn moments(texts: &ArrayRef, kind: &str, zone: bool) -> Result<Vec<Option<i64>>> {
    let texts = cast(texts, &DataType::Utf8)?;
    let moment = |text: Option<&str>| match text {
        Some(text) => moment(text, zone).map(Some).ok_or_else(|| no_moment(text, kind)),
        None => Ok(None),
    };
    texts.as_string::<i32>().iter().map(moment).collect()
}

fn no_moment(text: &str, kind: &str) -> DataFusionError {
    error("22007", format!("invalid input syntax for type {kind}: \"{text}\"; write 2024-02-29 13:04:05.5"))
}

/// The microseconds after 1970 of `2024-02-29 13:04:05.5+02`. A zone counts where `zone` says so,
/// and is left out elsewhere.
fn moment(text: &str, zone: bool) -> Option<i64> {
    let text = text.trim();
    let (text, before_christ) = match text.strip_suffix(" BC") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (date, time) = match text.split_once([' ', 'T', 't']) {
        Some((date, time)) => (date, time.trim()),
        None => (text, ""),
    };
    let days = day(date, before_christ)?;
    let (clock, offset) = split_zone(time)?;
    let micros = if clock.is_empty() { 0 } else { time_of_day(clock)? };
    let offset = if zone { offset } else { 0 };
    Some(days * DAY + micros - offset)
}

/// A day as `2024-02-29` or `20240229`.
fn day(text: &str, before_christ: bool) -> Option<i64> {
    let (year, month, day) = match text.split_once('-') {
        Some((year, rest)) => {
            let (month, day) = rest.split_once('-')?;
            (year, month, day)
        }
        None if text.len() == 8 && text.is_ascii() => (&text[..4], &text[4..6], &text[6..]),
        None => return None,
    };
    (year.len() >= 3).then_some(())?;
    let (year, month, day) = (digits(year, 6)?, digits(month, 2)?, digits(day, 2)?);
    (year > 0).then_some(())?;
    let year = if before_christ { 1 - year } else { year };
    let is_day = is_year(year) && (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    is_day.then(|| days_of(year, month, day))
}

fn digits(text: &str, most: usize) -> Option<i64> {
    let all = !text.is_empty() && text.len() <= most && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok())?
}

/// The time of a day, and what its zone is ahead of UTC.
fn split_zone(time: &str) -> Option<(&str, i64)> {
    let Some(at) = time.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.') else { return Some((time, 0)) };
    let (clock, zone) = time.split_at(at);
    let zone = zone.trim();
    if ["z", "utc", "gmt"].iter().any(|name| zone.eq_ignore_ascii_case(name)) {
        return Some((clock.trim_end(), 0));
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = match zone[1..].split_once(':') {
        Some(parts) => parts,
        None if zone.len() == 5 => zone[1..].split_at(2),
        None => (&zone[1..], "0"),
    };
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    (hours < 16 && minutes < 60).then_some((clock.trim_end(), sign * (hours * 60 + minutes) * 60_000_000))
}

fn time_of_day(clock: &str) -> Option<i64> {
    let mut parts = clock.split(':');
    let (hours, minutes) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let seconds = parts.next().unwrap_or("0");
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let seconds = digits(seconds, 2)?;
    let fraction = match fraction {
        "" => 0,
        digits if digits.len() <= 18 => (format!("0.{digits}").parse::<f64>().ok()? * 1e6).round_ties_even() as i64,
        _ => return None,
    };
    let micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction;
    let is_time = parts.next().is_none() && minutes < 60 && seconds <= 60 && micros <= DAY;
    is_time.then_some(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_moments_with_and_without_zones() {
        let day = days_of(2024, 2, 29) * DAY;
        let noon = day + DAY / 2;
        for (text, zone, micros) in [
            ("2024-02-29", false, Some(day)),
            (" 20240229 ", false, Some(day)),
            ("2024-02-29 12:00", false, Some(noon)),
            ("2024-02-29T12:00:00.25", false, Some(noon + 250_000)),
            ("2024-02-29 12:00:00+05", false, Some(noon)),
            ("2024-02-29 12:00:00+05:30", true, Some(noon - 19_800_000_000)),
            ("2024-02-29 12:00:00 UTC", true, Some(noon)),
            ("2024-02-29 24:00:00", true, Some(day + DAY)),
            ("0001-01-01 BC", false, Some(days_of(0, 1, 1) * DAY)),
            ("2024-02-30", false, None),
            ("2024-02-29 12", false, None),
            ("2024-02-29 12:61", false, None),
            ("2024-02-29 12:00 Europe/Berlin", true, None),
            ("yesterday", false, None),
        ] {
            assert_eq!(moment(text, zone), micros, "{text}");
        }
    }
}
