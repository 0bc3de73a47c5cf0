//! The writer's side: scans that begin and end. One writer at a time; the host supplies the lock.
//!
//! Invariants, beside those of scan.rs:
//! * (R1) A part is in the chain of its relation's bucket exactly while its scan is live, but for
//!   the moments inside `register` (in the chain before the scan is live) and `finish` (still in it
//!   after).
//! * (R2) A bucket's version rises after parts were unlinked and before any of them is used again.
//!   A reader that was led into another chain by such a part finds the version changed.
//! * (R4) A bucket's `ARRIVED` rises before a part is linked to its chain and again after the
//!   part's scan is live. Of two readings that differ by `n`, all parts that were linked or came to
//!   life in between are among the first `n` of the chain, unless they have gone: nothing but a
//!   later link puts a part in front of another.
//! * (R3) A refused registration leaves everything as it was, but for expected scans, which may
//!   have been withdrawn for it.

use super::arena::Arena;
use super::chunks::{self, Chunks};
use super::layout::Layout;
use super::pages::{self, Extent};
use super::records::{BITSET, CHUNKS, CORRELATED, HEADER_WORDS, KINDS, MAGIC, MAX_LENGTH, RUNS, bucket, header, part};
use super::scan::{Scan, Slot};
use super::words::{NIL, Words, join, split};
use super::{FormatError, Pages, PagesFault, Part, Predictor, PredictorConfig, RegisterError, Run, ScanSpec};
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
    fence,
};
use crate::{RelationId, ScanId, Tick};

/// The share of a kind's running estimate that stays when a scan of the kind ends.
const KIND_KEEP: f64 = 0.85;
/// Ticks per position while nothing of a kind was ever measured: it orders the pages of such scans
/// by distance.
const FIRST_PACE: f64 = 1.0;

/// Registers scans in memory that readers share.
#[derive(Debug)]
pub struct Registry<M> {
    memory: M,
    layout: Layout,
}

impl<M: AsRef<[AtomicU64]> + Clone> Registry<M> {
    /// Takes `memory`, of at least [`PredictorConfig::words`] words, and makes it a predictor
    /// without scans. What it held is lost; nobody else may use it during the call.
    ///
    /// # Errors
    /// [`FormatError`] if the memory is too small or the configuration has no size.
    pub fn format(memory: M, config: PredictorConfig) -> Result<Self, FormatError> {
        let layout = config.layout().ok_or(FormatError::BadConfig)?.fits(Words(memory.as_ref()))?;
        let registry = Self { memory, layout };
        let words = registry.words();
        for at in 0..HEADER_WORDS {
            words.store(at, 0, Relaxed);
        }
        words.store(header::SCANS_PARTS, join(config.scans, config.parts), Relaxed);
        words.store(header::RUNS_BITSETS, join(config.runs, config.bitset_words), Relaxed);
        words.store(header::CELLS_WORDS, join(config.cells, config.scan_words), Relaxed);
        words.store(header::MARKS, u64::from(config.marks), Relaxed);
        for at in layout.hint_words() {
            words.store(at, 0, Relaxed);
        }
        for at in layout.buckets() {
            words.store(at + bucket::CHAIN, join(0, NIL), Relaxed);
            words.store(at + bucket::ARRIVED, 0, Relaxed);
        }
        for slot in (0..config.scans).rev() {
            let next = words.load(header::FREE_SCAN, Relaxed) as u32;
            let next = if slot + 1 == config.scans { NIL } else { next };
            if let Some(at) = layout.scan(slot) {
                Slot { words, at }.clear(next);
            }
            words.store(header::FREE_SCAN, u64::from(slot), Relaxed);
        }
        words.store(header::FREE_PART, u64::from(NIL), Relaxed);
        for part in (0..config.parts).rev() {
            registry.free_part(part);
        }
        registry.arena().clear();
        // Release: pairs with the Acquire in `FormatError::unless_formatted`.
        words.store(header::MAGIC, MAGIC, Release);
        Ok(registry)
    }

    /// The writer's side of memory that was formatted before, perhaps by another process. The
    /// host's lock must keep all registries of one memory apart.
    ///
    /// # Errors
    /// [`FormatError`] if the memory holds no predictor of this version, or is shorter than it
    /// says.
    pub fn attach(memory: M) -> Result<Self, FormatError> {
        let layout = Layout::read(Words(memory.as_ref()))?;
        Ok(Self { memory, layout })
    }

    /// A reader of the same memory.
    pub fn predictor(&self) -> Predictor<M> {
        Predictor::new(self.memory.clone(), self.layout)
    }

