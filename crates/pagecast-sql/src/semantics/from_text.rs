//! `to_date` and `to_timestamp`: moments of texts that a pattern of PostgreSQL lays out.

use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Date32Array, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, TimeUnit};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{ScalarFunctionArgs, ScalarUDF};

use super::calculation::{Gives, by_arrays, error, function, refused};
use super::calendar::{MONTH_NAMES, days_in, days_of, is_year};
use super::patterns::{Field, Piece, parse};
use super::to_char::unknown;
use crate::values::DAY;

pub(super) fn to_date() -> ScalarUDF {
    function("to_date", Gives::By(date_kind), |args: &ScalarFunctionArgs| {
        by_arrays(args, |arrays| {
            let days = micros(&arrays[0], &arrays[1], "to_date")?;
            let days = days.into_iter().map(|micros| micros.and_then(|at| i32::try_from(at.div_euclid(DAY)).ok()));
            Ok(Arc::new(Date32Array::from_iter(days)) as ArrayRef)
        })
    })
}

pub(super) fn to_timestamp() -> ScalarUDF {
    function("to_timestamp", Gives::By(timestamp_kind), |args: &ScalarFunctionArgs| {
        by_arrays(args, |arrays| {
            let micros = match arrays {
                [seconds] => of_seconds(seconds)?,
                _ => micros(&arrays[0], &arrays[1], "to_timestamp")?,
            };
            Ok(Arc::new(TimestampMicrosecondArray::from(micros).with_timezone("+00:00")) as ArrayRef)
        })
    })
}

fn date_kind(arguments: &[DataType]) -> Result<DataType> {
    match arguments {
        [text, pattern] if is_text(text) && is_text(pattern) => Ok(DataType::Date32),
        _ => Err(refused("to_date takes a text and a pattern; write x::date for a text such as 2024-02-29")),
    }
}

fn timestamp_kind(arguments: &[DataType]) -> Result<DataType> {
    let kind = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
    match arguments {
        [text, pattern] if is_text(text) && is_text(pattern) => Ok(kind),
        [seconds] if seconds.is_numeric() || seconds.is_null() => Ok(kind),
        _ => Err(refused("to_timestamp takes a text and a pattern, or seconds; write x::timestamptz for other texts")),
    }
}

fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null)
}

/// Seconds after 1970 in microseconds.
fn of_seconds(seconds: &ArrayRef) -> Result<Vec<Option<i64>>> {
    let seconds = cast(seconds, &DataType::Float64)?;
    let micros = |seconds: Option<f64>| match seconds {
        None => Ok(None),
        Some(seconds) if seconds.abs() < 9.2e12 => Ok(Some((seconds * 1e6).round() as i64)),
        Some(seconds) => Err(error("22008", format!("timestamp out of range: \"{seconds}\""))),
    };
    seconds.as_primitive::<Float64Type>().iter().map(micros).collect()
}

fn micros(texts: &ArrayRef, patterns: &ArrayRef, function: &str) -> Result<Vec<Option<i64>>> {
    let (texts, patterns) = (cast(texts, &DataType::Utf8)?, cast(patterns, &DataType::Utf8)?);
    let (texts, patterns) = (texts.as_string::<i32>(), patterns.as_string::<i32>());
    let mut last: (&str, Vec<Piece>) = ("", Vec::new());
    let mut micros = Vec::with_capacity(texts.len());
    for row in 0..texts.len() {
        if texts.is_null(row) || patterns.is_null(row) {
            micros.push(None);
            continue;
        }
        let pattern = patterns.value(row);
        if last.0 != pattern {
            last = (pattern, parse(pattern).map_err(|word| unknown(&word, function))?);
        }
        let text = texts.value(row);
        micros.push(Some(read(text, &last.1, function)?));
    }
    Ok(micros)
}

/// What was read so far.
#[derive(Default)]
struct Found {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    fraction: i64,
    /// Whether it is in the second half of a day, where somebody said so.
    afternoon: Option<bool>,
    twelve: bool,
}

