//! `to_char`: dates and timestamps as a pattern of PostgreSQL lays them out.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{ScalarFunctionArgs, ScalarUDF};

use super::calculation::{Gives, by_arrays, function, refused};
use super::calendar::{DAY_NAMES, MONTH_NAMES, Moment};
use super::patterns::{Field, Letters, Piece, parse};

pub(super) fn to_char() -> ScalarUDF {
    function("to_char", Gives::By(kind), |args: &ScalarFunctionArgs| {
        by_arrays(args, |arrays| written(&arrays[0], &arrays[1]))
    })
}

fn kind(arguments: &[DataType]) -> Result<DataType> {
    match arguments {
        [DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) | DataType::Null, _] => Ok(DataType::Utf8),
        [_, _] => Err(refused(
            "to_char takes dates and timestamps here; write x::text for a number, and extract() for parts of an interval",
        )),
        _ => Err(super::calculation::error("42883", "to_char takes a timestamp and a pattern")),
    }
}

/// Microseconds after 1970 in UTC of dates and timestamps.
pub(super) fn micros(array: &ArrayRef) -> Result<ArrayRef> {
    let zone = match array.data_type() {
        DataType::Timestamp(_, Some(_)) => Some("+00:00".into()),
        _ => None,
    };
    Ok(cast(array, &DataType::Timestamp(TimeUnit::Microsecond, zone))?)
}

pub(super) fn unknown(word: &str, function: &str) -> DataFusionError {
    refused(format!("{function} knows no {word} in a pattern here; put text in double quotes"))
}

fn written(moments: &ArrayRef, patterns: &ArrayRef) -> Result<ArrayRef> {
    let (moments, patterns) = (micros(moments)?, cast(patterns, &DataType::Utf8)?);
    let has_zone = matches!(moments.data_type(), DataType::Timestamp(_, Some(_)));
    let (moments, patterns) = (moments.as_primitive::<TimestampMicrosecondType>(), patterns.as_string::<i32>());
    // One pattern for all rows is the usual thing.
    let mut last: (&str, Vec<Piece>) = ("", Vec::new());
    let mut texts = Vec::with_capacity(moments.len());
    for row in 0..moments.len() {
        if moments.is_null(row) || patterns.is_null(row) {
            texts.push(None);
            continue;
        }
        let pattern = patterns.value(row);
        if last.0 != pattern {
            last = (pattern, parse(pattern).map_err(|word| unknown(&word, "to_char"))?);
            // A moment without a zone has no name for it.
            last.1.retain(|piece| has_zone || !matches!(piece, Piece::Field { field: Field::Zone(_), .. }));
        }
        texts.push(Some(text(Moment::of(moments.value(row)), &last.1)));
    }
    Ok(Arc::new(StringArray::from(texts)))
}

fn text(moment: Moment, pieces: &[Piece]) -> String {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(character) | Piece::Separator(character) => text.push(*character),
            Piece::Field { field, bare, ending } => {
                let start = text.len();
                write_field(moment, *field, *bare, &mut text);
                if let Some(letters) = ending {
                    let ending = ordinal(&text[start..]);
                    text.push_str(&cased(ending, *letters));
                }
            }
        }
    }
    text
}

/// The ending of a number: st, nd, rd or th; nothing behind what is no number.
fn ordinal(number: &str) -> &'static str {
    let number = number.trim();
    if number.is_empty() || !number.ends_with(|c: char| c.is_ascii_digit()) {
        return "";
    }
    let teens = number.len() > 1 && number[..number.len() - 1].ends_with('1');
    match number.as_bytes().last() {
        _ if teens => "th",
        Some(b'1') => "st",
        Some(b'2') => "nd",
        Some(b'3') => "rd",
        _ => "th",
    }
}

fn cased(word: &str, letters: Letters) -> String {
    match letters {
        Letters::Upper => word.to_uppercase(),
        Letters::Lower => word.to_lowercase(),
        Letters::Title => word.to_owned(),
    }
}