    /// How much it can hold.
    pub fn config(&self) -> PredictorConfig {
        self.layout.config
    }

    /// Registers a scan that stands at position 0 at `now`. All its parts become visible at once.
    /// Where there is no room, expected scans are withdrawn for it, those that come last first.
    ///
    /// # Errors
    /// [`RegisterError`], which says what is full or what is wrong with the scan; then nothing has
    /// changed.
    pub fn register(&mut self, scan: &ScanSpec<'_>, now: Tick) -> Result<ScanId, RegisterError> {
        self.register_running(scan, false, now)
    }

    /// Registers a scan that reads in any order, of which nothing is done at `now`.
    ///
    /// Its positions, from 0 to its length, are *chunks*: what it reads at once. All pages are
    /// given as [`Pages::Runs`] of span 0, at the position of their chunk, which may have as many
    /// as it takes, in several relations. A page of several chunks is wanted until the last of
    /// them is done. The scan says which are ([`Predictor::complete`]); its reports change nothing.
    /// What is left of it takes half the time of its chunks on average, and its pages are
    /// estimated so. Its kind should not be one of scans in order, whose positions are others.
    ///
    /// ```
    /// use pagecast_core::oracle::{Oracle, Question};
    /// use pagecast_core::predictor::{Pages, Part, PredictorConfig, Registry, Run, ScanKind, ScanSpec};
    /// use pagecast_core::{PageId, RelationId, sync::atomic::AtomicU64};
    /// use std::sync::Arc;
    ///
    /// let config = PredictorConfig { scans: 8, parts: 8, runs: 64, ..PredictorConfig::EMPTY };
    /// let memory: Arc<[AtomicU64]> = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
    /// let mut registry = Registry::format(memory, config)?;
    /// let predictor = registry.predictor();
    ///
    /// // Ten row groups of 80 blocks.
    /// let table = RelationId(7);
    /// let runs: Vec<Run> =
    ///     (0..10).map(|i| Run { first: i * 80, blocks: 80, position: i.into(), span: 0 }).collect();
    /// let parts = [Part { relation: table, pages: Pages::Runs(&runs) }];
    /// let spec = ScanSpec { kind: ScanKind(1), length: 10, parts: &parts };
    /// let scan = registry.register_unordered(&spec, 0)?;
    ///
    /// let wanted = |block| predictor.next_access(Question::new(PageId::new(table, block), 3000));
    /// predictor.complete(scan, 6, 1500);
    /// predictor.complete(scan, 2, 3000); // 1500 ticks each, 8 are left
    /// assert_eq!((wanted(0), wanted(799)), (Some(8 * 1500 / 2), Some(8 * 1500 / 2)));
    /// assert_eq!((wanted(6 * 80), wanted(2 * 80)), (None, None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RegisterError`], as of [`register`](Self::register), or that a part's pages have an order.
    pub fn register_unordered(&mut self, scan: &ScanSpec<'_>, now: Tick) -> Result<ScanId, RegisterError> {
        self.register_running(scan, true, now)
    }

    /// Registers a scan that runs. Expected scans give way to it.
    fn register_running(&mut self, scan: &ScanSpec<'_>, unordered: bool, now: Tick) -> Result<ScanId, RegisterError> {
        let done = self.with_room(|registry| registry.try_register(scan, unordered, now));
        done.inspect_err(|error| self.count_refusal(error))
    }

    /// Counts the scans that run unpredicted because something is full; faulty ones are not among
    /// them.
    fn count_refusal(&self, error: &RegisterError) {
        if error.is_full() {
            let refused = self.words().load(header::REFUSED, Relaxed);
            self.words().store(header::REFUSED, refused.wrapping_add(1), Relaxed);
        }
    }

    fn try_register(&mut self, scan: &ScanSpec<'_>, unordered: bool, now: Tick) -> Result<ScanId, RegisterError> {
        if scan.kind.0 >= KINDS {
            return Err(RegisterError::BadKind { kind: scan.kind.0 });
        }
        if scan.length > MAX_LENGTH {
            return Err(RegisterError::TooLong { length: scan.length });
        }
        let words = self.words();
        let slot = words.load(header::FREE_SCAN, Relaxed) as u32;
        let full = RegisterError::TooManyScans { limit: self.layout.config.scans };
        let at = self.layout.scan(slot).ok_or(full)?;
        let record = Slot { words, at };
        let id = ScanId { slot, generation: record.generation() };
        // What was freed under another registry's `retract` is written below; see
        // `Scan::unchanged`.
        fence(Release);
        let chunks = unordered.then(|| Chunks::take(words, &self.arena(), scan.length)).transpose()?;
        let parts = self.place_parts(scan, id, chunks).inspect_err(|_| {
            // Parts that were given back bear the id already. Nobody may get it any more: a reader
            // that still stands on such a part from its use before would take it for one of that
            // scan.
            record.retract();
            if let Some(chunks) = chunks {
                chunks.release(&self.arena());
            }
        })?;
        words.store(header::FREE_SCAN, u64::from(record.next_free()), Relaxed);
        record.fill(scan, parts, chunks.map(Chunks::pack), self.kind_pace(scan), now);
        self.show(record, parts.0);
        Ok(id)
    }