/// The microseconds of a text.
fn read(text: &str, pieces: &[Piece], function: &str) -> Result<i64> {
    let mut rest = text.chars().peekable();
    let (mut found, mut extra) = (Found::default(), 0i32);
    for (at, piece) in pieces.iter().enumerate() {
        if rest.peek().is_none() {
            break;
        }
        if at == 0 || matches!(piece, Piece::Field { .. }) {
            while rest.next_if(|c| c.is_whitespace()).is_some() {
                extra += 1;
            }
        }
        match piece {
            // Any sign does, and none does too.
            Piece::Separator(_) => {
                extra -= 1;
                if rest.next_if(|c| c.is_whitespace() || is_sign(*c)).is_some() {
                    extra += 1;
                }
            }
            Piece::Text(_) if extra > 0 => extra -= 1,
            Piece::Text(_) => _ = rest.next(),
            Piece::Field { field, bare, ending } => {
                extra = 0;
                let open = *bare || !matches!(pieces.get(at + 1), Some(Piece::Field { .. }));
                take(*field, open, &mut rest, &mut found, function).map_err(|what| wrong(text, &what))?;
                if ending.is_some() {
                    rest.next();
                    rest.next();
                }
            }
        }
    }
    total(&found).ok_or_else(|| error("22008", format!("date/time field value out of range: \"{text}\"")))
}

/// What is wrong with a field: a sentence, or an error that is ready.
enum Wrong {
    Text(String),
    Refused(DataFusionError),
}

fn wrong(text: &str, what: &Wrong) -> DataFusionError {
    match what {
        Wrong::Text(what) => error("22007", format!("invalid value in \"{text}\": {what}")),
        Wrong::Refused(refusal) => refused(refusal.to_string().replace("External error: ", "")),
    }
}

fn is_sign(character: char) -> bool {
    character.is_ascii() && !character.is_ascii_alphanumeric() && !character.is_ascii_control()
}

/// Up to so many digits; as many as there are where nothing but digits could follow.
fn number(rest: &mut Peekable<Chars<'_>>, most: usize, open: bool) -> std::result::Result<(i64, usize), Wrong> {
    let (mut value, mut count) = (0i64, 0);
    while (open && count < 12) || count < most {
        let Some(digit) = rest.peek().and_then(|c| c.to_digit(10)) else { break };
        rest.next();
        (value, count) = (value * 10 + i64::from(digit), count + 1);
    }
    match count {
        0 => Err(Wrong::Text("digits are missing".to_owned())),
        _ => Ok((value, count)),
    }
}

fn take(
    field: Field,
    open: bool,
    rest: &mut Peekable<Chars<'_>>,
    found: &mut Found,
    function: &str,
) -> std::result::Result<(), Wrong> {
    match field {
        Field::Year(digits) => {
            let (year, count) = number(rest, usize::from(digits), open)?;
            found.year = Some(if digits == 4 || count > usize::from(digits) { year } else { near_2020(year, digits) });
        }
        Field::Month => found.month = Some(number(rest, 2, open)?.0),
        Field::Day => found.day = Some(number(rest, 2, open)?.0),
        Field::DayOfYear => found.day_of_year = Some(number(rest, 3, open)?.0),
        Field::MonthName(_) | Field::MonthShort(_) => {
            let short = matches!(field, Field::MonthShort(_));
            found.month = Some(month(rest, short)?);
        }
        // The name of a day says nothing that the date does not.
        Field::DayName(_) | Field::DayShort(_) => while rest.next_if(|c| c.is_alphabetic()).is_some() {},
        Field::Hour24 => found.hour = number(rest, 2, open)?.0,
        Field::Hour12 => {
            found.hour = number(rest, 2, open)?.0;
            found.twelve = true;
        }
        Field::Minute => found.minute = number(rest, 2, open)?.0,
        Field::Second => found.second = number(rest, 2, open)?.0,
        Field::Fraction(digits) => {
            let (value, count) = number(rest, usize::from(digits), open)?;
            // Digits beyond a millionth are cut.
            let scale = 6 - count.min(18) as i32;
            let power = 10i64.pow(scale.unsigned_abs());
            found.fraction = if scale >= 0 { value * power } else { value / power };
        }
        Field::HalfDay { points, .. } => {
            let word: String = rest.by_ref().take(if points { 4 } else { 2 }).collect();
            found.afternoon = match word.to_ascii_lowercase().replace('.', "").as_str() {
                "am" => Some(false),
                "pm" => Some(true),
                _ => return Err(Wrong::Text(format!("`{word}` is neither AM nor PM"))),
            };
        }
        other => {
            let what = format!("{function} reads no {other:?} here; read year, month and day");
            return Err(Wrong::Refused(refused(what)));
        }
    }
    Ok(())
}

