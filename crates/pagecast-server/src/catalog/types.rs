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
    Type::REGPROC,
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
    Type::TIMETZ,
    Type::NUMERIC,
    Type::UUID,
    Type::JSONB,
    Type::REGCLASS,
    Type::REGTYPE,
    Type::BOOL_ARRAY,
    Type::BYTEA_ARRAY,
    Type::INT2_ARRAY,
    Type::INT4_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::OID_ARRAY,
    Type::VARCHAR_ARRAY,
    Type::FLOAT4_ARRAY,
    Type::FLOAT8_ARRAY,
    Type::DATE_ARRAY,
    Type::TIME_ARRAY,
    Type::TIMESTAMP_ARRAY,
    Type::TIMESTAMPTZ_ARRAY,
    Type::INTERVAL_ARRAY,
    Type::NUMERIC_ARRAY,
];

/// The number of the first function of a type that has no number of PostgreSQL's own here.
const FIRST_FUNCTION: i64 = 12_000;
/// What follows a type's name in those of its functions: from and to text, from and to bytes.
const FUNCTIONS: [&str; 4] = ["in", "out", "recv", "send"];
/// The functions of all arrays.
const OF_ARRAYS: [i64; 4] = [750, 751, 2400, 2401];

/// Functions that read and write values: numbers, names and what they are for.
pub(super) fn functions() -> impl Iterator<Item = (i64, String, &'static Type)> {
    let named = |(kind, what)| (functions_of(kind)[what], function_name(kind, FUNCTIONS[what]), kind);
    let scalars = ALL.iter().filter(|kind| element(kind).is_none());
    let arrays = (0..FUNCTIONS.len()).map(|what| (&Type::TEXT_ARRAY, what));
    scalars.flat_map(|kind| (0..FUNCTIONS.len()).map(move |what| (kind, what))).chain(arrays).map(named)
}

/// The numbers of a type's functions.
pub(super) fn functions_of(kind: &Type) -> [i64; 4] {
    let place = ALL.iter().position(|known| known == kind).unwrap_or(0) as i64;
    match element(kind) {
        Some(_) => OF_ARRAYS,
        None => [0, 1, 2, 3].map(|what| FIRST_FUNCTION + 4 * place + what),
    }
}

/// `int8recv`, `date_recv`: the younger types have a line between.
fn function_name(kind: &Type, what: &str) -> String {
    let (name, line) = match *kind {
        _ if element(kind).is_some() => ("array", "_"),
        Type::DATE | Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::INTERVAL | Type::TIMETZ => {
            (kind.name(), "_")
        }
        Type::NUMERIC | Type::UUID | Type::JSON | Type::JSONB => (kind.name(), "_"),
        _ => (kind.name(), ""),
    };
    format!("{name}{line}{what}")
}

/// The number of a function by its name.
pub(super) fn function(name: &str) -> Option<i64> {
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    functions().find(|(_, known, _)| known == name).map(|(oid, ..)| oid).or_else(|| name.parse().ok())
}

/// The name of a function by its number.
pub(super) fn function_named(oid: i64) -> String {
    let known = functions().find(|(known, ..)| *known == oid);
    known.map_or_else(|| if oid == 0 { "-".to_owned() } else { oid.to_string() }, |(_, name, _)| name)
}

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
pub(in super::super) fn in_sql(oid: i64, modifier: i64) -> String {
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
        Type::TIMETZ => "time with time zone",
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
        assert_eq!(function("pg_catalog.array_recv"), Some(2400));
        assert_eq!(function("date_in").map(function_named).as_deref(), Some("date_in"));
        for (name, oid) in [("int8", Some(20)), ("bigint", Some(20)), ("_int8", Some(1016)), ("hstore", None)] {
            assert_eq!(of_name(name), oid, "{name}");
        }
    }
}
