//! Bringing pages before they are asked for: what a caller says that it will need, and what
//! registered scans read next.
//!
//! Each scan has a *window* over the pages in front of it, in order of position ([`route`]).
//! Whenever the scan reports or reads, pages behind it leave the window, and the next ones enter it
//! and are brought, neighbours in one request, after all reads that somebody waits for
//! (`crate::io`).
//!
//! Bounds: all pages that were brought and not used yet take at most `share` of the frames; each
//! scan's window has an equal part of that, and at most two requests. Whom a page ahead may
//! displace is decided in `crate::cache`'s `ahead`: nobody whom a scan wants. So reading ahead
//! moves reads to an earlier time and adds few; what was brought for nothing is counted as wasted.
//!
//! Cost: a report or read of a scan, O(window) looks at the page table and O(log runs) for each new
//! page; nothing for those without a registered scan. Memory: [`Prefetch::bytes`], within the
//! pool's.

mod route;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pagecast_core::policy::Access;
use pagecast_core::predictor::{PredictorConfig, ScanSpec};
use pagecast_core::{PageId, ScanId};

use super::Engine;
use super::read::pages_of_a_request;
use crate::PoolError;
use crate::cache::{Ahead, Loading};
use crate::io::Batch;
use crate::options::PrefetchOptions;
use crate::paged_file::PagedFile;
use crate::sync::Mutex;
use route::Route;

/// The windows of all scans.
///
/// * (W1) A page of a window that was brought carries the cache's flag, or has lost it since the
///   window looked last.
/// * (W2) A window is its scan's from registration until the scan is dropped; another scan in the
///   same slot finds none or its own.
pub(crate) struct Prefetch {
    /// By the slot of the scan.
    windows: Box<[Mutex<Option<Window>>]>,
    /// How many there are, for each one's part of the room.
    scans: AtomicU32,
    /// Pages that may be ahead, of all scans.
    limit: AtomicU32,
    /// What part of the frames that is.
    share: f64,
    /// Pages that one scan may have ahead.
    reach: u32,
    read_ahead: bool,
    /// Legs of routes that may still be stored.
    legs_left: AtomicU32,
}

struct Window {
    scan: ScanId,
    /// What comes after the window, if the scan reads ahead.
    route: Option<Route>,
    legs: u32,
    pages: VecDeque<Entry>,
}

/// A page in front of the scan.
struct Entry {
    page: PageId,
    /// Where the scan reads it; of a page that was asked for by hand, the end of all axes.
    position: u64,
    /// Whether this window had it brought. Otherwise it was there.
    brought: bool,
}

impl Prefetch {
    pub(crate) fn new(options: &PrefetchOptions, predictor: &PredictorConfig, frames: u32, page_size: u32) -> Self {
        Self {
            windows: (0..predictor.scans).map(|_| Mutex::new(None)).collect(),
            scans: AtomicU32::new(0),
            limit: AtomicU32::new((f64::from(frames) * options.share) as u32),
            share: options.share,
            reach: 2 * pages_of_a_request(page_size) as u32,
            read_ahead: options.read_ahead,
            legs_left: AtomicU32::new(max_legs(options, predictor)),
        }
    }

    /// Bytes of the windows at most.
    pub(crate) fn bytes(options: &PrefetchOptions, predictor: &PredictorConfig, frames: u32) -> u64 {
        let entries = (f64::from(frames) * options.share) as u64 * 2 * size_of::<Entry>() as u64;
        let windows = u64::from(predictor.scans) * size_of::<Mutex<Option<Window>>>() as u64;
        entries + windows + u64::from(max_legs(options, predictor)) * Route::LEG_BYTES
    }

    /// The pool has `frames` frames from now on.
    pub(crate) fn resize(&self, frames: u32) {
        self.limit.store((f64::from(frames) * self.share) as u32, Relaxed);
    }

    /// A scan's own part of the room.
    fn part(&self) -> usize {
        (self.limit.load(Relaxed) / self.scans.load(Relaxed).max(1)).min(self.reach) as usize
    }

    /// Makes the window of a scan that has just been registered.
    pub(crate) fn begin(&self, scan: ScanId, spec: &ScanSpec<'_>) {
        let Some(window) = self.windows.get(scan.slot() as usize) else { return };
        let wanted = if self.read_ahead { Route::legs(spec) as u32 } else { 0 };
        let room = self.legs_left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(wanted)).is_ok();
        let legs = if room { wanted } else { 0 };
        let route = (legs > 0).then(|| Route::new(spec));
        *window.lock() = Some(Window { scan, route, legs, pages: VecDeque::new() });
        self.scans.fetch_add(1, Relaxed);
    }

    /// Does `work` on the window of `scan`, unless somebody else is at it or the scan has ended.
    fn with(&self, scan: ScanId, work: impl FnOnce(&mut Window)) {
        let slot = self.windows.get(scan.slot() as usize);
        if let Some(mut window) = slot.and_then(|window| window.try_lock())
            && let Some(window) = window.as_mut().filter(|window| window.scan == scan)
        {
            work(window);
        }
    }
}

