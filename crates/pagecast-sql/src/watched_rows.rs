//! The node that [the rules](crate::watched) put where batches enter a plan and above its joins.
//!
//! Between two batches it ends what was ended, gives way where its turn is over, and looks at the
//! heap. Some hand on rows up to a width only, or few long values at once, or texts without the
//! pages of a file that they came in, and of these only rows that may still be among the first.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, SchemaRef, StringViewType};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt};

use crate::budget::{Budget, over_alone};
use crate::held::Held;
use crate::long::{Parts, are_given_little, long_bytes};
use crate::order::is_turn_over;
use crate::watched_joins::watched_join;

/// Whether rows enter a plan at this node.
pub(crate) fn reads(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.children().is_empty() && !plan.is::<PlaceholderRowExec>()
}

/// The rows of a node, with pauses between them.
#[derive(Clone, Debug)]
pub(crate) struct WatchedExec {
    plan: Arc<dyn ExecutionPlan>,
    /// The same, as it is executed.
    executed: Arc<dyn ExecutionPlan>,
    budget: Budget,
    narrow: Option<Narrow>,
    /// Bytes of long values that come in one batch, but for one row.
    most: u64,
    /// Bytes that are copied beside each row.
    beside: u64,
    /// How often all of them are copied when the last one has come.
    copies: u64,
    /// Whether texts come without the buffers that they are a small part of.
    compact: bool,
    /// The filter of a sort above that wants its first rows alone: what does not pass is dropped.
    passing: Option<Arc<dyn PhysicalExpr>>,
}

/// How wide rows may be.
#[derive(Clone, Debug)]
struct Narrow {
    /// Most bytes of a row in these columns.
    widest: u64,
    columns: Arc<[usize]>,
}

impl WatchedExec {
    pub(crate) fn over(plan: Arc<dyn ExecutionPlan>, budget: &Budget) -> Result<Self> {
        let (executed, budget) = (watched_join(&plan)?, budget.clone());
        let (most, beside, copies) = (u64::MAX, 0, 0);
        Ok(Self { plan, executed, budget, narrow: None, most, beside, copies, compact: false, passing: None })
    }

    /// Refuses rows with more than `widest` bytes in these columns.
    pub(crate) fn with_rows_of_at_most(self, widest: u64, columns: Arc<[usize]>) -> Self {
        Self { narrow: Some(Narrow { widest, columns }), ..self }
    }

    /// Hands on `most` bytes of long values at once, with those `beside` each row, all of which are
    /// copied `copies` times later.
    pub(crate) fn with_at_most(self, most: u64, beside: u64, copies: u64) -> Self {
        Self { most, beside, copies, ..self }
    }

    /// Hands on texts for somebody who keeps them.
    pub(crate) fn compact(plan: Arc<dyn ExecutionPlan>, budget: &Budget) -> Result<Self> {
        Ok(match plan.downcast_ref::<Self>() {
            Some(watched) => Self { compact: true, ..watched.clone() },
            None => Self { compact: true, ..Self::over(plan, budget)? },
        })
    }

    /// Hands on only the rows that pass the filter of a sort for its first rows. The sort evaluates
    /// it, too, but keeps the whole batch of each row that it takes.
    pub(crate) fn with_passing(self, passing: Option<Arc<dyn PhysicalExpr>>) -> Self {
        Self { passing, ..self }
    }

    pub(crate) fn inner(&self) -> Arc<dyn ExecutionPlan> {
        Arc::clone(&self.plan)
    }
}

impl DisplayAs for WatchedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match &self.narrow {
            Some(narrow) => write!(f, "WatchedExec: widest={}", narrow.widest),
            None if self.most < u64::MAX => write!(f, "WatchedExec: most={}", self.most),
            None if self.compact => f.write_str("WatchedExec: compact"),
            None => f.write_str("WatchedExec"),
        }
    }
}

impl ExecutionPlan for WatchedExec {
    fn name(&self) -> &'static str {
        "WatchedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.plan]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }

    /// Lets through what does not work on long values.
    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let schema = self.plan.schema();
        let roots: Vec<_> = projection.expr().iter().map(|column| Arc::clone(&column.expr)).collect();
        if are_given_little(&roots, &schema)? {
            return Ok(None);
        }
        let swapped = self.plan.try_swapping_with_projection(projection)?;
        swapped.map(|plan| Ok(Arc::new(WatchedExec::over(plan, &self.budget)?) as _)).transpose()
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = children.pop().unwrap_or_else(|| Arc::clone(&self.plan));
        Ok(Arc::new(Self { executed: watched_join(&plan)?, plan, ..Self::clone(&self) }))
    }

    /// A sort that runs again has a new filter. The old one would drop rows that it wants.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::clone(&self).with_passing(None)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.executed.execute(partition, context)?;
        let (budget, narrow) = (self.budget.clone(), self.narrow.clone());
        let (most, beside, copies, compact) = (self.most, self.beside, self.copies, self.compact);
        let passing = self.passing.clone();
        Ok(Box::pin(Watched { rows, budget, narrow, most, beside, rest: None, copies, compact, passing, gathered: 0 }))
    }
}

struct Watched {
    rows: SendableRecordBatchStream,
    budget: Budget,
    narrow: Option<Narrow>,
    most: u64,
    beside: u64,
    /// What is left of a batch.
    rest: Option<Parts>,
    copies: u64,
    compact: bool,
    passing: Option<Arc<dyn PhysicalExpr>>,
    /// Bytes of long values that have come, where they are copied together.
    gathered: u64,
}

impl Watched {
    /// Fails if there is no room for the copies of all that has come.
    fn gather(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.copies == 0 {
            return Ok(());
        }
        self.gathered += long_bytes(batch);
        match self.gathered > self.most {
            true => self.budget.check(self.copies * self.gathered, "a window over long values"),
            false => Ok(()),
        }
    }

    /// Fails if one row is so long that there is no room for what a function may make of it.
    fn check_row(&self, part: &RecordBatch) -> Result<()> {
        if self.most == u64::MAX || part.num_rows() != 1 {
            return Ok(());
        }
        match long_bytes(part) {
            bytes if bytes > self.most => self.budget.check(2 * bytes, "a function of one row with long values"),
            _ => Ok(()),
        }
    }

    /// Fails if a row is too wide to be repeated.
    fn check_width(&self, batch: &RecordBatch) -> Result<()> {
        let Some(Narrow { widest: most, columns }) = &self.narrow else { return Ok(()) };
        let width = columns.iter().map(|&at| widest(batch.column(at))).sum::<u64>();
        match width > *most {
            true => Err(over_alone(format!(
                "a join or unnest would repeat a row of {width} bytes, and with the memory there is it may have \
                 {most}: SET datafusion.execution.batch_size to fewer rows"
            ))),
            false => Ok(()),
        }
    }
}

/// A function of more bytes of long values than these takes a while.
const TAKES_LONG: u64 = 256 << 10;
/// Buffers of so many bytes are kept whatever part of them a batch needs.
const FEW: usize = 64 << 10;
/// The part of its buffers that a batch needs, if they stay.
const PART: usize = 4;

/// The rows, with texts of their own where these are a small part of their buffers. A text of a
/// Parquet file keeps its page, which is long and has the texts of other batches; and one that was
/// sorted keeps pages of all runs.
pub(crate) fn compacted(batch: RecordBatch) -> Result<RecordBatch> {
    let compact = |column: &ArrayRef| -> Option<ArrayRef> {
        fn of<T: ByteViewType>(column: &ArrayRef) -> Option<ArrayRef> {
            let views = column.as_byte_view::<T>();
            let kept: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
            let is_sparse = kept > FEW && kept / PART > views.total_buffer_bytes_used();
            is_sparse.then(|| Arc::new(views.gc()) as _)
        }
        match column.data_type() {
            DataType::Utf8View => of::<StringViewType>(column),
            DataType::BinaryView => of::<BinaryViewType>(column),
            _ => None,
        }
    };
    let compact: Vec<_> = batch.columns().iter().map(compact).collect();
    if compact.iter().all(Option::is_none) {
        return Ok(batch);
    }
    let columns =
        compact.into_iter().zip(batch.columns()).map(|(own, column)| own.unwrap_or_else(|| Arc::clone(column)));
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns.collect(), &rows)?)
}

