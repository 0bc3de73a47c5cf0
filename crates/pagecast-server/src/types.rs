//! Which PostgreSQL type a column has, and in which of few Arrow types its values are written.

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::sql::sqlparser::ast;
use pagecast_sql::values::canonical;
use pgwire::api::Type;

/// The type of a column on the wire.
pub(super) fn of_arrow(arrow: &DataType) -> Type {
    match canonical(arrow) {
        DataType::Boolean => Type::BOOL,
        DataType::Int16 => Type::INT2,
        DataType::Int32 => Type::INT4,
        DataType::Int64 => Type::INT8,
        DataType::Float32 => Type::FLOAT4,
        DataType::Float64 => Type::FLOAT8,
        DataType::Decimal128(..) | DataType::Decimal256(..) => Type::NUMERIC,
        DataType::BinaryView => Type::BYTEA,
        DataType::Date32 => Type::DATE,
        DataType::Time64(_) => Type::TIME,
        DataType::Timestamp(_, None) => Type::TIMESTAMP,
        DataType::Timestamp(_, Some(_)) => Type::TIMESTAMPTZ,
        DataType::Interval(_) | DataType::Duration(_) => Type::INTERVAL,
        DataType::List(element) => array_of(&of_arrow(element.data_type())),
        _ => Type::TEXT,
    }
}

/// The array of a type.
pub(super) fn array_of(element: &Type) -> Type {
    let known = ARRAYS.iter().find(|(_, known)| known == element);
    known.map_or(Type::TEXT_ARRAY, |(array, _)| array.clone())
}

/// Arrays whose parts are known, and their parts.
const ARRAYS: &[(Type, Type)] = &[
    (Type::BOOL_ARRAY, Type::BOOL),
    (Type::BYTEA_ARRAY, Type::BYTEA),
    (Type::INT2_ARRAY, Type::INT2),
    (Type::INT4_ARRAY, Type::INT4),
    (Type::INT8_ARRAY, Type::INT8),
    (Type::FLOAT4_ARRAY, Type::FLOAT4),
    (Type::FLOAT8_ARRAY, Type::FLOAT8),
    (Type::NUMERIC_ARRAY, Type::NUMERIC),
    (Type::DATE_ARRAY, Type::DATE),
    (Type::TIME_ARRAY, Type::TIME),
    (Type::TIMESTAMP_ARRAY, Type::TIMESTAMP),
    (Type::TIMESTAMPTZ_ARRAY, Type::TIMESTAMPTZ),
    (Type::INTERVAL_ARRAY, Type::INTERVAL),
    (Type::TEXT_ARRAY, Type::TEXT),
    (Type::VARCHAR_ARRAY, Type::VARCHAR),
    (Type::OID_ARRAY, Type::OID),
];

/// The type of what stands in an array.
pub(super) fn element(array: &Type) -> Option<&'static Type> {
    ARRAYS.iter().find(|(known, _)| known == array).map(|(_, element)| element)
}

/// The bytes of a value, or -1 where they vary.
pub(super) fn size(kind: &Type) -> i16 {
    match *kind {
        Type::BOOL => 1,
        Type::INT2 => 2,
        Type::INT4 | Type::FLOAT4 | Type::DATE | Type::OID => 4,
        Type::INT8 | Type::FLOAT8 | Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ => 8,
        Type::INTERVAL => 16,
        _ => -1,
    }
}

/// What PostgreSQL says beside a numeric: its digits and scale in one number; -1 elsewhere.
pub(super) fn modifier(arrow: &DataType) -> i32 {
    match canonical(arrow) {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) if scale >= 0 => {
            ((i32::from(precision) << 16) | i32::from(scale)) + 4
        }
        _ => -1,
    }
}

/// The type that a parameter of this type has in a plan; `None` for one that the statement decides.
pub(super) fn of_parameter(oid: u32) -> Option<DataType> {
    let kind = Type::from_oid(oid)?;
    if let Some(element) = element(&kind) {
        return Some(DataType::new_list(of_parameter(element.oid())?, true));
    }
    Some(match kind {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 => DataType::Int32,
        Type::INT8 | Type::OID => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::NUMERIC => DataType::Decimal128(38, 10),
        Type::BYTEA => DataType::Binary,
        Type::DATE => DataType::Date32,
        Type::TIME => DataType::Time64(TimeUnit::Microsecond),
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        Type::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::CHAR => DataType::Utf8,
        _ => return None,
    })
}

/// How SQL names the type of a parameter.
pub(super) fn in_sql(arrow: &DataType) -> ast::DataType {
    use ast::{ArrayElemTypeDef, ExactNumberInfo, TimezoneInfo};
    match canonical(arrow) {
        DataType::List(element) => {
            let element = Box::new(in_sql(element.data_type()));
            ast::DataType::Array(ArrayElemTypeDef::SquareBracket(element, None))
        }
        DataType::Boolean => ast::DataType::Boolean,
        DataType::Int16 => ast::DataType::SmallInt(None),
        DataType::Int32 => ast::DataType::Int(None),
        DataType::Int64 => ast::DataType::BigInt(None),
        DataType::Float32 => ast::DataType::Real,
        DataType::Float64 => ast::DataType::Double(ExactNumberInfo::None),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            ast::DataType::Numeric(ExactNumberInfo::PrecisionAndScale(u64::from(precision), i64::from(scale)))
        }
        DataType::BinaryView => ast::DataType::Bytea,
        DataType::Date32 => ast::DataType::Date,
        DataType::Time64(_) => ast::DataType::Time(None, TimezoneInfo::None),
        DataType::Timestamp(_, None) => ast::DataType::Timestamp(None, TimezoneInfo::None),
        DataType::Timestamp(..) => ast::DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
        DataType::Interval(_) | DataType::Duration(_) => ast::DataType::Interval { fields: None, precision: None },
        _ => ast::DataType::Text,
    }
}

/// The type on the wire of what SQL names, where parameters can have it.
pub(super) fn of_sql(data_type: &ast::DataType) -> Option<Type> {
    use ast::{ArrayElemTypeDef, DataType, TimezoneInfo};
    Some(match data_type {
        DataType::Boolean | DataType::Bool => Type::BOOL,
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
        DataType::Custom(name, _) => match name.0.last()?.as_ident()?.value.to_ascii_lowercase().as_str() {
            "oid" => Type::OID,
            _ => return None,
        },
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
            let element = of_sql(element)?;
            Some(array_of(&element)).filter(|array| self::element(array) == Some(&element))?
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_types() {
        let words = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        assert_eq!(of_arrow(&words), Type::TEXT);
        assert_eq!(of_arrow(&DataType::UInt64), Type::NUMERIC);
        let list = |element| DataType::new_large_list(element, true);
        assert_eq!(of_arrow(&list(DataType::Int8)), Type::INT2_ARRAY);
        assert_eq!(of_arrow(&list(words)), Type::TEXT_ARRAY);
        assert_eq!(of_arrow(&list(list(DataType::Int8))), Type::TEXT);
        assert_eq!(modifier(&DataType::Decimal128(15, 2)), 983_046);
    }
}
