//! Files, folders and URLs that stand in a statement where a table does: `FROM 'day.parquet'`.
//!
//! What is Parquet or a Delta table becomes the table that `--data` would make of it, and so is
//! read through the pool. Each statement looks anew.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use anyhow::{Context, anyhow, bail};
use async_trait::async_trait;
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;

use crate::formats::{Format, endings};
use crate::keys::Numbers;
use crate::listed::Listed;
use crate::place::Place;
use crate::stores;
use crate::tables::{self, Found, encoded};
use crate::unpacked::{self, Packing, unpacked};

/// Makes tables of names that are paths or URLs.
#[derive(Debug)]
pub(crate) struct Files {
    state: Weak<parking_lot::RwLock<SessionState>>,
    endpoint: Option<String>,
}

/// Lets statements of the session name files. `endpoint` is that of the session's store.
pub fn install(ctx: &SessionContext, endpoint: Option<&str>) {
    let files = Files { state: ctx.state_weak_ref(), endpoint: endpoint.map(str::to_owned) };
    let inner = Arc::clone(ctx.state().catalog_list());
    ctx.register_catalog_list(Arc::new(DynamicFileCatalog::new(inner, Arc::new(files))));
}

/// The table at a place as a statement may name it: a path, a pattern or a URL. `endpoint` is that
/// of its store.
///
/// # Errors
///
/// There is nothing, or more than one table, or it cannot be read; names the place.
pub async fn table(
    ctx: &SessionContext,
    place: &str,
    endpoint: Option<&str>,
) -> anyhow::Result<Arc<dyn TableProvider>> {
    let files = Files { state: ctx.state_weak_ref(), endpoint: endpoint.map(str::to_owned) };
    files.table(ctx, place).await.with_context(|| format!("cannot read '{}'", Place::from(place).display()))
}

#[async_trait]
impl UrlTableFactory for Files {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(state) = self.state.upgrade() else { return Ok(None) };
        let Some(meant) = Meant::of(name) else { return Ok(None) };
        let ctx = SessionContext::new_with_state(state.read().clone());
        let made = match meant {
            Meant::Named => self.table(&ctx, name).await,
            Meant::Searched(found) => provider(found, &ctx).await,
        };
        let made = made.with_context(|| format!("cannot read '{}'", Place::from(name).display()));
        made.map(Some).map_err(|error| DataFusionError::Plan(format!("{error:#}")))
    }
}

/// What a name that no table has may be.
enum Meant {
    /// A file by its name: it has an ending, or parts.
    Named,
    /// A folder, and what was found in it: it is searched once.
    Searched(Found),
}

impl Meant {
    fn of(name: &str) -> Option<Self> {
        let path = Path::new(name);
        if name.contains(['/', '*']) || Format::of(path).is_some() {
            return Some(Self::Named);
        }
        let folder = if path.is_dir() { tables::at(path).ok() } else { None };
        folder.map(Self::Searched)
    }
}

fn format_of(path: &str) -> anyhow::Result<Format> {
    Format::of(Path::new(path)).ok_or_else(|| anyhow!("its ending does not say what it is; known are {}", endings()))
}

impl Files {
    async fn table(&self, ctx: &SessionContext, name: &str) -> anyhow::Result<Arc<dyn TableProvider>> {
        if name.contains("://") {
            return self.in_store(ctx, name).await;
        }
        let path = home(name);
        if name.contains('*') && !path.exists() {
            let pattern = path.to_str().context("its name is no text")?;
            let files = glob::glob(pattern)?.collect::<std::result::Result<Vec<_>, _>>()?;
            let urls = files.iter().filter(|file| file.is_file()).map(|file| url_of(file));
            let urls = urls.collect::<anyhow::Result<Vec<_>>>()?;
            let format = format_of(name)?;
            files.iter().try_for_each(|file| format.check_names(file))?;
            return listing(ctx, urls, format, files.first().map(PathBuf::as_path)).await;
        }
        let path = match path.canonicalize() {
            Err(error) if error.kind() == ErrorKind::NotFound => bail!("there is no such file or folder"),
            path => path?,
        };
        if !path.is_dir() {
            format_of(name)?;
        }
        provider(tables::at(&path)?, ctx).await
    }

    async fn in_store(&self, ctx: &SessionContext, url: &str) -> anyhow::Result<Arc<dyn TableProvider>> {
        let place = Place::from(url);
        stores::check_login(&place)?;
        let source = stores::source(&place, self.endpoint.as_deref())?.context("it is no URL")?;
        provider(source.at().await?, ctx).await
    }
}

/// The one table at a place that a statement names.
async fn provider(found: Found, ctx: &SessionContext) -> anyhow::Result<Arc<dyn TableProvider>> {
    let mut tables = found.all()?;
    match (tables.pop(), tables.len()) {
        (Some(table), 0) => table.provider(ctx).await,
        (_, others) => bail!("it holds {} tables; name one of them", others + 1),
    }
}

/// The URL of a file of this machine, in which nothing is a pattern.
fn url_of(path: &Path) -> anyhow::Result<String> {
    let path = path.canonicalize()?;
    Ok(format!("file://{}", encoded(path.as_os_str().as_encoded_bytes())))
}

/// The files at these places as one table, of which `first` is on this machine. What is not
/// Parquet DataFusion reads by itself, and not through the pool.
async fn listing(
    ctx: &SessionContext,
    urls: Vec<String>,
    format: Format,
    first: Option<&Path>,
) -> anyhow::Result<Arc<dyn TableProvider>> {
    let options = format.options(ctx, Vec::new(), first)?.with_file_extension("");
    let state = ctx.state();
    let is_packed = urls.iter().any(|url| Packing::of(Path::new(url)).is_some());
    let url = |url: &String| ListingTableUrl::parse(if is_packed { unpacked(url) } else { url.clone() });
    let urls = urls.iter().map(url).collect::<Result<Vec<_>>>()?;
    let (numbers, file) = (Numbers::Plain, None);
    unpacked::register(&ctx.state(), &urls)?;
    for url in &urls {
        let store = ctx.runtime_env().object_store(url)?;
        if url.list_all_files(&state, &store, "").await?.try_next().await?.is_none() {
            bail!("there is no such file");
        }
    }
    if urls.is_empty() {
        bail!("there is no such file");
    }
    let table = Listed { urls, options, numbers, file }.table(&state, None).await;
    table.map_err(|error| anyhow!(tables::message(&error)))
}

/// `name` with the user's home for `~/`.
fn home(name: &str) -> PathBuf {
    match (name.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_are_no_places() {
        for place in ["a.parquet", "day.CSV", "folder/t", "/data", "s3://bucket/x", "*.json"] {
            assert!(matches!(Meant::of(place), Some(Meant::Named)), "{place}");
        }
        for name in ["lineitem", "t@v3", "a.b", "x.dat", "src", "Cargo.toml"] {
            assert!(Meant::of(name).is_none(), "{name}");
        }
    }
}
