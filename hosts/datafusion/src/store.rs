//! Plain DataFusion over a pagecast device: the baseline without a pool, under the same storage
//! model and counters.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use futures::future::try_join_all;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result, coalesce_ranges,
};
use pagecast::storage::{Device, MAX_REQUEST, Storage, read_full};
use parking_lot::Mutex;

const NAME: &str = "pagecast device";

/// An object store whose reads are the requests of a [`Device`]; everything else is the local file
/// system's.
///
/// Ranges are coalesced as object_store does for a remote store, gaps of up to 1 MiB included, and
/// cut into requests of at most [`MAX_REQUEST`] that run at the same time, as the pool's do.
///
/// ```
/// use datafusion::prelude::SessionContext;
/// use pagecast::storage::Device;
/// use pagecast_datafusion::DeviceStore;
/// use std::sync::Arc;
///
/// let (ctx, device) = (SessionContext::new(), Device::local());
/// ctx.register_object_store(&"file:///".parse()?, Arc::new(DeviceStore::new(device.clone())));
/// // From here on the session reads its local files through `device`.
/// assert_eq!(device.stats().bytes_read, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DeviceStore {
    files: LocalFileSystem,
    device: Device,
    open: Mutex<HashMap<Path, Opened>>,
    bytes_requested: AtomicU64,
}

#[derive(Clone)]
struct Opened(Arc<dyn Storage>);

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.path().display())
    }
}

impl DeviceStore {
    /// The local files, by absolute path, read through `device`.
    pub fn new(device: Device) -> Self {
        Self { files: LocalFileSystem::new(), device, open: Mutex::default(), bytes_requested: AtomicU64::new(0) }
    }

    /// Bytes of the ranges that were asked for, before they were coalesced.
    pub fn bytes_requested(&self) -> u64 {
        self.bytes_requested.load(Relaxed)
    }

    /// Blocks. A file that changed since it was last opened is opened again.
    fn storage(&self, location: &Path) -> Result<Arc<dyn Storage>> {
        let mut open = self.open.lock();
        if let Some(Opened(storage)) = open.get(location)
            && storage.verify_unchanged().is_ok()
        {
            return Ok(Arc::clone(storage));
        }
        let path = self.files.path_to_filesystem(location)?;
        let storage = self.device.open(&path).map_err(|error| generic(format!("{}: {error}", path.display())))?;
        open.insert(location.clone(), Opened(Arc::clone(&storage)));
        Ok(storage)
    }

    async fn read(&self, location: &Path, range: Range<u64>) -> Result<Bytes> {
        let storage = self.storage(location)?;
        let reads = requests(&range, storage.alignment() as u64).map(|request| {
            let storage = Arc::clone(&storage);
            let read = move || {
                read_range(storage.as_ref(), &request)
                    .map_err(|error| generic(format!("{}: bytes {request:?}: {error}", storage.path().display())))
            };
            // A task of DataFusion's, so that what it reads counts as its statement's.
            async { SpawnedTask::spawn_blocking(read).await.map_err(|stopped| generic(stopped.to_string()))? }
        });
        let mut parts = try_join_all(reads).await?;
        Ok(if parts.len() == 1 { parts.remove(0) } else { Bytes::from(parts.concat()) })
    }
}

/// `range` in pieces that are one request each, so that a device works on them at the same time.
fn requests(range: &Range<u64>, alignment: u64) -> impl Iterator<Item = Range<u64>> + use<> {
    let (start, end) = (range.start, range.end);
    let aligned = start - start % alignment;
    let cuts = (aligned..end.max(aligned + 1)).step_by(MAX_REQUEST);
    cuts.map(move |cut| cut.max(start)..end.min(cut + MAX_REQUEST as u64))
}

fn generic(message: String) -> Error {
    Error::Generic { store: NAME, source: message.into() }
}

/// The bytes of `range`, whatever alignment the storage wants. Blocks; fails if the file ends
/// before the range does.
fn read_range(storage: &dyn Storage, range: &Range<u64>) -> io::Result<Bytes> {
    let alignment = storage.alignment();
    let start = range.start - range.start % alignment as u64;
    let (skip, wanted) = ((range.start - start) as usize, (range.end - start) as usize);
    let room = wanted.next_multiple_of(alignment);
    let mut memory = vec![0; room + alignment];
    let at = memory.as_ptr().align_offset(alignment);
    let read = read_full(storage, start, &mut [IoSliceMut::new(&mut memory[at..at + room])])?;
    if read < wanted {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends before that"));
    }
    Ok(Bytes::from(memory).slice(at + skip..at + wanted))
}

impl fmt::Display for DeviceStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NAME} ({})", self.device.describe())
    }
}

#[async_trait]
impl ObjectStore for DeviceStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let head_only = options.head;
        // The file system checks conditions and ranges, and knows the file's attributes; its open
        // file is not read.
        let found = self.files.get_opts(location, options).await?;
        if head_only {
            return Ok(found);
        }
        self.bytes_requested.fetch_add(found.range.end - found.range.start, Relaxed);
        let bytes = self.read(location, found.range.clone()).await?;
        let payload = GetResultPayload::Stream(stream::once(async { Ok(bytes) }).boxed());
        Ok(GetResult { payload, ..found })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.bytes_requested.fetch_add(ranges.iter().map(|range| range.end - range.start).sum(), Relaxed);
        coalesce_ranges(ranges, |range| self.read(location, range), OBJECT_STORE_COALESCE_DEFAULT).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.files.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(&self, at: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.files.put_multipart_opts(at, opts).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.files.delete_stream(locations)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.files.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use object_store::ObjectStoreExt;

    use super::*;

    #[test]
    fn requests_are_cut_where_the_device_can_read() {
        const MAX: u64 = MAX_REQUEST as u64;
        let cut = |range| requests(&range, 4096).collect::<Vec<_>>();
        assert_eq!(cut(0..0), vec![0..0; 1]);
        assert_eq!(cut(5..MAX), vec![5..MAX; 1]);
        assert_eq!(cut(5000..MAX + 5000), [5000..4096 + MAX, 4096 + MAX..5000 + MAX]);
        assert_eq!(cut(MAX..3 * MAX), [MAX..2 * MAX, 2 * MAX..3 * MAX]);
    }

    #[tokio::test]
    async fn ranges_of_any_alignment_come_as_they_are_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let content: Vec<u8> = (0..9_000_001_u32).map(|i| (i ^ i >> 9) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let device = Device::local();
        let store = DeviceStore::new(device.clone());
        let location = Path::from_absolute_path(&path).unwrap();
        let ranges = [0..1, 4095..4097, 3_000_000..9_000_001, 8_999_999..9_000_001];
        for (range, bytes) in ranges.iter().zip(store.get_ranges(&location, &ranges).await.unwrap()) {
            assert!(bytes == content[range.start as usize..range.end as usize], "{range:?}");
        }
        // The first two ranges are one request, and the other two are one range of 5.7 MiB.
        assert_eq!(device.stats().requests, 3);
        assert!(store.get_range(&location, 9_000_001..9_000_002).await.is_err());
    }
}