    /// Makes a scan visible that has been written, with its parts from `first_part` on.
    pub(super) fn show(&self, record: Slot<'_>, first_part: u32) {
        for part in self.siblings(first_part) {
            self.link(part);
        }
        record.publish();
        for part in self.siblings(first_part) {
            self.count_arrival(part);
        }
        self.count_change();
    }

    /// Ends a scan: nobody waits for its pages any more, its memory is free, and its average pace
    /// counts for its kind. Whether it was running: a scan that has ended already is left alone,
    /// also if its slot is in use again. One that was expected is withdrawn.
    pub fn finish(&mut self, scan: ScanId, now: Tick) -> bool {
        let words = self.words();
        let Some(at) = self.layout.scan(scan.slot) else { return false };
        let Some(running) = Scan::open(words, at, scan) else { return false };
        if running.expectation().is_none() {
            self.learn_pace(&running, now);
        }
        let (first_part, chunks) = (running.first_part(), running.chunks());
        let record = Slot { words, at };
        record.retract();
        // Pairs with the fence in `Scan::unchanged`: whoever sees a write below sees that the scan
        // has ended.
        fence(Release);
        for part in self.siblings(first_part) {
            self.unlink(part);
        }
        self.free_parts(first_part);
        if let Some(chunks) = chunks {
            chunks.release(&self.arena());
        }
        record.set_next_free(words.load(header::FREE_SCAN, Relaxed) as u32);
        words.store(header::FREE_SCAN, u64::from(scan.slot), Relaxed);
        self.count_change();
        true
    }

    /// Notes that the set of running scans has changed. Release: pairs with the Acquire in
    /// `scan_changes`, so that who sees the number sees the scan, or that it is gone. There is one
    /// writer, hence no read-modify-write.
    fn count_change(&self) {
        let changes = self.words().load(header::CHANGES, Relaxed);
        self.words().store(header::CHANGES, changes.wrapping_add(1), Release);
    }

