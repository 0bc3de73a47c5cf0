//! Lines of text, numbered, of bounded length.

use super::error::{Place, TraceError};
use std::io::{BufRead, Read};

/// Longer lines are no trace: most likely a binary file.
const MAX_LINE: usize = 1 << 16;

/// Reads line after line into one buffer.
pub(crate) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, line: Vec::new(), number: 0 }
    }

    /// The next line without its end and without blanks around it; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, TraceError> {
        self.number += 1;
        self.line.clear();
        let mut input = (&mut self.input).take(MAX_LINE as u64);
        let bytes = input.read_until(b'\n', &mut self.line).map_err(|error| TraceError::io(self.place(), &error))?;
        if bytes == MAX_LINE {
            return Err(self.fault(format!("longer than {MAX_LINE} bytes: is this a text file? give its --format")));
        }
        Ok((bytes > 0).then(|| self.line.trim_ascii()))
    }

    /// The last line, again.
    pub(crate) fn last(&self) -> &[u8] {
        self.line.trim_ascii()
    }

    pub(crate) fn place(&self) -> Place {
        Place::Line(self.number)
    }

    /// An error about the last line.
    pub(crate) fn fault(&self, cause: impl Into<String>) -> TraceError {
        TraceError::at(self.place(), cause)
    }
}

/// `text` as a whole number: digits only.
#[inline]
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut value = 0u64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// `text` as 64 bits of a page's id: a whole number from -2^63 up to, not including, 2^64. Those
/// below 0 are the ids that a signed 64-bit number has in two's complement.
#[inline]
pub(crate) fn page_id(text: &[u8]) -> Option<u64> {
    match text {
        [b'-', digits @ ..] => number(digits).filter(|&below| below <= 1 << 63).map(u64::wrapping_neg),
        digits => number(digits),
    }
}

/// The words of a line.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Whether a word says that a page is written (`Some(true)`) or read.
pub(crate) fn direction(word: &[u8]) -> Option<bool> {
    match word {
        b"r" | b"R" | b"read" | b"Read" | b"READ" | b"0" | b"false" => Some(false),
        b"w" | b"W" | b"write" | b"Write" | b"WRITE" | b"1" | b"true" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_may_have_a_sign() {
        assert_eq!(page_id(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(page_id(b"-1"), Some(u64::MAX));
        assert_eq!(page_id(b"-9223372036854775808"), Some(1 << 63));
        for text in ["-9223372036854775809", "18446744073709551616", "-", "--1", "+1", ""] {
            assert_eq!(page_id(text.as_bytes()), None, "{text}");
        }
    }
}
