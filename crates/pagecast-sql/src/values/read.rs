//! Values of texts as PostgreSQL's clients write them.

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, ScalarValue};

use super::decimals;

/// A value of its text.
///
/// # Errors
///
/// The text is no value of this type.
pub fn of_text(text: &str, kind: &DataType) -> Result<ScalarValue, DataFusionError> {
    match kind {
        DataType::List(element) => {
            let parts = parts(text).ok_or_else(|| DataFusionError::Plan(format!("`{text}` is no array {{a,b}}")))?;
            let part = |part: &Option<String>| match part {
                Some(text) => of_text(text, element.data_type()),
                None => ScalarValue::try_new_null(element.data_type()),
            };
            list(&parts.iter().map(part).collect::<Result<Vec<_>, _>>()?, element.data_type())
        }
        kind if kind.is_decimal() => decimals::of_text(text),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let bytes = hex(text).unwrap_or_else(|| text.as_bytes().to_vec());
            ScalarValue::Binary(Some(bytes)).cast_to(kind)
        }
        // JDBC sends a date with a time zone, which a date does not have.
        DataType::Date32 => {
            let day = text.split_whitespace().next().unwrap_or(text);
            ScalarValue::try_from_string(day.to_owned(), kind)
        }
        // Arrow knows fewer words than PostgreSQL.
        DataType::Boolean => {
            let word = text.trim().to_ascii_lowercase();
            let word = match word.as_str() {
                "on" | "yes" | "y" => "true",
                "off" | "no" | "n" => "false",
                word => word,
            };
            ScalarValue::try_from_string(word.to_owned(), kind)
        }
        _ => ScalarValue::try_from_string(text.to_owned(), kind),
    }
}

/// A list of these values, which has all digits of its decimals.
///
/// # Errors
///
/// A value is none of this type.
pub fn list(values: &[ScalarValue], element: &DataType) -> Result<ScalarValue, DataFusionError> {
    let element = &if element.is_decimal() { decimals::widest(values)? } else { element.clone() };
    let values = values.iter().map(|value| value.cast_to(element)).collect::<Result<Vec<_>, _>>()?;
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, element)))
}

/// The parts of `{1,NULL,"two words"}`; `None` if it is no such text.
fn parts(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    if inner.trim().is_empty() {
        return Some(Vec::new());
    }
    let (mut parts, mut part, mut quoted, mut open) = (Vec::new(), String::new(), false, false);
    let mut characters = inner.chars();
    let end = |part: &mut String, quoted: &mut bool| {
        let text = std::mem::take(part);
        let text = if *quoted { text } else { text.trim().to_owned() };
        let null = !*quoted && text.eq_ignore_ascii_case("null");
        // A part of no characters is in quotes.
        let is_there = std::mem::take(quoted) || !text.is_empty();
        is_there.then_some((!null).then_some(text))
    };
    while let Some(character) = characters.next() {
        match character {
            '\\' => part.push(characters.next()?),
            '"' => {
                // Blanks around quotes count for nothing, and nothing else stands there.
                if !open && (quoted || !part.trim().is_empty()) {
                    return None;
                }
                if !open {
                    part.clear();
                }
                (open, quoted) = (!open, true);
            }
            ',' if !open => parts.push(end(&mut part, &mut quoted)?),
            character if quoted && !open => character.is_whitespace().then_some(())?,
            // An array of arrays has no type here.
            '{' | '}' if !open => return None,
            character => part.push(character),
        }
    }
    parts.push(end(&mut part, &mut quoted)?);
    (!open).then_some(parts)
}

/// The bytes of `\x0102`.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let pairs = digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    pairs.collect::<Option<Vec<_>>>().filter(|_| digits.len().is_multiple_of(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_have_parts() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parts("{1, NULL,\"a,\\\"b\",\"NULL\"}"), Some(vec![some("1"), None, some("a,\"b"), some("NULL")]));
        assert_eq!(parts("{ \"a b\" , \" c\"}"), Some(vec![some("a b"), some(" c")]));
        assert_eq!(parts("{}"), Some(vec![]));
        assert!(parts("{{1}}").is_none() && parts("{\"}").is_none() && parts("1").is_none());
        assert!(["{a,,b}", "{a,}", "{\"a\"b}", "{a\"b\"}", "{\"a\"\"b\"}"].iter().all(|text| parts(text).is_none()));
    }
}
