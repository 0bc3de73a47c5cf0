//! What is looked at before a statement runs, and what is said when it names no table.

use anyhow::{anyhow, bail};
use datafusion::prelude::SessionContext;

use crate::semantics::{self, dialect};
use crate::statements::{ALL_COLUMNS, with_all_columns};
use crate::tables::Closed;
use crate::{summary, syntax};

/// Tables that are named where another was asked for.
const NAMED_TABLES: usize = 10;

/// Looks at the one statement of `sql` before it runs.
///
/// # Errors
///
/// What is no SQL, as a [`syntax::Fault`] with its place; a table that is closed.
pub fn statement(ctx: &SessionContext, closed: &[Closed], sql: &str) -> anyhow::Result<()> {
    let completed = with_all_columns(sql, dialect(ctx).as_ref());
    let added = completed.as_ref().map_or(0, |_| ALL_COLUMNS.len() as u64);
    let described = summary::described(sql).or(completed);
    let checked = described.as_deref().unwrap_or(sql);
    syntax::statements_of(checked, dialect(ctx).as_ref()).map_err(|fault| fault.after(added))?;
    check_open(ctx, closed, checked)
}

/// Fails if the statement names a table that is closed.
fn check_open(ctx: &SessionContext, closed: &[Closed], sql: &str) -> anyhow::Result<()> {
    if closed.is_empty() {
        return Ok(());
    }
    let state = ctx.state();
    let named = semantics::parsed(ctx, sql).and_then(|parsed| state.resolve_table_references(&parsed));
    for table in named.unwrap_or_default() {
        if let Some(closed) = closed.iter().find(|closed| closed.name == table.table()) {
            bail!("table {} is closed: {:#}", closed.name, closed.fault);
        }
    }
    Ok(())
}

/// An error about a table that is not there, with those that are. `hint` says where tables come
/// from if there are none.
pub fn with_names(ctx: &SessionContext, error: anyhow::Error, hint: &str) -> anyhow::Error {
    let text = error.to_string();
    let missing = text.strip_prefix("table '").and_then(|text| text.strip_suffix("' not found"));
    let Some(missing) = missing else { return error };
    let missing = missing.strip_prefix("datafusion.public.").unwrap_or(missing);
    let names = table_names(ctx);
    let mut known = names.iter().take(NAMED_TABLES).cloned().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => known = format!("there are none: {hint}"),
        count if count > NAMED_TABLES => known += &format!(" and {} more", count - NAMED_TABLES),
        _ => {}
    }
    anyhow!("no table is called {missing}; tables: {known}; a file stands in quotes, as in FROM 'day.parquet'")
}

/// The tables and views of the default schema, sorted.
pub fn table_names(ctx: &SessionContext) -> Vec<String> {
    let config = ctx.copied_config();
    let names = &config.options().catalog;
    let schema = ctx.catalog(&names.default_catalog).and_then(|all| all.schema(&names.default_schema));
    let mut names = schema.map(|schema| schema.table_names()).unwrap_or_default();
    names.sort();
    names
}
