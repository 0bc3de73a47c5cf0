//! UUIDs are texts in their usual form, `61f0c404-5cb3-11e7-907b-a6006ad3dba0`.
//!
//! DataFusion 55 has no such type: it shows 16 bytes, and compares them with no text. Here a column
//! of them is a text whose field says what it is, and a text beside it may be written as PostgreSQL
//! takes it: in capitals, in braces, without or with other hyphens. The order of the texts is that
//! of the bytes, so that bounds of files stay bounds. The file goes when DataFusion has the type.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::datatypes::{DataType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{Between, BinaryExpr, InList};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Expr, ExprSchemable};

use crate::compares;

/// Arrow's key and value for a column of a file that has UUIDs.
pub(crate) const EXTENSION: (&str, &str) = ("ARROW:extension:name", "arrow.uuid");
/// Ours for a column of a table. Arrow's would be wrong beside a text.
const TEXT: (&str, &str) = ("pagecast:type", "uuid");

/// Whether the 16 bytes of a column of a file are a UUID.
pub(crate) fn is_in_file(field: &Field) -> bool {
    *field.data_type() == DataType::FixedSizeBinary(16)
        && field.metadata().get(EXTENSION.0).is_some_and(|name| name == EXTENSION.1)
}

/// Whether the texts of a column are UUIDs.
pub fn is_text(field: &Field) -> bool {
    field.metadata().get(TEXT.0).is_some_and(|name| name == TEXT.1)
}

/// The same column, whose texts are UUIDs.
pub fn as_text(field: Field) -> Field {
    let mut notes = field.metadata().clone();
    notes.remove(EXTENSION.0);
    notes.insert(TEXT.0.to_owned(), TEXT.1.to_owned());
    field.with_data_type(DataType::Utf8View).with_metadata(notes)
}

/// The same column, of which nothing is known but its type.
pub(crate) fn unmarked(field: Field) -> Field {
    let mut notes = field.metadata().clone();
    match notes.remove(TEXT.0) {
        Some(_) => field.with_metadata(notes),
        None => field,
    }
}

/// The texts of these 16 bytes each; nothing if it is something else.
pub fn texts(values: &ArrayRef) -> Option<ArrayRef> {
    let bytes = values.as_fixed_size_binary_opt().filter(|bytes| bytes.value_length() == 16)?;
    let mut texts = StringViewBuilder::with_capacity(bytes.len());
    for value in bytes {
        texts.append_option(value.map(text));
    }
    Some(Arc::new(texts.finish()))
}

/// The text of 16 bytes.
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.extend([byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])));
    }
    text
}

/// The 16 bytes that a text means; none if it is no UUID. Hyphens may stand behind each four
/// digits.
pub fn parsed(text: &str) -> Option<[u8; 16]> {
    let text = text.trim();
    let inner = text.strip_prefix('{').map_or(Some(text), |rest| rest.strip_suffix('}'))?;
    let (mut bytes, mut digits) = ([0; 16], 0_usize);
    for sign in inner.chars() {
        match sign.to_digit(16) {
            Some(digit) => {
                *bytes.get_mut(digits / 2)? |= (digit as u8) << (4 * (1 - digits % 2));
                digits += 1;
            }
            None if sign == '-' && digits % 4 == 0 && (4..32).contains(&digits) => {}
            None => return None,
        }
    }
    (digits == 32 && !inner.contains("--")).then_some(bytes)
}

/// Texts beside columns of UUIDs, in their usual form.
#[derive(Debug)]
pub(crate) struct UsualForm;

impl FunctionRewrite for UsualForm {
    fn name(&self) -> &'static str {
        "pagecast_uuid"
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema, _config: &ConfigOptions) -> Result<Transformed<Expr>> {
        let is_uuid = |expr: &Expr| {
            matches!(expr, Expr::Column(_)) && expr.to_field(schema).is_ok_and(|(_, field)| is_text(&field))
        };
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) && is_uuid(&left) => {
                Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right: Box::new(usual(*right)?) }))
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) && is_uuid(&right) => {
                Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: Box::new(usual(*left)?), op, right }))
            }
            Expr::InList(InList { expr, list, negated }) if is_uuid(&expr) => {
                let list = list.into_iter().map(usual).collect::<Result<_>>()?;
                Transformed::yes(Expr::InList(InList { expr, list, negated }))
            }
            Expr::Between(Between { expr, negated, low, high }) if is_uuid(&expr) => {
                let (low, high) = (Box::new(usual(*low)?), Box::new(usual(*high)?));
                Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
            }
            other => Transformed::no(other),
        })
    }
}

/// A literal's text as UUIDs are written; all else as it is.
fn usual(expr: Expr) -> Result<Expr> {
    let Expr::Literal(value, notes) = &expr else { return Ok(expr) };
    let Some(Some(written)) = value.try_as_str() else { return Ok(expr) };
    match parsed(written) {
        Some(bytes) => Ok(Expr::Literal(ScalarValue::Utf8(Some(text(&bytes))), notes.clone())),
        None => plan_err!("'{written}' is no UUID"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::FixedSizeBinaryArray;

    use super::*;

    #[test]
    fn texts_are_read_as_postgresql_reads_them() {
        let usual = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for written in [
            usual,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
            "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
        ] {
            assert_eq!(text(&parsed(written).unwrap()), usual, "{written}");
        }
        for written in ["", "x", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99--9c0b-4ef8-bb6d-6bb9bd380a11"] {
            assert_eq!(parsed(written), None, "{written}");
        }
        let bytes = [[7; 16], parsed(usual).unwrap()];
        let array: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter(bytes.iter()).unwrap());
        assert_eq!(texts(&array).unwrap().as_string_view().value(1), usual);
    }
}
