//! `information_schema`, with PostgreSQL's names of types. DataFusion's own says what the session's
//! functions and settings are, and that it says here, too.

use std::sync::Arc;

use anyhow::Context;
use arrow::datatypes::Field;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider};
use datafusion::prelude::SessionContext;
use pgwire::api::Type;

use super::cells::{Row, Value, row, table};
use super::types;
use super::{CATALOG, DATABASE, INFORMATION, Relation, SCHEMA};
use crate::types as wire;

/// What DataFusion knows better.
const OF_DATAFUSION: &[&str] = &["df_settings", "parameters", "routines"];

/// Views that have rows.
const VIEWS: &[(&str, &str)] = &[
    ("applicable_roles", "grantee:t role_name:t is_grantable:t"),
    (
        "character_sets",
        "character_set_catalog:t character_set_schema:t character_set_name:t character_repertoire:t form_of_use:t \
         default_collate_catalog:t default_collate_schema:t default_collate_name:t",
    ),
    (
        "columns",
        "table_catalog:t table_schema:t table_name:t column_name:t ordinal_position:i column_default:t is_nullable:t \
         data_type:t character_maximum_length:n character_octet_length:n numeric_precision:n \
         numeric_precision_radix:n numeric_scale:n datetime_precision:n interval_type:t interval_precision:n \
         character_set_catalog:t character_set_schema:t character_set_name:t collation_catalog:t collation_schema:t \
         collation_name:t domain_catalog:t domain_schema:t domain_name:t udt_catalog:t udt_schema:t udt_name:t \
         scope_catalog:t scope_schema:t scope_name:t maximum_cardinality:n dtd_identifier:t is_self_referencing:t \
         is_identity:t identity_generation:t identity_start:t identity_increment:t identity_maximum:t \
         identity_minimum:t identity_cycle:t is_generated:t generation_expression:t is_updatable:t",
    ),
    ("enabled_roles", "role_name:t"),
    ("information_schema_catalog_name", "catalog_name:t"),
    (
        "schemata",
        "catalog_name:t schema_name:t schema_owner:t default_character_set_catalog:t \
         default_character_set_schema:t default_character_set_name:t sql_path:t",
    ),
    (
        "table_privileges",
        "grantor:t grantee:t table_catalog:t table_schema:t table_name:t privilege_type:t is_grantable:t \
         with_hierarchy:t",
    ),
    (
        "tables",
        "table_catalog:t table_schema:t table_name:t table_type:t self_referencing_column_name:t \
         reference_generation:t user_defined_type_catalog:t user_defined_type_schema:t user_defined_type_name:t \
         is_insertable_into:t is_typed:t commit_action:t",
    ),
];

/// Views of what is never there.
pub(super) const EMPTY: &[(&str, &str)] = &[
    ("check_constraints", "constraint_catalog:t constraint_schema:t constraint_name:t check_clause:t"),
    ("collations", "collation_catalog:t collation_schema:t collation_name:t pad_attribute:t"),
    (
        "column_privileges",
        "grantor:t grantee:t table_catalog:t table_schema:t table_name:t column_name:t privilege_type:t is_grantable:t",
    ),
    (
        "constraint_column_usage",
        "table_catalog:t table_schema:t table_name:t column_name:t constraint_catalog:t constraint_schema:t \
         constraint_name:t",
    ),
    (
        "constraint_table_usage",
        "table_catalog:t table_schema:t table_name:t constraint_catalog:t constraint_schema:t constraint_name:t",
    ),
    ("domains", "domain_catalog:t domain_schema:t domain_name:t data_type:t udt_schema:t udt_name:t"),
    ("element_types", "object_catalog:t object_schema:t object_name:t object_type:t data_type:t udt_name:t"),
    ("foreign_tables", "foreign_table_catalog:t foreign_table_schema:t foreign_table_name:t foreign_server_name:t"),
    (
        "key_column_usage",
        "constraint_catalog:t constraint_schema:t constraint_name:t table_catalog:t table_schema:t table_name:t \
         column_name:t ordinal_position:i position_in_unique_constraint:n",
    ),
    (
        "referential_constraints",
        "constraint_catalog:t constraint_schema:t constraint_name:t unique_constraint_catalog:t \
         unique_constraint_schema:t unique_constraint_name:t match_option:t update_rule:t delete_rule:t",
    ),
    ("sequences", "sequence_catalog:t sequence_schema:t sequence_name:t data_type:t start_value:t increment:t"),
    (
        "table_constraints",
        "constraint_catalog:t constraint_schema:t constraint_name:t table_catalog:t table_schema:t table_name:t \
         constraint_type:t is_deferrable:t initially_deferred:t enforced:t nulls_distinct:t",
    ),
    (
        "triggers",
        "trigger_catalog:t trigger_schema:t trigger_name:t event_manipulation:t event_object_schema:t \
         event_object_table:t action_statement:t action_timing:t",
    ),
    (
        "views",
        "table_catalog:t table_schema:t table_name:t view_definition:t check_option:t is_updatable:t \
         is_insertable_into:t is_trigger_updatable:t is_trigger_deletable:t is_trigger_insertable_into:t",
    ),
];

