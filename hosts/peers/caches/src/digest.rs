//! Of the rows of an answer what `digest` in engines.py makes of them: the same for equal rows, in
//! whatever order and types of numbers they come.

use anyhow::{Result, bail, ensure};
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use md5::{Digest, Md5};

pub fn digest(batches: &[RecordBatch]) -> Result<String> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| values(column)).collect::<Result<Vec<_>>>()?;
        rows.extend((0..batch.num_rows()).map(|row| {
            let row: Vec<&str> = columns.iter().map(|column| column[row].as_str()).collect();
            row.join("|")
        }));
    }
    rows.sort_unstable();
    Ok(format!("{:x}", Md5::digest(rows.join("\n"))))
}

/// Each value as Python writes it. What no report gives is an error, rather than a wrong text.
fn values(column: &dyn Array) -> Result<Vec<String>> {
    let options = FormatOptions::new();
    let plain = ArrayFormatter::try_new(column, &options)?;
    let text = |row: usize| match column.data_type() {
        _ if column.is_null(row) => Ok("None".to_owned()),
        kind if kind.is_integer() || kind.is_decimal() => number(&plain.value(row).to_string()),
        DataType::Float64 => Ok(float(column.as_primitive::<Float64Type>().value(row))),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Date32 => {
            Ok(plain.value(row).to_string())
        }
        other => bail!("no digest of {other}"),
    };
    (0..column.len()).map(text).collect()
}

/// `str(Decimal(text).normalize())`: without zeros at the end, and with a power of ten where
/// Python's decimals show one.
fn number(text: &str) -> Result<String> {
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let all = format!("{whole}{fraction}");
    let all = all.trim_start_matches('0');
    let digits = all.trim_end_matches('0');
    ensure!(digits.len() <= 28, "{text} has more digits than Python's decimals keep");
    let power = (all.len() - digits.len()) as isize - fraction.len() as isize;
    let before_point = digits.len() as isize + power;
    Ok(match digits.split_at_checked(before_point.max(0) as usize) {
        _ if digits.is_empty() => "0".to_owned(),
        _ if power > 0 || before_point <= -6 => {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            format!("{sign}{first}{point}{rest}E{:+}", before_point - 1)
        }
        Some(("", _)) => format!("{sign}0.{}{digits}", "0".repeat(-before_point as usize)),
        Some((_, "")) | None => format!("{sign}{digits}"),
        Some((whole, fraction)) => format!("{sign}{whole}.{fraction}"),
    })
}

/// `str(value)`, with Python's way to write a power of ten. No report gives one: of two shortest
/// texts that are as near, Python may take the other.
fn float(value: f64) -> String {
    let text = format!("{value:?}");
    match text.split_once('e').map(|(digits, power)| (digits, power.parse::<i32>())) {
        Some((digits, Ok(power))) => format!("{digits}e{power:+03}"),
        _ => text.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, StringArray, StringViewArray,
    };

    use super::*;

    /// Both sides by Python.
    #[test]
    fn numbers_are_as_python_writes_them() -> Result<()> {
        let decimals = [
            ("100", "1E+2"),
            ("0.00", "0"),
            ("-0.5000", "-0.5"),
            ("-1200.00", "-1.2E+3"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1E-7"),
            ("-0.00000012", "-1.2E-7"),
            ("1234567890.123456789012345678", "1234567890.123456789012345678"),
            ("-42", "-42"),
            ("9223372036854775807", "9223372036854775807"),
        ];
        for (given, written) in decimals {
            assert_eq!(number(given)?, written);
        }
        assert!(number("12345678901234567890123456785").is_err());
        let floats = [(0.1, "0.1"), (1e16, "1e+16"), (1.25e-7, "1.25e-07"), (1e15, "1000000000000000.0")];
        for (given, written) in floats.into_iter().chain([(0.0001, "0.0001"), (f64::NAN, "nan"), (1e100, "1e+100")]) {
            assert_eq!(float(given), written);
        }
        Ok(())
    }

    #[test]
    fn rows_of_all_types_have_pythons_digest() -> Result<()> {
        let texts = [Some("A é"), None, Some("b")];
        let decimals = |given: [Option<i128>; 3]| Decimal128Array::from(given.to_vec()).with_precision_and_scale(15, 4);
        let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(10561), None, Some(8036)]));
        let columns: [ArrayRef; 5] = [
            Arc::new(Int64Array::from(vec![Some(100), Some(-7), None])),
            Arc::new(decimals([Some(12_005_000), None, Some(-700)])?),
            days,
            Arc::new(decimals([None, Some(0), Some(123_456_789)])?),
            Arc::new(Float64Array::from(vec![Some(2.5), Some(1e16), None])),
        ];
        let strings: [ArrayRef; 2] =
            [Arc::new(StringArray::from_iter(texts)), Arc::new(StringViewArray::from_iter(texts))];
        for text in strings {
            let named = [text].into_iter().chain(columns.clone()).zip(["a", "b", "c", "d", "e", "f"]);
            let batch = RecordBatch::try_from_iter(named.map(|(column, name)| (name, column)))?;
            // Python's, of [("A é", 100, Decimal("1200.50"), date(1998, 12, 1), None, 2.5), ...].
            assert_eq!(digest(&[batch.slice(1, 2), batch.slice(0, 1)])?, "cfd89950f95fda5f2a4b2fc5b34627b6");
        }
        assert_eq!(digest(&[])?, "d41d8cd98f00b204e9800998ecf8427e");
        assert!(values(&BooleanArray::from(vec![true])).is_err());
        Ok(())
    }
}
