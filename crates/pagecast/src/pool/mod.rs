//! The pool as its users see it.

mod resize;
mod snapshot;
mod tuples;
pub mod warm;
mod write;

#[cfg(all(test, pagecast_shuttle))]
mod exploration;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use pagecast_core::cooperation::MemberView;
use pagecast_core::forecast::Template;
use pagecast_core::policy::PolicySpec;
use pagecast_core::predictor::{Pages, Part, RegisterError, Run, ScanKind, ScanSpec, ScanView};
use pagecast_core::{PageId, ScanId};

use crate::engine::{Engine, MemoryUse};
use crate::flash::FlashView;
use crate::options::PoolOptions;
use crate::relation::Relation;
use crate::scan::Scan;
use crate::session::Session;
use crate::share::Share;
use crate::stats::PoolStats;
use crate::storage::{Device, Storage};
use crate::unordered::{UnorderedScan, UnorderedSpec};
use crate::{PoolError, UnorderedError};
pub use resize::Resized;
pub use snapshot::{FrameView, RelationRequests, RelationView, Snapshot};

/// A buffer pool: a fixed amount of memory that holds pages of files. Clones are the same pool.
///
/// ```
/// use pagecast::storage::{Device, MemoryFiles};
/// use pagecast::{Pool, PoolOptions};
///
/// let files = MemoryFiles::new();
/// files.write("table", vec![7u8; 300_000]);
/// let device = Device::new(files, None); // `Device::local()` for real files
/// let pool = Pool::new(PoolOptions::default().memory(1 << 20).device(device))?;
/// let table = pool.open("table".as_ref())?;
///
/// // A scan says what it will read, reads, and says how far it is.
/// let scan = pool.scan(&table)?;
/// let read = table.read_blocking(&[10..20, 100_000..300_000], Some(scan.id()))?;
/// assert_eq!(read.data[0], [7; 10]);
/// assert_eq!(read.data[1].len(), 200_000);
/// scan.report(table.pages().into());
/// drop(scan);
///
/// // A page can be held in place.
/// let page = table.pin(0, None)?;
/// assert_eq!(page.len(), 65_536);
/// assert!(pool.memory().total <= 1 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Pool(pub(crate) Arc<Engine>);

impl Pool {
    /// Makes a pool: divides the memory and starts the threads that read.
    ///
    /// # Errors
    ///
    /// The memory holds no frame ([`PoolError::TooSmall`]) or is more than there is
    /// ([`PoolError::MoreThanMemory`]), the page size is none, the policy cannot run in a pool, the
    /// system refuses memory or threads, the double-write area cannot be read or what it restores
    /// not be written, or the file of a tier on flash cannot be opened or is too small.
    pub fn new(options: PoolOptions) -> Result<Self, PoolError> {
        Engine::new(options).map(|engine| Self(Arc::new(engine)))
    }

    /// Opens a file as it is now. The same generation is the same relation; if the file has changed
    /// since it was opened last, it is a new one, and readers of the old one fail with
    /// [`PoolError::Changed`].
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or has more pages than can be numbered.
    pub fn open(&self, path: &Path) -> Result<Relation, PoolError> {
        self.0.open(path, None).map(|file| Relation::new(self.0.clone(), file))
    }

    /// Opens what the caller has open already: an object of a store, say, whose name and generation
    /// a listing has told. Nothing is asked of it. The same name and generation is the same
    /// relation. Another generation takes the place of the one that was opened before, whose
    /// readers fail with [`PoolError::Changed`].
    ///
    /// ```
    /// # use pagecast::storage::{Device, MemoryFiles, Opener};
    /// # use pagecast::{Pool, PoolOptions};
    /// # let files = MemoryFiles::new();
    /// # files.write("table", vec![7u8; 300_000]);
    /// # let pool = Pool::new(PoolOptions::default().memory(8 << 20))?;
    /// let table = pool.open_storage(&files.open("table".as_ref())?)?;
    /// assert_eq!(table.id(), pool.open_storage(&files.open("table".as_ref())?)?.id());
    /// assert_eq!(table.pin(4, None)?[0], 7);
    /// assert_eq!(pool.device().stats().requests, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A newer generation was opened since ([`PoolError::Changed`]), or it has more pages than can
    /// be numbered.
    pub fn open_storage(&self, storage: &Arc<dyn Storage>) -> Result<Relation, PoolError> {
        self.0.open_storage(storage).map(|file| Relation::new(self.0.clone(), file))
    }

    /// Whether the relation was opened by this pool.
    pub fn owns(&self, relation: &Relation) -> bool {
        relation.is_of(&self.0)
    }

