//! What a scan's filter leaves of a file, by DataFusion's own pruning of files, row groups and
//! pages.
//!
//! The opener does the same when it reads, and has the last word. Here it is done for all row
//! groups of a file at once and before any is opened, so that what is pruned costs next to nothing.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    PagePruningAccessPlanFilter, ParquetAccessPlan, RowGroupAccess, RowGroupAccessPlanFilter,
    apply_file_schema_type_coercions,
};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetFileMetrics, ParquetSource};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprSimplifier};
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapterFactory, replace_columns_with_literals,
};
use datafusion::physical_optimizer::pruning::{FilePruner, PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricType, PruningMetrics};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;

use crate::row_groups::RowGroups;

/// The filter of a scan, ready to be applied to its files.
pub(super) struct Pruner<'a> {
    source: &'a ParquetSource,
    adapters: Arc<dyn PhysicalExprAdapterFactory>,
    /// Where what is left out is counted.
    metrics: &'a ExecutionPlanMetricsSet,
    ranges: PruningMetrics,
}

impl<'a> Pruner<'a> {
    pub(super) fn new(
        config: &FileScanConfig,
        source: &'a ParquetSource,
        metrics: &'a ExecutionPlanMetricsSet,
    ) -> Self {
        let adapters = config.expr_adapter_factory.clone();
        let summary = MetricBuilder::new(metrics).with_type(MetricType::Summary);
        Self {
            source,
            adapters: adapters.unwrap_or_else(|| Arc::new(DefaultPhysicalExprAdapterFactory)),
            metrics,
            ranges: summary.pruning_metrics("files_ranges_pruned_statistics", 0),
        }
    }

    /// Whether statistics of the whole file, or the folder that it is in, leave nothing of it. No
    /// footer is needed.
    pub(super) fn leaves_nothing(&self, file: &PartitionedFile) -> Result<bool> {
        let schema = self.source.table_schema().file_schema();
        let pruner = self.filter(file)?.and_then(|filter| FilePruner::try_new(filter, schema, file, Count::new()));
        let nothing = pruner.map_or(Ok(false), |mut pruner| pruner.should_prune())?;
        if nothing {
            self.ranges.add_pruned(1);
        } else {
            self.ranges.add_matched(1);
        }
        Ok(nothing)
    }

