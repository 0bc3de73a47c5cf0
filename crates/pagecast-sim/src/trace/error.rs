//! What is wrong with a trace, and where.

use std::fmt;
use std::path::{Path, PathBuf};

/// A place in a trace file, counted after decompression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The file as a whole.
    Whole,
    /// A line, from 1.
    Line(u64),
    /// A byte, from 0.
    Byte(u64),
}

/// Why a trace could not be read or written: the file, the place and the cause, in one line.
#[derive(Debug)]
pub struct TraceError {
    /// The file; empty when the trace does not come from one.
    pub path: PathBuf,
    /// Where in it.
    pub place: Place,
    /// What is wrong, and if it can be said, what to do.
    pub cause: String,
}

impl TraceError {
    /// An error that does not know its file yet; [`TraceError::in_file`] adds it.
    pub fn at(place: Place, cause: impl Into<String>) -> Self {
        Self { path: PathBuf::new(), place, cause: cause.into() }
    }

    /// The same error, in the file `path`.
    #[must_use]
    pub fn in_file(mut self, path: &Path) -> Self {
        self.path = path.to_owned();
        self
    }

    /// A failure to read at `place`. An unexpected end is how the decompressors say that a file is
    /// cut off.
    pub(crate) fn io(place: Place, error: &std::io::Error) -> Self {
        let cut = error.kind() == std::io::ErrorKind::UnexpectedEof;
        Self::at(place, if cut { "the file ends in the middle: it is truncated".into() } else { error.to_string() })
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.as_os_str().is_empty() {
            write!(f, "{}: ", self.path.display())?;
        }
        match self.place {
            Place::Whole => {}
            Place::Line(line) => write!(f, "line {line}: ")?,
            Place::Byte(byte) => write!(f, "byte {byte}: ")?,
        }
        f.write_str(&self.cause)
    }
}

impl std::error::Error for TraceError {}

/// `text` as it may be shown in an error: shortened, and nothing in it that a terminal would obey.
pub(crate) fn excerpt(text: &[u8]) -> String {
    const SHOWN: usize = 40;
    let shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN)]);
    let clean: String = shown.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.len() > SHOWN { format!("{clean}...") } else { clean }
}
