//! What a partition knows of a file whose chunks it opens: its projection and filter in terms of
//! the file's columns. Made once for many row groups.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch, RecordBatchOptions};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileSource, ParquetSource};
use datafusion::physical_expr::projection::{ProjectionExprs, Projector};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprSimplifier};
use datafusion::physical_expr_adapter::{PhysicalExprAdapterFactory, replace_columns_with_literals};
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use pagecast::{Relation, RelationId};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use crate::read_plan::{FileFilter, schema_read};
use crate::reader::ColumnBytes;

/// A file, as one partition of a scan sees it.
pub(super) struct OfFile {
    relation: RelationId,
    values: Vec<ScalarValue>,
    /// Which state of the filter `filter` is.
    generation: u64,
    pub(super) filter: Option<FileFilter>,
    pub(super) bytes: ColumnBytes,
    pub(super) columns: Columns,
}

impl OfFile {
    pub(super) fn new(
        relation: &Relation,
        file: &PartitionedFile,
        source: &ParquetSource,
        filter: Option<FileFilter>,
        (bytes, columns): (ColumnBytes, Columns),
    ) -> Self {
        Self {
            relation: relation.id(),
            values: file.partition_values.clone(),
            generation: generation(source),
            filter,
            bytes,
            columns,
        }
    }

    /// Whether it still is what `file` is to the scan.
    pub(super) fn is(&self, relation: &Relation, file: &PartitionedFile, source: &ParquetSource) -> bool {
        let same = self.relation == relation.id() && self.values == file.partition_values;
        same && self.generation == generation(source)
    }
}

fn generation(source: &ParquetSource) -> u64 {
    source.filter().map_or(0, |filter| snapshot_generation(&filter))
}

/// A projection in terms of the columns of a file.
pub(super) struct Columns {
    pub(super) metadata: ArrowReaderMetadata,
    /// Those that are decoded.
    pub(super) mask: ProjectionMask,
    projector: Projector,
    /// Of which rows they are decoded, if not of all.
    pub(super) condition: Option<Condition>,
}

/// A filter that is evaluated before other columns are decoded.
pub(super) struct Condition {
    /// The columns that it asks for.
    pub(super) mask: ProjectionMask,
    filter: Arc<dyn PhysicalExpr>,
}

impl Condition {
    /// Which rows of its decoded columns it leaves.
    pub(super) fn leaves(&self, decoded: &RecordBatch) -> Result<BooleanBuffer> {
        let passed = self.filter.evaluate(decoded)?.into_array(decoded.num_rows())?;
        let passed = as_boolean_array(&passed)?;
        Ok(passed.nulls().map_or_else(|| passed.values().clone(), |known| passed.values() & known.inner()))
    }
}

impl Columns {
    /// Nothing if the file has times of 96 bits, which DataFusion's opener adapts.
    pub(super) fn new(
        file: &PartitionedFile,
        footer: &Arc<ParquetMetaData>,
        source: &ParquetSource,
        (projection, filter): (ProjectionExprs, Option<Arc<dyn PhysicalExpr>>),
        adapters: &dyn PhysicalExprAdapterFactory,
    ) -> Result<Option<Self>> {
        let table = source.table_schema();
        let Some((mut metadata, physical)) = schema_read(file, footer, table.file_schema())? else { return Ok(None) };
        if !Arc::ptr_eq(metadata.schema(), &physical) {
            let options = ArrowReaderOptions::new().with_schema(Arc::clone(&physical));
            metadata = ArrowReaderMetadata::try_new(Arc::clone(footer), options)?;
        }
        let names = table.table_partition_cols().iter().map(|column| column.name().clone());
        let values: HashMap<_, _> = names.zip(file.partition_values.iter().cloned()).collect();
        let adapter = adapters.create(Arc::clone(table.file_schema()), Arc::clone(&physical))?;
        let simplifier = PhysicalExprSimplifier::new(&physical);
        let adapt = |expr| simplifier.simplify(adapter.rewrite(replace_columns_with_literals(expr, &values)?)?);
        let roots = |exprs: &mut dyn Iterator<Item = Arc<dyn PhysicalExpr>>| {
            let columns = exprs.flat_map(|expr| collect_columns(&expr));
            let mut roots: Vec<_> = columns.map(|column| column.index()).collect();
            roots.sort_unstable();
            roots.dedup();
            roots
        };
        let projection = projection.try_map_exprs(adapt)?;
        let of_projection = roots(&mut projection.expr_iter());
        let decoded = Arc::new(physical.project(&of_projection)?);
        let projection = projection.try_map_exprs(|expr| reassign_expr_columns(expr, &decoded))?;
        let projector = projection.make_projector(&decoded)?;
        let mask = |roots| ProjectionMask::roots(metadata.parquet_schema(), roots);
        let condition = filter.map(|filter| {
            let filter = adapt(filter)?;
            let roots = roots(&mut std::iter::once(Arc::clone(&filter)));
            let filter = reassign_expr_columns(filter, &physical.project(&roots)?)?;
            Ok::<_, DataFusionError>(Condition { mask: mask(roots), filter })
        });
        let (mask, condition) = (mask(of_projection), condition.transpose()?);
        Ok(Some(Self { metadata, mask, projector, condition }))
    }

    /// The bytes of all leaves of the columns, in the order of the file.
    pub(super) fn ranges(&self, row_group: &RowGroupMetaData) -> Vec<Range<u64>> {
        let of_filter = |leaf| self.condition.as_ref().is_some_and(|condition| condition.mask.leaf_included(leaf));
        let is_read = |leaf| self.mask.leaf_included(leaf) || of_filter(leaf);
        let leaves = row_group.columns().iter().enumerate().filter(|&(leaf, _)| is_read(leaf));
        let mut ranges: Vec<_> = leaves
            .map(|(_, column)| {
                let (start, len) = column.byte_range();
                start..start + len
            })
            .collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }

    /// What is wanted of a decoded batch, as `output`.
    pub(super) fn project(&self, decoded: &RecordBatch, output: &SchemaRef) -> Result<RecordBatch> {
        let projected = self.projector.project_batch(decoded)?;
        if self.projector.output_schema() == output {
            return Ok(projected);
        }
        let (_, arrays, rows) = projected.into_parts();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(output), arrays, &options)?)
    }
}
