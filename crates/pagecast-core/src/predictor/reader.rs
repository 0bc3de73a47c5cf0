//! The readers' side: estimates and reports, by any number of threads and processes at once,
//! without a lock.

use super::layout::Layout;
use super::pages::{self, Blocks, Stretch, sooner};
use super::records::{BITSET, CHUNKS, CORRELATED, PART_WORDS, bucket, header, part};
use super::scan::Scan;
use super::words::{Words, split};
use super::{Expectation, FormatError, PredictorConfig, ScanView};
use crate::oracle::{Oracle, Question};
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use crate::{PageId, RelationId, ScanId, Tick};

/// How often an estimate starts over because a scan of the same bucket ended meanwhile. After that
/// it stands on the scans that the last try met: some may have been missed, none is wrong.
const TRIES: u32 = 8;

/// Where a part keeps its pages, and how they are searched.
#[derive(Clone, Copy)]
struct PartPages {
    form: u32,
    stretch: Stretch,
    origin: (u32, u64),
}

/// A page that is asked about.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) page: PageId,
    /// Its last use; 0 if that is not known.
    pub(super) used: Tick,
    pub(super) now: Tick,
}

/// Answers when a page will be wanted next. Cheap to clone if the memory's handle is.
///
/// Everything here is lock-free and bounded, whatever the writer or another process does: links are
/// followed at most as often as there are parts, and memory that makes no sense gives a wrong
/// estimate or none, never a panic.
#[derive(Clone, Debug)]
pub struct Predictor<M> {
    memory: M,
    layout: Layout,
}

impl<M: AsRef<[AtomicU64]>> Predictor<M> {
    /// A reader of memory that a [`Registry`](super::Registry), perhaps in another process, has
    /// formatted.
    ///
    /// # Errors
    /// [`FormatError`] if the memory holds no predictor of this version, or is shorter than it
    /// says.
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
    /// May be called by several workers of one scan at once: the furthest position counts, others
    /// change nothing. A position past the scan's length is its length. Reports of a scan that has
    /// finished are ignored, also when its slot has a new scan. The pace is the ratio of the ticks
    /// and positions of about the last eight reports that went ahead; the first one replaces what
    /// the scan started with. A scan without order says [`complete`](Self::complete) instead, and
    /// its reports change nothing.
    pub fn report(&self, scan: ScanId, position: u64, now: Tick) {
        if let Some(scan) = self.open_running(scan) {
            scan.report(position, now);
        }
    }

    /// Says that all pages of chunk `position` of `scan`, which was registered
    /// [without order](super::Registry::register_unordered), have been read, at `now`.
    ///
    /// Lock-free, for any number of workers and processes. Each chunk counts once, however often
    /// it is said; so do the amount done and the pace, as of a [`report`](Self::report) of one
    /// position more. A chunk that the scan has not, a scan that reads in order or has finished,
    /// also when others have its slot and its memory: nothing changes.
    pub fn complete(&self, scan: ScanId, position: u64, now: Tick) {
        if let Some(scan) = self.open_running(scan) {
            scan.complete(position, now);
        }
    }

    /// As [`report`](Self::report), for a scan that has come to `page`: everything in front of it
    /// is done. A page that the scan has not registered, or has behind it, changes nothing. Whether
    /// the scan still runs.
    pub fn reach(&self, scan: ScanId, page: PageId, now: Tick) -> bool {
        let Some(record) = self.open_running(scan) else { return false };
        if let Some(position) = self.ahead(&record, page) {
            record.report(position, now);
        }
        record.unchanged()
    }

    /// Says that `scan` asked for `page` at `now` and did not find it: so far it has come. To be
    /// said before a victim is looked for. Of a scan whose positions are not those of single pages
    /// it says nothing, for such a scan may ask for pages of many positions together.
    pub fn missed(&self, scan: ScanId, page: PageId, now: Tick) {
        if let Some(record) = self.open_running(scan).filter(Scan::reads_page_by_page)
            && let Some(position) = self.ahead(&record, page)
        {
            record.missed(position, now);
        }
    }

    /// Where the scan comes to `page`, if it has not reported to be past it.
    fn ahead(&self, scan: &Scan<'_>, page: PageId) -> Option<u64> {
        let (blocks, from) = (Blocks::of(page), scan.position());
        let position = self.first_part(scan, blocks, |place| self.find(place, blocks, from));
        position.filter(|_| scan.unchanged())
    }

