//! The tables of `pg_catalog` that stay as they are.

use std::sync::Arc;

use anyhow::Context;
use datafusion::catalog::TableProvider;
use datafusion::sql::sqlparser::keywords::{ALL_KEYWORDS, RESERVED_FOR_IDENTIFIER};
use pgwire::api::Type;

use super::cells::{self, Row, row, table};
use super::columns::{EMPTY, LIVE, TABLES};
use super::information;
use super::types;
use super::{
    CATALOG, CATALOG_OID, DATABASE, DATABASE_OID, INFORMATION, INFORMATION_OID, OWNER_OID, Relation, SCHEMA, SCHEMA_OID,
};
use crate::types as wire;

/// Tables that stand where functions do in a FROM, and that no list names.
const FUNCTIONS: &[&str] = &["pg_get_keywords"];

/// Whether `pg_catalog` has a table of this name.
pub(crate) fn has(name: &str) -> bool {
    columns().any(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// Whether that table never has a row; or that of `information_schema`.
pub(crate) fn is_empty(schema: Option<&str>, name: &str) -> bool {
    let is_one = |tables: &[(&str, &str)]| tables.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    match schema {
        Some(schema) if schema.eq_ignore_ascii_case(INFORMATION) => is_one(information::EMPTY),
        Some(schema) if !schema.eq_ignore_ascii_case(CATALOG) => false,
        _ => is_one(EMPTY),
    }
}

fn columns() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    TABLES.iter().chain(EMPTY).chain(LIVE)
}

/// PostgreSQL's own tables, as relations of the catalog.
pub(super) fn own() -> impl Iterator<Item = (&'static str, &'static str, arrow::datatypes::SchemaRef)> {
    let shown = columns().filter(|(name, _)| !FUNCTIONS.contains(name));
    let catalog = shown.map(|(name, columns)| (CATALOG, *name, cells::schema(columns)));
    catalog.chain(information::all().map(|(name, columns)| (INFORMATION, *name, cells::schema(columns))))
}

/// All tables, filled.
pub(super) fn all(relations: &[Relation]) -> anyhow::Result<Vec<(&'static str, Arc<dyn TableProvider>)>> {
    let mut all: Vec<(&'static str, Arc<dyn TableProvider>)> = Vec::new();
    for (name, columns) in TABLES.iter().chain(EMPTY) {
        all.push((name, table(columns, &rows(name, relations)).with_context(|| format!("{CATALOG}.{name}"))?));
    }
    Ok(all)
}

fn rows(name: &str, relations: &[Relation]) -> Vec<Row> {
    match name {
        "pg_am" => vec![row! { oid: 2, amname: "heap", amtype: "t" }],
        "pg_attribute" => relations.iter().flat_map(attributes).collect(),
        "pg_class" => relations.iter().map(class).collect(),
        "pg_database" => vec![row! {
            oid: DATABASE_OID, datname: DATABASE, datdba: OWNER_OID, encoding: 6, datlocprovider: "c",
            datallowconn: true, datconnlimit: -1, datcollate: "C", datctype: "C", dattablespace: 1663,
        }],
        "pg_get_keywords" => ALL_KEYWORDS.iter().map(|word| keyword(word)).collect(),
        "pg_namespace" => {
            let named = [(CATALOG_OID, CATALOG), (SCHEMA_OID, SCHEMA), (INFORMATION_OID, INFORMATION)];
            named.map(|(oid, name)| row! { oid: oid, nspname: name, nspowner: OWNER_OID }).into()
        }
        "pg_proc" => types::functions().map(|(oid, name, kind)| function(oid, &name, kind)).collect(),
        "pg_tables" => {
            let tables = relations.iter().filter(|relation| !relation.is_view());
            let table = |relation: &Relation| {
                row! { schemaname: relation.schema, tablename: relation.name.as_str(), tableowner: DATABASE }
            };
            tables.map(table).collect()
        }
        "pg_tablespace" => vec![row! { oid: 1663, spcname: "pg_default", spcowner: OWNER_OID }],
        "pg_type" => types::ALL.iter().map(of_type).collect(),
        _ => Vec::new(),
    }
}

fn class(relation: &Relation) -> Row {
    row! {
        oid: relation.oid, relname: relation.name.as_str(), relnamespace: relation.namespace(), relowner: OWNER_OID,
        relam: if relation.is_view() { 0 } else { 2 }, relfilenode: relation.oid, reltuples: -1, relpersistence: "p",
        relkind: if relation.is_view() { "v" } else { "r" }, relispopulated: true,
        relnatts: relation.fields.fields().len() as i64, relreplident: "n",
    }
}

fn attributes(relation: &Relation) -> impl Iterator<Item = Row> {
    relation.fields.fields().iter().zip(1i64..).map(|(field, number)| {
        let kind = wire::of_arrow(field.data_type());
        row! {
            attrelid: relation.oid, attname: field.name().as_str(), atttypid: i64::from(kind.oid()),
            attstattarget: -1, attlen: i64::from(wire::size(&kind)), attnum: number, attcacheoff: -1,
            atttypmod: i64::from(wire::modifier(field.data_type())), attalign: "i", attstorage: "p",
            attcompression: "", attnotnull: !field.is_nullable(), attidentity: "", attgenerated: "", attislocal: true,
            attndims: i64::from(wire::element(&kind).is_some()),
        }
    })
}

fn of_type(kind: &Type) -> Row {
    let element = wire::element(kind).map_or(0, |element| i64::from(element.oid()));
    let array = wire::array_of(kind);
    let array = if wire::element(&array) == Some(kind) { i64::from(array.oid()) } else { 0 };
    let [input, output, receive, send] = types::functions_of(kind);
    row! {
        oid: i64::from(kind.oid()), typname: kind.name(), typnamespace: CATALOG_OID, typowner: OWNER_OID,
        typlen: i64::from(wire::size(kind)), typtype: "b", typcategory: types::category(kind), typisdefined: true,
        typdelim: ",", typelem: element, typarray: array, typtypmod: -1, typinput: input, typoutput: output,
        typreceive: receive, typsend: send, typalign: "i", typstorage: "p",
    }
}

/// A function that reads or writes values of a type.
fn function(oid: i64, name: &str, kind: &Type) -> Row {
    row! {
        oid: oid, proname: name, pronamespace: CATALOG_OID, proowner: OWNER_OID, prolang: 12, prokind: "f",
        proisstrict: true, provolatile: "i", pronargs: 1, prorettype: i64::from(kind.oid()), procost: 1, prosrc: name,
    }
}

fn keyword(word: &str) -> Row {
    let is_reserved = RESERVED_FOR_IDENTIFIER.iter().any(|reserved| format!("{reserved:?}") == word);
    let (code, means) = if is_reserved { ("R", "reserved") } else { ("U", "unreserved") };
    row! { word: word.to_ascii_lowercase().as_str(), catcode: code, barelabel: !is_reserved, catdesc: means }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    #[test]
    fn rows_name_only_columns_that_their_tables_have() {
        let fields = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
        let relations = [Relation { oid: 16_384, schema: SCHEMA, name: "t".into(), fields }];
        for (name, columns) in TABLES {
            let columns: Vec<_> = columns.split_whitespace().map(|column| column.split_once(':').unwrap().0).collect();
            for row in rows(name, &relations) {
                assert!(row.keys().all(|column| columns.contains(column)), "{name}: {:?}", row.keys());
            }
        }
        assert_eq!(all(&relations).unwrap().len(), TABLES.len() + EMPTY.len());
        assert!(has("PG_CLASS") && has("pg_stat_activity") && !has("lineitem"));
        let empty = |name: &str| is_empty(None, name);
        assert!(empty("pg_index") && !empty("pg_class") && !empty("pg_settings") && !empty("key_column_usage"));
        assert!(is_empty(Some(INFORMATION), "KEY_COLUMN_USAGE") && !is_empty(Some("public"), "pg_index"));
    }
}
