//! Registered scans.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use pagecast_core::forecast::Query;
use pagecast_core::predictor::{RegisterError, ScanSpec};
use pagecast_core::{PageId, ScanId};

use crate::cache::Capped;
use crate::engine::Engine;
use crate::{PoolError, Relation};

/// A scan that the pool knows of. It reports how far it is, and is forgotten when this is dropped,
/// be it at its end, on an error or on cancellation.
pub struct Scan {
    engine: Arc<Engine>,
    id: ScanId,
    query: OnceLock<Query>,
}

impl Scan {
    /// Announces a scan whose loads count against this share, if it has one.
    pub(crate) fn register(
        engine: &Arc<Engine>,
        spec: &ScanSpec<'_>,
        share: Option<u64>,
    ) -> Result<Self, RegisterError> {
        let id = engine.registry.lock().register(spec, engine.now())?;
        engine.cache.count_against(id, share);
        engine.prefetch.begin(id, spec);
        Ok(Self { engine: Arc::clone(engine), id, query: OnceLock::new() })
    }

    /// What requests of the scan are marked with.
    pub fn id(&self) -> ScanId {
        self.id
    }

    /// Says which query the scan is a run of, to be called once, when it begins. Where the policy
    /// has [`forecast=on`](crate::PolicySpec::forecasts), the pool learns when the query comes
    /// back. Once this run has ended its pages are expected to be read again then, and stay rather
    /// than those that nobody is expected to want. Of a pool without forecast nothing changes.
    ///
    /// ```
    /// # use pagecast::forecast::Query;
    /// # use pagecast::storage::{Device, MemoryFiles};
    /// # use pagecast::{Pool, PoolOptions, PolicySpec};
    /// # let files = MemoryFiles::new();
    /// # files.write("table", vec![7u8; 300_000]);
    /// # let options = PoolOptions::default().memory(8 << 20).device(Device::new(files, None));
    /// let pool = Pool::new(options.policy("pbm(forecast=on)".parse()?))?;
    /// let table = pool.open("table".as_ref())?;
    /// let report = Query { fingerprint: 77, table: 1, again_in: 0 };
    /// for _ in 0..4 {
    ///     let scan = pool.scan(&table)?;
    ///     scan.recurs(report);
    /// }
    /// let [known] = &pool.templates()[..] else { panic!("one query came") };
    /// assert_eq!((known.query(), known.starts_seen()), (report, 4));
    /// assert!(known.due().is_some(), "it is expected");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recurs(&self, query: Query) {
        if self.query.set(query).is_ok() {
            self.engine.begins(query);
        }
    }

    /// All positions before `position` are done. Several threads of one scan may report, and the
    /// furthest position counts. Lock-free, unless the pool reads ahead: then whoever finds nobody
    /// else at it brings the next pages.
    pub fn report(&self, position: u64) {
        self.engine.predictor.report(self.id, position, self.engine.now());
        self.engine.read_ahead(self.id);
    }

    /// Says that this scan, which goes along an index, has come to `page` by `entry`: a page of a
    /// relation that stands for the index, of which such scans register the entries that they will
    /// go through, in the order of keys. A scan that comes to that entry later is then known to
    /// want the page. Any thread, no lock; up to eight stores.
    ///
    /// Nothing happens unless the pool's [`predictor`](crate::PoolOptions::predictor) has room for
    /// [`marks`](crate::PredictorConfig::marks), which it has not by default.
    ///
    /// ```
    /// # use pagecast::storage::{Device, MemoryFiles};
    /// # use pagecast::predictor::{Pages, Part, Run, ScanKind, ScanSpec};
    /// # use pagecast::{Pool, PoolOptions, PredictorConfig};
    /// let files = MemoryFiles::new();
    /// files.write("table", vec![7u8; 1 << 20]);
    /// files.write("index", vec![7u8; 1 << 20]);
    /// let predictor = Some(PredictorConfig { marks: 1024, ..PredictorConfig::default() });
    /// let device = Device::new(files, None);
    /// let pool = Pool::new(PoolOptions::default().memory(8 << 20).device(device).predictor(predictor))?;
    /// let (table, index) = (pool.open("table".as_ref())?, pool.open("index".as_ref())?);
    /// // The leaf pages 3 to 9 of the index.
    /// let runs = [Run { first: 3, blocks: 7, position: 0, span: 7 }];
    /// let parts = [Part { relation: index.id(), pages: Pages::Runs(&runs) }];
    /// let scan = pool.register(&ScanSpec { kind: ScanKind(0), length: 7, parts: &parts })?;
    ///
    /// // Leaf 4 leads to page 11 of the table.
    /// scan.mark(table.page(11), index.page(4));
    /// scan.report(1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mark(&self, page: PageId, entry: PageId) {
        self.engine.predictor.mark(page, entry);
    }

    /// Bounds the resident pages that this scan had loaded to `frames`, at least 1, or lifts the
    /// bound: a scan that reads everything once then leaves the rest of the pool alone, whatever
    /// the policy. When it has as many, each further load takes the frame of its oldest page that
    /// nobody holds. Pinned pages and those on their way come on top.
    pub fn cap(&self, frames: Option<u32>) {
        self.engine.cache.cap(Capped::Scan(self.id), frames);
    }

    /// Asks the pool to bring these bytes of `relation` before they are read: how many pages are on
    /// their way now because of that. Does not wait. Pages that are there, that find no room in the
    /// pool's [`prefetch`](crate::PoolOptions::prefetch) share, that would displace what a scan
    /// wants, or that are of another pool, are left out; so is everything while another thread
    /// brings pages of this scan.
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
    /// let scan = pool.register(&ScanSpec { kind: ScanKind(0), length: table.len(), parts: &parts })?;
    ///
    /// assert_eq!(scan.prefetch(&table, &[0..200_000])?, 4); // pages of 64 KiB
    /// table.read_blocking(&[0..200_000], Some(scan.id()))?;
    /// let stats = pool.stats();
    /// assert_eq!((stats.loads, stats.prefetch_useful + stats.prefetch_late), (4, 4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A range is outside the file, or the file is known to have changed. A read that fails later
    /// is only counted; who asks for the page then reads it again.
    pub fn prefetch(&self, relation: &Relation, ranges: &[Range<u64>]) -> Result<u32, PoolError> {
        match relation.is_of(&self.engine) {
            true => self.engine.prefetch(self.id, &relation.file, ranges),
            false => Ok(0),
        }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.engine.end_window(self.id);
        self.cap(None);
        self.engine.cache.count_against(self.id, None);
        self.engine.end_scan(self.id, self.query.get().copied());
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Scan").field(&self.id).finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::storage::{Device, MemoryFiles};
    use crate::{Pool, PoolOptions, PredictorConfig};
    use pagecast_core::oracle::{Oracle, Question};
    use pagecast_core::predictor::{Pages, Part, Run, ScanKind, ScanSpec};

    /// With a table and an index of 100 pages each.
    fn pool(marks: u32) -> Pool {
        let files = MemoryFiles::new();
        files.write("table", vec![1u8; 100 * 4096]);
        files.write("index", vec![1u8; 100 * 4096]);
        Pool::new(
            PoolOptions::default()
                .memory(4 << 20)
                .page_size(4096)
                .device(Device::new(files, None))
                .predictor(PredictorConfig { marks, ..PredictorConfig::default() }),
        )
        .unwrap()
    }

    /// What a leader's mark tells of a follower: nothing without room for marks, nor once the
    /// follower is past the entry.
    #[test]
    fn a_marked_page_is_wanted_by_the_scan_behind() {
        for (marks, known) in [(64, true), (0, false)] {
            let pool = pool(marks);
            let (table, index) = (pool.open("table".as_ref()).unwrap(), pool.open("index".as_ref()).unwrap());
            let runs = [Run { first: 0, blocks: 100, position: 0, span: 100 }];
            let parts = [Part { relation: index.id(), pages: Pages::Runs(&runs) }];
            let spec = ScanSpec { kind: ScanKind(0), length: 100, parts: &parts };
            let (leader, follower) = (pool.register(&spec).unwrap(), pool.register(&spec).unwrap());
            leader.mark(table.page(77), index.page(50));
            leader.report(51);
            let wanted = |block| {
                leader.engine.predictor.next_access(Question::new(table.page(block), leader.engine.now())).is_some()
            };
            assert_eq!((wanted(77), wanted(78)), (known, false), "{marks} marks");
            // The follower passes the entry.
            follower.report(51);
            assert!(!wanted(77), "{marks} marks");
        }
    }
}
