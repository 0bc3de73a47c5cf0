//! The pool as its users see it.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{self, Ordering};
use std::time::Instant;

use pagecast_core::policy::PolicySpec;
use pagecast_core::predictor::{Predictor, RegisterError, Registry, ScanSpec, ScanView};
use pagecast_core::sync::atomic::AtomicU64;
use pagecast_core::{RelationId, ScanId, Tick};

use crate::blocking::block_on;
use crate::cache::{Anyone, Cache};
use crate::frame_memory::FrameMemory;
use crate::io::IoThreads;
use crate::options::{MemoryUse, Plan, PoolOptions};
use crate::prefetch::Prefetch;
use crate::read::{self, ReadResult};
use crate::relation::Relation;
use crate::scan::Scan;
use crate::session::Session;
use crate::stats::PoolStats;
use crate::storage::Device;
use crate::sync::Mutex;
use crate::write::{self, Background, Format, WriteOptions, Writer};
use crate::{Pin, PoolError, machine_memory};

/// Most threads that read. A device with more requests outstanding is used by other readers beside the pool.
const MAX_THREADS: u32 = 64;

/// A buffer pool: a fixed amount of memory that holds pages of files. Clones are the same pool.
///
/// ```
/// use pagecast::storage::{Device, MemoryFiles};
/// use pagecast::{Pool, PoolOptions};
/// use pagecast::predictor::{Pages, Part, Run, ScanKind, ScanSpec};
///
/// let files = MemoryFiles::new();
/// files.write("table", vec![7u8; 300_000]);
/// let device = Device::new(files, None); // `Device::local()` for real files
/// let pool = Pool::new(PoolOptions { memory: 1 << 20, device, ..Default::default() })?;
/// let table = pool.open("table".as_ref())?;
///
/// // A scan says what it will read, reads, and says how far it is.
/// let runs = [Run { first: 0, blocks: table.pages(), position: 0, span: table.len() }];
/// let parts = [Part { relation: table.id(), pages: Pages::Runs(&runs) }];
/// let scan = pool.register(&ScanSpec { kind: ScanKind(0), length: table.len(), parts: &parts })?;
/// let read = pool.read_blocking(&table, &[10..20, 100_000..300_000], Some(scan.id()))?;
/// assert_eq!(read.data[0], [7; 10]);
/// assert_eq!(read.data[1].len(), 200_000);
/// scan.report(table.len());
/// drop(scan);
///
/// // A page can be held in place.
/// let page = pool.pin(&table, 0, None)?;
/// assert_eq!(page.len(), 65_536);
/// assert!(pool.memory().total <= 1 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Pool(pub(crate) Arc<Shared>);

/// How many pools there were in this process.
static POOLS: atomic::AtomicU64 = atomic::AtomicU64::new(0);

/// What the pool's clones, its scans and its reads share.
pub(crate) struct Shared {
    pub(crate) cache: Arc<Cache>,
    pub(crate) threads: IoThreads,
    pub(crate) registry: Mutex<Registry<Arc<[AtomicU64]>>>,
    pub(crate) predictor: Predictor<Arc<[AtomicU64]>>,
    pub(crate) prefetch: Prefetch,
    pub(crate) writer: Arc<Writer>,
    pub(crate) background: Background,
    relations: Mutex<Relations>,
    pub(crate) options: PoolOptions,
    pub(crate) plan: Plan,
    /// Held by who resizes.
    pub(crate) resizing: Mutex<()>,
    started: Instant,
    /// Tells this pool from all others of the process, so that no relation is read through another pool than its own.
    identity: u64,
}

/// The files that are open now, each in its newest generation, and the next number.
#[derive(Default)]
struct Relations {
    by_path: HashMap<PathBuf, Arc<Relation>>,
    /// The same ones.
    by_id: HashMap<RelationId, Arc<Relation>>,
    next: u32,
}

