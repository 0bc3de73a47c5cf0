//! A column of a row group, decoded batch by batch by whoever needs the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DataFusionError;
use futures::future::{BoxFuture, Shared};
use pagecast::{PageId, RelationId};
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use crate::guard::catch;

/// What is the same array for all who read it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    pub(super) relation: RelationId,
    pub(super) row_group: usize,
    /// Among the roots of the file's schema.
    pub(super) column: usize,
    pub(super) form: DataType,
    pub(super) batch_size: usize,
}

/// The decoders of several columns whose bytes are read at once. All who wait for them drive the
/// read, so that none depends on one who has stopped fetching.
pub(super) type Opened = Shared<BoxFuture<'static, std::result::Result<Decoders, Arc<DataFusionError>>>>;
pub(super) type Decoders = Arc<[Mutex<Option<ParquetRecordBatchReader>>]>;

/// A column of a row group.
///
/// * (D1) Batch `k` holds the same rows for every reader, and those of all columns of the row group
///   that are decoded with one batch size.
/// * (D2) `charged` is what `charges` has of this column, until it is dropped.
/// * (D3) A decoder is out of its place while it works. One that fails or panics does not come
///   back, and the next reader is told.
pub(super) struct Column {
    pub(super) key: Key,
    /// A page of what it is decoded from.
    pub(super) page: PageId,
    opened: Opened,
    /// Its decoder's place among those that are opened with it.
    place: usize,
    state: Mutex<State>,
    charged: AtomicU64,
    charges: Arc<AtomicU64>,
    /// When it was taken last.
    pub(super) taken: AtomicU64,
}

/// Why there is no batch.
pub(super) enum Fault {
    Error(DataFusionError),
    /// What the decoder said.
    Panic(String),
}

impl From<DataFusionError> for Fault {
    fn from(error: DataFusionError) -> Self {
        Self::Error(error)
    }
}

#[derive(Default)]
struct State {
    decoder: Option<ParquetRecordBatchReader>,
    has_begun: bool,
    has_ended: bool,
    batches: Vec<ArrayRef>,
    bytes: u64,
    /// Where the last batch has its data: batches of views share it.
    last_data: Option<usize>,
}

impl Column {
    /// Charges `estimate` for it.
    pub(super) fn new(
        key: Key,
        page: PageId,
        (opened, place): (Opened, usize),
        (estimate, charges): (u64, &Arc<AtomicU64>),
    ) -> Self {
        charges.fetch_add(estimate, Relaxed);
        Self {
            key,
            page,
            opened,
            place,
            state: Mutex::default(),
            charged: AtomicU64::new(estimate),
            charges: Arc::clone(charges),
            taken: AtomicU64::default(),
        }
    }

    /// Waits until its bytes are there.
    pub(super) async fn open(&self) -> std::result::Result<(), Arc<DataFusionError>> {
        if self.state.lock().has_begun {
            return Ok(());
        }
        let decoders = self.opened.clone().await?;
        let mut state = self.state.lock();
        if !state.has_begun {
            state.has_begun = true;
            state.decoder = decoders[self.place].lock().take();
        }
        Ok(())
    }

    /// Whether its bytes are there.
    pub(super) fn has_begun(&self) -> bool {
        self.state.lock().has_begun
    }

    /// A batch of it, which is decoded if nobody has done so; nothing after the last one.
    pub(super) fn batch(&self, number: usize) -> std::result::Result<Option<ArrayRef>, Fault> {
        let mut state = self.state.lock();
        while number >= state.batches.len() {
            if state.has_ended {
                return Ok(None);
            }
            let lost = || Fault::Panic("it has failed for another query".to_owned());
            let mut decoder = state.decoder.take().ok_or_else(lost)?;
            match catch(|| decoder.next()).map_err(Fault::Panic)?.transpose().map_err(DataFusionError::from)? {
                Some(batch) => {
                    state.add(Arc::clone(batch.column(0)));
                    state.decoder = Some(decoder);
                }
                None => {
                    state.has_ended = true;
                    self.charge(state.bytes);
                }
            }
        }
        Ok(Some(Arc::clone(&state.batches[number])))
    }

    fn charge(&self, bytes: u64) {
        let before = self.charged.swap(bytes, Relaxed);
        self.charges.fetch_add(bytes.wrapping_sub(before), Relaxed);
    }
}

impl State {
    fn add(&mut self, batch: ArrayRef) {
        let data = batch.to_data();
        self.bytes += data.buffers().first().map_or(0, |buffer| buffer.len()) as u64;
        // What views point to is the same from batch to batch, mostly.
        for buffer in data.buffers().iter().skip(1) {
            let at = buffer.data_ptr().as_ptr() as usize;
            if self.last_data.replace(at) != Some(at) {
                self.bytes += buffer.capacity() as u64;
            }
        }
        self.bytes += data.child_data().iter().map(|child| child.get_array_memory_size() as u64).sum::<u64>();
        self.bytes += data.nulls().map_or(0, |nulls| nulls.buffer().len()) as u64;
        self.batches.push(batch);
    }
}

impl Drop for Column {
    fn drop(&mut self) {
        self.charge(0);
    }
}
