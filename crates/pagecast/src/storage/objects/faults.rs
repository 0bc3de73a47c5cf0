//! An object store that fails as it is told, and counts what it is asked: for the tests of this
//! crate and of those that build on it.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;

use super::metered::{Counted, StoreRequests};

/// What happens to one GET.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjectFault {
    /// Nothing: it is answered.
    None,
    /// It fails, as after a client has given up on an overloaded store.
    Unavailable,
    /// Its body ends without an error after this many bytes.
    Cut(usize),
    /// Its body breaks off with an error after this many bytes.
    Broken(usize),
    /// Its body has this many bytes more than were asked for.
    Long(usize),
    /// It is answered with the bytes that follow those that were asked for.
    Shifted,
    /// It is never answered.
    Silent,
    /// The object is overwritten with these bytes, and then it is answered.
    Overwritten(Bytes),
}

/// The objects of another store, whose GETs meet planned faults. Clones share it.
#[derive(Clone)]
pub struct FaultStore(Arc<Inner>);

struct Inner {
    store: Arc<dyn ObjectStore>,
    planned: Mutex<VecDeque<ObjectFault>>,
    is_unconditional: AtomicBool,
    is_untagged: AtomicBool,
    counted: Counted,
}

impl FaultStore {
    /// `store`, without faults as yet.
    pub fn new(store: impl ObjectStore) -> Self {
        let planned = Mutex::new(VecDeque::new());
        let (is_unconditional, is_untagged) = Default::default();
        let counted = Counted::default();
        Self(Arc::new(Inner { store: Arc::new(store), planned, is_unconditional, is_untagged, counted }))
    }

    /// The next GETs meet `faults`, after those that were planned before.
    pub fn plan(&self, faults: impl IntoIterator<Item = ObjectFault>) {
        self.0.planned.lock().extend(faults);
    }

    /// Takes the next fault back; false if none is planned.
    pub fn unplan(&self) -> bool {
        self.0.planned.lock().pop_front().is_some()
    }

    /// From now on conditions are ignored, as some stores do.
    pub fn ignore_conditions(&self) {
        self.0.is_unconditional.store(true, Relaxed);
    }

    /// From now on listings have no ETags, as those of some stores.
    pub fn list_without_tags(&self) {
        self.0.is_untagged.store(true, Relaxed);
    }

    /// What it was asked so far.
    pub fn requests(&self) -> StoreRequests {
        self.0.counted.requests()
    }

    async fn get(&self, location: &Path, mut options: GetOptions, fault: ObjectFault) -> Result<GetResult> {
        match fault {
            ObjectFault::Unavailable => {
                let source = "503 Service Unavailable: SlowDown".into();
                return Err(Error::Generic { store: "faults", source });
            }
            ObjectFault::Silent => return futures::future::pending().await,
            ObjectFault::Overwritten(bytes) => {
                self.0.store.put(location, PutPayload::from(bytes)).await?;
                return self.0.store.get_opts(location, options).await;
            }
            _ => {}
        }
        if fault == ObjectFault::Shifted
            && let Some(object_store::GetRange::Bounded(range)) = &mut options.range
        {
            *range = range.end..2 * range.end - range.start;
        }
        let answer = self.0.store.get_opts(location, options).await?;
        let (range, meta, attributes) = (answer.range.clone(), answer.meta.clone(), answer.attributes.clone());
        let bytes = answer.bytes().await?;
        let body = match fault {
            ObjectFault::Cut(len) => vec![Ok(bytes.slice(..len.min(bytes.len())))],
            ObjectFault::Broken(len) => {
                let broken = Error::Generic { store: "faults", source: "connection reset by peer".into() };
                vec![Ok(bytes.slice(..len.min(bytes.len()))), Err(broken)]
            }
            ObjectFault::Long(more) => vec![Ok(bytes), Ok(vec![0xff; more].into())],
            _ => vec![Ok(bytes)],
        };
        Ok(GetResult { payload: GetResultPayload::Stream(stream::iter(body).boxed()), meta, range, attributes })
    }
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultStore({:?})", self.0.store)
    }
}

impl fmt::Display for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, with planned faults", self.0.store)
    }
}

/// A listed object, without its tag if the store has none.
fn listed(is_untagged: bool, mut meta: ObjectMeta) -> ObjectMeta {
    if is_untagged {
        meta.e_tag = None;
    }
    meta
}

#[async_trait]
impl ObjectStore for FaultStore {
    async fn get_opts(&self, location: &Path, mut options: GetOptions) -> Result<GetResult> {
        if self.0.is_unconditional.load(Relaxed) {
            (options.if_match, options.if_none_match) = (None, None);
        }
        self.0.counted.get(options.head);
        if options.head {
            return self.0.store.get_opts(location, options).await;
        }
        let fault = self.0.planned.lock().pop_front().unwrap_or(ObjectFault::None);
        self.get(location, options, fault).await
    }

    /// As stores over a network do it: a GET for each of the ranges, after some were joined.
    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let get = |range| self.get_range(location, range).boxed();
        object_store::coalesce_ranges(ranges, get, object_store::OBJECT_STORE_COALESCE_DEFAULT).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.counted.list();
        let is_untagged = self.0.is_untagged.load(Relaxed);
        self.0.store.list(prefix).map_ok(move |meta| listed(is_untagged, meta)).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.counted.list();
        let is_untagged = self.0.is_untagged.load(Relaxed);
        let mut found = self.0.store.list_with_delimiter(prefix).await?;
        found.objects = found.objects.into_iter().map(|meta| listed(is_untagged, meta)).collect();
        Ok(found)
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.0.store.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.store.put_multipart_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.0.store.delete_stream(locations)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.store.copy_opts(from, to, options).await
    }
}
