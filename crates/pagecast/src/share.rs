//! Shares of a pool that several scans have together.

use std::fmt;
use std::sync::Arc;

use pagecast_core::predictor::{RegisterError, ScanSpec};

use crate::UnorderedError;
use crate::cache::Capped;
use crate::engine::Engine;
use crate::scan::Scan;
use crate::unordered::{UnorderedScan, UnorderedSpec};

/// A part of a pool's frames for the scans of one user or one purpose. What they load takes no more
/// frames than that, all together: when it has as many, each further load takes the frame of the
/// oldest page that nobody holds, and other pages stay. Pinned pages and those on their way come on
/// top. What others have loaded such a scan may read as everybody.
///
/// Nothing is set aside: frames that the share does not use are everybody's. The bound is lifted
/// when this is dropped.
///
/// ```
/// # use pagecast::storage::{Device, MemoryFiles};
/// # use pagecast::predictor::{Pages, Part, Run, ScanKind, ScanSpec};
/// # use pagecast::{Pool, PoolOptions};
/// let files = MemoryFiles::new();
/// files.write("table", vec![7u8; 1 << 20]);
/// let pool = Pool::new(PoolOptions::default().memory(8 << 20).device(Device::new(files, None)))?;
/// let table = pool.open("table".as_ref())?;
/// let runs = [Run { first: 0, blocks: table.pages(), position: 0, span: table.len() }];
/// let parts = [Part { relation: table.id(), pages: Pages::Runs(&runs) }];
/// let spec = ScanSpec { kind: ScanKind(0), length: table.len(), parts: &parts };
///
/// let share = pool.share(4);
/// let scan = share.register(&spec)?;
/// for first in (0..table.len()).step_by(64 << 10) {
///     table.read_blocking(&[first..first + (64 << 10)], Some(scan.id()))?;
/// }
/// assert_eq!(pool.snapshot().frames.resident, 4); // of 16 pages
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Share {
    engine: Arc<Engine>,
    number: u64,
}

impl Share {
    pub(crate) fn new(engine: &Arc<Engine>, frames: u32) -> Self {
        Self { engine: Arc::clone(engine), number: engine.cache.share(frames) }
    }

    /// As [`Pool::register`](crate::Pool::register); what the scan loads counts against this share.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn register(&self, spec: &ScanSpec<'_>) -> Result<Scan, RegisterError> {
        Scan::register(&self.engine, spec, Some(self.number))
    }

    /// As [`Pool::register_unordered`](crate::Pool::register_unordered); what the scan loads counts
    /// against this share. A load that serves several scans counts against the one that it was
    /// chosen for.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn register_unordered(&self, spec: &UnorderedSpec<'_>) -> Result<UnorderedScan, UnorderedError> {
        UnorderedScan::register(&self.engine, spec, Some(self.number))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.engine.cache.cap(Capped::Share(self.number), None);
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Share").field(&self.number).finish()
    }
}
