//! Files at some places as one table, and `CREATE EXTERNAL TABLE`, which names such places.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{Result, ToDFSchema, plan_datafusion_err};
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::execution::SessionState;
use datafusion::logical_expr::CreateExternalTable;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use pagecast_corrections::CorrectedParquet;
use pagecast_tables::VersionedTable;

use crate::folder::Folder;
use crate::keys::{Keys, Numbers, is_shown, key};
use crate::named_file::OtherFiles;
use crate::schemas;
use crate::unpacked;

/// What is known of a table before its files are looked at.
pub(crate) struct Listed {
    pub(crate) urls: Vec<ListingTableUrl>,
    /// With the keys of folders, and their types.
    pub(crate) options: ListingOptions,
    /// How folders write numbers.
    pub(crate) numbers: Numbers,
    /// Its one file, for people, if it has one that was named.
    pub(crate) file: Option<String>,
}

impl Listed {
    /// The table, whose columns are those of its files, if nobody says which they are.
    pub(crate) async fn table(
        mut self,
        state: &SessionState,
        declared: Option<SchemaRef>,
    ) -> Result<Arc<dyn TableProvider>> {
        unpacked::register(state, &self.urls)?;
        let parquet = CorrectedParquet::of(&*self.options.format);
        let is_parquet = parquet.is_some();
        self.options.format = parquet.unwrap_or(self.options.format);
        let schema = match declared {
            Some(schema) => schema,
            None => schemas::merged(&self.options, state, &self.urls).await?,
        };
        let keys = self.options.table_partition_cols.clone();
        let schema = without(&schema, &keys);
        let cache = state.runtime_env().cache_manager.get_file_statistic_cache();
        let listing = |options| {
            let config = ListingTableConfig::new_with_multi_paths(self.urls.clone()).with_listing_options(options);
            Ok(ListingTable::try_new(config.with_schema(Arc::clone(&schema)))?.with_cache(cache.clone()))
        };
        let typed: ListingTable = listing(self.options.clone())?;
        if !is_parquet {
            return Ok(Arc::new(OtherFiles::new(typed, self.file)));
        }
        let texts = keys.iter().map(|(key, _)| (key.clone(), DataType::Utf8)).collect();
        let texts: Result<ListingTable> = listing(self.options.with_table_partition_cols(texts));
        let folder = Folder::new(texts?, typed, &keys, self.numbers, self.file)?;
        Ok(Arc::new(VersionedTable::newest(Arc::new(folder)).await?))
    }
}

/// The columns without those that folders have as keys, too: the folder's value counts, as it does
/// for DuckDB and polars, which write such files.
fn without(schema: &SchemaRef, keys: &[(String, DataType)]) -> SchemaRef {
    let is_key = |name: &str| keys.iter().any(|(key, _)| key == name);
    let fields = schema.fields().iter().filter(|field| !is_key(field.name())).cloned();
    Arc::new(Schema::new_with_metadata(fields.collect::<Fields>(), schema.metadata().clone()))
}

/// Lets `CREATE EXTERNAL TABLE` read folders as `--data` does.
pub(crate) fn install(ctx: &SessionContext) {
    let state = ctx.state_ref();
    let mut state = state.write();
    for kind in ["PARQUET", "CSV", "JSON", "NDJSON", "ARROW"] {
        if let Some(inner) = state.table_factories().get(kind).cloned() {
            state.table_factories_mut().insert(kind.to_owned(), Arc::new(External { inner }));
        }
    }
}

/// Makes tables as `inner` does, and reads them as those of `--data`.
#[derive(Debug)]
struct External {
    inner: Arc<dyn TableProviderFactory>,
}

