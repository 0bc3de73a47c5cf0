//! PREPARE and EXECUTE as statements, and what casts say of parameters.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, ObjectNamePart, Statement as Ast, TimezoneInfo, UnaryOperator, Value, visit_expressions,
};
use pgwire::api::Type;

use crate::problem::Problem;

/// The types that a PREPARE gives its parameters.
pub(super) fn oids(kinds: &[DataType]) -> Result<Vec<u32>, Problem> {
    let oid = |kind: &DataType| {
        kind_of(kind).map(|kind| kind.oid()).ok_or_else(|| {
            Problem::error("0A000", format!("PREPARE knows no parameter of type {kind} here; leave the types out"))
        })
    };
    kinds.iter().map(oid).collect()
}

fn kind_of(kind: &DataType) -> Option<Type> {
    Some(match kind {
        DataType::Bool | DataType::Boolean => Type::BOOL,
        DataType::SmallInt(_) | DataType::Int2(_) => Type::INT2,
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => Type::INT4,
        DataType::BigInt(_) | DataType::Int8(_) => Type::INT8,
        DataType::Real | DataType::Float4 => Type::FLOAT4,
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 | DataType::Float(_) => Type::FLOAT8,
        DataType::Numeric(_) | DataType::Decimal(_) => Type::NUMERIC,
        DataType::Text => Type::TEXT,
        DataType::Varchar(_) | DataType::CharacterVarying(_) => Type::VARCHAR,
        DataType::Bytea => Type::BYTEA,
        DataType::Date => Type::DATE,
        DataType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => Type::TIME,
        DataType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => Type::TIMESTAMP,
        DataType::Timestamp(..) => Type::TIMESTAMPTZ,
        DataType::Interval { .. } => Type::INTERVAL,
        DataType::Custom(name, _) => {
            let name = name.0.last().and_then(ObjectNamePart::as_ident)?;
            match name.value.to_ascii_lowercase().as_str() {
                "int2" => Type::INT2,
                "int4" => Type::INT4,
                "int8" => Type::INT8,
                "float4" => Type::FLOAT4,
                "float8" => Type::FLOAT8,
                "bool" => Type::BOOL,
                "timestamptz" => Type::TIMESTAMPTZ,
                "text" => Type::TEXT,
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// The types of parameters as the client tells them, and where it does not, as a cast does.
pub(super) fn told(ast: &Ast, oids: &[u32]) -> Vec<u32> {
    let mut told = oids.to_vec();
    let _ = visit_expressions(ast, |expr| {
        if let Expr::Cast { expr, data_type, .. } = expr
            && let Expr::Value(value) = &**expr
            && let Value::Placeholder(name) = &value.value
            && let Some(number) = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok())
            && let Some(kind) = kind_of(data_type)
            && (1..=usize::from(u16::MAX)).contains(&number)
        {
            told.resize(told.len().max(number), 0);
            if told[number - 1] == 0 || told[number - 1] == Type::UNKNOWN.oid() {
                told[number - 1] = kind.oid();
            }
        }
        ControlFlow::<()>::Continue(())
    });
    told
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