/// A year of few digits: the one nearest to 2020.
fn near_2020(year: i64, digits: u8) -> i64 {
    match digits {
        1 => 2020 + year,
        2 if year < 70 => 2000 + year,
        2 => 1900 + year,
        _ if year < 520 => 2000 + year,
        _ => 1000 + year,
    }
}

fn month(rest: &mut Peekable<Chars<'_>>, short: bool) -> std::result::Result<i64, Wrong> {
    let mut word = String::new();
    while (!short || word.len() < 3)
        && let Some(letter) = rest.next_if(|c| c.is_ascii_alphabetic())
    {
        word.push(letter);
    }
    let at = MONTH_NAMES.iter().position(|name| {
        let name = if short { &name[..3] } else { name };
        name.eq_ignore_ascii_case(&word)
    });
    at.map(|at| at as i64 + 1).ok_or_else(|| Wrong::Text(format!("`{word}` is no month")))
}

/// The microseconds after 1970; `None` if a part is none that a day has.
fn total(found: &Found) -> Option<i64> {
    let year = found.year.unwrap_or(0);
    // There is no year 0: who says nothing gets the one before year 1.
    let days = match found.day_of_year {
        Some(day) => {
            let most = days_of(year + 1, 1, 1) - days_of(year, 1, 1);
            (1..=most).contains(&day).then(|| days_of(year, 1, 1) + day - 1)?
        }
        None => {
            let (month, day) = (found.month.unwrap_or(1), found.day.unwrap_or(1));
            let is_month = is_year(year) && (1..=12).contains(&month);
            (is_month && (1..=days_in(year, month)).contains(&day)).then(|| days_of(year, month, day))?
        }
    };
    let mut hour = found.hour;
    if found.twelve {
        (1..=12).contains(&hour).then_some(())?;
    }
    if let Some(afternoon) = found.afternoon {
        (1..=12).contains(&hour).then_some(())?;
        hour = hour % 12 + if afternoon { 12 } else { 0 };
    } else if found.twelve {
        hour %= 12;
    }
    let is_time = hour < 24 && found.minute < 60 && found.second < 60;
    is_time.then(|| days * DAY + ((hour * 60 + found.minute) * 60 + found.second) * 1_000_000 + found.fraction)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn texts_are_moments() {
        let of = |text: &str, pattern: &str| read(text, &parse(pattern).unwrap(), "to_date").ok();
        let day = Some(days_of(2024, 2, 29) * DAY);
        for (text, pattern) in [
            ("2024-02-29", "YYYY-MM-DD"),
            ("29/02/24", "DD/MM/YY"),
            ("20240229", "YYYYMMDD"),
            ("29 Feb 2024", "DD Mon YYYY"),
            ("February 29, 2024", "Month DD, YYYY"),
            ("2024 060", "YYYY DDD"),
            ("2024/2/29", "YYYY-MM-DD"),
        ] {
            assert_eq!(of(text, pattern), day, "{text} {pattern}");
        }
        let afternoon = day.map(|day| day + 13 * 3_600_000_000 + 5_678_000);
        assert_eq!(of("2024-02-29 01:00:05.678 PM", "YYYY-MM-DD HH12:MI:SS.MS PM"), afternoon);
        for (text, pattern) in [("2024-02-30", "YYYY-MM-DD"), ("2024-13", "YYYY-MM"), ("x", "YYYY"), ("13", "HH12")] {
            assert_eq!(of(text, pattern), None, "{text} {pattern}");
        }
    }
}
