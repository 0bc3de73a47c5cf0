//! What pictures of a closed loop show: how much of the tables running scans still share, where
//! scans are, and who uses what is loaded.

use super::scan::Scan;
use super::table::Table;
use super::workload::Workload;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pagecast_core::{PageId, Tick};

/// Pages that so many running scans or more count as one level.
pub const LEVELS: usize = 5;

/// A moment: bytes that exactly 1, 2, 3, 4, and 5 or more running scans still need.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sharing {
    /// When.
    pub at: Tick,
    /// Bytes by level.
    pub bytes: [u64; LEVELS],
}

/// A scan comes to a unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    /// When.
    pub at: Tick,
    /// Whose scan it is, by the stream's number.
    pub stream: usize,
    /// The unit, counted through all tables.
    pub unit: u32,
    /// Whether it was brought for another scan.
    pub shared: bool,
}

/// A load that the manager chose, or that a scan made for itself.
#[derive(Clone, PartialEq, Debug)]
pub struct Loaded {
    /// When it began and ended.
    pub time: (Tick, Tick),
    /// The unit, counted through all tables.
    pub unit: u32,
    /// Who took the unit until it was loaded again: when, and whether it was for him.
    pub uses: Vec<(Tick, bool)>,
}

/// What pictures are drawn from.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pictures {
    /// Moments in their order.
    pub sharing: Vec<Sharing>,
    /// Every scan's way through the table, in the order of time.
    pub steps: Vec<Step>,
    /// Loads in the order in which they began.
    pub loads: Vec<Loaded>,
    /// Units of all tables.
    pub units: u32,
}

/// Moments that are kept; when there are twice as many, every other one goes.
const MOMENTS: usize = 400;

/// Notes what happens.
pub(super) struct Recorder {
    /// By table: its relation, and how many pages and units are in the tables before it.
    first: Vec<(u32, usize, u32)>,
    /// By page: running scans that still need it.
    needed: Vec<u16>,
    /// By their number: pages.
    levels: [u64; LEVELS + 1],
    page_bytes: u64,
    every: Tick,
    /// By unit: its last load, and for which scan that was.
    last_load: HashMap<u32, (usize, usize), FixedState>,
    pictures: Pictures,
}

impl Recorder {
    pub(super) fn new(workload: &Workload) -> Self {
        let (mut pages, mut units) = (0, 0);
        let mut place = |table: &Table| {
            let first = (table.relation.0, pages, units);
            pages += table.blocks() as usize;
            units += table.units;
            first
        };
        Self {
            first: workload.tables.iter().map(&mut place).collect(),
            needed: vec![0; pages],
            levels: [0; LEVELS + 1],
            page_bytes: workload.page_bytes.into(),
            every: 1,
            last_load: HashMap::with_hasher(FixedState::default()),
            pictures: Pictures { units, ..Pictures::default() },
        }
    }

    /// One more scan needs the page.
    pub(super) fn wanted(&mut self, page: PageId, now: Tick) {
        self.change(page, now, 1);
    }

    /// One of them has read it.
    pub(super) fn read(&mut self, page: PageId, now: Tick) {
        self.change(page, now, -1);
    }

    fn change(&mut self, page: PageId, now: Tick, by: i16) {
        self.sample(now);
        let Some(&(_, first, _)) = self.first.iter().find(|first| first.0 == page.relation().0) else { return };
        let needed = &mut self.needed[first + page.block() as usize];
        self.levels[LEVELS.min((*needed).into())] -= u64::from(*needed > 0);
        *needed = needed.saturating_add_signed(by);
        self.levels[LEVELS.min((*needed).into())] += u64::from(*needed > 0);
    }

    /// Notes how things stood until now, if it is time.
    fn sample(&mut self, now: Tick) {
        let moments = &mut self.pictures.sharing;
        if moments.last().is_some_and(|last| now < last.at + self.every) {
            return;
        }
        let mut bytes = [0; LEVELS];
        bytes.iter_mut().zip(&self.levels[1..]).for_each(|(bytes, pages)| *bytes = pages * self.page_bytes);
        moments.push(Sharing { at: now, bytes });
        if moments.len() == 2 * MOMENTS {
            let mut number = 0;
            moments.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every = (now / MOMENTS as Tick).max(1);
        }
    }

    /// A unit's number through all tables.
    fn unit(&self, table: &Table, unit: u32) -> u32 {
        let first = self.first.iter().find(|first| first.0 == table.relation.0);
        first.map_or(unit, |first| first.2 + unit)
    }

    /// A scan comes to a unit; `scan` is its number.
    pub(super) fn step(&mut self, (number, scan): (usize, &Scan<'_>), unit: u32, shared: bool, at: Tick) {
        let unit = self.unit(scan.table, unit);
        self.pictures.steps.push(Step { at, stream: scan.stream, unit, shared });
        if let Some(&(load, owner)) = self.last_load.get(&unit) {
            self.pictures.loads[load].uses.push((at, owner == number));
        }
    }

    /// A load begins for a scan: its number among all.
    pub(super) fn load(&mut self, (number, scan): (usize, &Scan<'_>), unit: u32, now: Tick) -> usize {
        let (load, unit) = (self.pictures.loads.len(), self.unit(scan.table, unit));
        self.last_load.insert(unit, (load, number));
        self.pictures.loads.push(Loaded { time: (now, now), unit, uses: Vec::new() });
        load
    }

    /// A load has ended.
    pub(super) fn loaded(&mut self, load: usize, now: Tick) {
        self.pictures.loads[load].time.1 = now;
    }

    pub(super) fn finish(mut self, now: Tick) -> Pictures {
        self.every = 0;
        self.sample(now);
        self.pictures
    }
}
