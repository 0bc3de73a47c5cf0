//! A side of a join: a scan of Parquet files, and what is done to each of its rows before the join.

use std::sync::Arc;

use datafusion::common::{Result, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetAccessPlan;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use parquet::file::metadata::ColumnChunkMetaData;

use super::cuts::{Interval, Piece};
use super::in_file::InFile;
use super::key::{self, Key};
use crate::Host;
use crate::read_plan::row_groups_left;

/// `plan` without the nodes that move rows between partitions or sort them, if under those it is a
/// scan, with filters and projections at most. Nothing in it counts rows.
pub(crate) fn row_by_row(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    if plan.fetch().is_some() {
        return None;
    }
    if plan.is::<DataSourceExec>() {
        return Some(Arc::clone(plan));
    }
    let below = row_by_row(plan.children().first()?)?;
    let moves_rows = plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>();
    if moves_rows {
        return Some(below);
    }
    let keeps_rows = plan.is::<FilterExec>() || plan.is::<ProjectionExec>();
    keeps_rows.then(|| with_child(plan, below).ok()).flatten()
}

fn with_child(plan: &Arc<dyn ExecutionPlan>, child: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    Arc::clone(plan).replace_children(vec![child], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The scan at the end of a chain of nodes.
pub(crate) fn scan(chain: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    chain.children().first().map_or(chain, |below| scan(below))
}

/// The chain over another scan of the same columns.
pub(crate) fn over(chain: &Arc<dyn ExecutionPlan>, scan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    match chain.children().first() {
        Some(below) => with_child(chain, over(below, scan)?),
        None => Ok(scan),
    }
}

/// Which column of the scan's table column `at` of the chain is, if it is one.
fn column_of_table(chain: &Arc<dyn ExecutionPlan>, at: usize) -> Option<usize> {
    let index = |expression: &Arc<dyn PhysicalExpr>| expression.downcast_ref::<Column>().map(Column::index);
    if let Some(projection) = chain.downcast_ref::<ProjectionExec>() {
        return column_of_table(projection.input(), index(&projection.expr().get(at)?.expr)?);
    }
    if let Some(filter) = chain.downcast_ref::<FilterExec>() {
        let at = filter.projection().as_ref().map_or(Some(at), |kept| kept.get(at).copied())?;
        return column_of_table(filter.input(), at);
    }
    let (_, source) = chain.downcast_ref::<DataSourceExec>()?.downcast_to_file_source::<ParquetSource>()?;
    match source.projection() {
        Some(projection) => index(&projection.as_ref().get(at)?.expr),
        None => Some(at),
    }
}

/// The row groups of a side, as the join's cuts see them.
#[derive(Debug)]
pub(crate) struct Side {
    /// The column of the join's input that is cut.
    pub(crate) key: Column,
    /// The same in the scan's table.
    column: Column,
    /// The files of the scan, with the row groups that its filter leaves.
    files: Vec<(PartitionedFile, ParquetAccessPlan)>,
    pub(crate) pieces: Vec<Piece<Key>>,
    /// File and row group of each piece.
    places: Vec<(usize, usize)>,
    /// Bytes that the rows of all pieces take when they are decoded.
    pub(crate) memory: u64,
}

impl Side {
    /// What footers say of the side `chain` whose key is `key`. Reads footers that were not read
    /// yet. The error says why it cannot be cut.
    pub(crate) fn of(
        host: &Host,
        chain: &Arc<dyn ExecutionPlan>,
        key: &Arc<dyn PhysicalExpr>,
    ) -> Result<Self, &'static str> {
        const NO_SCAN: &str = "it does not join scans of Parquet files";
        let key = key.downcast_ref::<Column>().ok_or("it joins on what is computed from columns")?;
        let column = column_of_table(chain, key.index()).ok_or("it joins on what is computed from columns")?;
        let (config, source) = scan(chain)
            .downcast_ref::<DataSourceExec>()
            .and_then(DataSourceExec::downcast_to_file_source::<ParquetSource>)
            .ok_or(NO_SCAN)?;
        let schema = source.table_schema().file_schema();
        let field = schema.fields().get(column).ok_or("it joins on the names of folders")?;
        if !key::has_order(field.data_type()) {
            return Err("keys of this type are not cut");
        }
        let columns = columns(source);
        let mut side = Self {
            key: key.clone(),
            column: Column::new(field.name(), column),
            files: Vec::new(),
            pieces: Vec::new(),
            places: Vec::new(),
            memory: 0,
        };
        for file in config.file_groups.iter().flat_map(FileGroup::iter) {
            const UNREADABLE: &str = "a footer cannot be read";
            let mut file = file.clone();
            let relation = host.open(&config.object_store_url, &file.object_meta).map_err(|_| UNREADABLE)?;
            let footer = host.footers.load_blocking(&relation).map_err(|_| UNREADABLE)?;
            let left = row_groups_left(config, &mut file, &footer).map_err(|_| UNREADABLE)?;
            let numbers: Vec<usize> =
                left.row_group_index_iter().filter(|&number| footer.row_group(number).num_rows() > 0).collect();
            let in_file = InFile::of(config, source, &file, &footer).ok_or(UNREADABLE)?;
            let key = in_file.name(&side.column).ok_or("a file does not have the key")?;
            let field = field.as_ref().clone().with_name(key);
            let read: Vec<String> = columns.iter().filter_map(|column| in_file.name(column)).collect();
            for (&number, mut piece) in numbers.iter().zip(key::pieces(&footer, &numbers, &field)?) {
                for chunk in footer.row_group(number).columns() {
                    if chunk.column_path().parts().first().is_some_and(|root| read.contains(root)) {
                        piece.bytes += chunk.compressed_size().max(0) as u64;
                        piece.dictionaries += dictionary(chunk);
                        side.memory += chunk.uncompressed_size().max(0) as u64;
                    }
                }
                side.places.push((side.files.len(), number));
                side.pieces.push(piece);
            }
            side.files.push((PartitionedFile { range: None, ..file }, left));
        }
        Ok(side)
    }

    /// The scan `config` of a chunk: of these pieces, with pages that have no key of the interval
    /// pruned.
    pub(crate) fn of_chunk(
        &self,
        config: &FileScanConfig,
        source: &ParquetSource,
        pieces: &[usize],
        interval: &Interval<Key>,
        number: usize,
    ) -> FileScanConfig {
        let places: Vec<(usize, usize)> = pieces.iter().map(|&piece| self.places[piece]).collect();
        let files = places.chunk_by(|one, other| one.0 == other.0).map(|of_file| {
            let (file, left) = &self.files[of_file[0].0];
            let mut access = ParquetAccessPlan::new_none(left.len());
            of_file.iter().for_each(|&(_, row_group)| access.set(row_group, left.inner()[row_group].clone()));
            file.clone().with_extension(access)
        });
        let files = FileGroup::new(files.collect());
        let column: Arc<dyn PhysicalExpr> = Arc::new(self.column.clone());
        let filter = key::both(source.filter(), interval.filter(&column, number), Operator::And);
        // What is known of the table's rows is not known of these.
        let unknown = Statistics::new_unknown(source.table_schema().table_schema());
        let source = filter.map_or_else(|| source.clone(), |filter| source.with_predicate(filter));
        let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source));
        config.with_file_groups(vec![files]).with_statistics(unknown).build()
    }

    /// Whether rows of the chunk have to be looked at, because a piece has rows of others, too.
    pub(crate) fn divides(&self, pieces: &[usize], interval: &Interval<Key>, number: usize) -> bool {
        pieces.iter().any(|&piece| !interval.covers(&self.pieces[piece], number))
    }
}

/// Bytes of a column chunk's dictionary.
fn dictionary(chunk: &ColumnChunkMetaData) -> u64 {
    let bytes = chunk.dictionary_page_offset().map(|at| chunk.data_page_offset().saturating_sub(at));
    bytes.map_or(0, |bytes| bytes.clamp(0, chunk.compressed_size().max(0)) as u64)
}

/// The columns of its files that a scan reads.
fn columns(source: &ParquetSource) -> Vec<Column> {
    let schema = source.table_schema().file_schema();
    let mut indexes = source.projection().map_or_else(|| (0..schema.fields().len()).collect(), |p| p.column_indices());
    if source.table_parquet_options().global.pushdown_filters {
        indexes.extend(source.filter().iter().flat_map(collect_columns).map(|column| column.index()));
    }
    let column = |index: usize| Some(Column::new(schema.fields().get(index)?.name(), index));
    indexes.into_iter().filter_map(column).collect()
}
