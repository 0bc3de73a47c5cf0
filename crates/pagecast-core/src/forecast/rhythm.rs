//! When one query comes again: a rhythm, learned from when it came.
//!
//! Source: none; the patterns are those of CAB (van Renen and Leis, PVLDB 16(6), 2023), and the
//! mean with its deviation is what TCP keeps of round trips (Jacobson 1988). Gaps between starts
//! are of two kinds. A *short* one is from run to run while the query comes; a *long* one is from
//! the first run of a stretch to the first of the next, over a night or between bursts. A gap of
//! three times the short one begins a new stretch. Of a query that comes each day, [days
//! off](super::week) are no part of a gap. A third estimate is the *delay* after the last change of
//! the query's table; it serves where it errs less than the gaps do.
//!
//! Suits dashboards that refresh, reports by the clock, office hours, bursts, and reports after
//! loads. Says little of queries that come at random: their spread is as large as their gap, and
//! they are expected no sooner than that.
//!
//! Cost: a few operations for each start. 72 bytes, plain numbers. Times are local seconds since
//! the epoch, so that a day is the user's day.

use super::week::DaysOff;
use crate::words::{join, split};

/// What stays of a mean when a new value comes.
const KEEP: f32 = 0.7;
/// A gap so many times the short one is an absence.
const ABSENCE: f32 = 3.0;
/// An expectation has failed when it is overdue by so many deviations, and by so much of the gap.
const DEVIATIONS: f32 = 2.0;
const OF_GAP: f32 = 0.1;
/// What is late by so many seconds is on time.
const SLACK: f32 = 1.0;
/// No time and no gap is as long: 30,000 years.
pub(super) const MOST: f64 = 1e12;

/// Seconds, their decayed mean and mean deviation; a mean of 0 is one of nothing.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Usual {
    mean: f32,
    deviation: f32,
}

impl Usual {
    const UNKNOWN: Self = Self { mean: 0.0, deviation: 0.0 };

    fn is_known(self) -> bool {
        self.mean > 0.0
    }

    fn learn(&mut self, seconds: f32) {
        if self.is_known() {
            self.deviation = KEEP * self.deviation + (1.0 - KEEP) * (seconds - self.mean).abs();
            self.mean = KEEP * self.mean + (1.0 - KEEP) * seconds;
        } else {
            *self = Self { mean: seconds, deviation: 0.0 };
        }
        // A mean of 0 would be unknown.
        self.mean = self.mean.max(f32::MIN_POSITIVE);
    }

    /// Learns a gap. From the first that is one from day to day on, those over days are not.
    fn learn_gap(&mut self, gap: f32) {
        if DaysOff::is_daily(gap) && gap < self.mean && !DaysOff::is_daily(self.mean) {
            *self = Self::UNKNOWN;
        }
        self.learn(gap);
    }
}

/// The next start of a query.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NextStart {
    /// When, in local seconds since the epoch.
    pub at: f64,
    /// By how many seconds it is usually earlier or later.
    pub spread: f32,
    /// After so many seconds without a start it has failed.
    pub window: f32,
}

/// What is known of when a query comes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rhythm {
    /// The last start; 0 before the first.
    last: f64,
    /// The first start of the stretch that goes on.
    stretch: f64,
    /// The last change of its table.
    changed: f64,
    short: Usual,
    long: Usual,
    delay: Usual,
    /// How far gaps and delay were off, in seconds.
    errors: [f32; 2],
    /// What the last gap was, and the start before it.
    gap: Gap,
    before: f64,
    off: DaysOff,
}

/// A gap beside those that are usual.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Gap {
    Usual,
    /// More than [`ABSENCE`] times as long: a stretch has ended.
    Absence,
    /// Less than that part of it.
    Brief,
}

impl Rhythm {
    /// Of a query that has not come yet.
    pub const NEW: Self = Self {
        last: 0.0,
        stretch: 0.0,
        changed: 0.0,
        short: Usual::UNKNOWN,
        long: Usual::UNKNOWN,
        delay: Usual::UNKNOWN,
        errors: [0.0; 2],
        gap: Gap::Usual,
        before: 0.0,
        off: DaysOff::NONE,
    };

    /// Words of what it has learned.
    pub(super) const WORDS: usize = 9;

    pub(super) fn to_words(self) -> [u64; Self::WORDS] {
        let of = |usual: Usual| join(usual.mean.to_bits(), usual.deviation.to_bits());
        let [gaps, delay] = self.errors.map(f32::to_bits);
        let [last, stretch, changed] = [self.last, self.stretch, self.changed].map(f64::to_bits);
        [
            last,
            stretch,
            changed,
            of(self.short),
            of(self.long),
            of(self.delay),
            join(gaps, delay),
            self.before.to_bits(),
            self.off.to_word(),
        ]
    }

