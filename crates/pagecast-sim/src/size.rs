//! Sizes of pools as people write them, and amounts as they read them.

use crate::trace::Trace;
use std::fmt;
use std::str::FromStr;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// An amount of memory as given on the command line: `64MiB`, `30%`, or a plain number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Size {
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

impl Size {
    /// The size of a pool of pages from `64MiB`, `30%` or a number of pages.
    ///
    /// # Errors
    ///
    /// No size, no pages, or more than 2^32 - 1 of them; says which.
    pub fn of_pool(text: &str) -> Result<Self, String> {
        match text.parse()? {
            Self::Plain(0) | Self::Bytes(0) => Err("a pool of 0 pages holds nothing".to_owned()),
            Self::Plain(pages) if pages > u64::from(u32::MAX) => {
                Err(format!("{pages} pages are more than the 2^32 - 1 that a pool can have"))
            }
            size => Ok(size),
        }
    }

    /// How many pages of `page_size` bytes it means for `trace`; at least 1.
    pub fn pages(self, trace: &Trace, page_size: u64) -> u64 {
        let pages = match self {
            Self::Plain(pages) => pages,
            Self::Bytes(bytes) => bytes / page_size,
            // A share is rounded down; the small addition undoes that 30 % is a little less than
            // 3/10 in binary.
            Self::Share(share) => (share * f64::from(trace.unique()) + 1e-6) as u64,
        };
        pages.max(1)
    }
}

/// `text` as a non-negative finite number and what follows it.
pub fn split_number(text: &str) -> Option<(f64, &str)> {
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
pub fn bytes_text(bytes: u64) -> String {
    match bytes {
        0..KIB => format!("{bytes} B"),
        KIB..MIB => format!("{:.1} KiB", bytes as f64 / KIB as f64),
        MIB..GIB => format!("{:.1} MiB", bytes as f64 / MIB as f64),
        GIB..TIB => format!("{:.2} GiB", bytes as f64 / GIB as f64),
        _ => format!("{:.2} TiB", bytes as f64 / TIB as f64),
    }
}

/// A duration with three figures: `12.3 s`, `45.6 ms`.
pub fn seconds_text(seconds: f64) -> String {
    match seconds {
        s if s >= 100.0 => format!("{s:.0} s"),
        s if s >= 10.0 => format!("{s:.1} s"),
        s if s >= 1.0 => format!("{s:.2} s"),
        s => format!("{:.1} ms", s * 1e3),
    }
}

/// A fraction from `0.3` or `30%`: above 0, not above 1.
///
/// # Errors
///
/// The text is none, in one line.
pub fn share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.parse().map(|percent: f64| percent / 100.0),
        None => text.parse(),
    };
    match number {
        Ok(number) if number > 0.0 && number <= 1.0 => Ok(number),
        _ => Err(format!("`{text}` is no share; write 0.3 or 30%, above 0 and up to 1")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn shares() {
        assert_eq!(share("0.3"), Ok(0.3));
        assert_eq!(share("30%"), Ok(0.3));
        assert!(share("0").is_err() && share("1.1").is_err() && share("NaN").is_err());
    }

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
    fn text_of_amounts() {
        assert_eq!(bytes_text(999), "999 B");
        assert_eq!(bytes_text(1536 << 10), "1.5 MiB");
        assert_eq!(seconds_text(0.0123), "12.3 ms");
        assert_eq!(seconds_text(61.25), "61.2 s");
    }
}
