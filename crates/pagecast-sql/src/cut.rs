//! Rows cut by a hash of their keys into files, so that rows that belong together are in one.

use std::fmt;
use std::future::ready;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::interleave_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::metrics::SpillMetrics;
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan};
use futures::{TryStreamExt, stream};

use crate::held::Held;
use crate::watched_rows::compacted;

/// Bytes of rows that wait to be written: each file gets its part of them at once.
const WAITING: usize = 4 << 20;

/// Files that are open at once, all partitions together, and the least of a partition.
const FILES: usize = 64;
const LEAST: usize = 4;
/// So often rows are cut anew where a part of them does not fit.
pub(crate) const DEPTH: u64 = 4;

/// Into how many parts each of so many partitions is cut.
pub(crate) fn parts_of(partitions: usize) -> usize {
    (FILES / partitions.max(1)).max(LEAST)
}

/// Makes the files of rows of this kind.
pub(crate) fn files_of(context: &TaskContext, spills: SpillMetrics, schema: SchemaRef) -> SpillManager {
    let compression = context.session_config().spill_compression();
    SpillManager::new(context.runtime_env(), spills, schema).with_compression_type(compression)
}

/// Rows on disk. There may be none.
#[derive(Clone)]
pub(crate) struct Part {
    files: SpillManager,
    file: Option<Arc<dyn SpillFile>>,
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
    /// Whether a key of a row is NULL.
    pub(crate) has_null: bool,
}

/// How rows are cut.
#[derive(Clone, Copy)]
pub(crate) struct How {
    /// Into so many parts.
    pub(crate) count: usize,
    /// By the hash of this number.
    pub(crate) seed: u64,
    /// Whether rows are left out of which a key is NULL.
    pub(crate) without_nulls: bool,
}

impl Part {
    /// A plan that gives its rows.
    pub(crate) fn plan(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let (schema, rows) = (Arc::clone(self.schema()), vec![Arc::new(self.clone()) as _]);
        Ok(Arc::new(StreamingTableExec::try_new(schema, rows, None, [], false, None)?))
    }

    pub(crate) fn rows_of(&self) -> Result<SendableRecordBatchStream> {
        match &self.file {
            Some(file) => self.files.read_spill_as_stream_unbuffered(Arc::clone(file), None),
            None => Ok(Box::pin(EmptyRecordBatchStream::new(Arc::clone(self.schema())))),
        }
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("rows", &self.rows).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        self.files.schema()
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = stream::once(ready(self.rows_of())).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(self.schema()), rows))
    }
}

/// Cuts the rows into parts by a hash of the keys.
pub(crate) async fn cut(
    mut rows: SendableRecordBatchStream,
    keys: &[PhysicalExprRef],
    How { count, seed, without_nulls }: How,
    files: &SpillManager,
) -> Result<Vec<Part>> {
    let mut open: Vec<_> = (0..count).map(|_| None).collect();
    let mut parts = vec![Part { files: files.clone(), file: None, rows: 0, bytes: 0, has_null: false }; count];
    // By the hash of seed 0 they came to their partition: it says nothing of them any more.
    let random = RandomState::with_seed(seed + 1);
    let mut waiting = Waiting {
        keys,
        random,
        without_nulls,
        batches: Vec::new(),
        bytes: 0,
        numbers: vec![Vec::new(); count],
        has_null: vec![false; count],
    };
    loop {
        let next = rows.try_next().await?;
        let is_last = next.is_none();
        if let Some(batch) = next {
            waiting.add(compacted(batch)?)?;
        }
        if is_last || waiting.bytes >= WAITING {
            Held::check_current()?;
            for (number, (open, part)) in open.iter_mut().zip(&mut parts).enumerate() {
                if let Some(rows) = waiting.of_part(number)? {
                    let file = match open {
                        Some(file) => file,
                        None => open.insert(files.create_in_progress_file("cutting rows by their keys")?),
                    };
                    part.rows += rows.num_rows();
                    part.bytes += file.append_batch(&rows)?;
                }
            }
            waiting.clear();
        }
        if is_last {
            break;
        }
    }
    for ((open, part), has_null) in open.into_iter().zip(&mut parts).zip(waiting.has_null) {
        part.has_null = has_null;
        if let Some(mut file) = open {
            part.file = file.finish()?;
        }
    }
    Ok(parts)
}

/// Rows that wait to be written.
struct Waiting<'a> {
    keys: &'a [PhysicalExprRef],
    random: RandomState,
    without_nulls: bool,
    batches: Vec<RecordBatch>,
    bytes: usize,
    /// Of each part the rows: their batch, and their place in it.
    numbers: Vec<Vec<(usize, usize)>>,
    /// Of each part whether a key of a row was NULL.
    has_null: Vec<bool>,
}

impl Waiting<'_> {
    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        let keys = self.keys.iter().map(|key| key.evaluate(&batch)?.into_array(batch.num_rows()));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let mut hashes = vec![0; batch.num_rows()];
        create_hashes(&keys, &self.random, &mut hashes)?;
        let (of, count) = (self.batches.len(), self.numbers.len() as u64);
        let nulls = NullBuffer::union_many(
            keys.iter().map(|key| key.logical_nulls()).collect::<Vec<_>>().iter().map(Option::as_ref),
        );
        for (row, hash) in hashes.iter().enumerate() {
            let (part, is_null) = ((hash % count) as usize, nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)));
            self.has_null[part] |= is_null;
            if !(is_null && self.without_nulls) {
                self.numbers[part].push((of, row));
            }
        }
        self.bytes += batch.get_array_memory_size();
        self.batches.push(batch);
        Ok(())
    }

    fn of_part(&self, number: usize) -> Result<Option<RecordBatch>> {
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        let rows = Some(&self.numbers[number]).filter(|rows| !rows.is_empty());
        Ok(rows.map(|rows| interleave_record_batch(&batches, rows)).transpose()?)
    }

    fn clear(&mut self) {
        self.numbers.iter_mut().for_each(Vec::clear);
        self.batches.clear();
        self.bytes = 0;
    }
}