#[async_trait]
impl TableProviderFactory for External {
    async fn create(&self, session: &dyn Session, cmd: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return self.inner.create(session, cmd).await;
        };
        let inferred = match cmd.schema.fields().is_empty() {
            true => Some(inferred(state, cmd).await?),
            false => None,
        };
        let (cmd, urls) = inferred.as_ref().map_or((cmd, None), |(cmd, urls)| (cmd, Some(urls.clone())));
        let table = self.inner.create(session, cmd).await?;
        let Some(listing) = table.downcast_ref::<ListingTable>().filter(|_| cmd.column_defaults.is_empty()) else {
            return Ok(table);
        };
        let schema = without(&listing.schema(), &listing.options().table_partition_cols);
        let urls = urls.unwrap_or_else(|| listing.table_paths().clone());
        let (options, numbers) = (listing.options().clone(), Numbers::AsTheyCome);
        let file = match &urls[..] {
            [url] if !url.is_collection() && url.get_glob().is_none() => Some(schemas::name_of(url, url.prefix())),
            _ => None,
        };
        Listed { urls, options, numbers, file }.table(state, Some(schema)).await
    }
}

/// The statement with the columns of the files that it names, and where these are.
async fn inferred(
    state: &SessionState,
    cmd: &CreateExternalTable,
) -> Result<(CreateExternalTable, Vec<ListingTableUrl>)> {
    let unknown = || plan_datafusion_err!("there is no format {}", cmd.file_type);
    let format = state.get_file_format_factory(&cmd.file_type).ok_or_else(unknown)?.create(state, &cmd.options)?;
    let format = CorrectedParquet::of(&*format).unwrap_or(format);
    let ending = match format.compression_type() {
        Some(compression) => format.get_ext_with_compression(&compression)?,
        None => cmd.file_type.to_lowercase(),
    };
    let options = ListingOptions::new(format).with_file_extension("");
    let mut urls = Vec::new();
    for location in &cmd.locations {
        let url = ListingTableUrl::parse(location)?.with_table_ref(cmd.name.clone());
        let is_whole = url.is_folder() && url.get_glob().is_none();
        urls.push(if is_whole { url.with_glob(&format!("*.{}", ending.trim_start_matches('.')))? } else { url });
    }
    let keys = keys(state, cmd, &urls).await?;
    let schema = without(&schemas::merged(&options, state, &urls).await?, &keys);
    let of_keys = keys.iter().map(|(key, kind)| Arc::new(Field::new(key, kind.clone(), true)));
    let fields: Fields = schema.fields().iter().cloned().chain(of_keys).collect();
    let mut cmd = cmd.clone();
    cmd.schema = Schema::new_with_metadata(fields, schema.metadata().clone()).to_dfschema_ref()?;
    cmd.table_partition_cols = keys.into_iter().map(|(key, _)| key).collect();
    Ok((cmd, urls))
}

/// The keys of the statement, or those of the folders, with the types of their values.
async fn keys(
    state: &SessionState,
    cmd: &CreateExternalTable,
    urls: &[ListingTableUrl],
) -> Result<Vec<(String, DataType)>> {
    let mut keys = Keys::default();
    for url in urls {
        let store = state.runtime_env().object_store(url)?;
        let files = url.list_all_files(state, store.as_ref(), "").await?;
        let mut files =
            files.try_filter(|file| std::future::ready(is_shown(std::slice::from_ref(url), &file.location)));
        while let Some(file) = files.try_next().await? {
            let of_file = url.strip_prefix(&file.location).into_iter().flatten().filter_map(key);
            keys.add(file.location.as_ref(), of_file.collect()).map_err(|fault| plan_datafusion_err!("{fault}"))?;
        }
    }
    let found = keys.columns();
    let infer = state.config_options().execution.listing_table_factory_infer_partitions;
    if cmd.table_partition_cols.is_empty() {
        return Ok(if infer { found } else { Vec::new() });
    }
    let kind =
        |key: &String| found.iter().find(|(found, _)| found == key).map_or(DataType::Utf8, |(_, kind)| kind.clone());
    Ok(cmd.table_partition_cols.iter().map(|key| (key.clone(), kind(key))).collect())
}
