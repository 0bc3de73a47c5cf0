//! A request for a page: found resident, or loaded and waited for.
//!
//! A hit: [`Engine::pin`] looks the page up, pins it and tells the policy, without a lock. A miss
//! looks it up a second time, under its shard's lock ([`Engine::fetch`]), finds or begins its load
//! there, and waits. So a hit is one look-up and a miss two.

use std::sync::Arc;

use pagecast_core::policy::Access;
use pagecast_core::predictor::ScanView;
use pagecast_core::tuples::Tuple;
use pagecast_core::{PageId, ScanId, Tick};

use super::Engine;
use crate::blocking::block_on;
use crate::cache::{Client, Loading, Placement, Request};
use crate::io::Batch;
use crate::paged_file::PagedFile;
use crate::stats::Counter;
use crate::token::Held;
use crate::write::Room;
use crate::{PageGuard, PoolError};

impl Engine {
    /// Pins a page, and waits for it if it is not resident.
    #[inline]
    pub(crate) fn pin(
        self: &Arc<Self>,
        client: &mut impl Client,
        relation: &Arc<PagedFile>,
        block: u32,
        scan: Option<ScanId>,
    ) -> Result<PageGuard<'_>, PoolError> {
        let page = self.page_at_once(relation, block, scan);
        self.pin_at(client, relation, (block, page), scan)
    }

    /// Pins a page, at once if its `page` is given. A part of its callers: a call more is a tenth
    /// of a hit.
    #[inline(always)]
    pub(super) fn pin_at(
        self: &Arc<Self>,
        client: &mut impl Client,
        relation: &Arc<PagedFile>,
        (block, page): (u32, Option<PageId>),
        scan: Option<ScanId>,
    ) -> Result<PageGuard<'_>, PoolError> {
        let Some(page) = page else {
            let held = block_on(self.hold(client, relation, block, scan, false))?;
            return Ok(PageGuard::new(&self.cache, held));
        };
        match self.cache.hit(client, page, |at| self.access(page, scan, false, at)) {
            Some(held) => Ok(PageGuard::new(&self.cache, held)),
            None => self.pin_missing(client, relation, block, scan),
        }
    }

    #[cold]
    fn pin_missing(
        self: &Arc<Self>,
        client: &mut impl Client,
        relation: &Arc<PagedFile>,
        block: u32,
        scan: Option<ScanId>,
    ) -> Result<PageGuard<'_>, PoolError> {
        relation.check_block(block)?;
        block_on(self.fetch(client, relation, block, scan, false)).map(|held| PageGuard::new(&self.cache, held))
    }

    /// The same in a future.
    pub(crate) async fn pin_async(
        self: &Arc<Self>,
        mut client: impl Client,
        relation: Arc<PagedFile>,
        block: u32,
        scan: Option<ScanId>,
    ) -> Result<PageGuard<'_>, PoolError> {
        self.learn(relation.page(block), None, scan, false);
        self.hold(&mut client, &relation, block, scan, false).await.map(|held| PageGuard::new(&self.cache, held))
    }

    /// The page, if nothing but the hit itself is to be done for it: the relation can be read, and
    /// nobody wants to know of each request.
    #[inline]
    fn page_at_once(&self, relation: &PagedFile, block: u32, scan: Option<ScanId>) -> Option<PageId> {
        if self.is_watched {
            return self.page_while_watched(relation, block, scan);
        }
        relation.is_current().then(|| relation.page(block))
    }

    #[cold]
    fn page_while_watched(&self, relation: &PagedFile, block: u32, scan: Option<ScanId>) -> Option<PageId> {
        self.learn(relation.page(block), None, scan, false);
        self.page_unless_observed(relation, block)
    }

    /// The same for a request that the share of tuples has learned from.
    #[inline]
    pub(super) fn page_unless_observed(&self, relation: &PagedFile, block: u32) -> Option<PageId> {
        let is_observed = self.options.recorder.is_some() | self.options.count_relations;
        (relation.is_current() && !is_observed).then(|| relation.page(block))
    }

    /// Lets the share of tuples learn from a request, if it is learned.
    #[inline]
    pub(crate) fn learn(&self, page: PageId, tuple: Option<Tuple>, scan: Option<ScanId>, write: bool) {
        if self.is_watched {
            self.cache.learn(page, tuple, || self.access(page, scan, write, None), &self.predictor);
        }
    }

    /// Copies bytes of a page without pinning it; `None` where that does not work.
    pub(crate) fn copy_unpinned(
        &self,
        client: &mut impl Client,
        relation: &PagedFile,
        (block, offset): (u32, u32),
        into: &mut [u8],
        scan: Option<ScanId>,
    ) -> Option<usize> {
        let page = match self.is_watched {
            true => self.page_to_copy_while_watched(relation, block)?,
            false => relation.is_current().then(|| relation.page(block))?,
        };
        let copied = self.cache.copy_unpinned(client, page, offset, into, |at| self.access(page, scan, false, at))?;
        // Who cannot copy pins the page, and is learned from then.
        if self.is_watched {
            self.learn_from_copy(page, scan);
        }
        Some(copied)
    }

    #[cold]
    fn page_to_copy_while_watched(&self, relation: &PagedFile, block: u32) -> Option<PageId> {
        self.page_unless_observed(relation, block)
    }

    #[cold]
    fn learn_from_copy(&self, page: PageId, scan: Option<ScanId>) {
        self.learn(page, None, scan, false);
    }

    /// A request for a page, at the time that is given or else now.
    #[inline]
    pub(crate) fn access(&self, page: PageId, scan: Option<ScanId>, write: bool, at: Option<Tick>) -> Access {
        Access { page, scan, write, at: at.unwrap_or_else(|| self.now()) }
    }

    /// When a read of `scan` is due: now, and later by the time that the scan still needs, so that
    /// the queries that are nearly done are served first (Świtakowski 2011, §8.2.3). One that waits
    /// comes before all that begin later than it would have ended, so none waits for ever.
    pub(crate) fn due(&self, scan: Option<ScanId>) -> Tick {
        let needs = |scan: ScanView| scan.length.saturating_sub(scan.position) as f64 * scan.pace;
        let left = scan.and_then(|scan| self.predictor.scan(scan)).map_or(0.0, needs);
        // A conversion that saturates.
        self.now().saturating_add(left as Tick)
    }

    /// Tells the recorder that a request for a page is answered. The caller holds the page still,
    /// so that between two calls only what was loaded can have come: in this order the run itself
    /// is one way to serve the requests.
    pub(crate) fn record(&self, relation: &PagedFile, block: u32) {
        if let Some(recorder) = &self.options.recorder {
            recorder.request(relation.page(block), relation.page_len(block));
        }
    }

    /// Pins a page if it is resident: the first half of every request. Counts it if it is a hit.
    /// Who asks for it lets the share of tuples learn, who knows whether it is for one item.
    pub(crate) fn find(
        &self,
        client: &mut impl Client,
        relation: &PagedFile,
        block: u32,
        scan: Option<ScanId>,
        write: bool,
    ) -> Result<Option<Held>, PoolError> {
        relation.check_known()?;
        let page = relation.page(block);
        let held = self.cache.hit(client, page, |at| self.access(page, scan, write, at));
        if held.is_some() {
            relation.count(Counter::Hits);
        }
        Ok(held)
    }

    /// Finds or begins the load of a page that was not resident: the other half. The page may have
    /// come meanwhile.
    pub(crate) fn load(
        &self,
        client: &mut impl Client,
        relation: &PagedFile,
        block: u32,
        scan: Option<ScanId>,
        write: bool,
    ) -> Request {
        let request = self.cache.request(client, self.access(relation.page(block), scan, write, None));
        relation.count(request.counter());
        request
    }

    /// The same for a read that has room for the page's bytes itself.
    pub(crate) fn load_for_reader(
        &self,
        client: &mut impl Client,
        relation: &PagedFile,
        block: u32,
        scan: Option<ScanId>,
    ) -> Request {
        let access = self.access(relation.page(block), scan, false, None);
        let request = self.cache.request_for_reader(client, access);
        relation.count(request.counter());
        if let (Some(scan), Request::Started(..)) = (scan, &request) {
            // The scan has come to this page, and so far past those before it.
            self.predictor.missed(scan, access.page, access.at);
        }
        request
    }

    /// Finds a frame for a load and adds it to the batch. If there is one only after a dirty page
    /// is written, the load is handed to who writes; if there is none, it is given up. Whether the
    /// page will come, unless a write fails.
    pub(crate) fn start(self: &Arc<Self>, mut loading: Loading, batch: &mut Batch<'_>) -> bool {
        let access = loading.access();
        if let Some(scan) = access.scan {
            // Before a victim is looked for: the scan has come to this page, and so far past those
            // before it.
            self.predictor.missed(scan, access.page, access.at);
        }
        match self.cache.place(&mut loading, &self.predictor) {
            Placement::Placed => batch.add(loading),
            Placement::Dirty => {
                let relation = batch.relation().clone();
                let engine = self.clone();
                self.background.make_room(Box::new(DirtyRoom { engine, relation, loading }));
            }
            Placement::NoFrame => {
                loading.give_up();
                return false;
            }
        }
        true
    }

    /// Pins a page, to be written or not, and waits for it if it is not resident.
    pub(crate) async fn hold(
        self: &Arc<Self>,
        client: &mut impl Client,
        relation: &Arc<PagedFile>,
        block: u32,
        scan: Option<ScanId>,
        write: bool,
    ) -> Result<Held, PoolError> {
        if block >= relation.pages() {
            return Err(PoolError::NoPage { path: relation.path().to_owned(), block, pages: relation.pages() });
        }
        let held = match self.find(client, relation, block, scan, write)? {
            Some(held) => held,
            None => self.fetch(client, relation, block, scan, write).await?,
        };
        self.record(relation, block);
        Ok(held)
    }

    /// Finds or begins the load of a page that was not resident, and waits for it.
    async fn fetch(
        self: &Arc<Self>,
        client: &mut impl Client,
        relation: &Arc<PagedFile>,
        block: u32,
        scan: Option<ScanId>,
        write: bool,
    ) -> Result<Held, PoolError> {
        loop {
            let (waiter, joined) = match self.load(client, relation, block, scan, write) {
                Request::Hit(held) => return Ok(held),
                Request::Joined { waiter, first } => {
                    if first {
                        self.threads.hasten(relation.page(block), self.due(scan));
                    }
                    // Admitted for another request, this one counts as a use of its own.
                    (waiter, !first)
                }
                Request::Started(loading, waiter) => {
                    let mut batch = Batch::new(&self.threads, relation, self.due(scan));
                    self.start(loading, &mut batch);
                    batch.submit();
                    return waiter.await?.ok_or_else(|| self.no_frame());
                }
                Request::Full => return Err(self.no_frame()),
            };
            // Another's load may do without a frame where this one would wait for a write.
            let Some(held) = waiter.await? else { continue };
            if joined {
                let page = relation.page(block);
                self.cache.touch(client, held.index(), |at| self.access(page, scan, write, at));
            }
            return Ok(held);
        }
    }

    /// Why there is no frame.
    fn no_frame(&self) -> PoolError {
        let frames = self.cache.frames();
        self.writer.why_full().unwrap_or(PoolError::NoFrame { frames })
    }
}

