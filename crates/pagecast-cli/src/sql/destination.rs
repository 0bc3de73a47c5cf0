//! Where results go, and as what: to the screen or into a file, in one of the formats.

use std::io::BufWriter;
use std::path::Path;

use anyhow::bail;

use super::results::Format;
use super::screen::{Screen, Sink};
use crate::output::{ResultFile, check_writable};

/// Where results go, and as what.
pub(super) struct Destination {
    pub(super) screen: Screen,
    pub(super) format: Format,
    /// The text of NULL, if not the format's own.
    pub(super) null: Option<String>,
    /// A file on its way. Dropped, it leaves what was there before.
    target: Option<BufWriter<ResultFile>>,
    /// A grid again when records are no longer wanted.
    other: Format,
}

impl Destination {
    pub(super) fn new(screen: Screen, format: Format, null: Option<String>) -> Self {
        Self { screen, format, null, target: None, other: other(format) }
    }

    /// Writes the next results into this file, or to the screen. The file before is done then.
    pub(super) fn send_to(&mut self, path: Option<&Path>) -> anyhow::Result<()> {
        self.finish()?;
        let Some(path) = path else { return Ok(()) };
        check_writable("--output", Some(path))?;
        self.target = Some(BufWriter::with_capacity(1 << 16, ResultFile::create(path)?));
        Ok(())
    }

    /// Makes the file what was written, if there is one.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        let Some(file) = self.target.take() else { return Ok(()) };
        Ok(file.into_inner().map_err(|error| error.into_error())?.finish()?)
    }

    /// Writes results as `format` from now on.
    pub(super) fn set_format(&mut self, format: Format) {
        (self.format, self.other) = (format, other(format));
    }

    /// Records and back.
    pub(super) fn turn(&mut self) -> Format {
        std::mem::swap(&mut self.format, &mut self.other);
        self.format
    }

    /// Fails if the next result has no place.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.format == Format::Parquet && self.target.is_none() {
            bail!("each result needs a file of its own as Parquet: name it by --output FILE, or `.output FILE` here");
        }
        Ok(())
    }

    /// The most rows of a result that are shown.
    pub(super) fn limit(&self) -> Option<usize> {
        self.screen.limit().filter(|_| self.target.is_none())
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.target.is_none() && self.screen.is_terminal()
    }

    /// Whether standard output has rows that a program reads, and nothing else may be there.
    pub(super) fn is_for_programs(&self) -> bool {
        self.target.is_none() && !self.format.is_for_people()
    }

    /// Where one result is written.
    pub(super) fn sink(&mut self) -> Sink<'_> {
        match &mut self.target {
            Some(file) => Sink::File(file),
            None => self.screen.sink(),
        }
    }

    /// After a result: Parquet files are whole with one. A file whose result failed is given up.
    pub(super) fn written(&mut self, failed: bool) -> anyhow::Result<()> {
        if failed {
            self.target = None;
        } else if self.format == Format::Parquet {
            self.finish()?;
        }
        Ok(())
    }
}

/// What `\x` makes of a format.
fn other(format: Format) -> Format {
    if format == Format::Records { Format::Table } else { Format::Records }
}
