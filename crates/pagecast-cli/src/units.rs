//! Sizes, rates, times and shares as people write and read them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// An amount of memory as given on the command line: `64MiB`, `30%`, or a plain number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Size {
    /// With a unit: so many bytes.
    Bytes(u64),
    /// A plain number: pages in `simulate`, refused elsewhere.
    Plain(u64),
    /// A share, 0.3 for `30%`, of what the verb says it is of. Above 0; not above 1.
    Share(f64),
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "write 64MiB, 1GiB, 30% or a number";
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| format!("`{text}` is no size; {FORMS}"))?;
            return match percent {
                percent if percent > 0.0 && percent <= 100.0 => Ok(Self::Share(percent / 100.0)),
                _ => Err(format!("`{text}` is not above 0 % and up to 100 %")),
            };
        }
        let (number, unit) = split_number(text).ok_or_else(|| format!("`{text}` is no size; {FORMS}"))?;
        if unit.is_empty() {
            return text.parse().map(Self::Plain).map_err(|_| format!("`{text}` is no whole number; {FORMS}"));
        }
        let factor = byte_unit(unit).ok_or_else(|| format!("`{unit}` in `{text}` is no unit of size; {FORMS}"))?;
        let bytes = number * factor as f64;
        if bytes >= u64::MAX as f64 {
            return Err(format!("`{text}` is more than can be counted"));
        }
        Ok(Self::Bytes(bytes.round() as u64))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.write_str(&bytes_text(*bytes)),
            Self::Plain(number) => write!(f, "{number}"),
            Self::Share(share) => write!(f, "{}%", share * 100.0),
        }
    }
}

/// A number of bytes a second from `40MB/s` or `40MB`; at least 1.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    match text.strip_suffix("/s").unwrap_or(text).parse() {
        Ok(Size::Bytes(bytes)) if bytes > 0 => Ok(bytes),
        _ => Err(format!("`{text}` is no rate; write 40MB/s or 1GiB/s")),
    }
}

/// A time from `5ms`, `250us`, `1.5s` or `0`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let fault = || format!("`{text}` is no time; write 5ms, 250us or 1.5s");
    let (number, unit) = split_number(text).ok_or_else(fault)?;
    let seconds = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "" if number == 0.0 => 0.0,
        _ => return Err(fault()),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|_| fault())
}

/// A fraction from `0.3` or `30%`: above 0, not above 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.parse().map(|percent: f64| percent / 100.0),
        None => text.parse(),
    };
    match number {
        Ok(number) if number > 0.0 && number <= 1.0 => Ok(number),
        _ => Err(format!("`{text}` is no share; write 0.3 or 30%, above 0 and up to 1")),
    }
}

/// `text` as a non-negative finite number and what follows it.
fn split_number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim_start()))
}

fn byte_unit(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "kib" => KIB,
        "mib" => MIB,
        "gib" => GIB,
        "tib" => TIB,
        _ => return None,
    })
}

/// `bytes` in the binary unit that suits, `1.5 MiB`.
pub(crate) fn bytes_text(bytes: u64) -> String {
    match bytes {
        0..KIB => format!("{bytes} B"),
        KIB..MIB => format!("{:.1} KiB", bytes as f64 / KIB as f64),
        MIB..GIB => format!("{:.1} MiB", bytes as f64 / MIB as f64),
        GIB..TIB => format!("{:.2} GiB", bytes as f64 / GIB as f64),
        _ => format!("{:.2} TiB", bytes as f64 / TIB as f64),
    }
}

/// A duration with three figures: `12.3 s`, `45.6 ms`.
pub(crate) fn seconds_text(seconds: f64) -> String {
    match seconds {
        s if s >= 100.0 => format!("{s:.0} s"),
        s if s >= 10.0 => format!("{s:.1} s"),
        s if s >= 1.0 => format!("{s:.2} s"),
        s => format!("{:.1} ms", s * 1e3),
    }
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
    fn sizes() {
        assert_eq!("64MiB".parse(), Ok(Size::Bytes(64 << 20)));
        assert_eq!("1.5 GiB".parse(), Ok(Size::Bytes(3 << 29)));
        assert_eq!("40MB".parse(), Ok(Size::Bytes(40_000_000)));
        assert_eq!("4096".parse(), Ok(Size::Plain(4096)));
        assert_eq!("30%".parse(), Ok(Size::Share(0.3)));
        for bad in ["", "MiB", "-1MiB", "0%", "101%", "nan%", "1.5", "1e3MiB", "3 parsecs", "1..2MiB", "99999999999TiB"]
        {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_and_times() {
        assert_eq!(rate("40MB/s"), Ok(40_000_000));
        assert_eq!(rate("1GiB/s"), Ok(1 << 30));
        assert!(rate("40").is_err() && rate("0MB/s").is_err() && rate("fast").is_err());
        assert_eq!(time("5ms"), Ok(Duration::from_millis(5)));
        assert_eq!(time("0"), Ok(Duration::ZERO));
        assert_eq!(time("1.5s"), Ok(Duration::from_millis(1500)));
        assert!(time("5").is_err() && time("-5ms").is_err() && time("5 weeks").is_err());
    }

    #[test]
    fn shares() {
        assert_eq!(share("0.3"), Ok(0.3));
        assert_eq!(share("30%"), Ok(0.3));
        assert!(share("0").is_err() && share("1.1").is_err() && share("NaN").is_err());
    }

    #[test]
    fn lists_keep_commas_inside_parentheses() {
        assert_eq!(split_list("clock(max=5,init=1), lru,pbm"), ["clock(max=5,init=1)", "lru", "pbm"]);
        assert_eq!(split_list(""), [""]);
    }

    #[test]
    fn text_of_amounts() {
        assert_eq!(bytes_text(999), "999 B");
        assert_eq!(bytes_text(1536 << 10), "1.5 MiB");
        assert_eq!(seconds_text(0.0123), "12.3 ms");
        assert_eq!(seconds_text(61.25), "61.2 s");
    }
}