/// All views and their columns, but those of DataFusion.
pub(super) fn all() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    VIEWS.iter().chain(EMPTY)
}

/// The schema, filled.
pub(super) async fn schema(ctx: &SessionContext, relations: &[Relation]) -> anyhow::Result<Arc<dyn SchemaProvider>> {
    let schema = MemorySchemaProvider::new();
    for (name, columns) in all() {
        let table = table(columns, &rows(name, relations)).with_context(|| format!("{INFORMATION}.{name}"))?;
        schema.register_table((*name).to_owned(), table)?;
    }
    let state = ctx.state();
    let theirs = InformationSchemaProvider::new(Arc::clone(state.catalog_list()))
        .with_table_functions(state.table_functions().clone());
    for name in OF_DATAFUSION {
        if let Some(table) = theirs.table(name).await? {
            schema.register_table((*name).to_owned(), table)?;
        }
    }
    Ok(Arc::new(schema))
}

fn rows(name: &str, relations: &[Relation]) -> Vec<Row> {
    match name {
        "applicable_roles" => vec![row! { grantee: DATABASE, role_name: DATABASE, is_grantable: "NO" }],
        "character_sets" => vec![row! {
            character_set_name: "UTF8", character_repertoire: "UCS", form_of_use: "UTF8",
            default_collate_catalog: DATABASE, default_collate_schema: CATALOG, default_collate_name: "C",
        }],
        "columns" => relations.iter().flat_map(columns).collect(),
        "enabled_roles" => vec![row! { role_name: DATABASE }],
        "information_schema_catalog_name" => vec![row! { catalog_name: DATABASE }],
        "schemata" => {
            let schema = |name| row! { catalog_name: DATABASE, schema_name: name, schema_owner: DATABASE };
            [INFORMATION, CATALOG, SCHEMA].map(schema).into()
        }
        "table_privileges" => relations.iter().map(privilege).collect(),
        "tables" => relations.iter().map(relation).collect(),
        _ => Vec::new(),
    }
}

fn relation(relation: &Relation) -> Row {
    row! {
        table_catalog: DATABASE, table_schema: relation.schema, table_name: relation.name.as_str(),
        table_type: if relation.is_view() { "VIEW" } else { "BASE TABLE" }, is_insertable_into: "NO", is_typed: "NO",
    }
}

fn privilege(relation: &Relation) -> Row {
    row! {
        grantor: DATABASE, grantee: "PUBLIC", table_catalog: DATABASE, table_schema: relation.schema,
        table_name: relation.name.as_str(), privilege_type: "SELECT", is_grantable: "NO", with_hierarchy: "YES",
    }
}

fn columns(relation: &Relation) -> impl Iterator<Item = Row> {
    relation.fields.fields().iter().zip(1i64..).map(|(field, number)| column(relation, field, number))
}

fn column(relation: &Relation, field: &Field, number: i64) -> Row {
    let kind = wire::of_arrow(field.data_type());
    let is_array = wire::element(&kind).is_some();
    let name = if is_array { "ARRAY".to_owned() } else { types::in_sql(i64::from(kind.oid()), -1) };
    let mut row = row! {
        table_catalog: DATABASE, table_schema: relation.schema, table_name: relation.name.as_str(),
        column_name: field.name().as_str(), ordinal_position: number,
        is_nullable: if field.is_nullable() { "YES" } else { "NO" }, data_type: name.as_str(),
        udt_catalog: DATABASE, udt_schema: CATALOG, udt_name: kind.name(),
        dtd_identifier: number.to_string().as_str(), is_self_referencing: "NO", is_identity: "NO",
        identity_cycle: "NO", is_generated: "NEVER", is_updatable: "NO",
    };
    let mut put = |column: &'static str, number: i64| _ = row.insert(column, Value::Number(number));
    match kind {
        Type::TEXT | Type::VARCHAR | Type::BPCHAR => put("character_octet_length", 1 << 30),
        Type::DATE => put("datetime_precision", 0),
        Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::INTERVAL => put("datetime_precision", 6),
        _ => {
            if let Some((digits, radix, scale)) = digits(&kind, wire::modifier(field.data_type())) {
                put("numeric_precision", digits);
                put("numeric_precision_radix", radix);
                if let Some(scale) = scale {
                    put("numeric_scale", scale);
                }
            }
        }
    }
    row
}

/// The digits of a number, in which base, and how many follow the point.
fn digits(kind: &Type, modifier: i32) -> Option<(i64, i64, Option<i64>)> {
    Some(match *kind {
        Type::INT2 => (16, 2, Some(0)),
        Type::INT4 => (32, 2, Some(0)),
        Type::INT8 => (64, 2, Some(0)),
        Type::FLOAT4 => (24, 2, None),
        Type::FLOAT8 => (53, 2, None),
        Type::NUMERIC if modifier >= 4 => {
            let digits = i64::from(modifier - 4);
            (digits >> 16, 10, Some(digits & 0xffff))
        }
        _ => return None,
    })
}