    /// The rhythm of these words, if they are one's: every number is finite and none below 0.
    pub(super) fn from_words(words: [u64; Self::WORDS]) -> Option<Self> {
        let [last, stretch, changed, short, long, delay, errors, before, off] = words;
        let off = DaysOff::from_word(off)?;
        let [last, stretch, changed, before] = [last, stretch, changed, before].map(f64::from_bits);
        let halves = |word| {
            let (upper, lower) = split(word);
            (f32::from_bits(upper), f32::from_bits(lower))
        };
        let [short, long, delay, errors] = [short, long, delay, errors].map(halves);
        let seconds = |&time: &f64| (0.0..MOST).contains(&time);
        let of = |&(a, b): &(f32, f32)| [f64::from(a), f64::from(b)].iter().all(seconds);
        let sound = [last, stretch, changed, before].iter().all(seconds) && [short, long, delay, errors].iter().all(of);
        let [short, long, delay] = [short, long, delay].map(|(mean, deviation)| Usual { mean, deviation });
        let errors = [errors.0, errors.1];
        sound.then_some(Self { last, stretch, changed, short, long, delay, errors, gap: Gap::Usual, before, off })
    }

    /// The last start in local seconds since the epoch; 0 before the first.
    pub fn last(&self) -> f64 {
        self.last
    }

    /// The longest gap in seconds that it is known to come after; 0 before the second start.
    pub fn longest_gap(&self) -> f32 {
        self.short.mean.max(self.long.mean)
    }

    /// The query starts at `at`.
    pub fn starts(&mut self, at: f64) {
        if self.last > 0.0 {
            let off = self.days_off(at);
            let gap = ((at - self.last - off) as f32).max(0.0);
            self.weigh(at, gap);
            self.learn(at, gap, off);
        } else {
            self.stretch = at;
        }
        self.last = at;
    }

    /// Seconds of the days before `at` on which it stayed away, if it comes each day. Who comes
    /// several times a day comes from the first time on.
    fn days_off(&mut self, at: f64) -> f64 {
        let is_once = DaysOff::is_daily(self.short.mean);
        let (from, gap) = if is_once { (self.last, self.short) } else { (self.stretch, self.long) };
        if DaysOff::is_daily(gap.mean) { self.off.comes(from, at) } else { 0.0 }
    }

    /// It comes every `gap` seconds, as somebody says who knows.
    pub fn is_told(&mut self, gap: f32) {
        self.short = Usual { mean: gap, deviation: 0.0 };
    }

    /// Its table has changed at `at`.
    pub fn changes(&mut self, at: f64) {
        self.changed = at;
    }

    /// How far off either estimate was.
    fn weigh(&mut self, at: f64, gap: f32) {
        if self.changed > self.last && self.delay.is_known() {
            let miss = |error: &mut f32, by: f32| *error = KEEP * *error + (1.0 - KEEP) * by.abs();
            let [of_gaps, of_delay] = &mut self.errors;
            miss(of_gaps, gap - self.short.mean);
            miss(of_delay, (at - self.changed) as f32 - self.delay.mean);
        }
    }

    fn learn(&mut self, at: f64, gap: f32, off: f64) {
        if self.changed > self.last {
            self.delay.learn((at - self.changed) as f32);
        }
        let short = self.short;
        let last = match gap {
            gap if short.is_known() && gap > ABSENCE * short.mean => Gap::Absence,
            gap if gap * ABSENCE < short.mean => Gap::Brief,
            _ => Gap::Usual,
        };
        // Of gaps at random one in four is brief: two in a row say that it comes otherwise now.
        match (last, self.gap == last) {
            (Gap::Usual, _) => self.short.learn_gap(gap),
            (Gap::Absence, false) => self.long.learn_gap((at - self.stretch - off) as f32),
            (Gap::Brief, false) => {}
            (Gap::Absence, true) | (Gap::Brief, true) => {
                if last == Gap::Brief && !self.long.is_known() {
                    // What was known were absences.
                    self.long.learn(short.mean);
                }
                self.short = Usual::UNKNOWN;
                self.short.learn(gap);
            }
        }
        match last {
            Gap::Absence => self.stretch = at,
            Gap::Brief if self.gap == last => self.stretch = self.before,
            _ => {}
        }
        (self.gap, self.before) = (last, self.last);
    }

    /// The first start expected after `after`; `None` before the second start.
    pub fn next(&self, after: f64) -> Option<NextStart> {
        if !self.short.is_known() {
            return None;
        }
        if self.follows_changes() && self.changed > self.last {
            let by_delay = self.from(self.changed, self.delay);
            if by_delay.at > after {
                return Some(by_delay);
            }
        }
        let by_gap = self.from(self.last, self.short);
        if by_gap.at > after {
            return Some(by_gap);
        }
        let (from, gap) = if self.long.is_known() { (self.stretch, self.long) } else { (self.last, self.short) };
        // The first multiple that lies ahead.
        let passed = ((after - from) / f64::from(gap.mean)).max(0.0) as u64;
        Some(self.from(from + passed as f64 * f64::from(gap.mean), gap))
    }

    /// Whether it rather comes after changes of its table than by the clock.
    fn follows_changes(&self) -> bool {
        self.delay.is_known() && self.errors[1] < self.errors[0]
    }

    fn from(&self, at: f64, usual: Usual) -> NextStart {
        let window = SLACK + DEVIATIONS * usual.deviation + OF_GAP * usual.mean;
        let at = at + f64::from(usual.mean);
        let at = if DaysOff::is_daily(usual.mean) { self.off.skip(at) } else { at };
        NextStart { at, spread: usual.deviation, window }
    }
}
