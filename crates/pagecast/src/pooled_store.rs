//! An object store whose reads go through a pool: for readers that know nothing of pools.
//!
//! A read of ranges is of the generation that was listed or looked at last through this store, for
//! that is what its caller was planned with; the pool answers what it has and asks for the rest. A
//! read of a whole object is of the one that is there now: the store is asked, under the condition
//! that it is another one, and sends no bytes if it is not. Everything else is the store's own.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    Result, UploadPart,
};
use parking_lot::Mutex;

use crate::PoolError;
use crate::pool::Pool;
use crate::relation::Relation;
use crate::storage::Objects;

const NAME: &str = "pagecast";
/// The first piece of a body. Each further one is twice as long, up to a request of the store: who
/// only looks at the head of an object has little to wait for, and who reads it all asks seldom.
const FIRST_PIECE: u64 = 1 << 20;
/// How many pieces of a body are under way or in memory, so that one is on its way while another is
/// worked on.
const PIECES_AT_ONCE: usize = 2;
/// Descriptions of objects that are kept. Without one, a read begins by looking at its object.
const MOST_KNOWN: usize = 100_000;

/// A store over a [`Pool`]. Clones are the same.
///
/// What comes through it, and what is registered and read as [`Relation`]s of the same names, are
/// the same pages.
///
/// ```
/// use object_store::memory::InMemory;
/// use object_store::{ObjectStore, ObjectStoreExt};
/// use pagecast::storage::{ObjectOptions, Objects};
/// use pagecast::{Pool, PoolOptions, PooledStore};
/// use std::sync::Arc;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let pool = Pool::new(PoolOptions::default().memory(8 << 20))?;
/// let objects = Objects::start(ObjectOptions::default())?;
/// let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new()); // or S3, GCS, Azure, HTTP
/// let pooled = PooledStore::new(pool.clone(), objects, "memory://", store);
/// # runtime.block_on(async {
/// pooled.put(&"table.csv".into(), vec![7; 300_000].into()).await?;
/// for _ in 0..2 {
///     assert_eq!(pooled.get_range(&"table.csv".into(), 5..9).await?, vec![7; 4]);
/// }
/// # Ok::<_, object_store::Error>(())
/// # })?;
/// assert_eq!(pool.device().stats().requests, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PooledStore(Arc<Inner>);

struct Inner {
    pool: Pool,
    objects: Objects,
    url: String,
    store: Arc<dyn ObjectStore>,
    known: Arc<Known>,
}

/// Objects as they were described last.
#[derive(Default)]
struct Known(Mutex<HashMap<Path, ObjectMeta>>);

impl Known {
    fn get(&self, location: &Path) -> Option<ObjectMeta> {
        self.0.lock().get(location).cloned()
    }

    fn note(&self, meta: &ObjectMeta) {
        let mut known = self.0.lock();
        if known.len() >= MOST_KNOWN && !known.contains_key(&meta.location) {
            known.clear();
        }
        known.insert(meta.location.clone(), meta.clone());
    }

    fn forget(&self, location: &Path) {
        self.0.lock().remove(location);
    }
}

impl PooledStore {
    /// `store`, whose URL is `url` (`s3://bucket`), over a pool.
    pub fn new(pool: Pool, objects: Objects, url: &str, store: Arc<dyn ObjectStore>) -> Self {
        Self(Arc::new(Inner { pool, objects, url: url.to_owned(), store, known: Arc::default() }))
    }

    /// The store below.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.0.store
    }

    /// What a read of ranges is to be of.
    async fn described(&self, location: &Path) -> Result<ObjectMeta> {
        match self.0.known.get(location) {
            Some(known) => Ok(known),
            None => self.head(location).await,
        }
    }

    fn open(&self, meta: &ObjectMeta) -> Result<Relation> {
        let storage = self.0.objects.storage(&self.0.store, &self.0.url, meta);
        self.0.pool.open_storage(&storage).map_err(|error| self.failed(&meta.location, error))
    }

    /// The pool's error as one of a store. Of an object that changed nothing is known any more.
    fn failed(&self, location: &Path, error: PoolError) -> Error {
        match error {
            PoolError::Changed { .. } => {
                self.0.known.forget(location);
                Error::Precondition { path: location.to_string(), source: error.into() }
            }
            error => Error::Generic { store: NAME, source: error.into() },
        }
    }

    async fn read(&self, relation: &Relation, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let read = relation.read(ranges, None).await.map_err(|error| self.failed(location, error))?;
        Ok(read.data.into_iter().map(Bytes::from).collect())
    }

    /// The object as it is now: what is known of it if that is still true, else the store's answer.
    async fn now(&self, location: &Path) -> Result<std::result::Result<ObjectMeta, GetResult>> {
        let Some((known, tag)) = self.0.known.get(location).and_then(|known| {
            let tag = known.e_tag.clone()?;
            Some((known, tag))
        }) else {
            return Ok(Ok(self.head(location).await?));
        };
        let options = GetOptions { if_none_match: Some(tag), ..GetOptions::default() };
        match self.0.store.get_opts(location, options).await {
            Err(Error::NotModified { .. }) => Ok(Ok(known)),
            Ok(other) => {
                self.0.known.note(&other.meta);
                Ok(Err(other))
            }
            Err(error) => Err(error),
        }
    }

    /// `range` of an object, piece by piece.
    fn body(&self, meta: &ObjectMeta, range: Range<u64>) -> Result<BoxStream<'static, Result<Bytes>>> {
        let (store, relation, location) = (self.clone(), self.open(meta)?, meta.location.clone());
        let pieces = pieces(range, relation.storage().request_shape().max_bytes as u64);
        let read = move |piece| {
            let (store, relation, location) = (store.clone(), relation.clone(), location.clone());
            async move { Ok(store.read(&relation, &location, &[piece]).await?.concat().into()) }
        };
        Ok(stream::iter(pieces).map(read).buffered(PIECES_AT_ONCE).boxed())
    }
}

