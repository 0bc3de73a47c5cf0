//! The readers' side: estimates and reports, by any number of threads and processes at once, without a lock.

use super::layout::Layout;
use super::pages::{self, Stretch};
use super::registry::{BITSET, part};
use super::scan::Scan;
use super::words::{Words, join, split};
use super::{FormatError, PredictorConfig, ScanView};
use crate::oracle::Oracle;
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use crate::{PageId, RelationId, ScanId, Tick};

/// How often an estimate starts over because a scan of the same bucket ended meanwhile. After that it stands on the
/// scans that the last try met: some may have been missed, none is wrong.
const TRIES: u32 = 8;

/// Answers when a page will be wanted next. Cheap to clone if the memory's handle is.
///
/// Everything here is lock-free and bounded, whatever the writer or another process does: links are followed at most as
/// often as there are parts, and memory that makes no sense gives a wrong estimate or none, never a panic.
#[derive(Clone, Debug)]
pub struct Predictor<M> {
    memory: M,
    layout: Layout,
}

impl<M: AsRef<[AtomicU64]>> Predictor<M> {
    /// A reader of memory that a [`Registry`](super::Registry), perhaps in another process, has formatted.
    ///
    /// # Errors
    /// [`FormatError`] if the memory holds no predictor of this version, or is shorter than it says.
    pub fn attach(memory: M) -> Result<Self, FormatError> {
        let layout = Layout::read(Words(memory.as_ref()))?;
        Ok(Self { memory, layout })
    }

    pub(super) fn new(memory: M, layout: Layout) -> Self {
        Self { memory, layout }
    }

    /// How much it can hold.
    pub fn config(&self) -> PredictorConfig {
        self.layout.config
    }

    /// Says that `scan` is done with all positions before `position`, at `now`.
    ///
    /// May be called by several workers of one scan at once: the furthest position counts, others change nothing. A
    /// position past the scan's length is its length. Reports of a scan that has finished are ignored, also when its
    /// slot has a new scan. The pace is the ratio of the ticks and positions of about the last eight reports that went
    /// ahead; the first one replaces what the scan started with.
    pub fn report(&self, scan: ScanId, position: u64, now: Tick) {
        if let Some(scan) = self.open(scan) {
            scan.report(position, now);
        }
    }

    /// How `scan` stands; `None` if it has finished.
    pub fn scan(&self, scan: ScanId) -> Option<ScanView> {
        let record = self.open(scan)?;
        let relation = self.layout.part(record.first_part()).map(|at| {
            let (relation, _) = split(self.words().load(at + part::RELATION_FORM, Relaxed));
            RelationId(relation)
        });
        let view = ScanView {
            id: scan,
            kind: record.kind(),
            position: record.position(),
            length: record.length(),
            pace: record.pace(),
            parts: record.parts(),
            relation,
            started: record.started(),
        };
        record.unchanged().then_some(view)
    }

    /// Calls `visit` for each running scan.
    pub fn scans(&self, mut visit: impl FnMut(ScanView)) {
        for slot in 0..self.layout.config.scans {
            let generation = self.layout.scan(slot).and_then(|at| Scan::live_generation(self.words(), at));
            if let Some(view) = generation.and_then(|generation| self.scan(ScanId { slot, generation })) {
                visit(view);
            }
        }
    }

    fn words(&self) -> Words<'_> {
        Words(self.memory.as_ref())
    }

    fn open(&self, scan: ScanId) -> Option<Scan<'_>> {
        Scan::open(self.words(), self.layout.scan(scan.slot)?, scan)
    }

    /// The least estimate over the parts in the chain that starts at part `next`.
    fn follow(&self, mut next: u32, page: PageId, now: Tick) -> Option<Tick> {
        let words = self.words();
        let mut nearest: Option<Tick> = None;
        for _ in 0..self.layout.config.parts {
            let Some(at) = self.layout.part(next) else { break };
            // Acquire: pairs with the Release in the registry's `link`; a link of a part that has been taken for another
            // relation comes with the change of this bucket's version that went before.
            next = words.load(at + part::NEXT, Acquire) as u32;
            if let Some(estimate) = self.estimate(at, page, now)
                && nearest.is_none_or(|best| estimate < best)
            {
                nearest = Some(estimate);
            }
        }
        nearest
    }

    /// When the scan of the part at `at` reaches `page`; `None` if it does not, or has ended.
    #[inline]
    fn estimate(&self, at: usize, page: PageId, now: Tick) -> Option<Tick> {
        let words = self.words();
        let (relation, form) = split(words.load(at + part::RELATION_FORM, Relaxed));
        let (first, last) = split(words.load(at + part::BLOCKS, Relaxed));
        // Only a guess at this point, that saves opening the scan: it is read again under the scan's version.
        if relation != page.relation().0 || page.block() < first || page.block() > last {
            return None;
        }
        let (slot, generation) = split(words.load(at + part::OWNER, Relaxed));
        let scan = self.open(ScanId { slot, generation })?;
        if words.load(at + part::RELATION_FORM, Relaxed) != join(relation, form) {
            return None;
        }
        let (first, _) = split(words.load(at + part::BLOCKS, Relaxed));
        let (stretch_at, count) = split(words.load(at + part::STRETCH, Relaxed));
        let stretch = Stretch { at: stretch_at, count }.checked(&self.layout)?;
        let from = scan.position();
        let target = if form == BITSET {
            let start = words.load(at + part::POSITION, Relaxed);
            pages::find_in_bitset(words, stretch, first, start, page.block(), from)
        } else {
            pages::find_in_runs(words, stretch, page.block(), from)
        }?;
        let ticks = scan.ticks_until(target, now);
        scan.unchanged().then_some(ticks)
    }
}

impl<M: AsRef<[AtomicU64]>> Oracle for Predictor<M> {
    /// The least, over all running scans that have `page` ahead of them, of distance times pace.
    ///
    /// A page counts while its position is not below what the scan has reported. The distance is from where the scan
    /// probably is by now: on from its last report at its pace, at most as far as the last report went.
    fn next_access(&self, page: PageId, now: Tick) -> Option<Tick> {
        let bucket = self.layout.bucket(page.relation());
        let mut head = self.words().load(bucket, Acquire);
        let mut tries = TRIES;
        loop {
            let nearest = self.follow(split(head).1, page, now);
            let after = self.words().load(bucket, Acquire);
            tries -= 1;
            // A part that was unlinked and linked into another chain leads away from this one, and scans that are
            // still running may have been missed. Unlinking changes the version, which comes with such a link.
            if split(after).0 == split(head).0 || tries == 0 || self.chain_check_left_out() {
                return nearest;
            }
            head = after;
        }
    }
}

impl<M> Predictor<M> {
    #[inline]
    fn chain_check_left_out(&self) -> bool {
        #[cfg(pagecast_shuttle)]
        return super::mistake::made(super::mistake::Mistake::NoChainCheck);
        #[cfg(not(pagecast_shuttle))]
        false
    }
}
