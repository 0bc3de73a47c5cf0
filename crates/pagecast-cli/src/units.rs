//! Rates, times, shares and lists as people write them; sizes are the simulator's.

use std::time::Duration;

#[cfg(feature = "sql")]
pub(crate) use pagecast_sim::size::seconds_text;
use pagecast_sim::size::split_number;
pub(crate) use pagecast_sim::size::{Size, bytes_text, share};

/// A number of bytes a second from `40MB/s` or `40MB`; at least 1.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    match text.strip_suffix("/s").unwrap_or(text).parse() {
        Ok(Size::Bytes(bytes)) if bytes > 0 => Ok(bytes),
        _ => Err(format!("`{text}` is no rate; write 40MB/s or 1GiB/s")),
    }
}

/// A time from `5ms`, `250us`, `1.5s`, `10min`, `1h` or `0`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let fault = || format!("`{text}` is no time; write 5ms, 250us, 1.5s, 10min or 1h");
    let (number, unit) = split_number(text).ok_or_else(fault)?;
    let seconds = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "" if number == 0.0 => 0.0,
        _ => return Err(fault()),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|_| fault())
}

/// Splits `64MiB,30%` or `clock(max=5,init=1),lru` at the commas that stand outside parentheses.
pub(crate) fn split_list(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rates_and_times() {
        assert_eq!(rate("40MB/s"), Ok(40_000_000));
        assert_eq!(rate("1GiB/s"), Ok(1 << 30));
        assert!(rate("40").is_err() && rate("0MB/s").is_err() && rate("fast").is_err());
        assert_eq!(time("5ms"), Ok(Duration::from_millis(5)));
        assert_eq!(time("10min"), Ok(Duration::from_secs(600)));
        assert_eq!(time("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(time("0"), Ok(Duration::ZERO));
        assert_eq!(time("1.5s"), Ok(Duration::from_millis(1500)));
        assert!(time("5").is_err() && time("-5ms").is_err() && time("5 weeks").is_err());
    }

    #[test]
    fn lists_keep_commas_inside_parentheses() {
        assert_eq!(split_list("clock(max=5,init=1), lru,pbm"), ["clock(max=5,init=1)", "lru", "pbm"]);
        assert_eq!(split_list(""), [""]);
    }
}
