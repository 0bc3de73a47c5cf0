//! The writer's side of expected scans: they come, move on, and go.
//!
//! An expected scan is a scan like others, so that no reader has a second way to find pages: its
//! parts stand in the chains, and cells know it. It keeps its runs when it comes from a scan that
//! ends. It gets a new name, for its record changes and only a new generation says so (I1); its
//! parts leave their chains and come to the front again, for only there cells look for what has
//! come (R4).
//!
//! Cost: as that of an end and a registration, without the writing of runs. A registration that
//! finds no room looks at all scans for each expected one that has to go.

use super::chunks::Chunks;
use super::records::part;
use super::registry::Registry;
use super::scan::{Scan, Slot};
use super::words::join;
use super::{Expectation, RegisterError};
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
    fence,
};
use crate::{ScanId, Tick};

impl<M: AsRef<[AtomicU64]> + Clone> Registry<M> {
    /// Ends a scan as [`finish`](Self::finish) does, and expects one that reads the same, at the
    /// same mean pace. Its name from then on; `None` if there was no such scan.
    ///
    /// A scan that is expected already is moved: see [`postpone`](Self::postpone).
    ///
    /// ```
    /// use pagecast_core::oracle::{Oracle, Question};
    /// use pagecast_core::predictor::{Expectation, Pages, Part, PredictorConfig, Registry, Run, ScanKind, ScanSpec};
    /// use pagecast_core::{PageId, RelationId, sync::atomic::AtomicU64};
    /// use std::sync::Arc;
    ///
    /// let config = PredictorConfig { scans: 8, parts: 8, runs: 8, ..PredictorConfig::EMPTY };
    /// let memory: Arc<[AtomicU64]> = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
    /// let mut registry = Registry::format(memory, config)?;
    /// let predictor = registry.predictor();
    ///
    /// // A report reads 100 blocks in 1000 ticks, and comes back an hour of 3,600,000 ticks later.
    /// let run = [Run { first: 0, blocks: 100, position: 0, span: 100 }];
    /// let parts = [Part { relation: RelationId(7), pages: Pages::Runs(&run) }];
    /// let report = registry.register(&ScanSpec { kind: ScanKind(0), length: 100, parts: &parts }, 0)?;
    /// predictor.report(report, 100, 1000);
    /// let next = Expectation { start: 3_600_000, spread: 0, trust: 1.0 };
    /// let expected = registry.expect(report, next, 1000).expect("the scan was running");
    ///
    /// let wanted = |now| predictor.next_access(Question::new(PageId::new(RelationId(7), 60), now));
    /// assert_eq!(wanted(2_000_000), Some(1_600_000 + 600));
    /// assert_eq!(wanted(3_700_000), Some(100_000 + 600), "overdue: as long again");
    /// registry.finish(expected, 3_700_000);
    /// assert_eq!(wanted(3_700_000), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn expect(&mut self, scan: ScanId, expected: Expectation, now: Tick) -> Option<ScanId> {
        let ending = self.open(scan)?;
        if ending.expectation().is_some() {
            return self.postpone(scan, expected);
        }
        let pace = self.learn_pace(&ending, now).unwrap_or(ending.pace());
        Some(self.begin_anew(&ending, scan, pace, expected))
    }

    /// Expects an expected scan at another moment, or with other trust. Its name from then on;
    /// `None` if there is no such scan, or if it runs.
    pub fn postpone(&mut self, scan: ScanId, expected: Expectation) -> Option<ScanId> {
        let waiting = self.open(scan)?;
        waiting.expectation()?;
        Some(self.begin_anew(&waiting, scan, waiting.pace(), expected))
    }

    /// What `register` comes to, once expected scans have gone one by one as long as there is no
    /// room, the latest first.
    pub(super) fn with_room(
        &mut self,
        mut register: impl FnMut(&mut Self) -> Result<ScanId, RegisterError>,
    ) -> Result<ScanId, RegisterError> {
        loop {
            match register(self) {
                Err(error) if self.may_fit(&error) && self.withdraw_latest() => {}
                done => return done,
            }
        }
    }

    /// Whether a scan that was refused so may be registered when others have gone.
    fn may_fit(&self, error: &RegisterError) -> bool {
        let arena = (self.layout().end - self.layout().arena_at) as u64;
        match *error {
            RegisterError::TooManyScans { .. } => true,
            RegisterError::TooManyParts { wanted, limit } => wanted <= limit as usize,
            RegisterError::NoSpace { words, .. } | RegisterError::NoSpaceForChunks { words, .. } => words <= arena,
            _ => false,
        }
    }

    /// Ends the expected scan that comes last. Whether there was one.
    fn withdraw_latest(&mut self) -> bool {
        let mut latest: Option<(Tick, ScanId)> = None;
        self.predictor().expected(|scan| {
            if latest.is_none_or(|(start, _)| scan.started >= start) {
                latest = Some((scan.started, scan.id));
            }
        });
        latest.is_some_and(|(_, id)| self.finish(id, 0))
    }

    /// Turns the scan `id`, whose record is `old`, into an expected one. Its new name.
    fn begin_anew(&self, old: &Scan<'_>, id: ScanId, pace: f64, expected: Expectation) -> ScanId {
        let words = self.words();
        let (first_part, chunks) = (old.first_part(), old.chunks());
        let Some(at) = self.layout().scan(id.slot) else { return id };
        let record = Slot { words, at };
        if !self.retract_left_out() {
            record.retract();
        }
        // As in `finish`: whoever sees a write below sees that the scan has ended.
        fence(Release);
        let id = ScanId { slot: id.slot, generation: record.generation() };
        for number in self.siblings(first_part) {
            self.unlink(number);
            if let Some(at) = self.layout().part(number) {
                words.store(at + part::OWNER, join(id.slot, id.generation), Relaxed);
            }
        }
        let chunks = chunks.map(|chunks| chunks.anew(words));
        record.begin(chunks.map(Chunks::pack), pace, expected.start, Some(expected));
        self.show(record, first_part);
        id
    }
}

impl<M> Registry<M> {
    fn retract_left_out(&self) -> bool {
        #[cfg(pagecast_shuttle)]
        return crate::mistake::made(crate::mistake::Mistake::ExpectedUnseen);
        #[cfg(not(pagecast_shuttle))]
        false
    }
}
