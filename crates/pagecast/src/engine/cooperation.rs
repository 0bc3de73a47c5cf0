//! The loads of unordered scans: what the manager of cooperation ([`crate::cooperation`]) orders is
//! brought here.
//!
//! Its pages go to storage as pages that somebody waits for, neighbours in one request, and their
//! frames are looked for as for a request of the scan that the load is for. They carry the flag of
//! pages that nobody has asked for yet, so that the scan's own request is the use that they are
//! admitted for. A page that finds no frame is given up: whoever reads the chunk reads it past the
//! pool. A read that fails is met again by whoever reads the chunk.

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use pagecast_core::cooperation::Load;
use pagecast_core::policy::Access;
use pagecast_core::{PageId, Tick};

use super::Engine;
use crate::cache::Ahead;
use crate::cooperation::{Account, Loader};
use crate::io::Batch;

/// A thread for each clock costs little if it is not more often.
const LEAST_CLOCK: Duration = Duration::from_millis(10);

/// The load of a chunk while pages of it are under way: each has this in its company.
struct UnderWay {
    engine: Weak<Engine>,
    load: Load,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        // Without its engine nobody waits.
        if let Some(engine) = self.engine.upgrade() {
            engine.cache.cooperation.loaded(&self.load, &engine);
        }
    }
}

impl Loader for Arc<Engine> {
    fn now(&self) -> Tick {
        Engine::now(self)
    }

    fn later(&self, ticks: Tick) -> bool {
        let engine = Arc::downgrade(self);
        let clock = move || {
            thread::sleep(Duration::from_nanos(ticks).max(LEAST_CLOCK));
            // Without its engine nobody waits.
            if let Some(engine) = engine.upgrade() {
                engine.cache.cooperation.look_again(&engine);
            }
        };
        thread::Builder::new().name("pagecast-clock".into()).spawn(clock).is_ok()
    }

    fn bring(&self, load: Load, account: Option<Arc<Account>>, pages: Vec<PageId>) {
        let under_way = Arc::new(UnderWay { engine: Arc::downgrade(self), load });
        // Its scan has ended: others will say what they need.
        let Some(account) = account else { return };
        let scan = Some(account.scan);
        // Frames on their way hold nothing that could be hit: half of a small pool is left to
        // others, and the rest of the chunk to its reader.
        let most = (self.cache.frames() as usize / 2).max(1);
        let pages = &pages[..pages.len().min(most)];
        for pages in pages.chunk_by(|a, b| a.relation() == b.relation()) {
            // Of a file that has changed nothing is loaded: whoever reads it is going to be told.
            if let Some(relation) = self.relation(pages[0].relation()) {
                let mut batch = Batch::new(&self.threads, &relation, self.due(scan));
                let are_placed = pages.iter().all(|&page| self.bring_page(page, &account, &under_way, &mut batch));
                batch.submit();
                if !are_placed {
                    return;
                }
            }
        }
    }
}

impl Engine {
    /// Begins to load a page of a chunk; false if the pool is so full that the next ones would
    /// fare no better.
    fn bring_page(
        self: &Arc<Self>,
        page: PageId,
        account: &Account,
        under_way: &Arc<UnderWay>,
        batch: &mut Batch<'_>,
    ) -> bool {
        if page.block() >= batch.relation().pages() {
            return true;
        }
        let access = Access { page, scan: Some(account.scan), write: false, at: self.now() };
        let bring = || {
            let ahead = self.cache.bring_at_once(access);
            let has_begun = matches!(ahead, Ahead::Started(_));
            (ahead, has_begun)
        };
        let is_ahead = |page| self.cache.is_ahead(page);
        let Some(ahead) = account.bring(page, self.cache.frames() as usize, is_ahead, bring) else { return false };
        match ahead {
            Ahead::Started(mut loading) => {
                loading.accompany(under_way.clone());
                let bytes = u64::from(batch.relation().page_len(page.block()));
                // Before it begins: whoever has read the chunk finds it in the account.
                account.bytes.fetch_add(bytes, Relaxed);
                let has_begun = self.start(loading, batch);
                if !has_begun {
                    account.bytes.fetch_sub(bytes, Relaxed);
                }
                has_begun
            }
            Ahead::There => {
                self.cache.cooperation.arrived(page, || self.cache.is_resident(page));
                true
            }
            Ahead::NoRoom => false,
        }
    }
}
