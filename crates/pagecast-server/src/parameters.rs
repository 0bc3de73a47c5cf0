//! Parameters of prepared statements, from the text or binary format.

use arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion::common::ScalarValue;
use pgwire::api::Type;

use pagecast_sql::values::{decimals, list, of_text};

use super::problem::Problem;
use super::rows::{EPOCH_DAYS, EPOCH_MICROS, Format, numeric_text};

/// Parameter `number`, counted from 1, of type `oid` on the wire and `kind` in the plan.
pub(super) fn value(
    number: usize,
    oid: u32,
    kind: &DataType,
    format: Format,
    bytes: Option<&[u8]>,
) -> Result<ScalarValue, Problem> {
    let Some(bytes) = bytes else { return ScalarValue::try_new_null(kind).map_err(|error| Problem::of(&error)) };
    let wrong = |what: &str| Problem::error("22P03", format!("parameter ${number}: {what}"));
    let value = match format {
        Format::Text => {
            let text = std::str::from_utf8(bytes);
            of_text(text.map_err(|_| Problem::error("22021", format!("parameter ${number} is no UTF-8")))?, kind)
        }
        Format::Binary => {
            let sent = Type::from_oid(oid).unwrap_or(Type::UNKNOWN);
            let sent = of_binary(bytes, &sent).ok_or_else(|| wrong(&format!("its bytes are no {}", sent.name())))?;
            // A decimal keeps its digits, whatever it is compared with.
            if decimals::are_both(&sent.data_type(), kind) { Ok(sent) } else { sent.cast_to(kind) }
        }
    };
    value.map_err(|error| Problem::error("22P02", format!("parameter ${number}: {}", Problem::of(&error).message)))
}

