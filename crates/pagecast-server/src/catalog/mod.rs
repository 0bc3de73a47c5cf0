//! What PostgreSQL's clients ask before anything else: `pg_catalog`, with the tables that are
//! served, and the functions beside it.
//!
//! Tables do not change while the server runs, so most of the catalog is made once; what depends
//! on who asks is in `live`. Tables of things that are never there (indexes, constraints, comments)
//! are empty, and queries of them are answered before DataFusion sees them ([`super::rewrite`]):
//! clients ask them in SQL that it does not know.

mod cells;
mod columns;
mod functions;
mod information;
mod live;
mod made;
mod tables;
mod types;

use std::sync::Arc;

use anyhow::{Context, anyhow};
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider};
use datafusion::prelude::SessionContext;
use pagecast::Pool;

pub(super) use live::{Asker, apply_settings, of_session};
pub(super) use made::Made;
pub(super) use tables::{has, is_empty};

/// The one database that there is.
pub(super) const DATABASE: &str = "pagecast";
/// Where the tables are.
pub(super) const SCHEMA: &str = "public";
/// Where PostgreSQL's own are.
pub(super) const CATALOG: &str = "pg_catalog";
/// The same in words of the standard.
pub(super) const INFORMATION: &str = "information_schema";

/// The numbers that objects have.
const CATALOG_OID: i64 = 11;
const SCHEMA_OID: i64 = 2200;
const INFORMATION_OID: i64 = 13_000;
const DATABASE_OID: i64 = 5;
const OWNER_OID: i64 = 10;
/// Of the user who asks.
const USER_OID: i64 = 100;
/// Of the first of PostgreSQL's own tables that has no well-known one.
const FIRST_OWN_OID: i64 = 13_100;
/// Of the first view of `information_schema`.
const FIRST_INFORMATION_OID: i64 = 14_000;
/// Of the first table; the others follow.
const FIRST_TABLE_OID: i64 = 16_384;

/// The numbers of tables that clients may know by heart.
const WELL_KNOWN: &[(&str, i64)] = &[
    ("pg_attribute", 1249),
    ("pg_class", 1259),
    ("pg_constraint", 2606),
    ("pg_database", 1262),
    ("pg_description", 2609),
    ("pg_index", 2610),
    ("pg_namespace", 2615),
    ("pg_proc", 1255),
    ("pg_type", 1247),
];

/// What has columns: a table that is served, or one of PostgreSQL's own.
struct Relation {
    oid: i64,
    schema: &'static str,
    name: String,
    fields: arrow::datatypes::SchemaRef,
}

impl Relation {
    fn is_view(&self) -> bool {
        self.schema != SCHEMA && columns::TABLES.iter().chain(columns::EMPTY).all(|(name, _)| *name != self.name)
    }

    fn namespace(&self) -> i64 {
        match self.schema {
            CATALOG => CATALOG_OID,
            INFORMATION => INFORMATION_OID,
            _ => SCHEMA_OID,
        }
    }
}

/// Makes the catalog of the tables that a session has, and of the pool that they are read through.
pub(super) async fn install(ctx: &SessionContext, pool: &Pool) -> anyhow::Result<()> {
    let catalog = ctx.catalog(DATABASE).ok_or_else(|| anyhow!("the session has no database {DATABASE}"))?;
    let public = catalog.schema(SCHEMA).ok_or_else(|| anyhow!("the session has no schema {SCHEMA}"))?;
    let mut relations = served(&*public).await?;
    let names: Vec<_> = relations.iter().map(|table| (table.name.clone(), table.oid)).collect();
    relations.extend(own());
    let schema = MemorySchemaProvider::new();
    for (name, table) in tables::all(&relations)?.into_iter().chain(live::all(pool)) {
        schema.register_table(name.to_owned(), table).with_context(|| format!("{CATALOG}.{name}"))?;
    }
    catalog.register_schema(CATALOG, Arc::new(schema)).context(CATALOG)?;
    let information = information::schema(ctx, &relations).await?;
    catalog.register_schema(INFORMATION, information).context(INFORMATION)?;
    let own = relations.iter().filter(|relation| relation.schema == CATALOG);
    let numbers = own.map(|relation| (relation.name.clone(), relation.oid)).chain(names).collect();
    functions::install(ctx, numbers);
    Ok(())
}

/// PostgreSQL's own tables.
fn own() -> impl Iterator<Item = Relation> {
    (FIRST_OWN_OID..).zip(tables::own()).map(|(number, (schema, name, fields))| {
        let known = WELL_KNOWN.iter().find(|(known, _)| *known == name && schema == CATALOG);
        let number = if schema == INFORMATION { number - FIRST_OWN_OID + FIRST_INFORMATION_OID } else { number };
        Relation { oid: known.map_or(number, |(_, oid)| *oid), schema, name: name.to_owned(), fields }
    })
}

async fn served(schema: &dyn SchemaProvider) -> anyhow::Result<Vec<Relation>> {
    let mut names = schema.table_names();
    names.sort();
    let mut served = Vec::new();
    for (oid, name) in (FIRST_TABLE_OID..).zip(names) {
        let table = schema.table(&name).await.with_context(|| name.clone())?;
        let fields = table.ok_or_else(|| anyhow!("table {name} has gone"))?.schema();
        served.push(Relation { oid, schema: SCHEMA, name, fields });
    }
    Ok(served)
}
