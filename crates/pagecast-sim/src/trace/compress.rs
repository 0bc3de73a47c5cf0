//! Writes compressed files; the name says which way. Reading goes by content instead, see
//! [`super::open`].

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// How a trace file is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Not at all.
    None,
    /// `.gz`
    Gzip,
    /// `.zst` or `.zstd`
    Zstd,
    /// `.xz`
    Xz,
}

impl Compression {
    /// What the end of the name `path` says, and the name without that end, which then tells the
    /// format.
    ///
    /// ```
    /// use pagecast_sim::trace::Compression;
    ///
    /// let (how, rest) = Compression::told_from("t.oracleGeneral.zst".as_ref());
    /// assert_eq!((how, rest.to_str()), (Compression::Zstd, Some("t.oracleGeneral")));
    /// ```
    pub fn told_from(path: &Path) -> (Self, PathBuf) {
        let how = match path.extension().and_then(|end| end.to_str()).map(str::to_lowercase).as_deref() {
            Some("gz") => Self::Gzip,
            Some("zst" | "zstd") => Self::Zstd,
            Some("xz") => Self::Xz,
            _ => return (Self::None, path.to_owned()),
        };
        (how, path.with_extension(""))
    }

    /// Compresses into `out` what is written. [`Compressed::finish`] must be called: without it the
    /// end is missing.
    ///
    /// # Errors
    ///
    /// The library cannot be set up.
    pub fn around<W: Write>(self, out: W) -> io::Result<Compressed<W>> {
        Ok(Compressed(match self {
            Self::None => Encoder::None(out),
            Self::Gzip => Encoder::Gzip(flate2::write::GzEncoder::new(out, flate2::Compression::default())),
            Self::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(out, 0)?;
                // A reader then finds damage in the middle, as with the other two.
                encoder.include_checksum(true)?;
                Encoder::Zstd(encoder)
            }
            Self::Xz => Encoder::Xz(liblzma::write::XzEncoder::new(out, 6)),
        }))
    }
}

/// A compressed file in the making.
pub struct Compressed<W: Write>(Encoder<W>);

enum Encoder<W: Write> {
    None(W),
    Gzip(flate2::write::GzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
    Xz(liblzma::write::XzEncoder<W>),
}

impl<W: Write> Compressed<W> {
    /// Writes the end and gives back what was written to.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub fn finish(self) -> io::Result<W> {
        match self.0 {
            Encoder::None(out) => Ok(out),
            Encoder::Gzip(encoder) => encoder.finish(),
            Encoder::Zstd(encoder) => encoder.finish(),
            Encoder::Xz(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Compressed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Encoder::None(out) => out.write(bytes),
            Encoder::Gzip(encoder) => encoder.write(bytes),
            Encoder::Zstd(encoder) => encoder.write(bytes),
            Encoder::Xz(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Encoder::None(out) => out.flush(),
            Encoder::Gzip(encoder) => encoder.flush(),
            Encoder::Zstd(encoder) => encoder.flush(),
            Encoder::Xz(encoder) => encoder.flush(),
        }
    }
}
