//! An object store whose requests are counted by kind, and which may be declared to be slow.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, OBJECT_STORE_COALESCE_DEFAULT,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
    coalesce_ranges,
};

use super::model::{Paced, Slot, StoreModel};

/// How many objects a store lists in one answer.
const LISTED_AT_ONCE: usize = 1000;
/// How many bytes of a body are booked at a time.
const BOOKED_AT_ONCE: usize = 1 << 20;

/// What a store was asked, by kind of request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreRequests {
    /// Bytes of an object, or of several ranges of it.
    pub gets: u64,
    /// What an object is.
    pub heads: u64,
    /// Which objects there are.
    pub lists: u64,
}

impl StoreRequests {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.gets + self.heads + self.lists
    }

    /// Those since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self { gets: self.gets - before.gets, heads: self.heads - before.heads, lists: self.lists - before.lists }
    }
}

/// What a [`MeteredStore`] has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StoreStats {
    /// Requests that the store has answered, also those that it answered with an error. Of a
    /// listing, each thousand objects are one.
    pub requests: StoreRequests,
    /// Attempts that a declared store has refused, and that were made again. What the client of a
    /// real store tries again by itself is not seen here.
    pub refused: u64,
    /// Bytes of the ranges that were asked for, before they were joined.
    pub bytes_requested: u64,
    /// Bytes of the bodies that came.
    pub bytes_read: u64,
}

impl StoreStats {
    /// What was done since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            requests: self.requests.since(&before.requests),
            refused: self.refused - before.refused,
            bytes_requested: self.bytes_requested - before.bytes_requested,
            bytes_read: self.bytes_read - before.bytes_read,
        }
    }
}

/// The kinds of requests, counted.
#[derive(Default)]
pub(super) struct Counted {
    gets: AtomicU64,
    heads: AtomicU64,
    lists: AtomicU64,
}

impl Counted {
    /// Of bytes, or with `is_head` of what the object is.
    pub(super) fn get(&self, is_head: bool) {
        if is_head { &self.heads } else { &self.gets }.fetch_add(1, Relaxed);
    }

    pub(super) fn list(&self) {
        self.lists.fetch_add(1, Relaxed);
    }

    pub(super) fn requests(&self) -> StoreRequests {
        let of = |count: &AtomicU64| count.load(Relaxed);
        StoreRequests { gets: of(&self.gets), heads: of(&self.heads), lists: of(&self.lists) }
    }
}

/// A store, its reads counted, and no faster than a [`StoreModel`] says. Clones are the same.
///
/// Ranges are asked for as over a network: a GET for each, after those with small gaps were joined.
/// Writes go to the store below, uncounted and unpaced.
///
/// ```
/// use object_store::memory::InMemory;
/// use object_store::{ObjectStore, ObjectStoreExt};
/// use pagecast::storage::{MeteredStore, StoreModel};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let model = StoreModel::default().latency(Duration::from_millis(1));
/// let store = MeteredStore::new(Arc::new(InMemory::new()), Some(model));
/// # runtime.block_on(async {
/// store.put(&"table".into(), vec![7; 300_000].into()).await?;
/// store.get_ranges(&"table".into(), &[0..10, 1000..2000]).await?;
/// # Ok::<_, object_store::Error>(())
/// # })?;
/// assert_eq!((store.stats().requests.gets, store.stats().bytes_read), (1, 2000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MeteredStore(Arc<Inner>);

struct Inner {
    store: Arc<dyn ObjectStore>,
    paced: Option<Paced>,
    counted: Counted,
    refused: AtomicU64,
    bytes_requested: AtomicU64,
    bytes_read: AtomicU64,
}

impl MeteredStore {
    /// `store`, as fast as it is, or as `model` says.
    pub fn new(store: Arc<dyn ObjectStore>, model: Option<StoreModel>) -> Self {
        let (counted, paced) = (Counted::default(), model.map(Paced::new));
        let (refused, bytes_requested, bytes_read) = Default::default();
        Self(Arc::new(Inner { store, paced, counted, refused, bytes_requested, bytes_read }))
    }

    /// What it was asked so far.
    pub fn stats(&self) -> StoreStats {
        StoreStats {
            requests: self.0.counted.requests(),
            refused: self.0.refused.load(Relaxed),
            bytes_requested: self.0.bytes_requested.load(Relaxed),
            bytes_read: self.0.bytes_read.load(Relaxed),
        }
    }

    /// The model, if its speed is declared.
    pub fn model(&self) -> Option<StoreModel> {
        self.0.paced.as_ref().map(Paced::model)
    }
}

impl Inner {
    /// Waits until a declared store answers.
    async fn answered(&self) -> Result<Option<Slot>> {
        let Some(paced) = &self.paced else { return Ok(None) };
        let note = || {
            self.refused.fetch_add(1, Relaxed);
        };
        paced.answer(note).await.map(Some)
    }

    async fn get(self: &Arc<Self>, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        self.counted.get(is_head);
        let slot = self.answered().await?;
        let answer = self.store.get_opts(location, options).await?;
        if is_head {
            return Ok(answer);
        }
        let (meta, range, attributes) = (answer.meta.clone(), answer.range.clone(), answer.attributes.clone());
        let payload = GetResultPayload::Stream(self.clone().body(slot, answer.into_stream()));
        Ok(GetResult { payload, meta, range, attributes })
    }

    async fn listed(&self) -> Result<()> {
        self.counted.list();
        self.answered().await.map(drop)
    }

