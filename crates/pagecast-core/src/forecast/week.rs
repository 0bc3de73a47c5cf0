//! Days of the week on which a query that comes each day stays away.
//!
//! Source: ours. A day counts as one off from the first time that the query leaves it out to the
//! next time that it comes on it: a weekend is known when it is over. Days off are no part of a
//! gap, so that Monday's start teaches the same as Tuesday's. Who leaves out days twice in a row
//! does not come each day, and has none.
//!
//! Suits what comes once each workday; where a query comes often in a day, little changes. Cost: a
//! few operations for each start, and a byte of a template.

/// Seconds.
const DAY: f64 = 86_400.0;
/// A gap from day to day is at most by so much of a day longer or shorter.
const LATE: f64 = 0.25;
/// Beside the days: whether the last gap left out some.
const LEFT_OUT: u8 = 1 << 7;

/// The days off, a bit for each day of the week.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct DaysOff(u8);

impl DaysOff {
    pub(super) const NONE: Self = Self(0);

    pub(super) fn to_word(self) -> u64 {
        self.0.into()
    }

    pub(super) fn from_word(word: u64) -> Option<Self> {
        u8::try_from(word).ok().map(Self)
    }

    /// Whether a gap of so many seconds is one from day to day.
    pub(super) fn is_daily(gap: f32) -> bool {
        (f64::from(gap) / DAY - 1.0).abs() <= LATE
    }

    /// A query that came on a day at `before` comes at `at`, the next time on another: the seconds
    /// of the days off between. A week or more is an absence that says nothing of days.
    pub(super) fn comes(&mut self, before: f64, at: f64) -> f64 {
        let days = ((at - before) / DAY + 0.5) as u8;
        if days == 0 {
            return 0.0;
        }
        let left_out = if days <= 7 { days - 1 } else { 0 };
        if left_out > 0 && self.0 & LEFT_OUT != 0 {
            *self = Self::NONE;
            return 0.0;
        }
        self.0 &= !(bit(at) | LEFT_OUT);
        for day in 1..=left_out {
            self.0 |= bit(before + f64::from(day) * DAY) | LEFT_OUT;
        }
        f64::from(left_out) * DAY
    }

    /// `at`, or the same time of the first day after it that is none off.
    pub(super) fn skip(self, at: f64) -> f64 {
        let mut days = (0..7u8).map(|day| at + f64::from(day) * DAY);
        days.find(|&at| self.0 & bit(at) == 0).unwrap_or(at)
    }
}

/// Of the day of the week at `at`.
fn bit(at: f64) -> u8 {
    1 << ((at / DAY) as u64 % 7)
}
