//! The engine of a pool: the parts that its clones, scans and reads share, and how a request goes
//! through them.
//!
//! ```text
//!   pin, read, pin_mut (relation.rs)
//!      '-- request.rs   at once if resident; else find or begin the load, and wait
//!            |-- cache/       frames, page table, loads, eviction
//!            |-- io.rs        the threads that read
//!            |-- write/       who writes, if only dirty pages could leave
//!            |-- prefetch/    what scans will read next
//!            '-- cooperation  what unordered scans wait for
//!   read.rs     byte ranges, a window of requests at a time
//!   plan.rs     how the memory is divided among all of it
//!   forecast.rs queries that come back, expected before they start
//! ```

mod cooperation;
mod forecast;
mod plan;
mod prefetch;
mod read;
mod relations;
mod request;
mod tuple;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pagecast_core::predictor::{Predictor, Registry};
use pagecast_core::sync::atomic::AtomicU64;
use pagecast_core::tuples::{Room, Shares};
use pagecast_core::{RelationId, Tick};

use crate::cache::{Cache, Loading, TupleConfig};
use crate::cooperation::Cooperation;
use crate::flash::Flash;
use crate::frame_memory::FrameMemory;
use crate::io::IoThreads;
use crate::options::{PoolOptions, TupleOptions};
use crate::paged_file::PagedFile;
use crate::seal::Format;
use crate::storage::Storage;
use crate::sync::Mutex;
use crate::write::{self, Background, WriteOptions, Writer};
use crate::{PoolError, machine_memory};
use forecast::Known;
pub use plan::MemoryUse;
pub(crate) use plan::Plan;
use prefetch::Prefetch;
pub use read::{ReadResult, ReadStats};
pub(crate) use read::{check, read, read_into};
use relations::Relations;

/// Most threads that read. A device with more requests outstanding is used by other readers beside
/// the pool.
const MAX_THREADS: u32 = 64;

/// What the pool's clones, its scans and its reads share.
pub(crate) struct Engine {
    pub(crate) cache: Arc<Cache>,
    pub(crate) threads: IoThreads,
    pub(crate) registry: Mutex<Registry<Arc<[AtomicU64]>>>,
    pub(crate) predictor: Predictor<Arc<[AtomicU64]>>,
    /// If queries that come back are to be expected.
    known: Option<Known>,
    pub(crate) prefetch: Prefetch,
    pub(crate) writer: Arc<Writer>,
    pub(crate) background: Background,
    pub(crate) flash: Option<Arc<Flash>>,
    relations: Mutex<Relations>,
    /// Held by who opens a file to write.
    opening_to_write: Mutex<()>,
    pub(crate) options: PoolOptions,
    /// Whether anybody wants to know of each request.
    is_watched: bool,
    pub(crate) plan: Plan,
    /// Held by who resizes.
    pub(crate) resizing: Mutex<()>,
    started: Instant,
}

impl Engine {
    /// Divides the memory and starts the threads that read.
    pub(crate) fn new(options: PoolOptions) -> Result<Self, PoolError> {
        let plan = Plan::new(&options)?;
        let given = options.max_memory.unwrap_or_default().max(options.memory);
        if let Some(limit) = machine_memory::memory_of_machine().filter(|&limit| given > limit) {
            return Err(PoolError::MoreThanMemory { given, limit });
        }
        let batching = options.batching.within(plan.frames);
        let policy = options.policy.build(plan.max_frames, options.seed)?.into_concurrent(batching);
        let memory = FrameMemory::new(plan.max_frames, options.page_size)
            .map_err(|error| PoolError::setup("memory for the frames", error))?;
        let words: Arc<[AtomicU64]> = (0..plan.predictor.words()).map(|_| AtomicU64::new(0)).collect();
        let registry = Registry::format(words, plan.predictor)?;
        let prefetch = Prefetch::new(&options.prefetch, &plan.predictor, plan.frames, options.page_size);
        let cooperation = Cooperation::new(plan.cooperation)?;
        let tuples = options.tuples.as_ref().map(|tuples| Self::tuple_config(tuples, &options, &plan)).transpose()?;
        let is_watched =
            options.recorder.is_some() || options.count_relations || options.tuples.is_some_and(|tuples| tuples.learn);
        let cache = Cache::new(memory, (plan.frames, options.loads), policy, cooperation, tuples);
        let (page_size, seed) = (options.page_size, options.seed);
        let flash = options.flash.as_ref().map(|flash| Flash::open(flash, page_size, options.memory, seed));
        let flash = flash.transpose()?;
        flash.iter().for_each(|flash| cache.set_flash(flash.clone()));
        let next = flash.as_ref().map_or(0, |flash| flash.first_unknown());
        let (log, double_write) = (options.log.clone(), options.double_write.as_ref());
        let writer = Writer::new(cache.clone(), log, &options.device, double_write, options.page_size)?;
        let (oracle, started) = (registry.predictor(), Instant::now());
        let find_frame = Box::new(move |loading: &mut Loading| loading.find_frame(ticks_since(started), &oracle));
        Ok(Self {
            cache,
            writer: Arc::new(writer),
            background: Background::new(),
            flash,
            threads: IoThreads::start(options.device.threads().clamp(1, MAX_THREADS), find_frame)?,
            predictor: registry.predictor(),
            prefetch,
            registry: Mutex::new(registry),
            known: options.policy.forecasts().then(Known::new),
            relations: Mutex::new(Relations::new(next)),
            opening_to_write: Mutex::new(()),
            options,
            is_watched,
            plan,
            resizing: Mutex::new(()),
            started,
        })
    }