/// `range` in pieces of at most `most` bytes.
fn pieces(range: Range<u64>, most: u64) -> impl Iterator<Item = Range<u64>> {
    let mut next = (range.start, FIRST_PIECE.min(most));
    std::iter::from_fn(move || {
        let (start, len) = next;
        let piece = start..range.end.min(start + len);
        next = (piece.end, (2 * len).min(most));
        (!piece.is_empty()).then_some(piece)
    })
}

/// Whether the request is for bytes and nothing else.
fn is_plain(options: &GetOptions) -> bool {
    let GetOptions { if_match, if_none_match, version, .. } = options;
    let tags = if_match.is_some() || if_none_match.is_some() || version.is_some();
    !tags && options.if_modified_since.is_none() && options.if_unmodified_since.is_none()
}

#[async_trait]
impl ObjectStore for PooledStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if options.head || !is_plain(&options) {
            let is_new = options.head && is_plain(&options);
            let answer = self.0.store.get_opts(location, options).await?;
            if is_new {
                self.0.known.note(&answer.meta);
            }
            return Ok(answer);
        }
        let meta = match &options.range {
            Some(_) => self.described(location).await?,
            None => match self.now(location).await? {
                Ok(meta) => meta,
                Err(answer) => return Ok(answer),
            },
        };
        let range = options.range.unwrap_or(GetRange::Bounded(0..meta.size));
        let range = match range.as_range(meta.size) {
            Ok(range) => range,
            // Of an empty object there is no range, but all of it.
            Err(_) if meta.size == 0 => 0..0,
            Err(error) => return Err(Error::Generic { store: NAME, source: error.into() }),
        };
        let payload = GetResultPayload::Stream(self.body(&meta, range.clone())?);
        Ok(GetResult { payload, meta, range, attributes: Attributes::default() })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let meta = self.described(location).await?;
        self.read(&self.open(&meta)?, location, ranges).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let known = self.0.known.clone();
        self.0.store.list(prefix).inspect_ok(move |meta| known.note(meta)).boxed()
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        let known = self.0.known.clone();
        self.0.store.list_with_offset(prefix, offset).inspect_ok(move |meta| known.note(meta)).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let found = self.0.store.list_with_delimiter(prefix).await?;
        found.objects.iter().for_each(|meta| self.0.known.note(meta));
        Ok(found)
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let written = self.0.store.put_opts(location, payload, options).await;
        self.0.known.forget(location);
        written
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let (known, location) = (self.0.known.clone(), location.clone());
        let upload = self.0.store.put_multipart_opts(&location, options).await?;
        Ok(Box::new(Upload { upload, known, location }))
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let known = self.0.known.clone();
        self.0.store.delete_stream(locations).inspect_ok(move |location| known.forget(location)).boxed()
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let copied = self.0.store.copy_opts(from, to, options).await;
        self.0.known.forget(to);
        copied
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let renamed = self.0.store.rename_opts(from, to, options).await;
        self.0.known.forget(from);
        self.0.known.forget(to);
        renamed
    }
}

/// An object on its way into the store, part by part. Until all of it is there, the one before it
/// may be listed.
struct Upload {
    upload: Box<dyn MultipartUpload>,
    known: Arc<Known>,
    location: Path,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.upload.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let written = self.upload.complete().await;
        self.known.forget(&self.location);
        written
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upload({})", self.location)
    }
}

impl fmt::Debug for PooledStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PooledStore({:?})", self.0.store)
    }
}

impl fmt::Display for PooledStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} through a pool", self.0.store)
    }
}
