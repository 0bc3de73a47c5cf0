//! Parquet files as a table lists them: columns and bounds by the [corrected](crate::footer)
//! footer.
//!
//! DataFusion 55 takes bounds of a file for values of the table's column without asking whether the
//! column has another type there, and has none at all then. They are cast here, if the column
//! [grew](crate::widening); else nothing is known. Times of 96 bits become microseconds, for as
//! nanoseconds those before 1678 and after 2261 would become others.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, DataFusionError, Result, ScalarValue, Statistics, exec_datafusion_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::file_format::{FileFormat, FileMeta};
use datafusion::datasource::physical_plan::parquet::metadata::{DFParquetMetadata, ordering_from_parquet_metadata};
use datafusion::datasource::physical_plan::parquet::{
    CachedParquetFileReaderFactory, Int96Coercer, apply_file_schema_type_coercions,
};
use datafusion::datasource::physical_plan::{
    FileScanConfig, FileScanConfigBuilder, FileSinkConfig, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;
use object_store::{ObjectMeta, ObjectStore};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};

use crate::readers::CorrectedReaders;
use crate::statistics::{believed, believed_of_file};
use crate::widening::{merged, wider};
use crate::{footer, intervals, uuid};

/// DataFusion's format with corrected footers.
pub struct CorrectedParquet(ParquetFormat);

impl CorrectedParquet {
    /// In place of DataFusion's format; nothing if it is one of other files.
    pub fn of(format: &dyn FileFormat) -> Option<Arc<dyn FileFormat>> {
        let format =
            format.downcast_ref::<Self>().map_or_else(|| format.downcast_ref(), |corrected| Some(&corrected.0));
        let options = format.map(ParquetFormat::options)?.clone();
        Some(Arc::new(Self(ParquetFormat::new().with_options(options))))
    }

    async fn footer(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        object: &ObjectMeta,
    ) -> Result<Arc<ParquetMetaData>> {
        let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
        let read = DFParquetMetadata::new(store.as_ref(), object)
            .with_metadata_size_hint(self.0.metadata_size_hint())
            .with_file_metadata_cache(Some(cache))
            // Nothing of it is known to a plan. Of a file without one a copy is made each time.
            .with_page_index_policy(Some(PageIndexPolicy::Skip));
        let footer = read.fetch_metadata().await.map_err(|error| match error {
            DataFusionError::ParquetError(error) => {
                exec_datafusion_err!("{}: not a readable Parquet file: {error}", object.location)
            }
            error => error,
        })?;
        let footer = ParquetMetaData::new(footer.file_metadata().clone(), footer.row_groups().to_vec());
        Ok(Arc::new(believed(footer::corrected(&footer)?.unwrap_or(footer))?))
    }

    /// The columns of a file as it has them, but for times of 96 bits.
    fn in_file(&self, footer: &ParquetMetaData) -> Result<Schema> {
        let of_file = footer.file_metadata();
        let schema = parquet_to_arrow_schema(of_file.schema_descr(), of_file.key_value_metadata())?;
        let unit = match self.0.coerce_int96().as_deref() {
            Some("ns") => TimeUnit::Nanosecond,
            Some("ms") => TimeUnit::Millisecond,
            Some("s") => TimeUnit::Second,
            _ => TimeUnit::Microsecond,
        };
        let zone = self.0.options().global.coerce_int96_tz.as_deref().map(Arc::from);
        let coerced = Int96Coercer::new(of_file.schema_descr(), &schema, &unit).with_timezone(zone).coerce();
        Ok(coerced.unwrap_or(schema))
    }

    fn in_table(&self, schema: Schema) -> Schema {
        let views = self.0.force_view_types();
        let field = |field: &FieldRef| in_table(field, views);
        let fields: Fields = schema.fields().iter().map(field).collect();
        if !self.0.skip_metadata() {
            return Schema::new_with_metadata(fields, schema.metadata);
        }
        let unnoted = |field: &FieldRef| match uuid::is_text(field) {
            true => uuid::as_text(field.as_ref().clone().with_metadata(Default::default())),
            false => field.as_ref().clone().with_metadata(Default::default()),
        };
        Schema::new(fields.iter().map(unnoted).collect::<Fields>())
    }

