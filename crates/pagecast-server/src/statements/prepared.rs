//! PREPARE and EXECUTE as statements.

use datafusion::sql::sqlparser::ast::{DataType, Expr, UnaryOperator, Value};

use crate::problem::Problem;
use crate::types::of_sql;

/// The types that a PREPARE gives its parameters.
pub(super) fn oids(kinds: &[DataType]) -> Result<Vec<u32>, Problem> {
    let oid = |kind: &DataType| {
        of_sql(kind).map(|kind| kind.oid()).ok_or_else(|| {
            Problem::error("0A000", format!("PREPARE knows no parameter of type {kind} here; leave the types out"))
        })
    };
    kinds.iter().map(oid).collect()
}

/// The texts of constants, `None` for null.
pub(super) fn constants(values: &[Expr]) -> Result<Vec<Option<String>>, Problem> {
    values.iter().map(constant).collect()
}

fn constant(value: &Expr) -> Result<Option<String>, Problem> {
    match value {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => constant(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Ok(constant(expr)?.map(|digits| format!("-{digits}"))),
        Expr::TypedString(text) => Ok(text.value.clone().into_string()),
        Expr::Value(value) => match &value.value {
            Value::Null => Ok(None),
            Value::SingleQuotedString(text) => Ok(Some(text.clone())),
            Value::Number(digits, _) => Ok(Some(digits.to_string())),
            Value::Boolean(truth) => Ok(Some(truth.to_string())),
            other => Err(no_constant(&other.to_string())),
        },
        other => Err(no_constant(&other.to_string())),
    }
}

fn no_constant(what: &str) -> Problem {
    Problem::error("0A000", format!("EXECUTE takes constants here, and {what} is none; write its value"))
}