    /// The record of a scan that runs: an expected one has no progress to report.
    fn open_running(&self, scan: ScanId) -> Option<Scan<'_>> {
        self.open(scan).filter(|scan| scan.expectation().is_none())
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
            unordered: record.is_unordered(),
            expected: record.expectation(),
        };
        record.unchanged().then_some(view)
    }

    /// How many scans found no room since the memory was formatted, and run unpredicted.
    pub fn refused(&self) -> u64 {
        self.words().load(header::REFUSED, Relaxed)
    }

    /// Calls `visit` for each running scan, and for no expected one.
    pub fn scans(&self, visit: impl FnMut(ScanView)) {
        self.views().filter(|view| view.expected.is_none()).for_each(visit);
    }

    /// Calls `visit` for each scan that is expected and does not run.
    pub fn expected(&self, visit: impl FnMut(ScanView)) {
        self.views().filter(|view| view.expected.is_some()).for_each(visit);
    }

    /// Calls `visit` with every page that `scan` reads, done or not, in the order of blocks in each
    /// of its parts; with some of them if it ends meanwhile. For views: the cost is that of a look
    /// at each.
    pub fn pages(&self, scan: ScanId, mut visit: impl FnMut(PageId)) {
        let Some(record) = self.open(scan) else { return };
        let mut part = record.first_part();
        for _ in 0..record.parts().min(self.layout.config.parts) {
            let Some(at) = self.layout.part(part) else { return };
            let (relation, _) = split(self.words().load(at + part::RELATION_FORM, Relaxed));
            let (first, _) = split(self.words().load(at + part::BLOCKS, Relaxed));
            let pages = self.place(at, Blocks { relation, first: 0, last: 0 });
            let Some(PartPages { form, stretch, .. }) = pages.filter(|_| record.unchanged()) else { return };
            let relation = RelationId(relation);
            pages::all_blocks(self.words(), form, stretch, first, |block| visit(PageId::new(relation, block)));
            part = self.words().load(at + part::SIBLING, Relaxed) as u32;
        }
    }

    /// The first answer of `find` for the parts of the scan that are of the relation of `blocks`.
    fn first_part<T>(&self, scan: &Scan<'_>, blocks: Blocks, find: impl Fn(PartPages) -> Option<T>) -> Option<T> {
        let mut part = scan.first_part();
        for _ in 0..scan.parts().min(self.layout.config.parts) {
            let at = self.layout.part(part)?;
            if let Some(found) = self.place(at, blocks).and_then(&find) {
                return Some(found);
            }
            part = self.words().load(at + part::SIBLING, Relaxed) as u32;
        }
        None
    }

    fn views(&self) -> impl Iterator<Item = ScanView> + '_ {
        (0..self.layout.config.scans).filter_map(|slot| {
            let generation = Scan::live_generation(self.words(), self.layout.scan(slot)?)?;
            self.scan(ScanId { slot, generation })
        })
    }

    #[inline]
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    #[inline]
    pub(super) fn words(&self) -> Words<'_> {
        Words(self.memory.as_ref())
    }

    #[inline]
    pub(super) fn open(&self, scan: ScanId) -> Option<Scan<'_>> {
        Scan::open(self.words(), self.layout.scan(scan.slot)?, scan)
    }

    /// Calls `visit` with each of the first `limit` parts of the chain of `bucket`, and again with
    /// a new state from `start` if the chain changed meanwhile. The last state, and whether no
    /// running scan was missed.
    pub(super) fn follow<S>(
        &self,
        bucket: usize,
        limit: u32,
        start: impl Fn() -> S,
        visit: impl Fn(&mut S, u32, usize),
    ) -> (S, bool) {
        let words = self.words();
        let mut head = words.load(bucket + bucket::CHAIN, Acquire);
        let mut tries = TRIES;
        loop {
            let (version, mut next) = split(head);
            let mut state = start();
            for _ in 0..limit.min(self.layout.config.parts) {
                let part = next;
                let Some(at) = self.layout.part(part) else { break };
                // Acquire: pairs with the Release in the registry's `link`; a link of a part that
                // has been taken for another relation comes with the change of this bucket's
                // version that went before.
                next = words.load(at + part::NEXT, Acquire) as u32;
                visit(&mut state, part, at);
            }
            let after = words.load(bucket + bucket::CHAIN, Acquire);
            tries -= 1;
            // A part that was unlinked and linked into another chain leads away from this one, and
            // scans that are still running may have been missed. Unlinking changes the version,
            // which comes with such a link.
            let whole = split(after).0 == version || self.chain_check_left_out();
            if whole || tries == 0 {
                return (state, whole);
            }
            head = after;
        }
    }

    /// Ticks from `now` until the scan of the part at `at` reaches one of `blocks`, exactly for one
    /// block and never too many for several; `None` if it does not, or has ended, or has probably
    /// made the use of the block that was at `used`.
    #[inline]
    pub(super) fn estimate(&self, at: usize, blocks: Blocks, used: Tick, now: Tick) -> Option<Tick> {
        let weigh = |expected: Expectation, ticks| expected.until(ticks, now);
        self.estimate_by(at, blocks, (used, now), weigh)
    }

    /// As [`estimate`](Self::estimate), but so low that it falls by no more than the time that
    /// passes, as the estimates of running scans do at one pace.
    pub(super) fn estimate_at_least(&self, at: usize, blocks: Blocks, now: Tick) -> Option<Tick> {
        let weigh = |expected: Expectation, ticks| expected.until_at_least(ticks, now);
        self.estimate_by(at, blocks, (0, now), weigh)
    }

    /// An estimate, where `weigh` says in how many ticks an expected scan reads what it reads so
    /// long after its beginning.
    #[inline]
    fn estimate_by(
        &self,
        at: usize,
        blocks: Blocks,
        (used, now): (Tick, Tick),
        weigh: impl Fn(Expectation, Tick) -> Tick,
    ) -> Option<Tick> {
        let words = self.words();
        let record = words.record::<PART_WORDS>(at)?;
        let load = |field: usize| record[field].load(Relaxed);
        let (relation, _) = split(load(part::RELATION_FORM));
        let (first, last) = split(load(part::BLOCKS));
        // Only a guess at this point, that saves opening the scan: it is read again under the
        // scan's version.
        if relation != blocks.relation || blocks.last < first || blocks.first > last {
            return None;
        }
        let (slot, generation) = split(load(part::OWNER));
        let scan = self.open(ScanId { slot, generation })?;
        let place = self.place_in(record, blocks)?;
        // A block that is wanted as long as a scan is near may be wanted again.
        let used = if place.form == CORRELATED { 0 } else { used };
        let expected = scan.expectation();
        let ticks = match place.form {
            CHUNKS => scan.next_chunk(place.stretch, place.origin, blocks, now)?,
            _ => {
                let target = self.find(place, blocks, scan.position())?;
                let ticks = scan.ticks_until(target, now);
                (ticks > 0 || !scan.has_used(target, used, now)).then_some(ticks)?
            }
        };
        let ticks = expected.map_or(ticks, |expected| weigh(expected, ticks));
        scan.unchanged().then_some(ticks)
    }

    /// Where the pages of the part at `at` are kept, if they are of the relation of `blocks`. True
    /// as long as the part's scan is unchanged since before the call.
    #[inline]
    fn place(&self, at: usize, blocks: Blocks) -> Option<PartPages> {
        self.place_in(self.words().record(at)?, blocks)
    }

    #[inline]
    fn place_in(&self, record: &[AtomicU64; PART_WORDS], blocks: Blocks) -> Option<PartPages> {
        let load = |field: usize| record[field].load(Relaxed);
        let (relation, form) = split(load(part::RELATION_FORM));
        let (first, _) = split(load(part::BLOCKS));
        let (stretch, count) = split(load(part::STRETCH));
        let stretch = Stretch { at: stretch, count }.checked(&self.layout)?;
        (relation == blocks.relation).then(|| PartPages { form, stretch, origin: (first, load(part::ORIGIN)) })
    }

    /// The lowest position, not below `from`, of one of `blocks`.
    #[inline]
    fn find(&self, PartPages { form, stretch, origin }: PartPages, blocks: Blocks, from: u64) -> Option<u64> {
        match form {
            BITSET => pages::find_in_bitset(self.words(), stretch, origin, blocks, from),
            CORRELATED => pages::find_correlated(self.words(), stretch.at, blocks, from),
            _ => pages::find_in_runs(self.words(), stretch, origin, blocks, from),
        }
    }

    /// The least of `nearest` and the estimates for the entries that have led to a page.
    fn nearest_by_marks(&self, mut nearest: Option<Tick>, bound: Tick, asked: Asked) -> Option<Tick> {
        for entry in self.entries(asked.page) {
            if nearest.is_some_and(|nearest| nearest <= bound) {
                break;
            }
            nearest = sooner(nearest, self.nearest(bound, Asked { page: entry, ..asked }));
        }
        nearest
    }
}