    fn statistics(&self, footer: &ParquetMetaData, table: &SchemaRef) -> Result<Statistics> {
        let in_file = self.in_file(footer)?;
        let in_file = apply_file_schema_type_coercions(table, &in_file).unwrap_or(in_file);
        let own = |field: &FieldRef| {
            in_file.fields().find(field.name()).map_or_else(|| field.clone(), |(_, own)| own.clone())
        };
        let own: SchemaRef = Arc::new(Schema::new(table.fields().iter().map(own).collect::<Fields>()));
        let mut statistics = DFParquetMetadata::statistics_from_parquet_metadata(footer, &own)?;
        for ((column, own), field) in statistics.column_statistics.iter_mut().zip(own.fields()).zip(table.fields()) {
            if own.data_type() != field.data_type() {
                bounds_in_table(column, own, field);
            }
        }
        Ok(believed_of_file(statistics))
    }
}

/// A column of a file as a table has it: a UUID is a text, and texts and bytes are views.
fn in_table(field: &FieldRef, views: bool) -> FieldRef {
    if uuid::is_in_file(field) {
        return Arc::new(uuid::as_text(field.as_ref().clone()));
    }
    if intervals::is_in_file(field) {
        return Arc::new(intervals::as_interval(field));
    }
    let part = |part: &FieldRef| in_table(part, false);
    let kind = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 if views => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary if views => DataType::BinaryView,
        DataType::Struct(parts) => DataType::Struct(parts.iter().map(part).collect()),
        DataType::List(element) => DataType::List(part(element)),
        DataType::LargeList(element) => DataType::LargeList(part(element)),
        DataType::FixedSizeList(element, len) => DataType::FixedSizeList(part(element), *len),
        DataType::Map(entries, sorted) => DataType::Map(part(entries), *sorted),
        _ => return Arc::clone(field),
    };
    Arc::new(field.as_ref().clone().with_data_type(kind))
}

/// What is known of a column of a file, for the wider one of the table.
fn bounds_in_table(known: &mut ColumnStatistics, own: &Field, table: &Field) {
    let is_uuid = uuid::is_text(table) && uuid::is_in_file(own);
    let grew = is_uuid || wider(own.data_type(), table.data_type()).as_ref() == Some(table.data_type());
    let bound = |bound: &Precision<ScalarValue>| {
        let cast = |value: &ScalarValue| match is_uuid {
            true => ScalarValue::try_from_array(&uuid::texts(&value.to_array().ok()?)?, 0).ok(),
            false => value.cast_to(table.data_type()).ok(),
        };
        match bound {
            Precision::Exact(value) if grew => cast(value).map_or(Precision::Absent, Precision::Exact),
            Precision::Inexact(value) if grew => cast(value).map_or(Precision::Absent, Precision::Inexact),
            _ => Precision::Absent,
        }
    };
    (known.min_value, known.max_value) = (bound(&known.min_value), bound(&known.max_value));
    known.byte_size = Precision::Absent;
}

impl fmt::Debug for CorrectedParquet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl FileFormat for CorrectedParquet {
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
        let mut schemas = Vec::with_capacity(objects.len());
        for object in objects {
            let footer = self.footer(state, store, object).await?;
            schemas.push((object.location.to_string(), Arc::new(self.in_table(self.in_file(&footer)?))));
        }
        schemas.sort_by(|(one, _), (other, _)| one.cmp(other));
        merged(&schemas).map(Arc::new)
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        Ok(self.infer_stats_and_ordering(state, store, table, object).await?.statistics)
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        Ok(self.infer_stats_and_ordering(state, store, table, object).await?.ordering)
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        let footer = self.footer(state, store, object).await?;
        let ordering = ordering_from_parquet_metadata(&footer, &table)?;
        Ok(FileMeta::new(self.statistics(&footer, &table)?).with_ordering(ordering))
    }

    async fn create_physical_plan(&self, state: &dyn Session, conf: FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.0.create_physical_plan(state, conf).await?;
        let scan =
            plan.downcast_ref::<DataSourceExec>().and_then(|scan| scan.downcast_to_file_source::<ParquetSource>());
        let Some((config, source)) = scan else { return Ok(plan) };
        let store = state.runtime_env().object_store(&config.object_store_url)?;
        let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
        let readers = CorrectedReaders(CachedParquetFileReaderFactory::new(store, cache));
        let source = source.clone().with_parquet_file_reader_factory(Arc::new(readers));
        let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
        Ok(DataSourceExec::from_data_source(config))
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        conf: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.create_writer_physical_plan(input, state, conf, order).await
    }

    fn file_source(&self, table: TableSchema) -> Arc<dyn FileSource> {
        self.0.file_source(table)
    }
}
