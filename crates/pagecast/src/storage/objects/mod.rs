//! Objects of any object store as storage: each read is one GET.
//!
//! A GET carries the ETag that was listed, and what the answer says of itself is compared besides,
//! for there are stores that ignore the condition. So a read brings bytes of the one generation or
//! fails with [`Changed`], and nobody asks for the object's state after it. Where a listing has no
//! ETag, its size and time count, and from the first answer on what that one said.
//!
//! Retries, and bodies that break off and are resumed, are the store's client's. Here are the
//! deadline, the number of requests that are under way without a thread each, and their end where
//! nobody waits any more.

mod faults;
mod message;
mod metered;
mod model;
#[cfg(all(test, not(pagecast_shuttle)))]
mod tests;

use std::fmt;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use object_store::{Error, GetOptions, GetRange, ObjectMeta, ObjectStore};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;

use super::{Changed, DirectIo, Errand, Errands, Generation, Request, RequestShape, Storage, Transfer};
pub use faults::{FaultStore, ObjectFault};
pub use message::{store_message, without_secrets};
pub use metered::{MeteredStore, StoreRequests, StoreStats};
pub use model::StoreModel;

/// How objects are read. Start from the default and change what matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ObjectOptions {
    /// How long a GET may take, the client's retries included. Default: 5 minutes.
    pub deadline: Duration,
    /// How many GETs pools have under way at once, all together. Default: 64.
    pub outstanding: usize,
    /// The most bytes of one GET, and over how many bytes in between two become one. Default: 8 MiB
    /// and 1 MiB.
    pub shape: RequestShape,
}

impl Default for ObjectOptions {
    fn default() -> Self {
        let shape = RequestShape { max_bytes: 8 << 20, max_gap: 1 << 20 };
        Self { deadline: Duration::from_secs(300), outstanding: 64, shape }
    }
}

impl ObjectOptions {
    /// Sets [`deadline`](Self::deadline).
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Sets [`outstanding`](Self::outstanding), to at least 1.
    #[must_use]
    pub fn outstanding(self, outstanding: usize) -> Self {
        Self { outstanding: outstanding.max(1), ..self }
    }

    /// Sets [`shape`](Self::shape).
    #[must_use]
    pub fn shape(self, shape: RequestShape) -> Self {
        Self { shape, ..self }
    }
}

/// Reads objects, with a runtime of its own, so that requests go on while the threads of an engine
/// are busy with the answers. Clones are the same; the runtime goes with the last of them and of
/// their storages.
#[derive(Clone)]
pub struct Objects(Arc<Inner>);

struct Inner {
    /// Gone when this is dropped.
    runtime: Option<Runtime>,
    options: ObjectOptions,
    /// One for each GET that may be under way.
    places: Arc<Semaphore>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // This may be a thread of another runtime, which must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Objects {
    /// Starts the threads that drive connections.
    ///
    /// # Errors
    ///
    /// The system refuses threads.
    pub fn start(options: ObjectOptions) -> io::Result<Self> {
        let mut threads = Builder::new_multi_thread();
        let runtime = threads.worker_threads(2).thread_name("pagecast-objects").enable_all().build()?;
        let places = Arc::new(Semaphore::new(options.outstanding.clamp(1, Semaphore::MAX_PERMITS)));
        Ok(Self(Arc::new(Inner { runtime: Some(runtime), options, places })))
    }

    /// The one of this process, with the default options, started when somebody first asks for it.
    ///
    /// # Errors
    ///
    /// The system refuses threads.
    pub fn shared() -> io::Result<Self> {
        static SHARED: Mutex<Option<Objects>> = Mutex::new(None);
        let mut shared = SHARED.lock();
        if let Some(objects) = &*shared {
            return Ok(objects.clone());
        }
        let started = Self::start(ObjectOptions::default())?;
        *shared = Some(started.clone());
        Ok(started)
    }