    /// Announces a scan of a whole relation, from the first page to the last: the ordinary case of
    /// [`register`](Self::register), of kind 0. A position is a page.
    ///
    /// ```
    /// # use pagecast::storage::{Device, MemoryFiles};
    /// # use pagecast::{Pool, PoolOptions};
    /// # let files = MemoryFiles::new();
    /// # files.write("table", vec![7u8; 300_000]);
    /// # let pool = Pool::new(PoolOptions::default().memory(8 << 20).device(Device::new(files, None)))?;
    /// let table = pool.open("table".as_ref())?;
    /// let scan = pool.scan(&table)?;
    /// for block in 0..table.pages() {
    ///     assert_eq!(table.pin(block, Some(scan.id()))?[0], 7);
    ///     scan.report(u64::from(block) + 1);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The predictor has no room, or the relation has no page. The scan may run without being
    /// registered.
    pub fn scan(&self, relation: &Relation) -> Result<Scan, RegisterError> {
        let (blocks, length) = (relation.pages(), u64::from(relation.pages()));
        let runs = [Run { first: 0, blocks, position: 0, span: length }];
        let parts = [Part { relation: relation.id(), pages: Pages::Runs(&runs) }];
        self.register(&ScanSpec { kind: ScanKind(0), length, parts: &parts })
    }

    /// Announces a scan. It is forgotten when the [`Scan`] is dropped.
    ///
    /// # Errors
    ///
    /// The predictor has no room, or the description is wrong. The scan may run without being
    /// registered.
    pub fn register(&self, spec: &ScanSpec<'_>) -> Result<Scan, RegisterError> {
        Scan::register(&self.0, spec, None)
    }

    /// Announces a scan that reads its chunks in any order. It is forgotten when the
    /// [`UnorderedScan`] and its leases are dropped.
    ///
    /// # Errors
    ///
    /// The predictor or the manager of cooperation has no room, or the description is wrong. The
    /// scan may run in an order of its own, registered by [`register`](Self::register) or not.
    pub fn register_unordered(&self, spec: &UnorderedSpec<'_>) -> Result<UnorderedScan, UnorderedError> {
        UnorderedScan::register(&self.0, spec, None)
    }

    /// A share of the pool: so many frames, at least 1, for what the scans load that are registered
    /// [with it](Share::register).
    pub fn share(&self, frames: u32) -> Share {
        Share::new(&self.0, frames)
    }

    /// A session: the way to many requests from one thread or one client.
    pub fn session(&self) -> Session<'_> {
        Session::new(&self.0)
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.0
    }

    pub(crate) fn options(&self) -> &PoolOptions {
        &self.0.options
    }

    /// What the pool has done so far.
    pub fn stats(&self) -> PoolStats {
        let mut stats = PoolStats { gap_bytes: self.0.threads.gap_bytes(), ..self.0.cache.stats() };
        self.0.flash.iter().for_each(|flash| flash.count(&mut stats));
        stats
    }

    /// The tier on flash, if the pool was made with one.
    pub fn flash(&self) -> Option<FlashView> {
        self.0.flash.as_ref().map(|flash| flash.view())
    }

    /// Waits until all pages that the tier on flash has admitted are written there, and its index
    /// with them: a pool that is made after this one finds them. What is admitted meanwhile is
    /// waited for, too. At once where there is no tier, or it is off.
    pub fn settle_flash(&self) {
        self.0.flash.iter().for_each(|flash| flash.settle());
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

    /// Whether queries that come back are expected: the policy has
    /// [`forecast=on`](PolicySpec::forecasts).
    pub fn forecasts(&self) -> bool {
        self.0.options.policy.forecasts()
    }

    /// The scans that are expected and do not run, by queries that come back.
    pub fn expected(&self) -> Vec<ScanView> {
        let mut scans = Vec::new();
        self.0.predictor.expected(|scan| scans.push(scan));
        scans
    }

    /// Of the pages that a registered or expected scan reads: how many are in memory, and how many
    /// they are. Looks at each, so that it is for views.
    pub fn in_memory(&self, scan: ScanId) -> (u64, u64) {
        let (mut resident, mut pages) = (0, 0);
        self.0.predictor.pages(scan, |page| {
            pages += 1;
            resident += u64::from(self.0.cache.is_resident(page));
        });
        (resident, pages)
    }

    /// Whether a page is in memory at this moment.
    pub fn has(&self, page: PageId) -> bool {
        self.0.cache.is_resident(page)
    }

    /// The queries that the pool knows to come back, in no order; none without
    /// [`forecast=on`](PolicySpec::forecasts). At most 1,024 are known at a time.
    pub fn templates(&self) -> Vec<Template> {
        self.0.templates()
    }

    /// Forgets a query that comes back, by its fingerprint: its pages are expected no more. Whether
    /// it was known.
    pub fn forget(&self, fingerprint: u64) -> bool {
        self.0.forget(fingerprint)
    }

    /// Says that a table has changed, by the [number](pagecast_core::forecast::Query::table) that
    /// its queries have for it: those that come after changes are expected.
    pub fn table_changed(&self, table: u64) {
        self.0.table_changed(table);
    }

    /// The scans that read in any order, as the manager of cooperation sees them.
    pub fn unordered_scans(&self) -> Vec<(ScanId, MemberView)> {
        self.0.cache.cooperation.views()
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
