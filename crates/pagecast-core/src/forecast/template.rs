//! One template: its rhythm, what is expected of it, and how its forecasts did.

use super::rhythm::MOST;
use super::{NextStart, Query, Rhythm};
use crate::predictor::{Expectation, Registry};
use crate::sync::atomic::AtomicU64;
use crate::words::{join, split};
use crate::{ScanId, Tick};

/// What stays of the trust when a forecast comes true or fails.
const KEEP: f32 = 0.7;
/// The trust in a template of which nothing has come true yet.
const FIRST: f32 = 0.5;
/// A template that is trusted less is not expected.
const LEAST: f32 = 0.1;
/// After so many forecasts that failed one after the other it is not expected before it has come.
const PATIENCE: u32 = 2;

/// A query that may come back. Plain data of fixed size, for memory that processes share and for
/// files.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Template {
    fingerprint: u64,
    table: u64,
    rhythm: Rhythm,
    /// The scan that is expected, if one is.
    scan: ScanId,
    /// When it is expected, in local seconds since the epoch; 0 if it is not.
    due: f64,
    window: f32,
    trust: f32,
    starts: u32,
    came: u32,
    failed: u32,
    /// Forecasts that failed since it last started.
    overdue: u32,
}

impl Template {
    /// A place that no query has.
    pub const EMPTY: Self = Self::of(Query { fingerprint: 0, table: 0, again_in: 0 });

    /// Bytes of a template.
    pub const BYTES: usize = size_of::<Self>();

    /// Words of what it has learned.
    pub const WORDS: usize = Rhythm::WORDS + 6;

    pub(super) const fn of(query: Query) -> Self {
        Self {
            fingerprint: query.fingerprint,
            table: query.table,
            rhythm: Rhythm::NEW,
            scan: ScanId::NOBODY,
            due: 0.0,
            window: 0.0,
            trust: FIRST,
            starts: 0,
            came: 0,
            failed: 0,
            overdue: 0,
        }
    }

    /// What it has learned, in words for a file; its expected scan is not among them.
    pub fn to_words(&self) -> [u64; Self::WORDS] {
        let mut words = [0; Self::WORDS];
        let (own, rhythm) = words.split_at_mut(Self::WORDS - Rhythm::WORDS);
        own.copy_from_slice(&[
            self.fingerprint,
            self.table,
            join(self.starts, self.came),
            join(self.failed, self.overdue),
            self.due.to_bits(),
            join(self.window.to_bits(), self.trust.to_bits()),
        ]);
        rhythm.copy_from_slice(&self.rhythm.to_words());
        words
    }

    /// The template that [`to_words`](Self::to_words) gave; [`EMPTY`](Self::EMPTY) for words that
    /// no template has.
    pub fn from_words(words: &[u64; Self::WORDS]) -> Self {
        let [fingerprint, table, starts, failed, due, trust, rhythm @ ..] = *words;
        let ((window, trust), due) = (split(trust), f64::from_bits(due));
        let (window, trust) = (f32::from_bits(window), f32::from_bits(trust));
        let sound =
            (0.0..MOST).contains(&due) && (0.0..MOST).contains(&f64::from(window)) && (0.0..=1.0).contains(&trust);
        let Some(rhythm) = Rhythm::from_words(rhythm).filter(|_| sound) else { return Self::EMPTY };
        let ((starts, came), (failed, overdue)) = (split(starts), split(failed));
        let query = Query { fingerprint, table, again_in: 0 };
        Self { rhythm, due, window, trust, starts, came, failed, overdue, ..Self::of(query) }
    }

    /// Which query it is.
    pub fn query(&self) -> Query {
        Query { fingerprint: self.fingerprint, table: self.table, again_in: 0 }
    }

    /// Whether a query has this place.
    pub fn is_taken(&self) -> bool {
        self.starts > 0
    }

    /// When it starts.
    pub fn rhythm(&self) -> &Rhythm {
        &self.rhythm
    }

    /// The expected scan, if there is one.
    pub fn scan(&self) -> Option<ScanId> {
        (self.scan != ScanId::NOBODY).then_some(self.scan)
    }

