//! Footers and page indexes: loaded once per generation of a file and kept outside the pool.
//!
//! Every execution of every query needs them before it can say what it will read. In the pool they
//! would be the first pages to be pushed out by the scans they describe. Those of objects come
//! through it all the same where queries are planned: DataFusion reads them, too, and the second of
//! the two asks for nothing. Where nobody plans, their pages would only take frames. So do those of
//! files of one page, whose rows are asked for next: one request for a small file in place of two.
//! What a footer says and does not promise is taken out when it is loaded.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use pagecast::{Pool, Relation, RelationId};
use parking_lot::Mutex;
use parquet::DecodeResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder};

use crate::error::HostError;
use crate::guard::catch;

/// What is read at first from a file's end: enough for the footer and page index of most files, in
/// one request.
const TAIL: u64 = 64 << 10;

/// The length of a footer and the letters behind it.
const FOOTER_END: u64 = 8;

/// A footer as long as anybody has it.
///
/// Every chunk that is opened looks for it, so it is found behind a plain lock. A fair one that
/// tasks wait for is handed to whoever is first in line, and as long as that one waits for its turn
/// of a worker all others wait, too: only who loads the footer holds `loading`.
#[derive(Debug, Default)]
struct Slot {
    footer: Mutex<Weak<ParquetMetaData>>,
    loading: tokio::sync::Mutex<()>,
}

impl Slot {
    fn get(&self) -> Option<Arc<ParquetMetaData>> {
        self.footer.lock().upgrade()
    }
}

/// So many more are kept before it is looked again for those that nobody uses.
const FEW: usize = 1024;
/// A footer is let go when it was not used while as many were used as so many times all of them:
/// whoever reads a large table again and again keeps all of it.
const UNUSED: u64 = 4;

/// The part of the pool's memory that footers may take beside it, and the least that they may.
const PART: u64 = 4;
const LEAST: u64 = 16 << 20;

/// Most bytes of footers beside a pool.
pub(crate) fn most_bytes(pool: &Pool) -> u64 {
    (pool.memory().total / PART).max(LEAST)
}

/// The footers of all files that were read through one pool.
///
/// A file that changed loses its old footer when it is next loaded. Files come and go by their
/// thousands where tables are rewritten: now and then those go that nobody uses. What does not fit
/// in is kept only while somebody uses it, and read anew then: whoever reads all files of a table
/// again and again would find none of them if the latest pushed out the others.
#[derive(Debug)]
pub(crate) struct Footers {
    kept: Mutex<Kept>,
    bytes_read: AtomicU64,
    /// Whether those of objects come through the pool.
    pooled: bool,
}

#[derive(Debug)]
struct Kept {
    by_path: HashMap<PathBuf, Footer>,
    /// How often footers were used.
    used: u64,
    /// With so many it is looked for those that nobody uses.
    many: usize,
    /// Bytes of those that are loaded, and the most.
    bytes: u64,
    most: u64,
    /// After so many uses it may be looked again for room.
    next_look: u64,
}

#[derive(Debug)]
struct Footer {
    relation: RelationId,
    slot: Arc<Slot>,
    /// When it was used last, by [`Kept::used`].
    at: u64,
    /// If it is loaded and there was room, and its bytes.
    kept: Option<Arc<ParquetMetaData>>,
    bytes: u64,
}

impl Kept {
    fn slot(&mut self, relation: &Relation) -> Arc<Slot> {
        self.used += 1;
        match self.by_path.get_mut(relation.path()) {
            Some(footer) if footer.relation == relation.id() => {
                footer.at = self.used;
                return Arc::clone(&footer.slot);
            }
            _ => {}
        }
        if self.by_path.len() >= self.many {
            self.let_go_unused();
        }
        let slot = Arc::<Slot>::default();
        let footer = Footer { relation: relation.id(), slot: Arc::clone(&slot), at: self.used, kept: None, bytes: 0 };
        if let Some(old) = self.by_path.insert(relation.path().to_owned(), footer) {
            self.bytes -= old.bytes;
        }
        slot
    }

    fn let_go_unused(&mut self) {
        let long_ago = self.used.saturating_sub(UNUSED * self.by_path.len() as u64);
        self.by_path.retain(|_, footer| footer.at >= long_ago);
        self.bytes = self.by_path.values().map(|footer| footer.bytes).sum();
        self.many = self.by_path.len() + (self.by_path.len() / 2).max(FEW);
        self.next_look = self.used + self.by_path.len() as u64;
    }

    /// Keeps the footer of `slot` if there is room.
    fn keep(&mut self, relation: &Relation, slot: &Arc<Slot>, loaded: &Arc<ParquetMetaData>) {
        let bytes = loaded.memory_size() as u64;
        if self.bytes + bytes > self.most && self.used >= self.next_look {
            self.let_go_unused();
        }
        let room = self.bytes + bytes <= self.most;
        let footer = self.by_path.get_mut(relation.path()).filter(|footer| Arc::ptr_eq(&footer.slot, slot));
        if let Some(footer) = footer.filter(|footer| room && footer.kept.is_none()) {
            footer.kept = Some(Arc::clone(loaded));
            footer.bytes = bytes;
            self.bytes += bytes;
        }
    }
}