    pub(super) fn open(&self, scan: ScanId) -> Option<Scan<'_>> {
        Scan::open(self.words(), self.layout.scan(scan.slot)?, scan)
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(super) fn words(&self) -> Words<'_> {
        Words(self.memory.as_ref())
    }

    fn arena(&self) -> Arena<'_> {
        Arena::new(self.words(), header::FREE_ARENA, self.layout.arena_at..self.layout.end)
    }

    fn kind_pace(&self, scan: &ScanSpec<'_>) -> f64 {
        let pace = f64::from_bits(self.words().load(header::PACE + usize::from(scan.kind.0), Relaxed));
        if pace > 0.0 && pace.is_finite() { pace } else { FIRST_PACE }
    }

    /// Takes the average pace of a scan that ends into its kind's running estimate, as the authors
    /// do: 0.85 of the old and 0.15 of the new. That average, if the scan got anywhere.
    pub(super) fn learn_pace(&self, scan: &Scan<'_>, now: Tick) -> Option<f64> {
        let (positions, ticks) = (scan.position(), now.saturating_sub(scan.started()));
        if positions == 0 || ticks == 0 {
            return None;
        }
        let at = header::PACE + usize::from(scan.kind().0 % KINDS);
        let pace = ticks as f64 / positions as f64;
        let old = f64::from_bits(self.words().load(at, Relaxed));
        let new = if old > 0.0 && old.is_finite() { KIND_KEEP * old + (1.0 - KIND_KEEP) * pace } else { pace };
        self.words().store(at, new.to_bits(), Relaxed);
        Some(pace)
    }

    /// Takes memory for the parts and writes them, not linked yet: the first one, and how many have
    /// pages. On an error all is given back (R3).
    fn place_parts(
        &self,
        scan: &ScanSpec<'_>,
        id: ScanId,
        chunks: Option<Chunks>,
    ) -> Result<(u32, u32), RegisterError> {
        let (mut first_part, mut count) = (NIL, 0);
        // In reverse, so that the chain of siblings is in the order given.
        for (index, part) in scan.parts.iter().enumerate().rev() {
            match self.place_part(part, (index as u32, first_part), scan, id, chunks) {
                Ok(None) => {}
                Ok(Some(placed)) => (first_part, count) = (placed, count + 1),
                Err(error) => {
                    self.free_parts(first_part);
                    return Err(error);
                }
            }
        }
        Ok((first_part, count))
    }

    /// Writes one part in front of `sibling`; `None` if it has no pages.
    fn place_part(
        &self,
        given: &Part<'_>,
        (index, sibling): (u32, u32),
        scan: &ScanSpec<'_>,
        id: ScanId,
        chunks: Option<Chunks>,
    ) -> Result<Option<u32>, RegisterError> {
        let Some(extent) = check(given, index, scan.length, chunks.is_some())? else { return Ok(None) };
        let words = self.words();
        let number = words.load(header::FREE_PART, Relaxed) as u32;
        let at = self.layout.part(number).ok_or(self.layout.too_many_parts(scan.parts.len()))?;
        let (form, count) = self.form(given, extent, scan.parts.len(), chunks);
        let needed = pages::space(form, count);
        let no_space = RegisterError::NoSpace { part: index, words: u64::from(needed) };
        let stretch = self.arena().allocate(needed).ok_or(no_space)?;
        words.store(header::FREE_PART, words.load(at + part::NEXT, Relaxed), Relaxed);
        let mut origin = pages::runs_per_block(count, extent);
        match given.pages {
            Pages::Runs(runs) if runs.len() as u64 == u64::from(count) => {
                pages::write_runs(words, stretch, runs.iter().copied());
            }
            Pages::Bitset { words: bits, position, .. } if form == BITSET => {
                pages::write_bitset(words, stretch, bits, count);
                origin = position;
            }
            Pages::Runs(_) | Pages::Bitset { .. } => {
                pages::write_runs(words, stretch, core::iter::once(one_run(given.pages, extent)));
            }
            Pages::Correlated { run, scatter, descending } => {
                pages::write_correlated(words, stretch, &run, scatter, descending);
            }
        }
        words.store(at + part::RELATION_FORM, join(given.relation.0, form), Relaxed);
        words.store(at + part::OWNER, join(id.slot, id.generation), Relaxed);
        words.store(at + part::BLOCKS, join(extent.first, extent.last), Relaxed);
        words.store(at + part::STRETCH, join(stretch, count), Relaxed);
        words.store(at + part::ORIGIN, origin, Relaxed);
        words.store(at + part::SIBLING, u64::from(sibling), Relaxed);
        Ok(Some(number))
    }

    /// How the pages of a part are kept, and how many runs or words of bits that takes: as they are
    /// if its share of what the chunks leave of the scan's budget allows, otherwise as one run.
    fn form(&self, given: &Part<'_>, extent: Extent, parts: usize, chunks: Option<Chunks>) -> (u32, u32) {
        let of_chunks = chunks.map_or(0, Chunks::words);
        let share = match self.layout.config.scan_words {
            0 => u32::MAX,
            words => words.saturating_sub(of_chunks) / u32::try_from(parts.max(1)).unwrap_or(u32::MAX),
        };
        let runs = if chunks.is_some() { CHUNKS } else { RUNS };
        let (form, count) = match given.pages {
            Pages::Runs(given) => (runs, u32::try_from(given.len()).unwrap_or(u32::MAX)),
            Pages::Bitset { .. } => (BITSET, (extent.last - extent.first) / 64 + 1),
            Pages::Correlated { .. } => return (CORRELATED, 1),
        };
        if pages::space(form, count) <= share { (form, count) } else { (runs, 1) }
    }

    /// Gives back the parts of a scan, from `first_part` on, that are in no chain.
    fn free_parts(&self, first_part: u32) {
        let mut next = first_part;
        for _ in 0..self.layout.config.parts {
            let Some(at) = self.layout.part(next) else { break };
            let (stretch, count) = split(self.words().load(at + part::STRETCH, Relaxed));
            let (_, form) = split(self.words().load(at + part::RELATION_FORM, Relaxed));
            self.arena().release(stretch, pages::space(form, count));
            let number = next;
            next = self.words().load(at + part::SIBLING, Relaxed) as u32;
            self.free_part(number);
        }
    }

    fn free_part(&self, number: u32) {
        let words = self.words();
        let Some(at) = self.layout.part(number) else { return };
        // Release: as in `link`, a reader that stands on this part sees that its bucket's version
        // has changed (R2).
        words.store(at + part::NEXT, words.load(header::FREE_PART, Relaxed), Release);
        words.store(header::FREE_PART, u64::from(number), Relaxed);
    }

    /// The parts of one scan, in order. Bounded, whatever the links say.
    pub(super) fn siblings(&self, first_part: u32) -> impl Iterator<Item = u32> + '_ {
        let sibling = |&number: &u32| {
            let at = self.layout.part(number)?;
            Some(self.words().load(at + part::SIBLING, Relaxed) as u32)
        };
        core::iter::successors(Some(first_part), sibling)
            .take_while(|&number| self.layout.part(number).is_some())
            .take(self.layout.config.parts as usize)
    }

    fn bucket_of(&self, at: usize) -> usize {
        let (relation, _) = split(self.words().load(at + part::RELATION_FORM, Relaxed));
        self.layout.bucket(RelationId(relation))
    }

    /// Puts a part in front of its bucket's chain.
    fn link(&self, number: u32) {
        let words = self.words();
        let Some(at) = self.layout.part(number) else { return };
        self.count_arrival(number);
        let bucket = self.bucket_of(at) + bucket::CHAIN;
        let (version, head) = split(words.load(bucket, Relaxed));
        // Release twice: pair with the readers' Acquire of the bucket and of links. Whoever comes
        // to this part, by the bucket or still standing on it from its last use, sees what was
        // written before, the count too (R4).
        words.store(at + part::NEXT, u64::from(head), Release);
        words.store(at + part::BEFORE, u64::from(NIL), Relaxed);
        if let Some(second) = self.layout.part(head) {
            words.store(second + part::BEFORE, u64::from(number), Relaxed);
        }
        words.store(bucket, join(version, number), Release);
    }

    /// Tells readers that a part comes to the chain, or that it has come to life (R4).
    fn count_arrival(&self, number: u32) {
        let Some(at) = self.layout.part(number) else { return };
        let arrived = self.bucket_of(at) + bucket::ARRIVED;
        let count = self.words().load(arrived, Relaxed);
        // Release: pairs with the readers' Acquire; whoever sees the second count sees that the
        // scan is live.
        self.words().store(arrived, count.wrapping_add(1), Release);
    }

    /// Takes a part out of its bucket's chain. Its own link stays, for readers that stand on it.
    pub(super) fn unlink(&self, number: u32) {
        let words = self.words();
        let Some(at) = self.layout.part(number) else { return };
        let bucket = self.bucket_of(at) + bucket::CHAIN;
        let (version, head) = split(words.load(bucket, Relaxed));
        let after = words.load(at + part::NEXT, Relaxed) as u32;
        let before = words.load(at + part::BEFORE, Relaxed) as u32;
        if let Some(next) = self.layout.part(after) {
            words.store(next + part::BEFORE, u64::from(before), Relaxed);
        }
        let mut new_head = head;
        if head == number {
            new_head = after;
        } else if let Some(before) = self.layout.part(before) {
            words.store(before + part::NEXT, u64::from(after), Release);
        }
        words.store(bucket, join(version.wrapping_add(1), new_head), Release);
    }
}