/// A load that waits for dirty pages to be written.
struct DirtyRoom {
    engine: Arc<Engine>,
    relation: Arc<PagedFile>,
    loading: Loading,
}

impl Room for DirtyRoom {
    fn place(mut self: Box<Self>) -> Option<Box<dyn Room>> {
        match self.engine.cache.place(&mut self.loading, &self.engine.predictor) {
            Placement::Placed => {
                let mut batch =
                    Batch::new(&self.engine.threads, &self.relation, self.engine.due(self.loading.access().scan));
                batch.add(self.loading);
                batch.submit();
                None
            }
            Placement::NoFrame => {
                self.loading.give_up();
                None
            }
            Placement::Dirty => Some(self),
        }
    }

    fn give_up(self: Box<Self>) {
        self.loading.give_up();
    }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::cache::look_ups;
    use crate::storage::{Device, MemoryFiles};
    use crate::{Pool, PoolOptions};

    #[test]
    fn a_hit_looks_its_page_up_once_and_a_miss_twice() {
        let files = MemoryFiles::new();
        files.write("table", vec![7u8; 100 * 4096]);
        let options = PoolOptions::default().memory(2 << 20).page_size(4096);
        let pool = Pool::new(options.device(Device::new(files, None))).unwrap();
        let table = pool.open("table".as_ref()).unwrap();
        let mut session = pool.session();
        look_ups();
        let costs = [0, 0, 1].map(|block| {
            drop(session.pin(&table, block, None).unwrap());
            look_ups()
        });
        assert_eq!(costs, [2, 1, 2], "a miss, a hit, a miss");
        let costs = [0, 5].map(|block| {
            drop(table.pin(block, None).unwrap());
            look_ups()
        });
        assert_eq!(costs, [1, 2], "the same without a session");
        table.read_blocking(&[0..2 * 4096, 10 * 4096..12 * 4096], None).unwrap();
        assert_eq!(look_ups(), 2 + 2 * 2, "two hits and two misses of a read");
    }
}
