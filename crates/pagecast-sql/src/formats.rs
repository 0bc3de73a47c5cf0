//! Formats of files, which are told apart by their endings.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use arrow::datatypes::DataType;
use datafusion::arrow::ipc::reader::FileReader;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::listing::ListingOptions;
use datafusion::execution::options::ReadOptions;
use datafusion::prelude::{ParquetReadOptions, SessionContext};

use crate::unpacked::{Packing, Unpacker};

/// What a table's files are; of two tables with one name, that of the first format is read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Format {
    /// Columns in row groups, read through the pool.
    Parquet,
    /// With a line of names.
    Csv,
    /// The same with tabulators.
    Tsv,
    /// An array, or an object a line.
    Json,
    /// Files of Arrow's IPC.
    Arrow,
}

const ENDINGS: [(&str, Format); 11] = [
    ("parquet", Format::Parquet),
    ("parq", Format::Parquet),
    ("pq", Format::Parquet),
    ("csv", Format::Csv),
    ("tsv", Format::Tsv),
    ("json", Format::Json),
    ("ndjson", Format::Json),
    ("jsonl", Format::Json),
    ("arrow", Format::Arrow),
    ("feather", Format::Arrow),
    ("ipc", Format::Arrow),
];

/// All endings, for people.
pub(crate) fn endings() -> String {
    let [others @ .., (last, _)] = ENDINGS;
    let others = others.map(|(ending, _)| format!(".{ending}"));
    format!("{} and .{last}, texts also with .gz or .zst behind it", others.join(", "))
}

impl Format {
    /// What the ending of `path` says.
    pub fn of(path: &Path) -> Option<Self> {
        let is_packed = Packing::of(path).is_some();
        let name = if is_packed { Path::new(path.file_stem()?) } else { path };
        let ending = name.extension()?.to_str()?;
        let format = ENDINGS.iter().find(|(known, _)| ending.eq_ignore_ascii_case(known)).map(|&(_, format)| format);
        format.filter(|format| !is_packed || matches!(format, Self::Csv | Self::Tsv | Self::Json))
    }

    /// The name of a file without its endings.
    pub(crate) fn stem(path: &Path) -> Option<&OsStr> {
        let stem = path.file_stem()?;
        if Packing::of(path).is_some() { Path::new(stem).file_stem() } else { Some(stem) }
    }

    /// The endings of a file's name: `csv`, or `csv.gz`.
    pub(crate) fn endings_of(path: &Path) -> Option<&str> {
        path.file_name()?.to_str()?.get(Self::stem(path)?.len() + 1..)
    }

    /// The format of a table of these files, and those of them that have it; none without files.
    /// Which of two formats was meant nobody knows, so that is an error.
    pub(crate) fn of_all(files: Vec<PathBuf>) -> anyhow::Result<Option<(Self, Vec<PathBuf>)>> {
        let mut known = files.iter().filter_map(|file| Some((Self::of(file)?, file)));
        let Some((format, first)) = known.next() else { return Ok(None) };
        if let Some((_, other)) = known.find(|(other, _)| *other != format) {
            let folder = first.parent().unwrap_or(first).display();
            let (first, other) = (first.display(), other.display());
            bail!("{first} and {other} differ in format; name the files of one, such as '{folder}/*.parquet'");
        }
        Ok(Some((format, format.among(files))))
    }

    /// Fails if two columns of an Arrow file have one name: the engine reads the first for both.
    pub(crate) fn check_names(self, path: &Path) -> anyhow::Result<()> {
        if self != Self::Arrow {
            return Ok(());
        }
        // What is none is found where it is read.
        let Ok(reader) = FileReader::try_new(File::open(path)?, None) else { return Ok(()) };
        let (schema, mut seen) = (reader.schema(), HashSet::new());
        match schema.fields().iter().find(|field| !seen.insert(field.name())) {
            Some(field) => bail!("{}: two of its columns are called {}; rename one", path.display(), field.name()),
            None => Ok(()),
        }
    }

    /// Those of `files` that have this format.
    pub(crate) fn among(self, mut files: Vec<PathBuf>) -> Vec<PathBuf> {
        files.retain(|file| Self::of(file) == Some(self));
        files
    }

    /// How DataFusion reads them, with the keys of their folders. `first` is one of them, if it is
    /// on this machine: whether its JSON is an array.
    pub(crate) fn options(
        self,
        ctx: &SessionContext,
        keys: Vec<(String, DataType)>,
        first: Option<&Path>,
    ) -> io::Result<ListingOptions> {
        let options = ctx.copied_table_options();
        let csv = || CsvFormat::default().with_options(options.csv.clone()).with_has_header(true);
        let format: Arc<dyn FileFormat> = match self {
            Self::Parquet => {
                let read = ParquetReadOptions::default().table_partition_cols(keys);
                return Ok(read.to_listing_options(&ctx.copied_config(), options));
            }
            Self::Csv => Arc::new(csv()),
            Self::Tsv => Arc::new(csv().with_delimiter(b'\t')),
            Self::Json => {
                let is_array = first.map(first_byte).transpose()?.flatten() == Some(b'[');
                Arc::new(JsonFormat::default().with_options(options.json).with_newline_delimited(!is_array))
            }
            Self::Arrow => Arc::new(ArrowFormat),
        };
        Ok(ListingOptions::new(format).with_table_partition_cols(keys))
    }
}

/// The first byte of a file that is not white space.
fn first_byte(path: &Path) -> io::Result<Option<u8>> {
    let mut start = Vec::new();
    File::open(path)?.take(4096).read_to_end(&mut start)?;
    if let Some(packing) = Packing::of(path) {
        start = Unpacker::new(packing)?.unpack(&start)?;
    }
    Ok(start.into_iter().find(|byte| !byte.is_ascii_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_named_in_one_sentence() {
        assert_eq!(
            endings(),
            ".parquet, .parq, .pq, .csv, .tsv, .json, .ndjson, .jsonl, .arrow, .feather and .ipc, texts \
             also with .gz or .zst behind it"
        );
    }
}
