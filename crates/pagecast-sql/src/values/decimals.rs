//! Decimals of texts: each in the narrowest type that has all of its digits.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType};
use datafusion::common::{DataFusionError, ScalarValue};

/// The value of a text such as `-12.340` or `1e-3`.
///
/// # Errors
///
/// The text is no number, or one of more than 76 digits.
pub fn of_text(text: &str) -> Result<ScalarValue, DataFusionError> {
    let (whole, fraction) = digits(text).ok_or_else(|| DataFusionError::Plan(format!("`{text}` is no numeric")))?;
    let sign = if text.trim().starts_with('-') { "-" } else { "" };
    let kind = holding(whole.len(), fraction.len())?;
    ScalarValue::try_from_string(format!("{sign}0{whole}.{fraction}0"), &kind)
}

/// The digits before and behind the point.
pub(crate) fn digits(text: &str) -> Option<(String, String)> {
    let text = text.trim();
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent = exponent.parse::<i16>().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, fraction].concat();
    if all.is_empty() || exponent.unsigned_abs() > 100 || !all.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // The exponent moves the point, at times beyond the digits.
    let point = whole.len() as isize + isize::from(exponent);
    let (front, behind) = ((-point).max(0) as usize, (point - all.len() as isize).max(0) as usize);
    let all = [&"0".repeat(front), all.as_str(), &"0".repeat(behind)].concat();
    let (whole, fraction) = all.split_at(point.max(0) as usize);
    Some((whole.trim_start_matches('0').to_owned(), fraction.to_owned()))
}

/// How many digits a number has behind the point, but for zeros at the end; 0 for what is none.
pub(crate) fn behind_the_point(text: &str) -> usize {
    let short = |text: &str| text.split_once('.').is_none_or(|(_, fraction)| fraction.len() <= 10);
    if short(text) && !text.contains(['e', 'E']) {
        return 0;
    }
    digits(text).map_or(0, |(_, fraction)| fraction.trim_end_matches('0').len())
}

/// The type with so many digits before and behind the point.
fn holding(whole: usize, scale: usize) -> Result<DataType, DataFusionError> {
    let too_many = || DataFusionError::Plan(format!("a numeric of {} digits has more than 76", whole + scale));
    let precision = u8::try_from((whole + scale).max(1)).map_err(|_| too_many())?;
    let scale = i8::try_from(scale).map_err(|_| too_many())?;
    if precision <= DECIMAL128_MAX_PRECISION {
        Ok(DataType::Decimal128(precision, scale))
    } else if precision <= DECIMAL256_MAX_PRECISION {
        Ok(DataType::Decimal256(precision, scale))
    } else {
        Err(too_many())
    }
}

/// The type that holds all of these decimals.
///
/// # Errors
///
/// None of their types holds them all.
pub fn widest(values: &[ScalarValue]) -> Result<DataType, DataFusionError> {
    let (mut whole, mut scale) = (0, 0);
    for value in values.iter().filter(|value| !value.is_null()) {
        if let DataType::Decimal128(digits, of) | DataType::Decimal256(digits, of) = value.data_type() {
            let of = usize::try_from(of).unwrap_or(0);
            (whole, scale) = (whole.max(usize::from(digits).saturating_sub(of)), scale.max(of));
        }
    }
    holding(whole, scale)
}

/// Whether both are decimals, or both lists of them. Such are written and compared digit by digit.
pub fn are_both(one: &DataType, other: &DataType) -> bool {
    let is_wide = |kind: &DataType| matches!(kind, DataType::Decimal128(..) | DataType::Decimal256(..));
    match (one, other) {
        (DataType::List(one), DataType::List(other)) => are_both(one.data_type(), other.data_type()),
        _ => is_wide(one) && is_wide(other),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn texts_keep_all_digits() {
        let shown = |text: &str| of_text(text).unwrap().to_string();
        for text in ["12.340", "-0.000000000001", "123456789012345678901234567890.5", "0"] {
            assert_eq!(shown(text), text);
        }
        assert_eq!((shown("1.5e3"), shown("25E-3"), shown("007.5")), ("1500".into(), "0.025".into(), "7.5".into()));
        assert!(matches!(of_text(&"9".repeat(60)).unwrap(), ScalarValue::Decimal256(Some(_), 60, 0)));
        for text in ["", ".", "1e", "NaN", "1,5", "1e400", &"9".repeat(77)] {
            assert!(of_text(text).is_err(), "{text}");
        }
    }
}