impl Footers {
    /// None yet, and `most` bytes at any time. `pooled`: whether those of objects come through the
    /// pool.
    pub(crate) fn new(pooled: bool, most: u64) -> Self {
        let kept = Kept { by_path: HashMap::new(), used: 0, many: FEW, bytes: 0, most, next_look: 0 };
        Self { kept: Mutex::new(kept), bytes_read: AtomicU64::new(0), pooled }
    }

    /// The footer and page index of this generation of the file; read the first time, however many
    /// ask at once.
    pub(crate) async fn load(&self, relation: &Relation) -> Result<Arc<ParquetMetaData>, HostError> {
        let slot = self.slot(relation);
        if let Some(footer) = slot.get() {
            return Ok(footer);
        }
        let _loads = slot.loading.lock().await;
        if let Some(footer) = slot.get() {
            return Ok(footer);
        }
        let pooled = self.pooled;
        let stopped = |what: String| HostError::Decoder { path: relation.path().to_owned(), what };
        let decoded = match is_small(relation) {
            // In memory it is decoded sooner than another thread would have begun.
            true => {
                relation.read(std::slice::from_ref(&(0..relation.len())), None).await?;
                catch(|| decode(relation, pooled))
            }
            false => {
                let file = relation.clone();
                let task = tokio::task::spawn_blocking(move || catch(|| decode(&file, pooled)));
                task.await.map_err(|error| stopped(error.to_string()))?
            }
        };
        Ok(self.loaded(relation, &slot, decoded.map_err(stopped)??))
    }

    /// [`load`](Self::load) for who plans, and may wait. Somebody else may load it now, too.
    pub(crate) fn load_blocking(&self, relation: &Relation) -> Result<Arc<ParquetMetaData>, HostError> {
        let slot = self.slot(relation);
        if let Some(footer) = slot.get() {
            return Ok(footer);
        }
        let stopped = |what: String| HostError::Decoder { path: relation.path().to_owned(), what };
        let loaded = catch(|| decode(relation, self.pooled)).map_err(stopped)??;
        Ok(self.loaded(relation, &slot, loaded))
    }

    /// Counts what was read for a footer, and keeps it if there is room.
    fn loaded(
        &self,
        relation: &Relation,
        slot: &Arc<Slot>,
        (footer, bytes): (ParquetMetaData, u64),
    ) -> Arc<ParquetMetaData> {
        self.bytes_read.fetch_add(bytes, Relaxed);
        let footer = Arc::new(footer);
        *slot.footer.lock() = Arc::downgrade(&footer);
        self.kept.lock().keep(relation, slot, &footer);
        footer
    }

    fn slot(&self, relation: &Relation) -> Arc<Slot> {
        self.kept.lock().slot(relation)
    }

    /// Bytes of memory that decoded footers and page indexes take.
    pub(crate) fn memory(&self) -> u64 {
        self.kept.lock().bytes
    }

    /// Bytes that were read to load them.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Relaxed)
    }
}

/// Whether a file is one page.
fn is_small(relation: &Relation) -> bool {
    relation.pages() == 1
}

/// Reads and decodes a file's footer and page index, and says how many bytes that took beside the
/// pool. Blocks.
fn decode(relation: &Relation, pooled: bool) -> Result<(ParquetMetaData, u64), HostError> {
    let not_parquet = |error: ParquetError| {
        let path = relation.path().to_owned();
        if is_encrypted(&error) {
            return HostError::Encrypted { path };
        }
        HostError::Footer { path, source: Arc::new(error) }
    };
    let through_pool = is_small(relation) || (pooled && relation.storage().compares_reads());
    let mut bytes = 0;
    let read = |range: Range<u64>| match through_pool {
        true => Ok(relation.read_blocking(&[range], None)?.data.concat().into()),
        false => {
            bytes += range.end - range.start;
            Ok(relation.read_uncached_blocking(range)?.into())
        }
    };
    let footer = read_footer(relation.len(), PageIndexPolicy::Optional, read, not_parquet)?;
    Ok((pagecast_corrections::footer::read(footer).map_err(not_parquet)?, bytes))
}

