//! What scans leave for those behind them: marks of the entries that led them to a page.
//!
//! The words are in [`super::marks`], which says what they mean and where they come from.

use super::marks::{Set, mixed};
use super::reader::Predictor;
use super::records::MARKS_OF_A_SET;
use crate::sync::atomic::AtomicU64;
use crate::{PageId, RelationId};

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
    fn marks_of(&self, page: PageId) -> Option<Set<'_>> {
        Set::at(self.words(), self.layout().marks(page)?)
    }
}