    /// The body as it comes, in pieces that are worth to wait for if the store is declared.
    fn body(
        self: Arc<Self>,
        slot: Option<Slot>,
        body: BoxStream<'static, Result<Bytes>>,
    ) -> BoxStream<'static, Result<Bytes>> {
        let counted = self.clone();
        let body = body.inspect_ok(move |chunk| {
            counted.bytes_read.fetch_add(chunk.len() as u64, Relaxed);
        });
        let Some(slot) = slot else { return body.boxed() };
        let state = (self, slot, body, BytesMut::new());
        stream::try_unfold(state, |(inner, slot, mut body, mut piece)| async move {
            while piece.len() < BOOKED_AT_ONCE {
                let Some(chunk) = body.try_next().await? else { break };
                piece.extend_from_slice(&chunk);
            }
            if piece.is_empty() {
                return Ok(None);
            }
            if let Some(paced) = &inner.paced {
                paced.transfer(piece.len()).await;
            }
            let whole = piece.split().freeze();
            Ok(Some((whole, (inner, slot, body, piece))))
        })
        .boxed()
    }

    /// A listing, of which each further thousand objects are a request.
    fn pages(
        self: Arc<Self>,
        listed: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let begun = self.clone();
        let begin = async move { begun.listed().await.map(|()| listed) };
        let page = move |(number, meta): (usize, Result<ObjectMeta>)| {
            let inner = self.clone();
            async move {
                if number > 0 && number % LISTED_AT_ONCE == 0 {
                    inner.listed().await?;
                }
                meta
            }
        };
        stream::once(begin).try_flatten().enumerate().then(page).boxed()
    }
}

impl fmt::Debug for MeteredStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MeteredStore({:?})", self.0.store)
    }
}

impl fmt::Display for MeteredStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.model() {
            Some(model) => write!(f, "declared: {model}; {}", self.0.store),
            None => write!(f, "{}", self.0.store),
        }
    }
}

#[async_trait]
impl ObjectStore for MeteredStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let answer = self.0.get(location, options).await?;
        if !is_head {
            self.0.bytes_requested.fetch_add(answer.range.end - answer.range.start, Relaxed);
        }
        Ok(answer)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.bytes_requested.fetch_add(ranges.iter().map(|range| range.end - range.start).sum(), Relaxed);
        let get = async |range: Range<u64>| {
            let options = GetOptions { range: Some(range.into()), ..GetOptions::default() };
            self.0.get(location, options).await?.bytes().await
        };
        coalesce_ranges(ranges, get, OBJECT_STORE_COALESCE_DEFAULT).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.clone().pages(self.0.store.list(prefix))
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.clone().pages(self.0.store.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.listed().await?;
        self.0.store.list_with_delimiter(prefix).await
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

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.0.store.rename_opts(from, to, options).await
    }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;
    use std::time::Duration;
    use tokio::time::Instant;

    async fn stored(objects: usize, model: Option<StoreModel>) -> MeteredStore {
        let store = MeteredStore::new(Arc::new(InMemory::new()), model);
        for number in 0..objects {
            store.put(&format!("a/{number}").into(), vec![7; 3000].into()).await.unwrap();
        }
        store
    }

    #[tokio::test]
    async fn requests_count_by_kind_and_bytes_as_they_come() {
        let store = stored(2001, None).await;
        assert_eq!(store.stats(), StoreStats::default(), "writes do not count");
        store.head(&"a/1".into()).await.unwrap();
        assert_eq!(store.get_range(&"a/1".into(), 5..9).await.unwrap()[..], [7; 4]);
        assert!(store.get(&"nothing".into()).await.is_err());
        let before = store.stats();
        assert_eq!(before.requests, StoreRequests { gets: 2, heads: 1, lists: 0 });
        assert_eq!(before.bytes_read, 4);
        let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
        store.list_with_delimiter(Some(&"a".into())).await.unwrap();
        assert_eq!(listed.len(), 2001);
        let since = store.stats().since(&before);
        assert_eq!((since.requests, since.bytes_read), (StoreRequests { gets: 0, heads: 0, lists: 4 }, 0));
        assert_eq!(store.stats().requests.total(), 7);
    }

    // A busy machine takes longer than the model says, and never less.
    #[tokio::test]
    async fn a_declared_store_takes_its_time() {
        let model = StoreModel::default().latency(Duration::from_millis(5)).bandwidth(100_000_000);
        let store = stored(3, Some(model)).await;
        store.put(&"b".into(), vec![7; 3_500_000].into()).await.unwrap();
        let begin = Instant::now();
        assert_eq!(store.get(&"b".into()).await.unwrap().bytes().await.unwrap()[..], [7; 3_500_000]);
        assert!(begin.elapsed() >= Duration::from_millis(5 + 35));
        let begin = Instant::now();
        store.head(&"b".into()).await.unwrap();
        assert_eq!(store.list(None).count().await, 4);
        assert!(begin.elapsed() >= Duration::from_millis(10));
        assert_eq!(store.stats().bytes_read, 3_500_000);
        assert!(store.to_string().starts_with("declared: 100 MB/s, 5 ms per request"));
    }

    #[tokio::test]
    async fn what_is_refused_is_counted_and_comes_all_the_same() {
        let store = stored(1, Some(StoreModel::default().latency(Duration::ZERO).refused(0.2, 3))).await;
        for _ in 0..20 {
            assert_eq!(store.get(&"a/0".into()).await.unwrap().bytes().await.unwrap().len(), 3000);
        }
        let stats = store.stats();
        assert_eq!((stats.requests.gets, stats.bytes_read), (20, 60_000));
        assert!((1..15).contains(&stats.refused), "{}", stats.refused);
    }
}
