//! What pictures of a closed loop show: how much of the tables running scans still share.

use super::table::Table;
use super::workload::Workload;
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

/// What pictures are drawn from.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pictures {
    /// Moments in their order.
    pub sharing: Vec<Sharing>,
}

/// Moments that are kept; when there are twice as many, every other one goes.
const MOMENTS: usize = 400;

/// Notes what happens.
pub(super) struct Recorder {
    /// By table: its relation, and how many pages are in the tables before it.
    first: Vec<(u32, usize)>,
    /// By page: running scans that still need it.
    needed: Vec<u16>,
    /// By their number: pages.
    levels: [u64; LEVELS + 1],
    page_bytes: u64,
    every: Tick,
    pictures: Pictures,
}

impl Recorder {
    pub(super) fn new(workload: &Workload) -> Self {
        let mut pages = 0;
        let mut place = |table: &Table| {
            let first = (table.relation.0, pages);
            pages += table.blocks() as usize;
            first
        };
        Self {
            first: workload.tables.iter().map(&mut place).collect(),
            needed: vec![0; pages],
            levels: [0; LEVELS + 1],
            page_bytes: workload.page_bytes.into(),
            every: 1,
            pictures: Pictures::default(),
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
        let Some(&(_, first)) = self.first.iter().find(|first| first.0 == page.relation().0) else { return };
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

    pub(super) fn finish(mut self, now: Tick) -> Pictures {
        self.every = 0;
        self.sample(now);
        self.pictures
    }
}
