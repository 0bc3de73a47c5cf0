//! Texts of intervals as PostgreSQL reads them, in words that DataFusion reads.

use datafusion::sql::sqlparser::ast::{DataType, Expr, Interval, Value};

/// The text of `INTERVAL '1 day 04:05'` in units.
pub(super) fn literal(interval: &mut Interval) {
    if interval.leading_field.is_none() {
        in_units(&mut interval.value);
    }
}

/// The same for `'1 day 04:05'::interval`.
pub(super) fn cast(inner: &mut Expr, data_type: &DataType) {
    if matches!(data_type, DataType::Interval { .. }) {
        in_units(inner);
    }
}

fn in_units(value: &mut Expr) {
    if let Expr::Value(value) = value
        && let Value::SingleQuotedString(text) = &mut value.value
        && let Some(units) = units(text)
    {
        *text = units;
    }
}

/// `1-2 3 04:05:06` in units; `None` for a text that is in units already, or is none.
fn units(text: &str) -> Option<String> {
    let text = text.trim();
    if let Some(iso) = text.strip_prefix('P') {
        return of_iso(iso);
    }
    if !text.contains(':') && !text.split_whitespace().any(|word| years(word).is_some()) {
        return None;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut units = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if word.contains(':') {
            units.push(clock(word)?);
        } else if let Some(years) = years(word) {
            units.push(years);
        } else if word.parse::<i64>().is_ok() && words.get(at + 1).is_some_and(|next| next.contains(':')) {
            // A number before the time of a day counts days.
            units.push(format!("{word} days"));
        } else {
            units.push((*word).to_owned());
        }
    }
    Some(units.join(" "))
}

/// `-04:05:06.5`, of which each part has the sign.
fn clock(word: &str) -> Option<String> {
    let (sign, clock) = signed(word);
    let parts: Vec<&str> = clock.split(':').collect();
    let number = |part: &&str| part.chars().all(|c| c.is_ascii_digit() || c == '.') && !part.is_empty();
    if !parts.iter().all(number) {
        return None;
    }
    match parts.as_slice() {
        [hours, minutes] => Some(format!("{sign}{hours} hours {sign}{minutes} minutes")),
        [hours, minutes, seconds] => {
            Some(format!("{sign}{hours} hours {sign}{minutes} minutes {sign}{seconds} seconds"))
        }
        _ => None,
    }
}

/// `1-2` is a year and two months.
fn years(word: &str) -> Option<String> {
    let (sign, word) = signed(word);
    let (years, months) = word.split_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(years) && digits(months)).then(|| format!("{sign}{years} years {sign}{months} months"))
}

fn signed(word: &str) -> (&str, &str) {
    match word.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    }
}

/// What follows the P of ISO 8601.
fn of_iso(text: &str) -> Option<String> {
    let (mut units, mut number, mut in_time) = (Vec::new(), String::new(), false);
    for character in text.chars() {
        let unit = match (character, in_time) {
            ('0'..='9' | '.' | '-', _) => {
                number.push(character);
                continue;
            }
            ('T', false) if number.is_empty() => {
                in_time = true;
                continue;
            }
            ('Y', false) => "years",
            ('M', false) => "months",
            ('W', false) => "weeks",
            ('D', false) => "days",
            ('H', true) => "hours",
            ('M', true) => "minutes",
            ('S', true) => "seconds",
            _ => return None,
        };
        units.push(format!("{} {unit}", std::mem::take(&mut number)));
    }
    (number.is_empty() && !units.is_empty()).then(|| units.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_in_units() {
        for (text, wanted) in [
            ("1 year 3 days 04:05:06.5", Some("1 year 3 days 04 hours 05 minutes 06.5 seconds")),
            ("-04:05", Some("-04 hours -05 minutes")),
            ("3 04:05", Some("3 days 04 hours 05 minutes")),
            ("1-2", Some("1 years 2 months")),
            ("P1Y2MT3H", Some("1 years 2 months 3 hours")),
            ("1 day", None),
            ("yesterday", None),
        ] {
            assert_eq!(units(text).as_deref(), wanted, "{text}");
        }
    }
}
