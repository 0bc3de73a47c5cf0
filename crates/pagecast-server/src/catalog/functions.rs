//! The functions that PostgreSQL's clients call beside its catalog. Most have one answer here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListBuilder, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::prelude::SessionContext;
use pagecast_sql::values::by_arrays;

use super::types;
use super::{DATABASE, SCHEMA};
use crate::settings;

/// The numbers of tables that are found with their schema only: those of `information_schema`.
const HIDDEN: std::ops::Range<i64> = super::FIRST_INFORMATION_OID..super::FIRST_TABLE_OID;

/// What a function answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Answer {
    /// The same, whatever it is asked.
    Always(ScalarValue),
    /// A type's name in SQL, of its number and what is kept beside it.
    TypeName,
    /// A type's number, of its name.
    TypeNumber,
    /// A table's number, of its name.
    TableNumber(Arc<BTreeMap<String, i64>>),
    /// A table's name, of its number.
    TableName(Arc<BTreeMap<String, i64>>),
    /// A function's number, of its name, and back.
    FunctionNumber,
    FunctionName,
    /// The parts of a name, and the first or the last place of a list.
    NameParts,
    /// An object of JSON, of names and values in turn.
    Object,
    /// A text with `%s`, `%I` and `%L` filled in.
    Filled,
    /// Whether a table, of its number, is found without its schema.
    Visible,
    /// Its first argument.
    First,
    /// A name as SQL writes it.
    Quoted,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    name: &'static str,
    answer: Answer,
    signature: Signature,
}

