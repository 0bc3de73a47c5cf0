//! Files, folders and URLs that stand in a statement where a table does: `FROM 'day.parquet'`.
//!
//! What is Parquet or a Delta table becomes the table that `--data` would make of it, and so is
//! read through the pool. Each statement looks anew.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use anyhow::{Context, anyhow, bail};
use arrow::datatypes::Schema;
use async_trait::async_trait;
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::execution::options::ReadOptions;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use futures::TryStreamExt;

use crate::stores;
use crate::tables::{self, Found, encoded, has_parquet_name};

/// The endings of files that can be named.
const ENDINGS: &str = ".parquet, .parq, .pq, .csv, .tsv, .json, .ndjson and .jsonl";

/// Makes tables of names that are paths or URLs.
#[derive(Debug)]
pub(super) struct Files {
    state: Weak<parking_lot::RwLock<SessionState>>,
    endpoint: Option<String>,
}

/// Lets statements of the session name files. `endpoint` is that of the session's store.
pub(super) fn install(ctx: &SessionContext, endpoint: Option<&str>) {
    let files = Files { state: ctx.state_weak_ref(), endpoint: endpoint.map(str::to_owned) };
    let inner = Arc::clone(ctx.state().catalog_list());
    ctx.register_catalog_list(Arc::new(DynamicFileCatalog::new(inner, Arc::new(files))));
}

#[async_trait]
impl UrlTableFactory for Files {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(state) = self.state.upgrade() else { return Ok(None) };
        if !is_place(name) {
            return Ok(None);
        }
        let ctx = SessionContext::new_with_state(state.read().clone());
        let found = self.table(&ctx, name).await.with_context(|| format!("cannot read '{name}'"));
        found.map(Some).map_err(|error| DataFusionError::Plan(format!("{error:#}")))
    }
}

/// Whether a name that no table has is that of a file: it has an ending, or parts.
fn is_place(name: &str) -> bool {
    let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
    name.contains(['/', '*']) || ending.is_some_and(|ending| Kind::of(ending).is_some()) || Path::new(name).exists()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Parquet,
    Csv,
    Tsv,
    Json,
}

impl Kind {
    fn of(ending: &str) -> Option<Self> {
        match ending.to_ascii_lowercase().as_str() {
            "parquet" | "parq" | "pq" => Some(Self::Parquet),
            "csv" => Some(Self::Csv),
            "tsv" => Some(Self::Tsv),
            "json" | "ndjson" | "jsonl" => Some(Self::Json),
            _ => None,
        }
    }

    fn of_path(path: &str) -> anyhow::Result<Self> {
        let ending = Path::new(path).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        Self::of(ending).ok_or_else(|| anyhow!("its ending does not say what it is; known are {ENDINGS}"))
    }

    /// How files are read that begin with `first`.
    fn format(self, first: Option<u8>, ctx: &SessionContext) -> Arc<dyn FileFormat> {
        let options = ctx.copied_table_options();
        match self {
            Self::Csv => Arc::new(CsvFormat::default().with_options(options.csv).with_has_header(true)),
            Self::Tsv => {
                let csv = CsvFormat::default().with_options(options.csv).with_has_header(true);
                Arc::new(csv.with_delimiter(b'\t'))
            }
            // An array, or else a line for each object.
            _ => Arc::new(JsonFormat::default().with_options(options.json).with_newline_delimited(first != Some(b'['))),
        }
    }
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
            return listing(ctx, urls, Kind::of_path(name)?, files.first().map(PathBuf::as_path)).await;
        }
        let path = match path.canonicalize() {
            Err(error) if error.kind() == ErrorKind::NotFound => bail!("there is no such file or folder"),
            path => path?,
        };
        if path.is_dir() || has_parquet_name(&path) {
            return one(tables::discover_at(&path)?)?.provider(ctx).await;
        }
        listing(ctx, vec![url_of(&path)?], Kind::of_path(name)?, Some(&path)).await
    }

    async fn in_store(&self, ctx: &SessionContext, url: &str) -> anyhow::Result<Arc<dyn TableProvider>> {
        let source = stores::source(Path::new(url), self.endpoint.as_deref())?.context("it is no URL")?;
        source.register(ctx)?;
        match Kind::of_path(url) {
            Ok(kind) if kind != Kind::Parquet => listing(ctx, vec![url.to_owned()], kind, None).await,
            _ => one(source.discover().await?)?.provider(ctx).await,
        }
    }
}

/// The one table at a place that a statement names.
fn one(found: Found) -> anyhow::Result<tables::Table> {
    let mut tables = found.all()?;
    match (tables.pop(), tables.len()) {
        (Some(table), 0) => Ok(table),
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
    kind: Kind,
    first: Option<&Path>,
) -> anyhow::Result<Arc<dyn TableProvider>> {
    let options = match kind {
        Kind::Parquet => {
            ParquetReadOptions::default().to_listing_options(&ctx.copied_config(), ctx.copied_table_options())
        }
        kind => {
            let first = first.map(first_byte).transpose()?.flatten();
            ListingOptions::new(kind.format(first, ctx))
        }
    };
    let (options, state) = (options.with_file_extension(""), ctx.state());
    let urls = urls.iter().map(ListingTableUrl::parse).collect::<Result<Vec<_>>>()?;
    let mut schemas = Vec::new();
    for url in &urls {
        let store = ctx.runtime_env().object_store(url)?;
        if url.list_all_files(&state, &store, "").await?.try_next().await?.is_none() {
            bail!("there is no such file");
        }
        let schema = options.infer_schema(&state, url).await.map_err(|error| anyhow!(tables::message(&error)))?;
        schemas.push(schema.as_ref().clone());
    }
    if schemas.is_empty() {
        bail!("there is no such file");
    }
    let schema = Arc::new(Schema::try_merge(schemas)?);
    let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options).with_schema(schema);
    Ok(Arc::new(ListingTable::try_new(config)?))
}

/// `name` with the user's home for `~/`.
fn home(name: &str) -> PathBuf {
    match (name.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(name),
    }
}

/// The first byte of a file that is not white space.
fn first_byte(path: &Path) -> anyhow::Result<Option<u8>> {
    let mut start = Vec::new();
    File::open(path)?.take(4096).read_to_end(&mut start)?;
    Ok(start.into_iter().find(|byte| !byte.is_ascii_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_are_no_places() {
        for place in ["a.parquet", "day.CSV", "folder/t", "/data", "s3://bucket/x", "*.json", "src"] {
            assert!(is_place(place), "{place}");
        }
        for name in ["lineitem", "t@v3", "a.b", "x.dat"] {
            assert!(!is_place(name), "{name}");
        }
    }
}