fn write_field(moment: Moment, field: Field, bare: bool, text: &mut String) {
    let Moment { year, month, day, micros, .. } = moment;
    // The year before year 1 is the first one before Christ.
    let from_one = |year: i64| if year > 0 { year } else { 1 - year };
    let mut number = |value: i64, digits: usize| {
        let digits = if bare { 0 } else { digits };
        // Nothing that grows its memory refuses text.
        let _ = write!(text, "{value:0digits$}");
    };
    match field {
        Field::Year(digits) | Field::IsoYear(digits) => {
            let year = if matches!(field, Field::Year(_)) { year } else { moment.iso_week().0 };
            let year = from_one(year);
            let year = if digits == 4 { year } else { year % 10i64.pow(u32::from(digits)) };
            number(year, usize::from(digits));
        }
        Field::YearWithComma => {
            let _ = write!(text, "{},{:03}", from_one(year) / 1000, from_one(year) % 1000);
        }
        Field::Century => number(century(year), 2),
        Field::Quarter => number((month - 1) / 3 + 1, 0),
        Field::Month => number(month, 2),
        Field::Day => number(day, 2),
        Field::DayOfYear => number(moment.day_of_year(), 3),
        Field::DayOfWeek => number((moment.weekday() + 1) % 7 + 1, 0),
        Field::IsoDay => number(moment.weekday() + 1, 0),
        Field::WeekOfMonth => number((day - 1) / 7 + 1, 0),
        Field::WeekOfYear => number((moment.day_of_year() - 1) / 7 + 1, 2),
        Field::IsoWeek => number(moment.iso_week().1, 2),
        Field::Julian => number(moment.days + 2_440_588, 0),
        Field::Hour24 => number(moment.hour(), 2),
        Field::Hour12 => number((moment.hour() + 11) % 12 + 1, 2),
        Field::Minute => number(moment.minute(), 2),
        Field::Second => number(moment.second(), 2),
        // These digits are there with FM too.
        Field::Fraction(digits) => {
            let value = micros % 1_000_000 / 10i64.pow(6 - u32::from(digits));
            let _ = write!(text, "{value:0width$}", width = usize::from(digits));
        }
        Field::SecondOfDay => number(micros / 1_000_000, 0),
        Field::HalfDay { letters, points } => {
            let half = if moment.hour() < 12 { "a" } else { "p" };
            let word = if points { format!("{half}.m.") } else { format!("{half}m") };
            text.push_str(&cased(&word, letters));
        }
        // Times are in UTC here.
        Field::Zone(letters) => text.push_str(&cased("UTC", letters)),
        Field::MonthName(letters) => name(MONTH_NAMES[(month - 1) as usize], letters, bare, text),
        Field::DayName(letters) => name(DAY_NAMES[moment.weekday() as usize], letters, bare, text),
        Field::MonthShort(letters) => text.push_str(&cased(&MONTH_NAMES[(month - 1) as usize][..3], letters)),
        Field::DayShort(letters) => text.push_str(&cased(&DAY_NAMES[moment.weekday() as usize][..3], letters)),
    }
}

/// The hundred years of a year: the first begins with year 1.
fn century(year: i64) -> i64 {
    if year > 0 { (year - 1) / 100 + 1 } else { year / 100 - 1 }
}

/// A name, with blanks up to the longest.
fn name(word: &str, letters: Letters, bare: bool, text: &mut String) {
    let width = if bare { 0 } else { 9 };
    let _ = write!(text, "{:width$}", cased(word, letters));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::calendar::days_of;
    use super::*;
    use crate::values::DAY;

    #[test]
    fn moments_are_laid_out_as_postgresql_does() {
        let moment = Moment::of(days_of(2024, 2, 5) * DAY + 13 * 3_600_000_000 + 245_678_901);
        for (pattern, shown) in [
            ("YYYY-MM-DD HH24:MI:SS.US", "2024-02-05 13:04:05.678901"),
            ("HH12 HH PM a.m.", "01 01 PM p.m."),
            ("FMDay, FMDDth Mon YY", "Monday, 5th Feb 24"),
            ("Day|MONTH|mon|DY", "Monday   |FEBRUARY |feb|MON"),
            ("D ID DDD Q WW W IW IYYY", "2 1 036 1 06 1 06 2024"),
            ("Y,YYY YYY Y CC J SSSS", "2,024 024 4 21 2460346 47045"),
            ("\"Year\" YYYY \\\"x", "Year 2024 \"x"),
            ("MS FMMS FF2", "678 678 67"),
            ("TZ tz", "UTC utc"),
        ] {
            assert_eq!(text(moment, &parse(pattern).unwrap()), shown, "{pattern}");
        }
        assert_eq!((ordinal("11"), ordinal("22"), ordinal("3"), ordinal("May")), ("th", "nd", "rd", ""));
    }
}