    /// The object that `listed` tells of. `url` is that of the store, without the object's path:
    /// `s3://bucket`. Nothing is asked of the store, and the name is the two together.
    ///
    /// ```
    /// use object_store::memory::InMemory;
    /// use object_store::{ObjectStore, ObjectStoreExt};
    /// use pagecast::storage::{ObjectOptions, Objects};
    /// use pagecast::{Pool, PoolOptions};
    /// use std::sync::Arc;
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # let (store, listed) = runtime.block_on(async {
    /// let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new()); // or S3, GCS, Azure, HTTP
    /// store.put(&"table".into(), vec![7; 300_000].into()).await?;
    /// let listed = store.head(&"table".into()).await?; // or from a listing
    /// # Ok::<_, object_store::Error>((store, listed))
    /// # })?;
    /// let objects = Objects::start(ObjectOptions::default())?;
    /// let pool = Pool::new(PoolOptions::default().memory(8 << 20))?;
    /// let table = pool.open_storage(&objects.storage(&store, "memory://", &listed))?;
    /// assert_eq!(table.path().to_str(), Some("memory:///table"));
    /// assert_eq!(table.pin(4, None)?[0], 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn storage(&self, store: &Arc<dyn ObjectStore>, url: &str, listed: &ObjectMeta) -> Arc<dyn Storage> {
        // A time of 0 says that nobody knows: logs of tables often do not.
        let modified = listed.last_modified.timestamp_nanos_opt().unwrap_or(0);
        let tag = listed.e_tag.as_deref().or(listed.version.as_deref());
        Arc::new(Object {
            name: name(url, &listed.location),
            store: Arc::clone(store),
            generation: Generation::of_object(listed.size, modified.into(), tag),
            listed: listed.clone(),
            first: OnceLock::new(),
            objects: self.clone(),
        })
    }

    fn runtime(&self) -> io::Result<&Handle> {
        let runtime = self.0.runtime.as_ref().map(Runtime::handle);
        runtime.ok_or_else(|| io::Error::other("the reader of objects has ended"))
    }

    /// Waits for an answer, be it on a thread of another runtime, which does not let itself be
    /// blocked by a second one.
    fn wait<T: Send>(&self, answer: impl Future<Output = io::Result<T>> + Send) -> io::Result<T> {
        let runtime = self.runtime()?;
        if Handle::try_current().is_err() {
            return runtime.block_on(answer);
        }
        let waited = std::thread::scope(|scope| scope.spawn(|| runtime.block_on(answer)).join());
        waited.unwrap_or_else(|_| Err(io::Error::other("the store's client panicked")))
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Objects").field(&self.0.options).finish()
    }
}

/// One generation of an object.
struct Object {
    name: PathBuf,
    store: Arc<dyn ObjectStore>,
    generation: Generation,
    listed: ObjectMeta,
    /// What the first answer said. The next ones say the same.
    first: OnceLock<ObjectMeta>,
    objects: Objects,
}

impl Object {
    /// Fails unless what an answer says of its object fits what was listed, and what earlier
    /// answers said.
    fn compare(&self, answer: &ObjectMeta) -> Result<(), Changed> {
        let differs =
            difference(&self.listed, answer).or_else(|| difference(self.first.get_or_init(|| answer.clone()), answer));
        differs.map_or(Ok(()), |how| Err(Changed { how }))
    }

    /// The ETag that a request asks for. A weak one matches nothing, by the rules of HTTP.
    fn condition(&self) -> Option<String> {
        let tag = self.listed.e_tag.as_ref().or_else(|| self.first.get()?.e_tag.as_ref());
        tag.filter(|tag| !tag.starts_with("W/")).cloned()
    }

    /// Hands the bytes from `offset` on to `sink`, at most `len` of them, as they come: from which
    /// of them on, and what. How many it took. Ends early where `sink` says that it has not taken
    /// what came, because nobody wants the rest.
    async fn get(&self, offset: u64, len: usize, sink: impl FnMut(usize, &[u8]) -> bool) -> io::Result<usize> {
        let end = self.listed.size.min(offset.saturating_add(len as u64));
        if offset >= end {
            return Ok(0);
        }
        let deadline = self.objects.0.options.deadline;
        let answer = tokio::time::timeout(deadline, self.answer(offset..end, sink)).await;
        answer.unwrap_or_else(|_| {
            let what = format!("no answer within {} s", deadline.as_secs_f64());
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        })
    }

