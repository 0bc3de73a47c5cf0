//! Columns that are decoded once for all running scans that want them, and kept for those that are
//! expected.
//!
//! Who opens a row group asks here for its columns. One that another registered scan will want
//! ([`Pool::next_use`]) is decoded batch by batch by whoever is first at the next batch, and
//! stays until nobody wants it. What nobody is known to want stays only in memory that the pool
//! does not use: a pool that is full gets it back first.
//!
//! All of it is memory of the pool, as a [`Loan`]: at most a quarter for what running scans want,
//! and what the pool has no pages for. Of ten columns that are looked at the one that leaves is
//! wanted by nobody and was taken longest ago, or is wanted last.
//!
//! Who finds nothing here to share decodes alone, as DataFusion does.
//!
//! Suits many scans of the same columns where processors bind; a scan alone gains only what fits
//! beside its pages. Cost: a lock for each row group that is opened, and ten questions to the
//! predictor for each column that comes or leaves.

mod column;
mod of_file;
mod opener;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use pagecast::{Loan, PageId, Pool};
use parking_lot::Mutex;

use self::column::{Column, Key, Opened};
pub(crate) use self::opener::Opener;

/// The loan grows and shrinks by one part in these of the pool's memory.
const STEPS: u64 = 64;
/// Columns that are looked at for one that leaves.
const LOOKS: usize = 10;
/// Columns wanted by running scans take one part in these of the pool's memory.
const WANTED: u64 = 4;

/// The decoded columns of a host.
pub(crate) struct Decoded {
    pool: Pool,
    kept: Mutex<Kept>,
    step: u64,
    /// Bytes of all columns that live.
    charges: Arc<AtomicU64>,
    /// Columns that were here already when somebody asked for them.
    found: AtomicU64,
}

/// * (K1) `places` has the place in `columns` of each key.
struct Kept {
    places: HashMap<Key, usize>,
    columns: Vec<Arc<Column>>,
    loan: Loan,
    clock: u64,
    /// Where the next look begins.
    hand: usize,
}

/// A column that somebody is about to read.
pub(super) struct Wanted {
    key: Key,
    /// In the middle of its bytes: those at the ends may be its neighbours', too.
    page: PageId,
    /// What it may take when it is decoded.
    estimate: u64,
}

impl Decoded {
    pub(crate) fn new(pool: &Pool) -> Self {
        let kept = Kept { places: HashMap::new(), columns: Vec::new(), loan: pool.lend(), clock: 0, hand: 0 };
        let step = (pool.memory().total / STEPS).next_multiple_of(pool.page_size().into());
        Self { pool: pool.clone(), step, kept: Mutex::new(kept), charges: Arc::default(), found: AtomicU64::new(0) }
    }

    /// Bytes of columns that are kept or being read.
    pub(crate) fn memory(&self) -> u64 {
        self.charges.load(Relaxed)
    }

    /// Columns that were found decoded, or being decoded.
    pub(crate) fn found(&self) -> u64 {
        self.found.load(Relaxed)
    }

    /// Of each column the one to share, if there is one. Those that are new are opened by `open`,
    /// which is given their numbers.
    fn take(&self, wanted: &[Wanted], open: impl FnOnce(&[usize]) -> Opened) -> Vec<Option<Arc<Column>>> {
        let mut kept = self.kept.lock();
        self.give_back(&mut kept);
        kept.clock += 1;
        let now = kept.clock;
        let mut found: Vec<_> = wanted.iter().map(|wanted| kept.find(&wanted.key)).collect();
        self.found.fetch_add(found.iter().flatten().count() as u64, Relaxed);
        let made: Vec<_> = (0..wanted.len())
            .filter(|&number| found[number].is_none() && self.admits(&mut kept, &wanted[number]))
            .collect();
        if !made.is_empty() {
            let opened = open(&made);
            for (place, &number) in made.iter().enumerate() {
                let Wanted { key, page, estimate } = &wanted[number];
                let (opened, charge) = ((opened.clone(), place), (*estimate, &self.charges));
                let column = Arc::new(Column::new(key.clone(), *page, opened, charge));
                kept.add(Arc::clone(&column));
                found[number] = Some(column);
            }
        }
        found.iter().flatten().for_each(|column| column.taken.store(now, Relaxed));
        found
    }

