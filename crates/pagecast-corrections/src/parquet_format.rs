//! DataFusion's format of Parquet files, which tells of a file what may be
//! [believed](crate::statistics). It goes with that module.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Result, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::parquet::{ParquetFormat, ParquetFormatFactory};
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory, FileMeta};
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::parquet::metadata::{DFParquetMetadata, ordering_from_parquet_metadata};
use datafusion::datasource::physical_plan::{
    FileScanConfig, FileScanConfigBuilder, FileSinkConfig, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;
use object_store::{ObjectMeta, ObjectStore};

use crate::readers::BelievedReaders;
use crate::statistics::{believed_of_file, believed_without_pages};

/// Files of Parquet, of whose footers only promises are believed.
#[derive(Debug)]
pub struct Believed(ParquetFormat);

impl Believed {
    /// The same format.
    pub fn new(format: ParquetFormat) -> Self {
        Self(format)
    }
}

#[async_trait]
impl FileFormat for Believed {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.0.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.0.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        self.0.infer_schema(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        Ok(self.infer_stats_and_ordering(state, store, table_schema, object).await?.statistics)
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        Ok(self.infer_stats_and_ordering(state, store, table_schema, object).await?.ordering)
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        let options = self.0.options();
        if options.crypto.file_decryption.is_some() || options.crypto.factory_id.is_some() {
            return Ok(FileMeta::new(Statistics::new_unknown(&table_schema)));
        }
        let footer = DFParquetMetadata::new(store.as_ref(), object)
            .with_metadata_size_hint(self.0.metadata_size_hint())
            .with_file_metadata_cache(Some(state.runtime_env().cache_manager.get_file_metadata_cache()))
            .fetch_metadata()
            .await?;
        let footer = believed_without_pages(&footer)?;
        let statistics = DFParquetMetadata::statistics_from_parquet_metadata(&footer, &table_schema)?;
        let ordering = ordering_from_parquet_metadata(&footer, &table_schema)?;
        Ok(FileMeta::new(believed_of_file(statistics)).with_ordering(ordering))
    }

    async fn create_physical_plan(&self, state: &dyn Session, scan: FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.0.create_physical_plan(state, scan).await?;
        let made =
            plan.downcast_ref::<DataSourceExec>().and_then(|exec| exec.downcast_to_file_source::<ParquetSource>());
        let Some((config, source)) = made else { return Ok(plan) };
        let runtime = state.runtime_env();
        let (store, cache) =
            (runtime.object_store(&config.object_store_url)?, runtime.cache_manager.get_file_metadata_cache());
        let readers = BelievedReaders(CachedParquetFileReaderFactory::new(store, cache));
        let source = source.clone().with_parquet_file_reader_factory(Arc::new(readers));
        let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
        Ok(DataSourceExec::from_data_source(config))
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        sink: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.create_writer_physical_plan(input, state, sink, order).await
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.0.file_source(table_schema)
    }
}

/// Makes this format where a statement says `PARQUET`.
#[derive(Debug, Default)]
pub(crate) struct BelievedFactory(ParquetFormatFactory);

impl FileFormatFactory for BelievedFactory {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let format = self.0.create(state, options)?;
        let options = format.downcast_ref::<ParquetFormat>().map(|format| format.options().clone());
        Ok(match options {
            Some(options) => Arc::new(Believed::new(ParquetFormat::default().with_options(options))),
            None => format,
        })
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(Believed::new(ParquetFormat::default()))
    }
}

impl GetExt for BelievedFactory {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }
}