impl Function {
    fn of(name: &'static str, answer: Answer) -> ScalarUDF {
        let any = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
        ScalarUDF::new_from_impl(Self { name, answer, signature: Signature::one_of(any, Volatility::Stable) })
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match &self.answer {
            Answer::Always(value) => value.data_type(),
            Answer::TypeNumber | Answer::TableNumber(_) | Answer::FunctionNumber => DataType::Int64,
            Answer::Visible => DataType::Boolean,
            Answer::NameParts => DataType::new_list(DataType::Utf8, true),
            _ => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Answer::Always(value) = &self.answer {
            return Ok(ColumnarValue::Scalar(value.clone()));
        }
        by_arrays(&args, |arguments| self.answered(arguments))
    }
}

impl Function {
    fn answered(&self, arguments: &[ArrayRef]) -> Result<ArrayRef> {
        let count = arguments.first().map_or(1, |first| first.len());
        let text = |at: usize| column(arguments, at, &DataType::Utf8, self.name);
        let number = |at: usize| column(arguments, at, &DataType::Int64, self.name);
        Ok(match &self.answer {
            Answer::Always(value) => value.to_array_of_size(count)?,
            Answer::TypeName => {
                let (kinds, modifiers) = (number(0)?, number(1).or_else(|_| number(0))?);
                let (kinds, modifiers) = (kinds.as_primitive::<Int64Type>(), modifiers.as_primitive::<Int64Type>());
                let named = |row: usize| {
                    let modifier =
                        if arguments.len() > 1 && modifiers.is_valid(row) { modifiers.value(row) } else { -1 };
                    kinds.is_valid(row).then(|| types::in_sql(kinds.value(row), modifier))
                };
                Arc::new(StringArray::from_iter((0..count).map(named)))
            }
            Answer::TypeNumber => {
                let names = text(0)?;
                let numbers = names.as_string::<i32>().iter().map(|name| types::of_name(name?));
                Arc::new(Int64Array::from_iter(numbers))
            }
            Answer::TableNumber(tables) => {
                let names = text(0)?;
                let numbers = names.as_string::<i32>().iter().map(|name| number_of(tables, name?));
                Arc::new(Int64Array::from_iter(numbers))
            }
            Answer::TableName(tables) => {
                let numbers = number(0)?;
                let name = |number: Option<i64>| {
                    let number = number?;
                    let known = tables.iter().find(|(_, other)| **other == number);
                    Some(known.map_or_else(|| number.to_string(), |(name, _)| name.clone()))
                };
                Arc::new(StringArray::from_iter(numbers.as_primitive::<Int64Type>().iter().map(name)))
            }
            Answer::FunctionNumber => {
                let names = text(0)?;
                let numbers = names.as_string::<i32>().iter().map(|name| types::function(name?));
                Arc::new(Int64Array::from_iter(numbers))
            }
            Answer::FunctionName => {
                let numbers = number(0)?;
                let names = numbers.as_primitive::<Int64Type>().iter().map(|oid| Some(types::function_named(oid?)));
                Arc::new(StringArray::from_iter(names))
            }
            Answer::NameParts => {
                let names = text(0)?;
                let mut parts = ListBuilder::new(StringBuilder::new());
                for name in names.as_string::<i32>() {
                    parts.append_option(name.map(|name| name_parts(name).into_iter().map(Some)));
                }
                Arc::new(parts.finish())
            }
            Answer::Filled => Arc::new(StringArray::from_iter(filled(arguments, count)?)),
            Answer::Visible => {
                let numbers = number(0)?;
                let is_visible = |oid: Option<i64>| Some(!HIDDEN.contains(&oid?));
                Arc::new(BooleanArray::from_iter(numbers.as_primitive::<Int64Type>().iter().map(is_visible)))
            }
            Answer::Object => Arc::new(StringArray::from_iter_values(objects(arguments, count)?)),
            Answer::First => text(0)?,
            Answer::Quoted => {
                let names = text(0)?;
                Arc::new(StringArray::from_iter(names.as_string::<i32>().iter().map(|name| name.map(quoted))))
            }
        })
    }
}

fn column(arguments: &[ArrayRef], at: usize, kind: &DataType, name: &str) -> Result<ArrayRef> {
    let missing = || DataFusionError::Plan(format!("{name} takes more arguments"));
    Ok(cast(arguments.get(at).ok_or_else(missing)?, kind)?)
}

/// The number of a table by its name, with or without its schema, in quotes or not; or of a number.
fn number_of(tables: &BTreeMap<String, i64>, name: &str) -> Option<i64> {
    let bare = name.strip_prefix("public.").or_else(|| name.strip_prefix("\"public\".")).unwrap_or(name);
    let bare = bare.strip_prefix("pg_catalog.").unwrap_or(bare).trim_matches('"');
    tables.get(bare).copied().or_else(|| bare.parse().ok())
}

/// The names in `a."B"`, as PostgreSQL keeps them.
fn name_parts(name: &str) -> Vec<String> {
    let (mut parts, mut part, mut quoted) = (Vec::new(), String::new(), false);
    for character in name.chars() {
        match character {
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(std::mem::take(&mut part)),
            character if quoted => part.push(character),
            character => part.extend(character.to_lowercase()),
        }
    }
    parts.push(part);
    parts
}

/// Objects of JSON whose names and values take turns among the arguments.
fn objects(arguments: &[ArrayRef], count: usize) -> Result<Vec<String>> {
    let mut objects = vec![String::from("{"); count];
    for pair in arguments.chunks(2) {
        let [names, values] = pair else {
            return Err(DataFusionError::Plan("json_build_object takes names and values in turn".to_owned()));
        };
        let is_bare = values.data_type().is_numeric() || values.data_type() == &DataType::Boolean;
        let (names, values) = (cast(names, &DataType::Utf8)?, cast(values, &DataType::Utf8)?);
        let (names, values) = (names.as_string::<i32>(), values.as_string::<i32>());
        for (row, object) in objects.iter_mut().enumerate() {
            let name = if names.is_valid(row) { names.value(row) } else { "" };
            let value = match values.is_valid(row) {
                false => "null".to_owned(),
                true if is_bare => values.value(row).to_owned(),
                true => in_json(values.value(row)),
            };
            let comma = if object.len() > 1 { "," } else { "" };
            object.push_str(&format!("{comma}{}:{value}", in_json(name)));
        }
    }
    objects.iter_mut().for_each(|object| object.push('}'));
    Ok(objects)
}

/// `format('%s: %I', text, name)` of each row. A place that nothing is for stays empty.
fn filled(arguments: &[ArrayRef], count: usize) -> Result<Vec<Option<String>>> {
    let texts = arguments.iter().map(|values| Ok(cast(values, &DataType::Utf8)?)).collect::<Result<Vec<_>>>()?;
    let text = |at: usize, row: usize| {
        let values = texts.get(at)?.as_string::<i32>();
        values.is_valid(row).then(|| values.value(row))
    };
    let row = |row: usize| {
        let (mut filled, mut next, mut rest) = (String::new(), 1, text(0, row)?.chars());
        while let Some(character) = rest.next() {
            let kind = if character == '%' { rest.next() } else { None };
            match kind {
                None | Some('%') => filled.push(character),
                Some(kind) => {
                    let value = text(next, row);
                    next += 1;
                    match (kind, value) {
                        ('I', value) => filled.push_str(&quoted(value.unwrap_or_default())),
                        ('L', Some(value)) => filled.push_str(&format!("'{}'", value.replace('\'', "''"))),
                        ('L', None) => filled.push_str("NULL"),
                        (_, value) => filled.push_str(value.unwrap_or_default()),
                    }
                }
            }
        }
        Some(filled)
    };
    Ok((0..count).map(row).collect())
}

/// A text as JSON has it.
fn in_json(text: &str) -> String {
    let mut json = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            character if character < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(character))),
            character => json.push(character),
        }
    }
    json.push('"');
    json
}