    /// The scan's filter with this file's values of the partition columns.
    fn filter(&self, file: &PartitionedFile) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let columns = self.source.table_schema().table_partition_cols();
        let values: HashMap<_, _> =
            columns.iter().map(|column| column.name().clone()).zip(file.partition_values.iter().cloned()).collect();
        let filter = self.source.filter();
        filter.map(|filter| replace_columns_with_literals(filter, &values)).transpose()
    }

    /// What is left of `wanted`, with the rows that pages leave.
    pub(super) fn prune(
        &self,
        file: &PartitionedFile,
        footer: &Arc<ParquetMetaData>,
        wanted: ParquetAccessPlan,
    ) -> Result<ParquetAccessPlan> {
        let Some((filter, schema)) = self.filter_of_file(file, footer)? else { return Ok(wanted) };
        let by_statistics = self.by_statistics(&filter, &schema, footer, wanted.clone());
        let left = self.by_pages(&filter, &schema, footer, by_statistics.clone());
        let pruned = wanted.row_group_index_iter().filter(|&number| !by_statistics.should_scan(number)).count();
        let mut without_pages = by_statistics;
        left.row_group_index_iter().for_each(|number| without_pages.skip(number));
        let by_pages = without_pages.row_group_index_iter().count();
        if pruned + by_pages > 0 {
            let counts = ParquetFileMetrics::new(0, file.object_meta.location.as_ref(), self.metrics);
            counts.row_groups_pruned_statistics.add_pruned(pruned);
            counts.row_groups_pruned_statistics.add_matched(by_pages);
            counts.row_groups_pruned_bloom_filter.add_matched(by_pages);
            if by_pages > 0 {
                // Once more, for the counts: nobody will open these row groups, so nobody else
                // counts their pages.
                let pages = PagePruningAccessPlanFilter::new(&filter, Arc::clone(&schema));
                let parquet = footer.file_metadata().schema_descr();
                pages.prune_plan_with_page_index(without_pages, &schema, parquet, footer, &counts);
            }
        }
        Ok(left)
    }

    /// The filter as it is now, for the row groups of a file; nothing if only the opener can adapt
    /// it.
    pub(super) fn of_file(&self, file: &PartitionedFile, footer: &Arc<ParquetMetaData>) -> Result<Option<FileFilter>> {
        let Some((filter, schema)) = self.filter_of_file(file, footer)? else { return Ok(None) };
        let index = footer.offset_index().is_some() && self.source.table_parquet_options().global.enable_page_index;
        let pages = index.then(|| PagePruningAccessPlanFilter::new(&filter, Arc::clone(&schema)));
        Ok(Some(FileFilter { predicate: self.predicate(&filter, &schema), pages, schema }))
    }

    /// What statistics of row groups leave of `wanted`; counts nothing.
    pub(super) fn left_by_statistics(
        &self,
        file: &PartitionedFile,
        footer: &Arc<ParquetMetaData>,
        wanted: ParquetAccessPlan,
    ) -> Result<ParquetAccessPlan> {
        let Some((filter, schema)) = self.filter_of_file(file, footer)? else { return Ok(wanted) };
        Ok(self.by_statistics(&filter, &schema, footer, wanted))
    }

    /// The filter in terms of the columns and types that the file has, and these. Nothing if there
    /// is no filter, or if only the opener can adapt it: the file has times of 96 bits, or the
    /// filter names what is in no file.
    fn filter_of_file(
        &self,
        file: &PartitionedFile,
        footer: &Arc<ParquetMetaData>,
    ) -> Result<Option<(Arc<dyn PhysicalExpr>, SchemaRef)>> {
        let Some(filter) = self.filter(file)? else { return Ok(None) };
        let table = self.source.table_schema().file_schema();
        let Some((_, schema)) = schema_read(file, footer, table)? else { return Ok(None) };
        let adapter = self.adapters.create(Arc::clone(table), Arc::clone(&schema))?;
        let adapted = adapter.rewrite(filter).and_then(|filter| PhysicalExprSimplifier::new(&schema).simplify(filter));
        Ok(adapted.ok().map(|filter| (filter, schema)))
    }

    fn by_statistics(
        &self,
        filter: &Arc<dyn PhysicalExpr>,
        schema: &SchemaRef,
        footer: &ParquetMetaData,
        wanted: ParquetAccessPlan,
    ) -> ParquetAccessPlan {
        let Some(predicate) = self.predicate(filter, schema) else { return wanted };
        let mut left = RowGroupAccessPlanFilter::new(wanted);
        let parquet = footer.file_metadata().schema_descr();
        left.prune_by_statistics(schema, parquet, footer.row_groups(), &predicate, &uncounted());
        left.build()
    }

    /// What statistics of row groups are held against, if they are.
    fn predicate(&self, filter: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Option<Arc<PruningPredicate>> {
        let options = &self.source.table_parquet_options().global;
        let predicate = PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(schema))
            .with_max_in_list_size(options.max_in_list_size)
            .build(Arc::clone(filter));
        predicate.filter(|_| options.pruning)
    }

    /// Prunes pages where there are several: a page that is a whole column chunk says what its row
    /// group has said.
    fn by_pages(
        &self,
        filter: &Arc<dyn PhysicalExpr>,
        schema: &SchemaRef,
        footer: &ParquetMetaData,
        wanted: ParquetAccessPlan,
    ) -> ParquetAccessPlan {
        let options = &self.source.table_parquet_options().global;
        let Some(index) = footer.offset_index().filter(|_| options.enable_page_index) else { return wanted };
        let several = |number: usize| {
            let pages = |column: &OffsetIndexMetaData| column.page_locations().len();
            !options.pruning || index.get(number).is_some_and(|columns| columns.iter().any(|column| pages(column) > 1))
        };
        let mut of_several = wanted.clone();
        wanted.row_group_index_iter().filter(|&number| !several(number)).for_each(|number| of_several.skip(number));
        if of_several.row_group_index_iter().next().is_none() {
            return wanted;
        }
        let pages = PagePruningAccessPlanFilter::new(filter, Arc::clone(schema));
        let parquet = footer.file_metadata().schema_descr();
        let pruned = pages.prune_plan_with_page_index(of_several, schema, parquet, footer, &uncounted());
        let mut left = wanted;
        for (number, access) in pruned.into_inner().into_iter().enumerate() {
            if several(number) && left.should_scan(number) {
                left.set(number, access);
            }
        }
        left
    }
}

