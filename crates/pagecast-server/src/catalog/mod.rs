//! What PostgreSQL's clients ask before anything else: `pg_catalog`, with the tables that are
//! served, and the functions beside it.
//!
//! Nothing changes while the server runs, so the catalog is made once. Tables of things that are
//! never there (indexes, constraints, comments) are empty, and queries of them are answered before
//! DataFusion sees them ([`super::rewrite`]): clients ask them in SQL that it does not know.

mod functions;
mod tables;
mod types;

use std::sync::Arc;

use anyhow::{Context, anyhow};
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider};
use datafusion::prelude::SessionContext;

pub(super) use functions::of_user;
pub(super) use tables::{has, is_empty};

/// The one database that there is.
pub(super) const DATABASE: &str = "pagecast";
/// Where the tables are.
pub(super) const SCHEMA: &str = "public";
/// Where PostgreSQL's own are.
pub(super) const CATALOG: &str = "pg_catalog";

/// The numbers that objects have.
const CATALOG_OID: i64 = 11;
const SCHEMA_OID: i64 = 2200;
const INFORMATION_OID: i64 = 13_000;
const DATABASE_OID: i64 = 5;
const OWNER_OID: i64 = 10;
/// Of the first table; the others follow.
const FIRST_TABLE_OID: i64 = 16_384;

/// A table that is served.
struct Served {
    oid: i64,
    name: String,
    schema: arrow::datatypes::SchemaRef,
}

/// Makes the catalog of the tables that a session has.
pub(super) async fn install(ctx: &SessionContext) -> anyhow::Result<()> {
    let catalog = ctx.catalog(DATABASE).ok_or_else(|| anyhow!("the session has no database {DATABASE}"))?;
    let public = catalog.schema(SCHEMA).ok_or_else(|| anyhow!("the session has no schema {SCHEMA}"))?;
    let served = served(&*public).await?;
    let schema = MemorySchemaProvider::new();
    for (name, table) in tables::all(&served)? {
        schema.register_table(name.to_owned(), table).with_context(|| format!("{CATALOG}.{name}"))?;
    }
    catalog.register_schema(CATALOG, Arc::new(schema)).context(CATALOG)?;
    functions::install(ctx, &served);
    Ok(())
}

async fn served(schema: &dyn SchemaProvider) -> anyhow::Result<Vec<Served>> {
    let mut names = schema.table_names();
    names.sort();
    let mut served = Vec::new();
    for (oid, name) in (FIRST_TABLE_OID..).zip(names) {
        let table = schema.table(&name).await.with_context(|| name.clone())?;
        let schema = table.ok_or_else(|| anyhow!("table {name} has gone"))?.schema();
        served.push(Served { oid, name, schema });
    }
    Ok(served)
}
