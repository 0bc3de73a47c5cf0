//! Visits: at which places of almost sequential index scans a page was read, so that the scans
//! behind are known to come there.
//!
//! Source: Khalaji et al. 2025, sections 4.4.2 and 4.4.3. An almost sequential scan is estimated by
//! the physical distance there, and scans that trail another one by what it left on the pages. Here
//! the two are one: the order of an index is the same for all of its scans, so that the places at
//! which one of them read a page are those at which the next one will. Without visits a page counts
//! as wanted at any moment of its window ([`super::pages::find_correlated`]), and in a pool that is
//! smaller than the windows of the scans that run that says nothing.
//!
//! A page's visits are a word: of the window's 64 steps those in which some scan has read the page.
//! It has a mark's place in the table of marks ([`super::marks`]).
//!
//! * Where a scan is between two reports its own visits tell: pages are as far apart as they were
//!   between the reports before. By time, as other scans are estimated, it is off by a few
//!   positions, and with many scans half of what is gained is lost.
//! * Past the last step that is known the page may be wanted again, if no scan has been there
//!   before. It is then taken to be wanted in half a window. (Sooner, never, and in what is left of
//!   the window were tried.)
//! * Rows move. Every [`FORGETTING`]th visit that tells nothing new, by lot, forgets the page's
//!   others: the next scan leaves them again.
//! * Scans of several indexes over one table leave theirs in one word; a page is then wanted sooner
//!   than it will be read.
//!
//! Suits pages of few rows, as far as the places at which they are read differ. A page of more rows
//! than steps is wanted at once, as without.
//!
//! Cost: a visit that is known reads one cache line, a new one writes it; an estimate reads it.
//! Cells only know when windows begin, so that an estimate that their first scans do not settle
//! asks all of the relation, until one of them wants the page too soon. 16 bytes a page.
//!
//! Concurrency: as of marks (M1). Of two visits of a page at once one may be lost, and is left by
//! the next scan.

use super::pages::Window;
use super::scan::{Scan, VISIT_PACE, VISIT_STRIDE, VISITED, VISITED_FROM, VISITED_SINCE, bits, real, value};
use crate::Tick;

/// Steps of a window.
const STEPS: u32 = 64;
/// So many visits of a page stand for what has become of its rows.
const FORGETTING: u64 = 256;
/// What the mean distance between visits was before a report weighs as much as so many visits. Few,
/// as a scan that has not said where it began is taken to have gone further at first than it has.
const REMEMBERED: f64 = 32.0;

/// In which steps of their windows scans have read a page, in the order of keys: bit by bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Visits(pub(super) u64);

/// A window divided into steps. Whatever is in memory, none of it overflows: `scatter` and with it
/// a step is bounded.
struct Steps {
    /// Where the first begins, less than 0 where a window begins in front of the scan.
    begin: i64,
    /// A step has 2^this positions.
    shift: u32,
    descending: bool,
}

impl Steps {
    /// A power of two of positions each, from the page's own place on to both sides: windows that
    /// differ a little, as by a new sample of the planner's, mostly have the same steps.
    #[inline]
    fn of(window: &Window) -> Self {
        let shift = (2 * window.scatter + 1).div_ceil(STEPS.into()).next_power_of_two().ilog2();
        let begin = (window.place as i64).saturating_sub(i64::from(STEPS / 2) << shift);
        Self { begin, shift, descending: window.descending }
    }

    /// The step at `position`, as the scan counts; 64 and more beyond the last.
    #[inline]
    fn at(&self, position: u64) -> u64 {
        (position as i64).saturating_sub(self.begin).max(0) as u64 >> self.shift
    }

    /// The position in the middle of a step.
    #[inline]
    fn middle(&self, step: u32) -> u64 {
        let from_begin = (i64::from(step) << self.shift) + (1 << self.shift >> 1);
        self.begin.saturating_add(from_begin).max(0) as u64
    }
}

impl Visits {
    /// With a visit at `position`; `None` if that changes nothing. `lot` is any number, another one
    /// each time.
    pub(super) fn with(known: Option<Self>, window: &Window, position: u64, lot: u64) -> Option<Self> {
        let steps = Steps::of(window);
        let step = Some(steps.at(position)).filter(|&step| step < STEPS.into())?;
        let visit = if steps.descending { 1 << 63 >> step } else { 1 << step };
        match known {
            Some(Self(visits)) if visits & visit != 0 => lot.is_multiple_of(FORGETTING).then_some(Self(visit)),
            known => Some(Self(known.map_or(0, |visits| visits.0) | visit)),
        }
    }

    /// The position at which a scan that is at `position` reads the page next, and the ticks until
    /// then, at `pace` ticks per position. What it would have read in this step it has read if it
    /// is past the middle.
    #[inline]
    pub(super) fn next(self, window: &Window, position: u64, pace: f64) -> (u64, Tick) {
        let steps = Steps::of(window);
        let visits = if steps.descending { self.0.reverse_bits() } else { self.0 };
        let from = steps.at(position.saturating_add(1 << steps.shift >> 1));
        let ahead = if from < STEPS.into() { visits >> from << from } else { 0 };
        let next = match ahead {
            0 => position.saturating_add(window.scatter),
            _ => steps.middle(ahead.trailing_zeros()).max(position),
        };
        (next, ((next - position) as f64 * pace) as Tick)
    }
}