    fn tuple_config(tuples: &TupleOptions, options: &PoolOptions, plan: &Plan) -> Result<TupleConfig, PoolError> {
        let (room, seed) = (Room::new(options.page_size), options.seed);
        let shares = tuples.learn.then(|| Shares::new(&options.policy, plan.frames, room, seed)).transpose()?;
        Ok(TupleConfig { max_share: tuples.max_share.clamp(0.0, 1.0), shares, seed })
    }

    /// Opens a file to be read, or to be written as `options` say. Files are asked without a lock
    /// that readers take.
    pub(crate) fn open(&self, path: &Path, options: Option<&WriteOptions>) -> Result<Arc<PagedFile>, PoolError> {
        let open_error = |source| PoolError::Open { path: path.to_owned(), source: Arc::new(source) };
        let (device, page_size) = (&self.options.device, self.options.page_size);
        let format = options.map_or(Format::Raw, |options| options.format);
        let serves = |old: &PagedFile| options.is_none() || old.is_writable() && old.format() == format;
        // One at a time, since two who open a file to write refuse it to each other.
        let _alone = options.map(|_| self.opening_to_write.lock());
        loop {
            let old = self.newest(path);
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
            if let Some(opened) = self.enter(path, storage, format, old)? {
                return Ok(opened);
            }
        }
    }

    /// Makes a relation of what its caller has open, or finds the one of the same generation. Asks
    /// the storage for nothing that takes a request.
    pub(crate) fn open_storage(&self, storage: &Arc<dyn Storage>) -> Result<Arc<PagedFile>, PoolError> {
        let (path, generation) = (storage.path(), storage.generation());
        loop {
            let old = self.newest(path);
            if let Some(old) = &old {
                if old.generation() == generation && old.is_current() && !old.is_writable() {
                    return Ok(old.clone());
                }
                if generation.is_before(&old.generation()) {
                    let how = "a newer one was opened since".to_owned();
                    return Err(PoolError::Changed { path: path.to_owned(), how });
                }
            }
            let metered = self.options.device.metered(storage.clone());
            if let Some(opened) = self.enter(path, metered, Format::Raw, old)? {
                return Ok(opened);
            }
        }
    }

    /// The newest generation that was opened of this name.
    fn newest(&self, path: &Path) -> Option<Arc<PagedFile>> {
        self.relations.lock().open(path)
    }

    /// Makes `storage` the newest generation of its name, in the place of `old`; nothing if another
    /// has taken that place meanwhile.
    fn enter(
        &self,
        path: &Path,
        storage: Arc<dyn Storage>,
        format: Format,
        old: Option<Arc<PagedFile>>,
    ) -> Result<Option<Arc<PagedFile>>, PoolError> {
        let mut relations = self.relations.lock();
        if !relations.is_newest(path, old.as_ref()) {
            return Ok(None);
        }
        let next = RelationId(relations.next);
        let id = self.flash.as_ref().map_or(next, |flash| flash.enter(storage.as_ref(), next));
        let counts = self.options.count_relations;
        let relation = Arc::new(PagedFile::new(id, storage, format, self.options.page_size, counts)?);
        relations.next += u32::from(id == next);
        // Before anybody can find it: no page of a file that is not known here is ever written.
        if relation.is_writable() {
            self.writer.add(&relation);
        }
        relations.insert(path, &relation, old.as_ref());
        let gone = relations.let_go(|| self.cache.relations_in_use());
        drop(relations);
        self.flash.iter().for_each(|flash| gone.iter().for_each(|&gone| flash.close(gone)));
        if let Some(old) = old {
            old.replace();
            self.writer.remove(old.id());
            self.cache.discard(old.id());
            self.flash.iter().for_each(|flash| flash.forget(old.id()));
        }
        Ok(Some(relation))
    }

    /// Lets nobody read a file any more that was opened to be read, and frees its frames.
    pub(crate) fn close_relation(&self, file: &Arc<PagedFile>) -> Result<(), PoolError> {
        if file.is_writable() {
            return Err(PoolError::OpenToWrite { path: file.path().to_owned() });
        }
        file.close();
        if self.relations.lock().remove(file) {
            self.flash.iter().for_each(|flash| flash.close(file.id()));
        }
        self.cache.discard(file.id());
        Ok(())
    }

    /// The most bytes that the pool may get.
    pub(crate) fn max_memory(&self) -> u64 {
        self.options.max_memory.unwrap_or(0).max(self.options.memory)
    }

    /// Nanoseconds since the pool was made.
    pub(crate) fn now(&self) -> Tick {
        ticks_since(self.started)
    }

    /// The files that are open, in the order of their numbers.
    pub(crate) fn relations(&self) -> Vec<Arc<PagedFile>> {
        let mut relations = self.relations.lock().all();
        relations.sort_by_key(|relation| relation.id());
        relations
    }

    /// The open file of that number, if it is the newest generation.
    pub(crate) fn relation(&self, id: RelationId) -> Option<Arc<PagedFile>> {
        self.relations.lock().by_id(id)
    }
}

fn ticks_since(started: Instant) -> Tick {
    started.elapsed().as_nanos() as u64
}