/// What a file says of its columns, and the schema that they are read in, which has types of
/// `table`. Nothing if the file has times of 96 bits, which only the opener adapts.
pub(crate) fn schema_read(
    file: &PartitionedFile,
    footer: &Arc<ParquetMetaData>,
    table: &SchemaRef,
) -> Result<Option<(ArrowReaderMetadata, SchemaRef)>> {
    if footer.file_metadata().schema_descr().columns().iter().any(|column| column.physical_type() == Type::INT96) {
        return Ok(None);
    }
    let given = file.arrow_schema.iter().cloned();
    let options = given.fold(ArrowReaderOptions::new(), ArrowReaderOptions::with_schema);
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(footer), options)?;
    let in_file = metadata.schema();
    let schema = apply_file_schema_type_coercions(table, in_file).map_or_else(|| Arc::clone(in_file), Arc::new);
    Ok(Some((metadata, schema)))
}

/// The filter of a scan for one file, as it was at some moment.
pub(crate) struct FileFilter {
    predicate: Option<Arc<PruningPredicate>>,
    pages: Option<PagePruningAccessPlanFilter>,
    schema: SchemaRef,
}

impl FileFilter {
    /// What the opener counts of a row group, which is the one that is `shown` to it, if the filter
    /// leaves all of it.
    pub(crate) fn leaves_whole(
        &self,
        footer: &Arc<ParquetMetaData>,
        number: usize,
        shown: &RowGroups,
    ) -> Result<Option<LeftWhole>> {
        let (counts, parquet) = (uncounted(), footer.file_metadata().schema_descr());
        let mut left = RowGroupAccessPlanFilter::new(ParquetAccessPlan::new_all(1));
        if let Some(predicate) = &self.predicate {
            left.prune_by_statistics(&self.schema, parquet, &footer.row_groups()[number..=number], predicate, &counts);
        }
        let (fully, mut left) = (counts.row_groups_pruned_statistics.fully_matched(), left.build());
        if let Some(pages) = self.pages.as_ref().filter(|_| fully == 0 && left.should_scan(0)) {
            let footer = shown.of(Arc::clone(footer))?;
            left = pages.prune_plan_with_page_index(left, &self.schema, parquet, &footer, &counts);
        }
        let (pages, rows) = (counts.page_index_pages_pruned.matched(), counts.page_index_rows_pruned.matched());
        let whole = match &left.inner()[0] {
            RowGroupAccess::Scan => true,
            RowGroupAccess::Selection(rows) => rows.skipped_row_count() == 0,
            RowGroupAccess::Skip => false,
        };
        Ok(whole.then_some(LeftWhole { filtered: true, fully, pages, rows }))
    }
}

/// What pruning counts of a row group of which all is read.
#[derive(Default)]
pub(crate) struct LeftWhole {
    /// Whether there is a filter.
    filtered: bool,
    /// 1 if statistics say that all rows pass.
    fully: usize,
    /// Pages and rows whose statistics were looked at.
    pages: usize,
    rows: usize,
}

impl LeftWhole {
    pub(crate) fn count(self, counts: &ParquetFileMetrics) {
        if self.filtered {
            counts.row_groups_pruned_statistics.add_matched(1);
            counts.row_groups_pruned_statistics.add_fully_matched(self.fully);
            counts.row_groups_pruned_bloom_filter.add_matched(1);
            counts.page_index_pages_pruned.add_matched(self.pages);
            counts.page_index_rows_pruned.add_matched(self.rows);
        }
    }
}

/// Counters that nobody reads: what the opener prunes again, it counts itself.
fn uncounted() -> ParquetFileMetrics {
    ParquetFileMetrics::new(0, "", &ExecutionPlanMetricsSet::new())
}
