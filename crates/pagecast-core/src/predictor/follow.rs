//! What scans leave for those behind them: marks of the entries that led them to a page, and visits
//! of pages.
//!
//! The words are in [`super::marks`] and [`super::visits`], which say what they mean and where they
//! come from.

use super::marks::{Set, mixed};
use super::pages::{self, Blocks};
use super::reader::Predictor;
use super::records::{CORRELATED, MARKS_OF_A_SET};
use super::scan::Scan;
use super::visits::Visits;
use crate::sync::atomic::AtomicU64;
use crate::{PageId, RelationId, ScanId, Tick};

impl<M: AsRef<[AtomicU64]>> Predictor<M> {
    /// Says that an index scan has come to `page` by the entry `entry`: a relation of the index's
    /// own, of which its scans register the entries (or leaf pages, or any other unit in which all
    /// of them count) as blocks in the order of keys.
    ///
    /// From then on `page` counts as wanted when `entry` is. Without
    /// [`marks`](super::PredictorConfig::marks) nothing happens.
    ///
    /// ```
    /// use pagecast_core::oracle::{Oracle, Question};
    /// use pagecast_core::predictor::{Pages, Part, PredictorConfig, Registry, Run, ScanKind, ScanSpec};
    /// use pagecast_core::{PageId, RelationId, sync::atomic::AtomicU64};
    /// use std::sync::Arc;
    ///
    /// let config = PredictorConfig { scans: 8, parts: 8, runs: 8, marks: 64, ..PredictorConfig::EMPTY };
    /// let memory: Arc<[AtomicU64]> = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
    /// let mut registry = Registry::format(memory, config)?;
    /// let predictor = registry.predictor();
    /// let (table, index) = (RelationId(1), RelationId(2));
    ///
    /// // Two scans of 1000 entries; the first was led to block 77 by entry 50.
    /// let run = [Run { first: 0, blocks: 1000, position: 0, span: 1000 }];
    /// let parts = [Part { relation: index, pages: Pages::Runs(&run) }];
    /// let spec = ScanSpec { kind: ScanKind(0), length: 1000, parts: &parts };
    /// let leader = registry.register(&spec, 0)?;
    /// let follower = registry.register(&spec, 0)?;
    /// predictor.mark(PageId::new(table, 77), PageId::new(index, 50));
    /// predictor.report(leader, 51, 510);
    /// predictor.report(follower, 20, 400); // 20 ticks an entry
    /// assert_eq!(predictor.next_access(Question::new(PageId::new(table, 77), 400)), Some(600));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mark(&self, page: PageId, entry: PageId) {
        let second = !entry.raw();
        if let Some(set) = self.marks_of(page).filter(|_| second != 0) {
            set.put_in_front((mixed(page, second), second));
        }
    }

    /// The entries of `index` that have led to `page` lately, at most four, the last one first. A
    /// scan that reads two pages one after the other that bear neighbouring entries follows another
    /// scan, and is where these say.
    pub fn marked(&self, page: PageId, index: RelationId) -> impl Iterator<Item = u32> + '_ {
        self.entries(page).filter(move |entry| entry.relation() == index).map(PageId::block)
    }

    /// All entries that have led to `page`.
    #[inline]
    pub(super) fn entries(&self, page: PageId) -> impl Iterator<Item = PageId> + '_ {
        let marks = self.marks_of(page).into_iter().flat_map(|set| (0..MARKS_OF_A_SET).map(move |way| set.mark(way)));
        marks
            .filter(move |&(first, second)| second != 0 && first == mixed(page, second))
            .map(|(_, second)| PageId::from_raw(!second))
    }

    #[inline]
    pub(super) fn marks_of(&self, page: PageId) -> Option<Set<'_>> {
        Set::at(self.words(), self.layout().marks(page)?)
    }

    /// Says that `scan`, which reads a table nearly in its order
    /// ([`Pages::Correlated`](super::Pages::Correlated)), reads `page`.
    ///
    /// From then on scans that have the page before them are expected to read it at the same
    /// distance from its place, where the [`last_use`](crate::oracle::Question::last_use) of a page
    /// is told. To be said of each page in turn, and once where rows that follow each other lie on
    /// one page: visits tell where the scan is between two reports, and until it has reported after
    /// some of them they leave nothing. Other pages and scans, and memory without
    /// [`marks`](super::PredictorConfig::marks), change nothing.
    ///
    /// ```
    /// use pagecast_core::oracle::{Oracle, Question};
    /// use pagecast_core::predictor::{Pages, Part, PredictorConfig, Registry, Run, ScanKind, ScanSpec};
    /// use pagecast_core::{PageId, RelationId, sync::atomic::AtomicU64};
    /// use std::sync::Arc;
    ///
    /// let config = PredictorConfig { scans: 8, parts: 8, runs: 16, marks: 4096, ..PredictorConfig::EMPTY };
    /// let memory: Arc<[AtomicU64]> = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
    /// let mut registry = Registry::format(memory, config)?;
    /// let predictor = registry.predictor();
    ///
    /// // Two scans of 1000 blocks, each of which may be read 30 blocks before its place or after it.
    /// let run = Run { first: 0, blocks: 1000, position: 0, span: 1000 };
    /// let pages = Pages::Correlated { run, scatter: 30, descending: false };
    /// let parts = [Part { relation: RelationId(1), pages }];
    /// let spec = ScanSpec { kind: ScanKind(0), length: 1000, parts: &parts };
    /// let (leader, follower) = (registry.register(&spec, 0)?, registry.register(&spec, 0)?);
    ///
    /// // The first one reads block 3, and then block 477 at place 500.
    /// let page = PageId::new(RelationId(1), 477);
    /// predictor.visit(leader, PageId::new(RelationId(1), 3), 0);
    /// predictor.report(leader, 500, 10_000);
    /// predictor.visit(leader, page, 10_000);
    /// registry.finish(leader, 10_000);
    /// // The other one is in the page's window at place 450, and comes to it at place 500; 20 ticks a block.
    /// predictor.report(follower, 450, 9_000);
    /// assert_eq!(predictor.next_access(Question { last_use: Some(8_000), ..Question::new(page, 9_000) }), Some(50 * 20));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn visit(&self, scan: ScanId, page: PageId, now: Tick) {
        let (Some(scan), Some(set)) = (self.open(scan), self.marks_of(page)) else { return };
        let blocks = Blocks::of(page);
        let window = self.first_part(&scan, blocks, |place| match place.form {
            CORRELATED => pages::window(self.words(), place.stretch.at, blocks),
            _ => None,
        });
        if window.is_none() {
            return;
        }
        let place = scan.place();
        scan.count_visit(now);
        if let (Some(window), Some((position, _))) = (window, place)
            && scan.unchanged()
        {
            let known = set.visits(page);
            // The upper half of a product: every bit of page and moment has its part in it.
            let lot = (page.raw() ^ now.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let visits = Visits::with(known.map(|(_, visits)| visits), &window, position, lot);
            if let Some(visits) = visits {
                set.put_visits(page, known.map(|(way, _)| way), visits);
            }
        }
    }

    /// Which visits to `page` are known.
    #[inline]
    pub(super) fn visits(&self, page: PageId) -> Option<Visits> {
        self.marks_of(page)?.visits(page).map(|(_, visits)| visits)
    }

    /// When a scan whose pages at `at` it reads nearly in order next comes to `blocks`, by what is
    /// known of visits there.
    #[inline]
    pub(super) fn next_visit(&self, at: u32, blocks: Blocks, visits: Visits, scan: &Scan<'_>) -> Option<Tick> {
        let window = pages::window(self.words(), at, blocks).filter(|window| window.end >= scan.position())?;
        let (position, pace) = scan.place().unwrap_or_else(|| (scan.position(), scan.pace()));
        Some(visits.next(&window, position, pace).1)
    }
}