/// Without reading ahead no route is stored.
fn max_legs(options: &PrefetchOptions, predictor: &PredictorConfig) -> u32 {
    if options.read_ahead { predictor.runs.saturating_add(predictor.bitset_words) } else { 0 }
}

impl Engine {
    /// Ends the window of a scan. Pages that were brought for it and not used stay as pages that
    /// nobody asked for.
    pub(crate) fn end_window(&self, scan: ScanId) {
        let Some(slot) = self.prefetch.windows.get(scan.slot() as usize) else { return };
        let Some(window) = slot.lock().take_if(|window| window.scan == scan) else { return };
        self.prefetch.scans.fetch_sub(1, Relaxed);
        self.prefetch.legs_left.fetch_add(window.legs, Relaxed);
        for entry in window.pages.iter().filter(|entry| entry.brought) {
            self.cache.give_up_ahead(entry.page);
        }
    }

    /// Brings the pages that `scan` reads next, as far as there is room.
    pub(crate) fn read_ahead(&self, scan: ScanId) {
        if self.prefetch.read_ahead {
            self.prefetch.with(scan, |window| self.fill_window(window));
        }
    }

    fn fill_window(&self, window: &mut Window) {
        let Some(position) = self.predictor.scan(window.scan).map(|scan| scan.position) else { return };
        self.tidy(window, position);
        let (scan, part) = (window.scan, self.prefetch.part());
        let Some(route) = &mut window.route else { return };
        route.skip_to(position);
        let (mut loads, mut relation) = (Vec::new(), None);
        while window.pages.len() < part
            && let Some((position, page)) = route.peek()
        {
            if relation.as_ref().is_none_or(|relation: &Arc<PagedFile>| relation.id() != page.relation()) {
                relation = self.relation(page.relation());
            }
            let Some(relation) = &relation else {
                // Its file has changed: whoever reads it is going to be told.
                route.advance();
                continue;
            };
            let brought = match self.bring(relation, page, scan, &mut loads) {
                Brought::OnItsWay => true,
                Brought::There => false,
                Brought::NoRoom => break,
            };
            route.advance();
            window.pages.push_back(Entry { page, position, brought });
        }
        self.submit_ahead(loads);
    }

    /// Brings the pages of `ranges`, as far as there is room: how many are on their way now because
    /// of that.
    pub(crate) fn prefetch(
        &self,
        scan: ScanId,
        relation: &Arc<PagedFile>,
        ranges: &[Range<u64>],
    ) -> Result<u32, PoolError> {
        relation.check_known()?;
        ranges.iter().try_for_each(|range| relation.contains(range))?;
        let page_size = u64::from(relation.page_size());
        let mut loads = Vec::new();
        self.prefetch.with(scan, |window| {
            self.tidy(window, 0);
            let part = self.prefetch.part();
            for range in ranges.iter().filter(|range| !range.is_empty()) {
                for block in range.start / page_size..range.end.div_ceil(page_size) {
                    if window.pages.len() >= part {
                        return;
                    }
                    let page = relation.page(block as u32);
                    match self.bring(relation, page, scan, &mut loads) {
                        Brought::OnItsWay => {
                            window.pages.push_back(Entry { page, position: u64::MAX, brought: true });
                        }
                        Brought::There => {}
                        Brought::NoRoom => return,
                    }
                }
            }
        });
        let begun = loads.len() as u32;
        self.submit_ahead(loads);
        Ok(begun)
    }

    /// Drops from the window what is behind the scan, and what was brought and has been used or has
    /// left.
    fn tidy(&self, window: &mut Window, position: u64) {
        window.pages.retain(|entry| match entry.brought {
            true => self.cache.is_ahead(entry.page),
            false => entry.position >= position,
        });
    }

    fn bring(&self, relation: &Arc<PagedFile>, page: PageId, scan: ScanId, loads: &mut Loads) -> Brought {
        if self.cache.ahead() >= self.prefetch.limit.load(Relaxed) {
            return Brought::NoRoom;
        }
        let access = Access { page, scan: Some(scan), write: false, at: self.now() };
        match self.cache.bring_ahead(access, &self.predictor) {
            Ahead::Started(loading) => loads.push((relation.clone(), loading)),
            Ahead::There => return Brought::There,
            Ahead::NoRoom => return Brought::NoRoom,
        }
        Brought::OnItsWay
    }

    /// Hands the loads over, neighbours as one request.
    fn submit_ahead(&self, mut loads: Loads) {
        loads.sort_unstable_by_key(|(_, loading)| {
            let page = loading.access().page;
            (page.relation().0, page.block())
        });
        let mut loads = loads.into_iter().peekable();
        while let Some((relation, first)) = loads.next() {
            let mut batch = Batch::ahead(&self.threads, &relation);
            batch.add(first);
            while let Some((_, next)) = loads.next_if(|(next, _)| next.id() == relation.id()) {
                batch.add(next);
            }
            batch.submit();
        }
    }
}

/// Loads that have their frames, each with its file.
type Loads = Vec<(Arc<PagedFile>, Loading)>;

/// What came of bringing one page.
enum Brought {
    OnItsWay,
    There,
    NoRoom,
}
