//! How a file is cut for scans that cooperate.
//!
//! A unit is a row group, or several small ones that are neighbours. Where units begin and end is
//! decided by the file's footer alone, whatever columns and row groups a scan reads: so all scans
//! of a file have the same units. What one scan reads of a unit is a chunk.

use std::ops::Range;
use std::sync::Arc;

use pagecast::forecast::Query;
use pagecast::{Share, Unit};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};

use crate::read_plan::{PlannedFile, PlannedRowGroup, ReadPlan};

/// What an execution reads, chunk by chunk.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) files: Vec<PlannedFile>,
    /// In the order of chunks.
    pub(crate) reads: Vec<UnitRead>,
    /// Which of the reads each chunk consists of.
    pub(crate) chunks: Vec<Range<usize>>,
    /// What it loads counts against this share of the pool.
    pub(crate) share: Option<Arc<Share>>,
    /// What it is a run of, if the pool is to learn when that comes back.
    pub(crate) query: Option<Query>,
}

impl Work {
    /// A chunk for each unit of the plan.
    pub(crate) fn of_units(mut plan: ReadPlan, page_size: u64) -> Self {
        let reads = cut(&mut plan, page_size);
        let chunks = (0..reads.len()).map(|number| number..number + 1).collect();
        Self { files: plan.files, reads, chunks, share: plan.share, query: plan.query }
    }

    /// Adds a chunk that reads all of these plans; how many reads the first one comes to.
    pub(crate) fn add_chunk(&mut self, plans: Vec<ReadPlan>, page_size: u64) -> usize {
        let begin = self.reads.len();
        let mut first = None;
        for mut plan in plans {
            let mut reads = cut(&mut plan, page_size);
            reads.iter_mut().for_each(|read| read.file += self.files.len());
            first.get_or_insert(reads.len());
            self.share = self.share.take().or(plan.share);
            self.query = self.query.or(plan.query);
            self.reads.append(&mut reads);
            self.files.append(&mut plan.files);
        }
        self.chunks.push(begin..self.reads.len());
        first.unwrap_or(0)
    }

    /// What a chunk reads.
    pub(crate) fn chunk(&self, number: usize) -> &[UnitRead] {
        &self.reads[self.chunks[number].clone()]
    }

    /// The plan as it was before it was cut.
    pub(crate) fn put_back(mut self) -> ReadPlan {
        for read in self.reads {
            self.files[read.file].row_groups.extend(read.row_groups);
        }
        ReadPlan { files: self.files, share: self.share, query: self.query }
    }
}

/// A unit takes row groups until it has as many pages as these, all columns together: 1 MiB with
/// pages of 64 KiB.
const LEAST_PAGES: u64 = 16;

/// What a scan reads of a unit.
#[derive(Debug)]
pub(crate) struct UnitRead {
    /// The file's number in the plan.
    pub(crate) file: usize,
    pub(crate) unit: Unit,
    /// The row groups that pruning left, in their order.
    pub(crate) row_groups: Vec<PlannedRowGroup>,
    /// Bit `i` is block `unit.first + i`: the blocks of the planned bytes.
    pub(crate) need: Vec<u64>,
}

/// What `plan` reads, unit by unit.
fn cut(plan: &mut ReadPlan, page_size: u64) -> Vec<UnitRead> {
    let mut reads: Vec<UnitRead> = Vec::new();
    for number in 0..plan.files.len() {
        let (before, rest) = plan.files.split_at_mut(number);
        let file = &mut rest[0];
        // DataFusion splits a file among partitions by ranges of its bytes. A unit where two ranges
        // meet is one chunk all the same.
        let continues = before.last().is_some_and(|before| file.continues(before));
        let units = units(&file.footer, page_size);
        let mut row_groups = std::mem::take(&mut file.row_groups).into_iter().peekable();
        for (members, blocks) in units {
            let read: Vec<_> =
                std::iter::from_fn(|| row_groups.next_if(|planned| members.contains(&planned.number))).collect();
            if read.is_empty() {
                continue;
            }
            let unit = Unit { relation: file.relation.id(), first: blocks.start, blocks: blocks.end - blocks.start };
            match reads.last_mut() {
                Some(last) if continues && last.unit == unit => last.row_groups.extend(read),
                _ => reads.push(UnitRead { file: number, unit, row_groups: read, need: Vec::new() }),
            }
        }
    }
    for read in &mut reads {
        read.need = need(read.unit, &read.row_groups, page_size);
    }
    reads
}

/// The units of a file: their row groups, and the blocks from the first to the last of these.
fn units(footer: &ParquetMetaData, page_size: u64) -> Vec<(Range<usize>, Range<u32>)> {
    let (mut units, mut first, mut bytes) = (Vec::new(), 0, 0);
    let row_groups = footer.row_groups();
    for (number, row_group) in row_groups.iter().enumerate() {
        bytes += row_group.compressed_size().max(0) as u64;
        if bytes >= LEAST_PAGES * page_size || number + 1 == row_groups.len() {
            let span = byte_span(&row_groups[first..=number]);
            units.push((first..number + 1, (span.start / page_size) as u32..span.end.div_ceil(page_size) as u32));
            (first, bytes) = (number + 1, 0);
        }
    }
    units
}

/// From the first byte of the columns of these row groups to the last. The footer was checked to
/// lie inside the file.
fn byte_span(row_groups: &[RowGroupMetaData]) -> Range<u64> {
    let columns = row_groups.iter().flat_map(RowGroupMetaData::columns).map(ColumnChunkMetaData::byte_range);
    let start = columns.clone().map(|(start, _)| start).min().unwrap_or(0);
    start..columns.map(|(start, bytes)| start + bytes).max().unwrap_or(0)
}

fn need(unit: Unit, row_groups: &[PlannedRowGroup], page_size: u64) -> Vec<u64> {
    let mut need = vec![0; unit.blocks.div_ceil(64) as usize];
    for range in row_groups.iter().flat_map(|planned| &planned.bytes).filter(|range| !range.is_empty()) {
        for block in range.start / page_size..range.end.div_ceil(page_size) {
            let bit = block - u64::from(unit.first);
            need[bit as usize / 64] |= 1 << (bit % 64);
        }
    }
    need
}

impl PlannedFile {
    /// Whether this is the part of the same file that follows `before`.
    fn continues(&self, before: &Self) -> bool {
        let (Some(range), Some(earlier)) = (&self.file.range, &before.file.range) else { return false };
        self.relation.id() == before.relation.id()
            && self.file.partition_values == before.file.partition_values
            && earlier.end == range.start
    }
}