fn quoted(name: &str) -> String {
    let plain = |(at, c): (usize, char)| c == '_' || c.is_ascii_lowercase() || (at > 0 && c.is_ascii_digit());
    match !name.is_empty() && name.char_indices().all(plain) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// Functions that answer the same for all.
pub(super) fn install(ctx: &SessionContext, tables: BTreeMap<String, i64>) {
    let none = ScalarValue::Utf8(None);
    let text = |text: &str| ScalarValue::Utf8(Some(text.to_owned()));
    let (yes, no, zero) =
        (ScalarValue::Boolean(Some(true)), ScalarValue::Boolean(Some(false)), ScalarValue::Int64(Some(0)));
    let version = format!("PostgreSQL {} on pagecast", settings::VERSION);
    let schemas = [text("pg_catalog"), text(SCHEMA)];
    let schemas = ScalarValue::List(ScalarValue::new_list_nullable(&schemas, &DataType::Utf8));
    let micros = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
    let now = ScalarValue::TimestampMicrosecond(Some(micros), Some("+00:00".into()));
    let owner = text(DATABASE);
    let fixed: &[(&[&'static str], ScalarValue)] = &[
        (&["version"], text(&version)),
        (&["current_database", "current_catalog"], text(DATABASE)),
        (&["current_schema"], text(SCHEMA)),
        (&["current_schemas"], schemas),
        (&["pg_get_userbyid"], owner),
        // Void is a text of no letters, as clients read it.
        (&["pg_advisory_unlock_all"], text("")),
        (&["pg_size_pretty"], text("0 bytes")),
        (&["pg_encoding_to_char"], text("UTF8")),
        (&["pg_my_temp_schema", "pg_stat_get_numscans"], ScalarValue::Int64(Some(0))),
        (&["pg_blocking_pids"], ScalarValue::List(ScalarValue::new_list_nullable(&[], &DataType::Int32))),
        (&["pg_postmaster_start_time", "pg_conf_load_time"], now),
        (
            &[
                "pg_advisory_unlock",
                "pg_opclass_is_visible",
                "pg_collation_is_visible",
                "pg_operator_is_visible",
                "pg_type_is_visible",
                "pg_function_is_visible",
                "has_any_column_privilege",
                "has_column_privilege",
                "has_database_privilege",
                "has_function_privilege",
                "has_schema_privilege",
                "has_table_privilege",
            ],
            yes,
        ),
        (
            &[
                "pg_has_role",
                "pg_is_in_recovery",
                "pg_is_other_temp_schema",
                "pg_is_wal_replay_paused",
                "pg_relation_is_publishable",
                "pg_relation_is_updatable",
            ],
            no,
        ),
        (&["pg_database_size", "pg_relation_size", "pg_table_size", "pg_total_relation_size", "pg_indexes_size"], zero),
        (
            &[
                "col_description",
                "pg_get_function_sqlbody",
                "pg_get_statisticsobjdef",
                "pg_get_statisticsobjdef_columns",
                "inet_client_addr",
                "inet_server_addr",
                "obj_description",
                "pg_get_constraintdef",
                "pg_get_expr",
                "pg_get_function_arguments",
                "pg_get_function_identity_arguments",
                "pg_get_function_result",
                "pg_get_functiondef",
                "pg_get_indexdef",
                "pg_get_partkeydef",
                "pg_get_ruledef",
                "pg_get_serial_sequence",
                "pg_get_triggerdef",
                "pg_get_viewdef",
                "pg_tablespace_location",
                "shobj_description",
            ],
            none,
        ),
    ];
    for (names, value) in fixed {
        for name in *names {
            ctx.register_udf(Function::of(name, Answer::Always(value.clone())));
        }
    }
    let tables = Arc::new(tables);
    for (name, answer) in [
        ("format_type", Answer::TypeName),
        ("regtype_name", Answer::TypeName),
        ("to_regtype", Answer::TypeNumber),
        ("to_regclass", Answer::TableNumber(Arc::clone(&tables))),
        ("regclass_name", Answer::TableName(tables)),
        ("to_regproc", Answer::FunctionNumber),
        ("regproc_name", Answer::FunctionName),
        ("parse_ident", Answer::NameParts),
        ("json_build_object", Answer::Object),
        ("format", Answer::Filled),
        ("pg_table_is_visible", Answer::Visible),
        ("catalog_array_to_string", Answer::First),
        ("quote_ident", Answer::Quoted),
    ] {
        ctx.register_udf(Function::of(name, answer));
    }
}

/// The functions that say who a session's user is.
pub(super) fn of_user(ctx: &SessionContext, name: &str) {
    for function in ["current_user", "session_user", "user", "current_role"] {
        ctx.register_udf(Function::of(function, Answer::Always(ScalarValue::Utf8(Some(name.to_owned())))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_sql_needs_it() {
        assert_eq!(quoted("line_item2"), "line_item2");
        assert_eq!(name_parts("Public.\"Two words\""), ["public", "Two words"]);
        assert_eq!(in_json("a\"b\n"), r#""a\"b\u000a""#);
        assert_eq!(quoted("Line \"item"), "\"Line \"\"item\"");
    }

    #[test]
    fn tables_are_found_by_name_and_number() {
        let tables = BTreeMap::from([("lineitem".to_owned(), 16_384)]);
        for name in ["lineitem", "public.lineitem", "\"lineitem\"", "16384"] {
            assert_eq!(number_of(&tables, name), Some(16_384));
        }
        assert_eq!(number_of(&tables, "orders"), None);
    }
}