impl Pool {
    /// Makes a pool: divides the memory and starts the threads that read.
    ///
    /// # Errors
    ///
    /// The memory holds no frame ([`PoolError::TooSmall`]) or is more than there is ([`PoolError::MoreThanMemory`]), the
    /// page size is none, the policy cannot run in a pool, the system refuses memory or threads, or the double-write area
    /// cannot be read or what it restores not be written.
    pub fn new(options: PoolOptions) -> Result<Self, PoolError> {
        let plan = Plan::new(&options)?;
        let given = options.max_memory.unwrap_or_default().max(options.memory);
        if let Some(limit) = machine_memory::limit().filter(|&limit| given > limit) {
            return Err(PoolError::MoreThanMemory { given, limit });
        }
        let batching = options.batching.within(plan.frames);
        let policy = options.policy.build(plan.max_frames, options.seed)?.into_concurrent(batching);
        let memory = FrameMemory::new(plan.max_frames, options.page_size)
            .map_err(|error| PoolError::setup("memory for the frames", error))?;
        let words: Arc<[AtomicU64]> = (0..plan.predictor.words()).map(|_| AtomicU64::new(0)).collect();
        let registry = Registry::format(words, plan.predictor)?;
        let prefetch = Prefetch::new(&options.prefetch, &plan.predictor, plan.frames, options.page_size);
        let cache = Cache::new(memory, plan.frames, policy);
        let (log, double_write) = (options.log.clone(), options.double_write.as_ref());
        let writer = Writer::new(cache.clone(), log, &options.device, double_write, options.page_size)?;
        Ok(Self(Arc::new(Shared {
            cache,
            writer: Arc::new(writer),
            background: Background::new(),
            threads: IoThreads::start(options.device.threads().clamp(1, MAX_THREADS))?,
            predictor: registry.predictor(),
            prefetch,
            registry: Mutex::new(registry),
            relations: Mutex::new(Relations::default()),
            options,
            plan,
            resizing: Mutex::new(()),
            started: Instant::now(),
            identity: POOLS.fetch_add(1, Ordering::Relaxed),
        })))
    }

    /// Opens a file as it is now. The same generation is the same relation; if the file has changed since it was opened
    /// last, it is a new one, and readers of the old one fail with [`PoolError::Changed`].
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or has more pages than can be numbered.
    pub fn open(&self, path: &Path) -> Result<Arc<Relation>, PoolError> {
        self.open_as(path, None)
    }

    /// Opens a file to be read, or to be written as `options` say.
    pub(crate) fn open_as(&self, path: &Path, options: Option<&WriteOptions>) -> Result<Arc<Relation>, PoolError> {
        let open_error = |source| PoolError::Open { path: path.to_owned(), source: Arc::new(source) };
        let (device, page_size) = (&self.0.options.device, self.0.options.page_size);
        let format = options.map_or(Format::Raw, |options| options.format);
        let mut relations = self.0.relations.lock();
        let old = relations.by_path.get(path).cloned();
        let serves = |old: &Relation| options.is_none() || old.is_writable() && old.format() == format;
        if let Some(old) = old.as_ref().filter(|old| serves(old) && old.verify().is_ok()) {
            return Ok(old.clone());
        }
        let storage = match options {
            None => device.open(path).map_err(open_error)?,
            Some(options) => {
                let storage = device.open_to_write(path, options.create).map_err(open_error)?;
                write::check(storage.as_ref(), page_size, options)?;
                storage
            }
        };
        let id = RelationId(relations.next);
        let relation = Arc::new(Relation::new(id, storage, format, &self.0.options, self.0.identity)?);
        relations.next += 1;
        relations.by_path.insert(path.to_owned(), relation.clone());
        relations.by_id.insert(id, relation.clone());
        if let Some(old) = &old {
            relations.by_id.remove(&old.id());
        }
        drop(relations);
        if let Some(old) = old {
            old.replace();
            self.0.writer.remove(old.id());
            self.0.cache.discard(old.id());
        }
        Ok(relation)
    }

    /// Announces a scan. It is forgotten when the [`Scan`] is dropped.
    ///
    /// # Errors
    ///
    /// The predictor has no room, or the description is wrong. The scan may run without being registered.
    pub fn register(&self, spec: &ScanSpec<'_>) -> Result<Scan, RegisterError> {
        let now = self.0.now();
        let id = self.0.registry.lock().register(spec, now)?;
        self.0.prefetch.begin(id, spec);
        Ok(Scan::new(self.0.clone(), id))
    }