/// An array of one dimension.
fn array(bytes: &[u8], element: &Type) -> Option<ScalarValue> {
    let word = |at: usize| Some(i32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let kind = super::types::of_parameter(element.oid())?;
    let count = match word(0)? {
        0 => 0,
        1 => usize::try_from(word(12)?).ok()?,
        _ => return None,
    };
    let (mut at, mut values) = (20, Vec::new());
    for _ in 0..count {
        let length = word(at)?;
        at += 4;
        values.push(match usize::try_from(length) {
            Ok(length) => {
                let value = of_binary(bytes.get(at..at.checked_add(length)?)?, element)?;
                at += length;
                if decimals::are_both(&value.data_type(), &kind) { value } else { value.cast_to(&kind).ok()? }
            }
            Err(_) => ScalarValue::try_new_null(&kind).ok()?,
        });
    }
    list(&values, &kind).ok()
}

fn of_binary(bytes: &[u8], kind: &Type) -> Option<ScalarValue> {
    if let Some(element) = super::types::element(kind) {
        return array(bytes, element);
    }
    Some(match *kind {
        Type::BOOL => ScalarValue::Boolean(Some(*bytes.first()? != 0)),
        Type::INT2 => ScalarValue::Int16(Some(i16::from_be_bytes(bytes.try_into().ok()?))),
        Type::INT4 => ScalarValue::Int32(Some(i32::from_be_bytes(bytes.try_into().ok()?))),
        Type::INT8 => ScalarValue::Int64(Some(i64::from_be_bytes(bytes.try_into().ok()?))),
        Type::OID => ScalarValue::Int64(Some(i64::from(u32::from_be_bytes(bytes.try_into().ok()?)))),
        Type::FLOAT4 => ScalarValue::Float32(Some(f32::from_be_bytes(bytes.try_into().ok()?))),
        Type::FLOAT8 => ScalarValue::Float64(Some(f64::from_be_bytes(bytes.try_into().ok()?))),
        Type::NUMERIC => decimals::of_text(&numeric_text(bytes)?).ok()?,
        Type::BYTEA => ScalarValue::Binary(Some(bytes.to_vec())),
        Type::DATE => ScalarValue::Date32(Some(i32::from_be_bytes(bytes.try_into().ok()?).checked_add(EPOCH_DAYS)?)),
        Type::TIME => ScalarValue::Time64Microsecond(Some(i64::from_be_bytes(bytes.try_into().ok()?))),
        Type::TIMESTAMP | Type::TIMESTAMPTZ => {
            let zone = (*kind == Type::TIMESTAMPTZ).then(|| "+00:00".into());
            let micros = i64::from_be_bytes(bytes.try_into().ok()?).checked_add(EPOCH_MICROS)?;
            ScalarValue::TimestampMicrosecond(Some(micros), zone)
        }
        Type::INTERVAL => {
            let micros = i64::from_be_bytes(bytes.get(..8)?.try_into().ok()?);
            let days = i32::from_be_bytes(bytes.get(8..12)?.try_into().ok()?);
            let months = i32::from_be_bytes(bytes.get(12..)?.try_into().ok()?);
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months, days, micros.checked_mul(1000)?)))
        }
        // The text of these is their binary format.
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN => {
            ScalarValue::Utf8(Some(std::str::from_utf8(bytes).ok()?.to_owned()))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn texts_are_values() {
        let int = |text: &[u8]| value(1, 0, &DataType::Int32, Format::Text, Some(text));
        assert_eq!(int(b"42"), Ok(ScalarValue::Int32(Some(42))));
        let problem = int(b"x").unwrap_err();
        assert!(problem.code == "22P02" && problem.message.starts_with("parameter $1: "), "{problem:?}");
        assert_eq!(of_text("on", &DataType::Boolean).unwrap(), ScalarValue::Boolean(Some(true)));
        assert_eq!(of_text("\\x01ff", &DataType::Binary).unwrap(), ScalarValue::Binary(Some(vec![1, 255])));
    }

    #[test]
    fn decimals_keep_their_digits() {
        let of = |kind: &DataType, text: &str| value(1, 0, kind, Format::Text, Some(text.as_bytes())).unwrap();
        let kind = DataType::Decimal128(15, 2);
        assert_eq!(of(&kind, "12.345"), ScalarValue::Decimal128(Some(12_345), 5, 3));
        assert_eq!(of(&kind, "-0.000000000001"), ScalarValue::Decimal128(Some(-1), 12, 12));
        let list = of(&DataType::new_list(kind, true), "{1.5,NULL,1000}");
        assert_eq!(list.data_type(), DataType::new_list(DataType::Decimal128(5, 1), true));
        // 12.34, where two digits follow the point in the plan.
        let binary = [0, 2, 0, 0, 0, 0, 0, 3, 0, 12, 0x0d, 0x48];
        let found = value(1, Type::NUMERIC.oid(), &DataType::Decimal128(38, 2), Format::Binary, Some(&binary));
        assert_eq!(found.unwrap(), ScalarValue::Decimal128(Some(12_340), 5, 3));
    }

    #[test]
    fn wrong_bytes_are_refused() {
        for (kind, bytes) in [
            (Type::INT4, &b"abc"[..]),
            (Type::NUMERIC, &[0, 1, 0, 0]),
            (Type::NUMERIC, &[0, 1, 0x7f, 0xff, 0, 0, 0, 0, 0, 1]),
            (Type::INT4_ARRAY, &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1]),
            (Type::TEXT, &[0xff]),
            (Type::JSON, b"{}"),
        ] {
            assert_eq!(of_binary(bytes, &kind), None, "{kind}");
        }
    }

    #[test]
    fn numbers_come_back_as_they_went() {
        let text = |bytes: &[u8]| numeric_text(bytes).unwrap();
        assert_eq!(text(&[0, 2, 0, 0, 0, 0, 0, 3, 0, 12, 0x0d, 0x48]), "00012.340");
        assert_eq!(text(&[0, 1, 0, 1, 0x40, 0, 0, 0, 0, 7]), "-000070000");
        assert_eq!(text(&[0, 0, 0, 0, 0, 0, 0, 2]), "00000.00");
        // Less than a ten-thousandth.
        assert_eq!(text(&[0, 1, 0xff, 0xfe, 0, 0, 0, 8, 0, 5]), "0.00000005");
    }
}