/// All blocks of `extent`, and all positions of `pages`, as one run: blocks between count as
/// wanted.
fn one_run(pages: Pages<'_>, extent: Extent) -> Run {
    let (from, to) = match pages {
        Pages::Runs(runs) => runs.iter().fold((u64::MAX, 0), |(from, to), run| {
            (from.min(run.position), to.max(run.position.saturating_add(run.span)))
        }),
        Pages::Bitset { words, position, .. } => {
            (position, position.saturating_add(words.iter().map(|word| u64::from(word.count_ones())).sum()))
        }
        Pages::Correlated { run, .. } => (run.position, run.position.saturating_add(run.span)),
    };
    let blocks = (extent.last - extent.first).saturating_add(1);
    Run { first: extent.first, blocks, position: from, span: to.saturating_sub(from) }
}

/// The extent of a part's pages, `None` if it has none.
fn check(given: &Part<'_>, part: u32, length: u64, unordered: bool) -> Result<Option<Extent>, RegisterError> {
    let bad = |(run, fault): (u32, PagesFault)| RegisterError::BadPages { part, run, fault };
    if unordered {
        chunks::check(given.pages, length).map_err(bad)?;
    }
    match given.pages {
        Pages::Runs(runs) => pages::check_runs(runs, length).map_err(bad),
        Pages::Bitset { first, words, position } => {
            pages::check_bitset(first, words, position, length).map_err(|fault| bad((0, fault)))
        }
        Pages::Correlated { run, .. } => pages::check_runs(&[run], length).map_err(bad),
    }
}