    /// Pins page `block`, and reads it first if it is not resident.
    ///
    /// # Errors
    ///
    /// No frame is free ([`PoolError::NoFrame`]), the file has no such page or has changed, or its read failed.
    #[inline]
    pub fn pin(&self, relation: &Arc<Relation>, block: u32, scan: Option<ScanId>) -> Result<Pin<'_>, PoolError> {
        self.0.pin(&mut Anyone, relation, block, scan)
    }

    /// As [`pin`](Self::pin), without blocking the thread. The load begins with the call's first poll and goes on if the
    /// future is dropped.
    pub fn pin_async(
        &self,
        relation: &Arc<Relation>,
        block: u32,
        scan: Option<ScanId>,
    ) -> impl Future<Output = Result<Pin<'_>, PoolError>> + Send + use<'_> {
        self.0.pin_async(Anyone, relation.clone(), block, scan)
    }

    /// Reads byte ranges through the pool. Missing pages that are neighbours are read in one request; where no frame is
    /// free, past the pool. Work begins with the first poll; dropping the future gives up all it holds.
    ///
    /// # Errors
    ///
    /// A range is outside the file, the file has changed, or a read failed.
    pub fn read(
        &self,
        relation: &Arc<Relation>,
        ranges: &[Range<u64>],
        scan: Option<ScanId>,
    ) -> impl Future<Output = Result<ReadResult, PoolError>> + Send + 'static + use<> {
        read::read(self.0.clone(), Anyone, relation.clone(), ranges.to_vec(), scan)
    }

    /// As [`read`](Self::read), in this thread.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_blocking(
        &self,
        relation: &Arc<Relation>,
        ranges: &[Range<u64>],
        scan: Option<ScanId>,
    ) -> Result<ReadResult, PoolError> {
        block_on(self.read(relation, ranges, scan))
    }

    /// A session: the way to many requests from one thread or one client.
    pub fn session(&self) -> Session<'_> {
        Session::new(&self.0)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    pub(crate) fn options(&self) -> &PoolOptions {
        &self.0.options
    }

    /// What the pool has done so far.
    pub fn stats(&self) -> PoolStats {
        self.0.cache.stats()
    }

    /// Where the memory goes.
    pub fn memory(&self) -> MemoryUse {
        self.0.plan.memory(self.frames())
    }

    /// The scans that are registered now.
    pub fn scans(&self) -> Vec<ScanView> {
        let mut scans = Vec::new();
        self.0.predictor.scans(|scan| scans.push(scan));
        scans
    }

    /// Where files are opened.
    pub fn device(&self) -> &Device {
        &self.0.options.device
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> u32 {
        self.0.options.page_size
    }

    /// How many pages the pool holds: its size now.
    pub fn frames(&self) -> u32 {
        self.0.cache.frames()
    }

    /// The policy that decides who leaves.
    pub fn policy(&self) -> &PolicySpec {
        &self.0.options.policy
    }

    /// How many frames are pinned at this moment.
    pub fn pinned(&self) -> u32 {
        self.0.cache.pinned()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("frames", &self.frames()).field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl Shared {
    /// The most bytes that the pool may get.
    pub(crate) fn max_memory(&self) -> u64 {
        self.options.max_memory.unwrap_or(0).max(self.options.memory)
    }

    /// Nanoseconds since the pool was made.
    pub(crate) fn now(&self) -> Tick {
        self.started.elapsed().as_nanos() as u64
    }

    /// Tells this pool from all others of the process.
    #[inline]
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    /// The files that are open, in the order of their numbers.
    pub(crate) fn relations(&self) -> Vec<Arc<Relation>> {
        let mut relations: Vec<_> = self.relations.lock().by_id.values().cloned().collect();
        relations.sort_by_key(|relation| relation.id());
        relations
    }

    /// The open file of that number, if it is the newest generation.
    pub(crate) fn relation(&self, id: RelationId) -> Option<Arc<Relation>> {
        self.relations.lock().by_id.get(&id).cloned()
    }
}