    async fn answer(&self, wanted: Range<u64>, mut sink: impl FnMut(usize, &[u8]) -> bool) -> io::Result<usize> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(wanted.clone())),
            if_match: self.condition(),
            ..GetOptions::default()
        };
        let answer = self.store.get_opts(&self.listed.location, options).await.map_err(of_store)?;
        self.compare(&answer.meta)?;
        if answer.range != wanted {
            return Err(unasked(format!("bytes {:?} came for {wanted:?}", answer.range)));
        }
        let (mut body, mut came, len) = (answer.into_stream(), 0, (wanted.end - wanted.start) as usize);
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(of_store)?;
            if chunk.len() > len - came {
                return Err(unasked(format!("more than the bytes {wanted:?} came")));
            }
            // What nobody took did not come: somebody may want it before the errand ends.
            if !sink(came, &chunk) {
                break;
            }
            came += chunk.len();
        }
        // A body that ends too early is a short read, and the rest is asked for again.
        Ok(came)
    }

    /// Makes the request of an errand, and puts what comes where it wants it, for as long as it
    /// does.
    async fn make<E: Errand + ?Sized>(&self, begun: Begun<E>) -> (Box<E>, io::Result<usize>) {
        let Begun { mut errand, offset, len } = begun;
        let into = |at: usize, chunk: &[u8]| match errand.request() {
            Some(Request { transfer: Transfer::Read(mut bufs), .. }) => {
                fill(&mut bufs, at, chunk);
                true
            }
            _ => false,
        };
        let answer = self.get(offset, len, into).await;
        (errand, answer)
    }

    /// The same when there is a place for it.
    async fn make_in_turn<E: Errand + ?Sized>(&self, begun: Begun<E>) -> (Box<E>, io::Result<usize>) {
        // Nobody closes it.
        let _place = self.objects.0.places.acquire().await;
        self.make(begun).await
    }
}

/// An object's name, without what its store's URL says of users and secrets.
fn name(url: &str, location: &object_store::path::Path) -> PathBuf {
    let root = url.strip_suffix('/').unwrap_or(url);
    let (scheme, authority) = root.split_once("://").unwrap_or(("", root));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    PathBuf::from(format!("{scheme}://{host}/{location}"))
}

/// What two descriptions of an object tell apart, by the surest that both have.
fn difference(known: &ObjectMeta, now: &ObjectMeta) -> Option<String> {
    if known.size != now.size {
        return Some(format!("its size went from {} to {} bytes", known.size, now.size));
    }
    let both = |known: &Option<String>, now: &Option<String>| known.as_ref().zip(now.as_ref()).map(|(a, b)| a != b);
    // HTTP tells the time in whole seconds.
    let (then, time) = (known.last_modified.timestamp(), now.last_modified.timestamp());
    let (what, is_other) = if let Some(is_other) = both(&known.e_tag, &now.e_tag) {
        ("its ETag is another one", is_other)
    } else if let Some(is_other) = both(&known.version, &now.version) {
        ("its version is another one", is_other)
    } else {
        ("it was written at another time", then != 0 && time != 0 && then != time)
    };
    is_other.then(|| what.to_owned())
}

fn unasked(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the store answers what was not asked: {what}"))
}

/// A store's error as one of a file. What says that the object is another one becomes [`Changed`].
fn of_store(error: Error) -> io::Error {
    let kind = match &error {
        Error::Precondition { .. } | Error::NotModified { .. } => {
            return Changed { how: "the store has another one".to_owned() }.into();
        }
        Error::NotFound { .. } => return Changed { how: "it was removed".to_owned() }.into(),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, store_message(&error))
}

impl Storage for Object {
    fn path(&self) -> &Path {
        &self.name
    }

    fn generation(&self) -> Generation {
        self.generation
    }