/// The rows for which the filter is true.
fn passing(filter: &Arc<dyn PhysicalExpr>, batch: RecordBatch) -> Result<RecordBatch> {
    let passes = filter.evaluate(&batch)?.into_array(batch.num_rows())?;
    let passes = passes.as_boolean();
    let are_all = passes.null_count() == 0 && !passes.has_false();
    if are_all { Ok(batch) } else { Ok(filter_record_batch(&batch, passes)?) }
}

/// Bytes of the longest value.
fn widest(column: &ArrayRef) -> u64 {
    let longest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0) as u64;
    match column.data_type() {
        DataType::Utf8 => longest(&mut column.as_string::<i32>().offsets().lengths()),
        DataType::LargeUtf8 => longest(&mut column.as_string::<i64>().offsets().lengths()),
        DataType::Binary => longest(&mut column.as_binary::<i32>().offsets().lengths()),
        DataType::LargeBinary => longest(&mut column.as_binary::<i64>().offsets().lengths()),
        DataType::Utf8View => longest(&mut column.as_string_view().lengths().map(|length| length as usize)),
        DataType::BinaryView => longest(&mut column.as_binary_view().lengths().map(|length| length as usize)),
        // On average, of lists and the like.
        _ => (column.to_data().get_slice_memory_size().unwrap_or(0) / column.len().max(1)) as u64,
    }
}

impl Stream for Watched {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Held::check_current()?;
        if is_turn_over() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            if let Some(part) = self.rest.as_mut().and_then(Parts::next) {
                self.budget.check(0, "")?;
                return Poll::Ready(Some(self.check_row(&part).map(|()| part)));
            }
            let Some(batch) = ready!(self.rows.poll_next_unpin(context)).transpose()? else {
                return Poll::Ready(None);
            };
            self.check_width(&batch)?;
            self.gather(&batch)?;
            let batch = if let Some(filter) = &self.passing { passing(filter, batch)? } else { batch };
            let batch = if self.compact { compacted(batch)? } else { batch };
            let takes_long = self.most < u64::MAX && long_bytes(&batch) > TAKES_LONG;
            self.rest = Some(Parts::of(batch, self.most, self.beside));
            if takes_long {
                Held::takes_long();
                return self.poll_next(context);
            }
        }
    }
}

impl RecordBatchStream for Watched {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::StringViewArray;

    use super::*;

    #[test]
    fn texts_that_are_kept_keep_no_others() {
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..10_000).map(|at| format!("{at:0>40}"))));
        let batch = |texts: ArrayRef| RecordBatch::try_from_iter([("t", texts)]).unwrap();
        let kept = |batch: &RecordBatch| {
            let buffers = batch.column(0).as_string_view().data_buffers();
            buffers.iter().map(|buffer| buffer.len()).sum::<usize>()
        };
        let few = compacted(batch(texts.slice(7, 100))).unwrap();
        assert_eq!(few, batch(texts.slice(7, 100)));
        assert_eq!(kept(&few), 100 * 40);
        // Most of them, or little: copying them frees next to nothing.
        assert_eq!(kept(&compacted(batch(texts.slice(0, 5000))).unwrap()), 10_000 * 40);
        let short: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..1000).map(|at| format!("{at:0>40}"))));
        assert_eq!(kept(&compacted(batch(short.slice(0, 1))).unwrap()), 1000 * 40);
    }
}