impl<M: AsRef<[AtomicU64]>> Oracle for Predictor<M> {
    /// The least, over all running scans that have the page ahead of them, of distance times pace;
    /// of a scan without order, of half of what is left to it times pace.
    ///
    /// A page counts while its position is not below what the scan has reported, or a chunk that
    /// holds it is not done. The distance is from where the scan probably is by now: on from its
    /// last report at its pace, at most as far as the last report went. What is not
    /// [`above`](Question::above) is found out from the scans that were nearest when the page's
    /// cell was last looked at. Then the entries that led scans to the page are asked for.
    ///
    /// A [`last_use`](Question::last_use) leaves out the scans that have probably made it: it was
    /// after their last report, and they should be past the page by now. With seldom reports and
    /// small pools most pages are such.
    #[inline]
    fn next_access(&self, Question { page, now, last_use, above }: Question) -> Option<Tick> {
        let (used, bound) = (last_use.unwrap_or(0), above.unwrap_or(0));
        let asked = Asked { page, used, now };
        let nearest = self.nearest(bound, asked);
        if self.layout.has_marks() { self.nearest_by_marks(nearest, bound, asked) } else { nearest }
    }

    fn scan_changes(&self) -> u64 {
        self.words().load(header::CHANGES, Acquire)
    }
}

impl<M> Predictor<M> {
    #[inline]
    fn chain_check_left_out(&self) -> bool {
        #[cfg(pagecast_shuttle)]
        return crate::mistake::made(crate::mistake::Mistake::NoChainCheck);
        #[cfg(not(pagecast_shuttle))]
        false
    }
}