/// Where a scan that leaves visits is between two reports.
///
/// Each of its pages is about as far on its way as any other, while the time for one differs, by
/// who else is served and what is missed. So its visits are counted, and not the time. All words
/// bear the generation (I2), and are written without a lock: of two threads of one scan one may
/// take the other's visit for its own, which is a page's share off until the next report.
impl Scan<'_> {
    /// Its position and its pace, in ticks per position; `None` before the first report after a
    /// visit.
    #[inline]
    pub(super) fn place(&self) -> Option<(u64, f64)> {
        let (stride, pace) = (real(self.get(VISIT_STRIDE)), real(self.get(VISIT_PACE)));
        let gone = match value(self.get(VISITED)) {
            0 => 0,
            visits => value(self.get(VISITED_FROM)).saturating_add((visits as f64 * stride) as u64),
        };
        (stride > 0.0).then(|| (gone.max(self.position()).min(self.length()), pace))
    }

    /// Counts a visit.
    pub(super) fn count_visit(&self, now: Tick) {
        let visits = value(self.get(VISITED));
        if visits == 0 {
            self.set(VISITED_FROM, self.position());
            self.set(VISITED_SINCE, now.saturating_sub(self.started()));
        }
        self.set(VISITED, visits + 1);
    }

    /// Takes what the visits since the last report have brought into the means, `elapsed` ticks
    /// after the start.
    #[inline]
    pub(super) fn measure_visits(&self, elapsed: Tick) {
        let visits = value(self.get(VISITED)) as f64;
        if visits == 0.0 {
            return;
        }
        let positions = self.position().saturating_sub(value(self.get(VISITED_FROM))) as f64;
        let ticks = elapsed.saturating_sub(value(self.get(VISITED_SINCE))) as f64;
        for (field, new) in [(VISIT_STRIDE, positions / visits), (VISIT_PACE, ticks / positions)] {
            let old = real(self.get(field));
            let mean = if old > 0.0 { (old * REMEMBERED + new * visits) / (REMEMBERED + visits) } else { new };
            if mean.is_finite() {
                self.set(field, bits(mean));
            }
        }
        self.set(VISITED, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { begin: 450, end: 550, place: 500, scatter: 50, descending: false };

    fn visits(window: &Window, positions: &[u64]) -> Visits {
        let leave = |known, &position: &u64| Visits::with(known, window, position, 1).or(known);
        positions.iter().fold(None, leave).expect("at least one lies in the window")
    }

    #[test]
    fn what_is_ahead_is_next_and_past_the_last_half_a_window_goes_by() {
        let known = visits(&WINDOW, &[460, 480, 481, 530, 900]);
        let next = |position| known.next(&WINDOW, position, 10.0);
        // Steps of two positions, from an even one on; past its middle a step is done.
        assert_eq!([440, 460, 461].map(next), [(461, 210), (461, 10), (481, 200)]);
        assert_eq!([481, 529, 531, 545].map(next), [(531, 500), (531, 20), (581, 500), (595, 500)]);
    }

    #[test]
    fn the_order_of_keys_counts_and_not_that_of_the_scan() {
        // Of 1000 blocks in falling order block 499 has place 500; keys that lie behind the page
        // come first.
        let falling = Window { descending: true, ..WINDOW };
        let known = visits(&falling, &[460, 480]);
        let next = |position| known.next(&falling, position, 1.0).0;
        assert_eq!([440, 470].map(next), [461, 481]);
        assert_eq!([500, 530].map(|position| known.next(&WINDOW, position, 1.0).0), [519, 539]);
    }

    #[test]
    fn what_is_known_is_forgotten_now_and_then() {
        let known = visits(&WINDOW, &[460, 480]);
        assert_eq!(Visits::with(Some(known), &WINDOW, 480, 7), None, "nothing new");
        let left = Visits::with(Some(known), &WINDOW, 480, 7 * FORGETTING);
        assert_eq!(left, Some(visits(&WINDOW, &[480])));
        assert_eq!(Visits::with(Some(known), &WINDOW, 700, 0), None, "not in the window");
    }

    #[test]
    fn no_window_is_too_wide_or_too_far_out() {
        for scatter in [0, 1, 31, 32, 1 << 40, super::super::MAX_LENGTH] {
            for place in [0, 7, super::super::MAX_LENGTH, u64::MAX] {
                let window = Window { begin: 0, end: u64::MAX, place, scatter, descending: true };
                for position in [0, place, u64::MAX] {
                    let known = Visits::with(None, &window, position, 0).unwrap_or(Visits(u64::MAX));
                    let (next, _) = known.next(&window, position, f64::MAX);
                    assert!(next >= position, "{window:?} at {position}: {next}");
                }
            }
        }
    }
}