/// The footer of a file of `len` bytes, and its page index by `index`. `read` gives ranges of the
/// file, and `wrong` says what is wrong with it.
///
/// # Errors
///
/// What `read` and `wrong` say. All that the footer names lies inside the file.
pub fn read_footer<E>(
    len: u64,
    index: PageIndexPolicy,
    mut read: impl FnMut(Range<u64>) -> Result<Bytes, E>,
    wrong: impl Fn(ParquetError) -> E,
) -> Result<ParquetMetaData, E> {
    let decoder = ParquetMetaDataPushDecoder::try_new(len).map_err(&wrong)?;
    let mut decoder = decoder.with_page_index_policy(index);
    let tail = len.saturating_sub(TAIL)..len;
    let end = read(tail.clone())?;
    // The decoder takes it for granted that there is as much.
    if let [.., a, b, c, d, _, _, _, _] = end[..]
        && u64::from(u32::from_le_bytes([a, b, c, d])) + FOOTER_END > len
    {
        return Err(wrong(ParquetError::General(format!("its footer is longer than the file's {len} bytes"))));
    }
    decoder.push_range(tail, end).map_err(&wrong)?;
    let mut wanted: Vec<Range<u64>> = Vec::new();
    loop {
        for range in wanted {
            if range.start > range.end || range.end > len {
                return Err(wrong(ParquetError::General(format!("its footer names bytes {range:?} of {len}"))));
            }
            decoder.push_range(range.clone(), read(range)?).map_err(&wrong)?;
        }
        match decoder.try_decode().map_err(&wrong)? {
            DecodeResult::NeedsData(ranges) => wanted = ranges,
            DecodeResult::Data(footer) => return check_footer(&footer, len).map_err(wrong).map(|()| footer),
            DecodeResult::Finished => return Err(wrong(ParquetError::General("no footer".to_owned()))),
        }
    }
}

/// Whether an error says that a file's footer is encrypted.
pub fn is_encrypted(error: &ParquetError) -> bool {
    error.to_string().contains("encrypted footer")
}

/// Fails unless all column chunks that a footer names lie inside its file of `len` bytes. Decoders
/// take that for granted.
fn check_footer(footer: &ParquetMetaData, len: u64) -> Result<(), ParquetError> {
    for (number, row_group) in footer.row_groups().iter().enumerate() {
        if row_group.num_rows() < 0 {
            return Err(ParquetError::General(format!("row group {number} has {} rows", row_group.num_rows())));
        }
        for column in row_group.columns() {
            let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
            let end = u64::try_from(start).ok().zip(u64::try_from(column.compressed_size()).ok());
            if end.and_then(|(start, size)| start.checked_add(size)).is_none_or(|end| end > len) {
                return Err(ParquetError::General(format!(
                    "row group {number}, column {}: {} bytes from byte {start} are not inside a file of {len}",
                    column.column_path(),
                    column.compressed_size()
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use datafusion::arrow::array::{Int64Array, RecordBatch};
    use pagecast::PoolOptions;
    use pagecast::storage::{Device, MemoryFiles};
    use parquet::arrow::ArrowWriter;

    use super::*;

    /// A table is rewritten again and again while it is read: 50 of its 500 files go each time.
    #[test]
    fn footers_that_nobody_uses_are_let_go() {
        let files = MemoryFiles::new();
        let pool = Pool::new(PoolOptions::default().memory(8 << 20).device(Device::new(files.clone(), None)));
        let (pool, footers) = (pool.expect("a pool"), Footers::new(false, u64::MAX));
        for round in 0..200 {
            let slots = || {
                let slot = |number: usize| {
                    let name = number.to_string();
                    if files.read(Path::new(&name)).is_err() {
                        files.write(&name, [0]);
                    }
                    footers.slot(&pool.open(Path::new(&name)).expect("it is there"))
                };
                (round * 50..round * 50 + 500).map(slot).collect::<Vec<_>>()
            };
            let is_same = slots().iter().zip(slots()).all(|(one, other)| Arc::ptr_eq(one, &other));
            assert!(is_same, "what is in use stays");
        }
        let kept = footers.kept.lock().by_path.len();
        assert!(kept < 5_000, "{kept} footers are kept");
    }

    /// 30 files of a table are read in turns; there is room for the footers of ten.
    #[test]
    fn footers_take_no_more_than_they_may() {
        let files = MemoryFiles::new();
        let pool = Pool::new(PoolOptions::default().memory(8 << 20).device(Device::new(files.clone(), None)));
        let pool = pool.expect("a pool");
        let relations: Vec<_> = (0..30).map(|number| open(&files, &pool, number)).collect();
        let size = Footers::new(false, u64::MAX).load_blocking(&relations[0]).expect("a footer").memory_size() as u64;
        let footers = Footers::new(false, 10 * size + size / 2);
        let read_in_a_round = || {
            let before = footers.bytes_read();
            for relation in &relations {
                footers.load_blocking(relation).expect("a footer");
                assert!(footers.memory() <= 10 * size + size / 2);
            }
            footers.bytes_read() - before
        };
        let all = read_in_a_round();
        for _ in 0..5 {
            assert_eq!(read_in_a_round(), all / 3 * 2, "ten stay where they are");
        }
    }

    fn open(files: &MemoryFiles, pool: &Pool, number: usize) -> Relation {
        let column = Arc::new(Int64Array::from(vec![number as i64; 10])) as _;
        let batch = RecordBatch::try_from_iter([("c", column)]).expect("a batch");
        let mut data = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut data, batch.schema(), None).expect("a writer");
        writer.write(&batch).and_then(|()| writer.close()).expect("a file");
        files.write(number.to_string(), data);
        pool.open(Path::new(&number.to_string())).expect("it is there")
    }
}
