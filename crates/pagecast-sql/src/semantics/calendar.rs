//! Moments as people write them: a day of the calendar and a time of it.

use crate::values::{DAY, civil};

pub(super) const DAY_NAMES: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
pub(super) const MONTH_NAMES: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A moment in parts. The year before year 1 is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Moment {
    pub(super) days: i64,
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    /// Of the day.
    pub(super) micros: i64,
}

impl Moment {
    /// So many microseconds after 1970.
    pub(super) fn of(micros: i64) -> Self {
        let days = micros.div_euclid(DAY);
        let (year, month, day) = civil(days);
        Self { days, year, month, day, micros: micros.rem_euclid(DAY) }
    }

    pub(super) fn hour(self) -> i64 {
        self.micros / 3_600_000_000
    }

    pub(super) fn minute(self) -> i64 {
        self.micros / 60_000_000 % 60
    }

    pub(super) fn second(self) -> i64 {
        self.micros / 1_000_000 % 60
    }

    /// Monday is 0.
    pub(super) fn weekday(self) -> i64 {
        (self.days + 3).rem_euclid(7)
    }

    /// The first day of a year is 1.
    pub(super) fn day_of_year(self) -> i64 {
        self.days - days_of(self.year, 1, 1) + 1
    }

    /// Year and week of ISO 8601: a week has the year of its Thursday.
    pub(super) fn iso_week(self) -> (i64, i64) {
        let thursday = self.days - self.weekday() + 3;
        let (year, ..) = civil(thursday);
        (year, (thursday - days_of(year, 1, 1)) / 7 + 1)
    }
}

/// How many days after 1970-01-01 a day of the Gregorian calendar is.
pub(super) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted = (month + 9) % 12;
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The days of a month.
pub(super) fn days_in(year: i64, month: i64) -> i64 {
    let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_of(next_year, next, 1) - days_of(year, month, 1)
}

/// The first year and the last that PostgreSQL's dates and ours both have.
pub(super) fn is_year(year: i64) -> bool {
    (-4712..=294_275).contains(&year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_go_there_and_back() {
        for days in (-800_000..3_000_000).step_by(997) {
            let (year, month, day) = civil(days);
            assert_eq!(days_of(year, month, day), days);
        }
        assert_eq!((days_in(2024, 2), days_in(1900, 2), days_in(2023, 12)), (29, 28, 31));
    }

    #[test]
    fn weeks_are_those_of_iso() {
        let week = |year, month, day| Moment::of(days_of(year, month, day) * DAY).iso_week();
        assert_eq!(week(2024, 12, 30), (2025, 1));
        assert_eq!(week(2021, 1, 3), (2020, 53));
        assert_eq!(week(2024, 2, 29), (2024, 9));
    }
}