    /// A HEAD.
    fn current(&self) -> io::Result<Generation> {
        let options = GetOptions { head: true, ..GetOptions::default() };
        let head = async {
            let now = self.store.get_opts(&self.listed.location, options).await.map_err(|error| match error {
                Error::NotFound { .. } => io::ErrorKind::NotFound.into(),
                error => of_store(error),
            })?;
            Ok::<_, io::Error>(now.meta)
        };
        let now = self.objects.wait(head)?;
        // A listing and an answer write the same time differently.
        Ok(match self.compare(&now) {
            Ok(()) => self.generation,
            Err(_) => Generation::of_object(now.size, now.last_modified.timestamp().into(), now.e_tag.as_deref()),
        })
    }

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let len = bufs.iter().map(|buf| buf.len()).sum();
        let into = |at: usize, chunk: &[u8]| {
            fill(bufs, at, chunk);
            true
        };
        self.objects.wait(self.get(offset, len, into))
    }

    fn request_shape(&self) -> RequestShape {
        self.objects.0.options.shape
    }

    fn serve<'e>(&self, next: &mut Errands<'_, 'e>) {
        // Without a runtime, errands that nobody took are the caller's still.
        let Ok(runtime) = self.objects.runtime() else { return };
        runtime.block_on(async {
            let mut under_way = FuturesUnordered::new();
            loop {
                while under_way.len() < self.objects.0.options.outstanding
                    && let Some(errand) = next()
                {
                    under_way.extend(begin(errand).map(|begun| self.make_in_turn(begun)));
                }
                let Some((mut errand, answer)) = under_way.next().await else { return };
                errand.answer(answer);
                under_way.extend(begin(errand).map(|begun| self.make_in_turn(begun)));
            }
        });
    }

    fn starts_errands(&self) -> bool {
        true
    }

    fn start(self: Arc<Self>, errand: Box<dyn Errand + Send>) {
        // Dropped without its end it is given up, by those who wait, too.
        let Ok(runtime) = self.objects.runtime().cloned() else { return };
        // This thread waits, so that what is due later does not come first.
        let Ok(place) = runtime.block_on(Arc::clone(&self.objects.0.places).acquire_owned()) else { return };
        runtime.spawn(async move {
            let mut next = begin(errand);
            while let Some(begun) = next {
                let (mut errand, answer) = self.make(begun).await;
                errand.answer(answer);
                next = begin(errand);
            }
            drop(place);
        });
    }

    fn compares_reads(&self) -> bool {
        true
    }

    /// A time alone does not tell two contents of one second apart, and a weak ETag says so itself.
    fn may_be_copied(&self) -> bool {
        match (&self.listed.e_tag, &self.listed.version) {
            (Some(tag), _) => !tag.starts_with("W/"),
            (None, version) => version.is_some(),
        }
    }

    fn direct(&self) -> DirectIo {
        DirectIo::Direct
    }
}

/// An errand and what it asks for.
struct Begun<E: ?Sized> {
    errand: Box<E>,
    offset: u64,
    len: usize,
}

/// What the errand asks for next. One that asks for nothing more is ended.
fn begin<E: Errand + ?Sized>(mut errand: Box<E>) -> Option<Begun<E>> {
    loop {
        match errand.request() {
            Some(request) => match request.transfer {
                Transfer::Read(bufs) => {
                    let (offset, len) = (request.offset, bufs.iter().map(|buf| buf.len()).sum());
                    return Some(Begun { errand, offset, len });
                }
                Transfer::Write(_) => {}
            },
            None => {
                errand.end();
                return None;
            }
        }
        errand.answer(Err(super::read_only()));
    }
}

/// Writes `chunk` into `bufs`, from their byte `at` on.
fn fill(bufs: &mut [IoSliceMut<'_>], mut at: usize, mut chunk: &[u8]) {
    for buf in bufs {
        let begin = at.min(buf.len());
        at -= begin;
        let part = chunk.len().min(buf.len() - begin);
        buf[begin..begin + part].copy_from_slice(&chunk[..part]);
        chunk = &chunk[part..];
    }
}