    /// When it is expected, in local seconds since the epoch.
    pub fn due(&self) -> Option<f64> {
        (self.due > 0.0).then_some(self.due)
    }

    /// How sure its forecasts are, from 0 to 1: the share of the last ones that came true, the
    /// later ones weighing more.
    pub fn trust(&self) -> f32 {
        self.trust
    }

    /// How often it has started.
    pub fn starts_seen(&self) -> u32 {
        self.starts
    }

    /// How many forecasts came true, and how many did not.
    pub fn outcomes(&self) -> (u32, u32) {
        (self.came, self.failed)
    }

    pub(super) fn is(&self, fingerprint: u64) -> bool {
        self.is_taken() && self.fingerprint == fingerprint
    }

    pub(super) fn scans(&self, table: u64) -> bool {
        self.is_taken() && self.table == table
    }

    pub(super) fn starts(&mut self, at: f64, again_in: u32) {
        // A stretch without starts has been judged when the first forecast for it failed.
        if self.due > 0.0 && self.overdue == 0 {
            self.judge((at - self.due).abs() <= f64::from(self.window));
        }
        self.overdue = 0;
        self.starts = self.starts.saturating_add(1);
        self.rhythm.starts(at);
        if again_in > 0 {
            self.rhythm.is_told(again_in as f32);
        }
    }

    pub(super) fn changes(&mut self, at: f64) {
        self.rhythm.changes(at);
    }

    pub(super) fn has_failed(&self, at: f64) -> bool {
        self.due > 0.0 && at > self.due + f64::from(self.window)
    }

    pub(super) fn fails(&mut self) {
        if self.overdue == 0 {
            self.judge(false);
        }
        self.overdue += 1;
    }

    fn judge(&mut self, came: bool) {
        self.trust *= KEEP;
        if came {
            self.trust += 1.0 - KEEP;
            self.came = self.came.saturating_add(1);
        } else {
            self.failed = self.failed.saturating_add(1);
        }
    }

    /// The next start after `after`, if it is to be expected; notes it.
    pub(super) fn next(&mut self, after: f64) -> Option<NextStart> {
        let next = self.rhythm.next(after).filter(|_| self.overdue < PATIENCE);
        (self.due, self.window) = next.map_or((0.0, 0.0), |next| (next.at, next.window));
        // What is not trusted is judged all the same, or it would never be again.
        next.filter(|_| self.trust >= LEAST)
    }

    /// Its expected scan, if it has one, comes as `expected` says.
    pub(super) fn move_to<M: AsRef<[AtomicU64]> + Clone>(&mut self, registry: &mut Registry<M>, expected: Expectation) {
        if self.scan != ScanId::NOBODY {
            self.expects(registry.postpone(self.scan, expected));
        }
    }

    pub(super) fn expects(&mut self, scan: Option<ScanId>) {
        self.scan = scan.unwrap_or(ScanId::NOBODY);
    }

    pub(super) fn withdraw<M: AsRef<[AtomicU64]> + Clone>(&mut self, registry: &mut Registry<M>, now: Tick) {
        if self.scan != ScanId::NOBODY {
            registry.finish(self.scan, now);
            self.scan = ScanId::NOBODY;
        }
    }

    /// Leaves the place to others.
    pub(super) fn clear<M: AsRef<[AtomicU64]> + Clone>(&mut self, registry: &mut Registry<M>, now: Tick) {
        self.withdraw(registry, now);
        *self = Self::EMPTY;
    }

    /// What it is worth to keep it at `at`: nothing if the place is free, below 1 if it came once,
    /// the less the longer ago.
    pub(super) fn worth(&self, at: f64) -> f64 {
        let silent = (at - self.rhythm.last()).max(0.0);
        match self.starts {
            0 => 0.0,
            1 => 1.0 / (1.0 + silent),
            _ => f64::from(self.trust) * 2.0 * f64::from(self.rhythm.longest_gap()) / silent.max(1.0),
        }
    }
}