    /// Forgets columns that are not what they were to be.
    fn forget<'a>(&self, columns: impl Iterator<Item = &'a Arc<Column>>) {
        let mut kept = self.kept.lock();
        for column in columns {
            if kept.find(&column.key).is_some_and(|known| Arc::ptr_eq(&known, column)) {
                kept.remove(&column.key);
            }
        }
    }

    /// Whether there is room for a column: among those that are wanted, or where nobody needs it.
    fn admits(&self, kept: &mut Kept, wanted: &Wanted) -> bool {
        let next_use = self.pool.next_use(wanted.page);
        let most = self.pool.memory().total / WANTED;
        loop {
            let needed = self.memory() + wanted.estimate;
            if needed <= kept.loan.bytes() {
                return true;
            }
            let larger = needed.next_multiple_of(self.step);
            let has_room = match next_use {
                Some(_) => larger <= most,
                None => self.idle() >= larger - kept.loan.bytes() + self.step,
            };
            if has_room && kept.loan.resize(larger) {
                return true;
            }
            // What comes back again and again stays, rather than the newest of what came once.
            let old = 2 * kept.columns.len() as u64;
            let leaves = |wanted: Option<Duration>, age| match (next_use, wanted) {
                (Some(_), None) => true,
                (Some(sooner), Some(later)) => sooner < later,
                (None, wanted) => wanted.is_none() && age > old,
            };
            if !kept.evict(&self.pool, leaves) {
                return false;
            }
        }
    }

    /// Gives what nobody wants to a pool that is full, and what is not taken of the loan.
    fn give_back(&self, kept: &mut Kept) {
        if self.idle() < self.step {
            (0..LOOKS).take_while(|_| kept.evict(&self.pool, |wanted, _| wanted.is_none())).for_each(drop);
        }
        // What is taken again soon would cost the pool as many pages again.
        let taken = self.memory().next_multiple_of(self.step);
        if 2 * taken < kept.loan.bytes() {
            kept.loan.resize(taken);
        }
    }

    /// Bytes of frames that hold nothing.
    fn idle(&self) -> u64 {
        u64::from(self.pool.idle_frames()) * u64::from(self.pool.page_size())
    }
}

impl Kept {
    fn find(&self, key: &Key) -> Option<Arc<Column>> {
        self.places.get(key).map(|&place| Arc::clone(&self.columns[place]))
    }

    fn add(&mut self, column: Arc<Column>) {
        self.places.insert(column.key.clone(), self.columns.len());
        self.columns.push(column);
    }

    fn remove(&mut self, key: &Key) {
        let Some(place) = self.places.remove(key) else { return };
        self.columns.swap_remove(place);
        if let Some(moved) = self.columns.get(place) {
            self.places.insert(moved.key.clone(), place);
        }
    }

    /// Lets one go of the next columns that nobody reads: the oldest that nobody wants, or else the
    /// one that is wanted last; if it `leaves`, by how soon it is wanted and how many row groups
    /// were opened since it was taken.
    fn evict(&mut self, pool: &Pool, leaves: impl FnOnce(Option<Duration>, u64) -> bool) -> bool {
        let count = self.columns.len();
        let looked = (0..count.min(LOOKS)).map(|look| &self.columns[(self.hand + look) % count]);
        let idle = looked.filter(|column| Arc::strong_count(column) == 1);
        let stands =
            idle.map(|column| (pool.next_use(column.page), self.clock - column.taken.load(Relaxed), &column.key));
        let last = stands.max_by_key(|(next_use, age, _)| (next_use.is_none(), *next_use, *age));
        let victim = last.filter(|(next_use, age, _)| leaves(*next_use, *age)).map(|(_, _, key)| key.clone());
        self.hand = self.hand.wrapping_add(LOOKS);
        victim.as_ref().inspect(|key| self.remove(key)).is_some()
    }
}
