//! Dates and times as PostgreSQL writes them (DateStyle ISO, TimeZone UTC, IntervalStyle postgres).

/// Microseconds of a day.
pub const DAY: i64 = 86_400_000_000;

/// A date that is so many days after 1970-01-01.
pub(super) fn date(days: i32) -> String {
    let (year, month, day) = civil(i64::from(days));
    match year {
        1.. => format!("{year:04}-{month:02}-{day:02}"),
        _ => format!("{:04}-{month:02}-{day:02} BC", 1 - year),
    }
}

/// Year, month and day of a day in the Gregorian calendar, counted in eras of 400 years that begin
/// in March, so that a leap day ends its year.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// A time of day.
pub(super) fn time(micros: i64) -> String {
    let seconds = micros / 1_000_000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}{}", seconds % 60, fraction(micros % 1_000_000))
}

/// A point in time, so many microseconds after 1970.
pub(super) fn timestamp(micros: i64, zone: bool) -> String {
    let days = micros.div_euclid(DAY);
    // i64 microseconds are fewer days than i32 has.
    let date = date(days as i32);
    let time = time(micros.rem_euclid(DAY));
    let zone = if zone { "+00" } else { "" };
    match date.strip_suffix(" BC") {
        Some(date) => format!("{date} {time}{zone} BC"),
        None => format!("{date} {time}{zone}"),
    }
}

/// The time between two moments in days and the rest, as PostgreSQL has it.
pub fn in_days(micros: i64) -> (i32, i64) {
    // i64 microseconds are fewer days than i32 has.
    ((micros / DAY) as i32, micros % DAY)
}

/// `1 year 2 mons -3 days 04:05:06.5`.
pub(super) fn interval(months: i32, days: i32, micros: i64) -> String {
    let mut parts = Vec::new();
    let mut negative = false;
    for (count, one, many) in [(months / 12, "year", "years"), (months % 12, "mon", "mons"), (days, "day", "days")] {
        if count != 0 {
            let sign = if negative && count > 0 { "+" } else { "" };
            parts.push(format!("{sign}{count} {}", if count == 1 { one } else { many }));
            negative = count < 0;
        }
    }
    if micros != 0 || parts.is_empty() {
        let sign = match micros < 0 {
            true => "-",
            false if negative => "+",
            false => "",
        };
        let micros = micros.unsigned_abs();
        let seconds = micros / 1_000_000;
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        parts.push(format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{}", fraction((micros % 1_000_000) as i64)));
    }
    parts.join(" ")
}

fn fraction(micros: i64) -> String {
    match micros {
        0 => String::new(),
        _ => format!(".{micros:06}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (-25_509, "1900-02-28"),
            (-25_508, "1900-03-01"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "10000-01-01"),
            (-719_162, "0001-01-01"),
            (-719_163, "0001-12-31 BC"),
        ] {
            assert_eq!(date(days), text);
        }
    }

    #[test]
    fn times_are_those_of_postgresql() {
        assert_eq!(timestamp(-1, false), "1969-12-31 23:59:59.999999");
        assert_eq!(timestamp(1_500_000, true), "1970-01-01 00:00:01.5+00");
        assert_eq!(interval(14, -3, 14_706_500_000), "1 year 2 mons -3 days +04:05:06.5");
        assert_eq!(interval(-1, 2, -1), "-1 mons +2 days -00:00:00.000001");
        assert_eq!(interval(0, 0, 0), "00:00:00");
    }
}
