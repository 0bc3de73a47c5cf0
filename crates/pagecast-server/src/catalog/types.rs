//! Types as the catalog has them.

use pgwire::api::Type;

use crate::types::element;

/// The types that columns may have, and those that clients look for.
pub(super) const ALL: &[Type] = &[
    Type::BOOL,
    Type::BYTEA,
    Type::CHAR,
    Type::NAME,
    Type::INT8,
    Type::INT2,
    Type::INT4,
    Type::TEXT,
    Type::OID,
    Type::JSON,
    Type::FLOAT4,
    Type::FLOAT8,
    Type::UNKNOWN,
    Type::BPCHAR,
    Type::VARCHAR,
    Type::DATE,
    Type::TIME,
    Type::TIMESTAMP,
    Type::TIMESTAMPTZ,
    Type::INTERVAL,
    Type::NUMERIC,
    Type::UUID,
    Type::JSONB,
    Type::BOOL_ARRAY,
    Type::BYTEA_ARRAY,
    Type::INT2_ARRAY,
    Type::INT4_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::FLOAT4_ARRAY,
    Type::FLOAT8_ARRAY,
    Type::DATE_ARRAY,
    Type::TIME_ARRAY,
    Type::TIMESTAMP_ARRAY,
    Type::TIMESTAMPTZ_ARRAY,
    Type::INTERVAL_ARRAY,
    Type::NUMERIC_ARRAY,
];

/// The letter of a type's kind: how clients know what is a number and what is text.
pub(super) fn category(kind: &Type) -> &'static str {
    match *kind {
        Type::BOOL => "B",
        Type::INT2 | Type::INT4 | Type::INT8 | Type::FLOAT4 | Type::FLOAT8 | Type::NUMERIC | Type::OID => "N",
        Type::DATE | Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ => "D",
        Type::INTERVAL => "T",
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME => "S",
        Type::UNKNOWN => "X",
        _ if element(kind).is_some() => "A",
        _ => "U",
    }
}

/// The number of a type by its name in the catalog or in SQL.
pub(super) fn of_name(name: &str) -> Option<i64> {
    let oid = |kind: &Type| i64::from(kind.oid());
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name).trim_matches('"');
    ALL.iter().find(|&kind| kind.name() == name || in_sql(oid(kind), -1) == name).map(oid)
}

/// A type as SQL writes it, with what PostgreSQL keeps beside it.
pub(super) fn in_sql(oid: i64, modifier: i64) -> String {
    let Some(kind) = u32::try_from(oid).ok().and_then(Type::from_oid) else { return "???".to_owned() };
    if let Some(element) = element(&kind) {
        return format!("{}[]", in_sql(i64::from(element.oid()), modifier));
    }
    let name = match kind {
        Type::BOOL => "boolean",
        Type::INT2 => "smallint",
        Type::INT4 => "integer",
        Type::INT8 => "bigint",
        Type::FLOAT4 => "real",
        Type::FLOAT8 => "double precision",
        Type::VARCHAR => "character varying",
        Type::BPCHAR => "character",
        Type::TIME => "time without time zone",
        Type::TIMESTAMP => "timestamp without time zone",
        Type::TIMESTAMPTZ => "timestamp with time zone",
        Type::NUMERIC if modifier >= 4 => {
            let digits = modifier - 4;
            return format!("numeric({},{})", digits >> 16, digits & 0xffff);
        }
        _ => kind.name(),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_names_in_sql() {
        assert_eq!(in_sql(1700, 983_046), "numeric(15,2)");
        assert_eq!(in_sql(1016, -1), "bigint[]");
        assert_eq!(in_sql(25, -1), "text");
        assert_eq!(in_sql(7, -1), "???");
    }

    #[test]
    fn a_type_is_found_by_both_of_its_names() {
        for (name, oid) in [("int8", Some(20)), ("bigint", Some(20)), ("_int8", Some(1016)), ("hstore", None)] {
            assert_eq!(of_name(name), oid, "{name}");
        }
    }
}
