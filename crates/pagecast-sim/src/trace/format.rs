//! Which format a file has, and the reader for it.

use super::Source;
use super::columnar::{ColumnarReader, MAGIC};
use super::csv::{Columns, Csv};
use super::decompress::decompressed;
use super::error::{Place, TraceError};
use super::oracle_general::OracleGeneral;
use super::text::{Lis, Text, may_be_timed};
use std::fs::File;
use std::io::{BufRead, Read};
use std::path::Path;
use std::str::FromStr;

/// A trace format.
///
/// ```
/// use pagecast_sim::trace::{Columns, Format};
///
/// assert_eq!("lis".parse(), Ok(Format::Lis));
/// let columns = Columns { page: Some("lbn".into()), ..Columns::default() };
/// assert_eq!("csv(page=lbn)".parse(), Ok(Format::Csv(columns)));
/// assert!("tar".parse::<Format>().is_err());
/// ```
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub enum Format {
    /// Told from the content and, where that does not decide, from the name.
    #[default]
    Auto,
    /// `PAGE [r|w] [RELATION [TUPLE]]` a line.
    Text,
    /// A head line, then a request a line.
    Csv(Columns),
    /// libCacheSim's oracleGeneral.
    OracleGeneral,
    /// ARC's: `START COUNT 0 REQUEST` a line.
    Lis,
    /// The LIRS authors': a page a line, `*` between parts.
    Lirs,
    /// Ours.
    Columnar,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, arguments) = match text.trim().split_once('(') {
            None => (text.trim(), None),
            Some((name, rest)) => {
                let inner = rest.strip_suffix(')').ok_or_else(|| format!("`{text}` does not end in `)`"))?;
                (name.trim(), Some(inner))
            }
        };
        let format = match name {
            "auto" => Self::Auto,
            "text" | "txt" => Self::Text,
            "csv" => return Ok(Self::Csv(columns(arguments.unwrap_or_default())?)),
            "oracleGeneral" | "oraclegeneral" | "oracle-general" => Self::OracleGeneral,
            "lis" | "arc" => Self::Lis,
            "lirs" => Self::Lirs,
            "pagecast" | "columnar" => Self::Columnar,
            _ => {
                return Err(format!(
                    "unknown format `{name}`; there are auto, text, csv, oracleGeneral, lis, lirs, pagecast"
                ));
            }
        };
        match arguments {
            None => Ok(format),
            Some(_) => Err(format!("format `{name}` takes no parameters")),
        }
    }
}

/// The columns named in `page=a,write=b,relation=c,tuple=d`.
fn columns(arguments: &str) -> Result<Columns, String> {
    let mut columns = Columns::default();
    for argument in arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty()) {
        let (key, name) = argument.split_once('=').ok_or_else(|| format!("`{argument}` is not COLUMN=NAME"))?;
        let column = match key.trim() {
            "page" => &mut columns.page,
            "write" => &mut columns.write,
            "relation" => &mut columns.relation,
            "tuple" => &mut columns.tuple,
            key => return Err(format!("csv has no column `{key}`; there are page, write, relation, tuple")),
        };
        *column = Some(name.trim().to_owned());
    }
    Ok(columns)
}

impl Format {
    /// The format of a file named `path` that begins with `head`.
    fn told_from(path: &Path, head: &[u8]) -> Self {
        if head.starts_with(MAGIC) {
            return Self::Columnar;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let name = [".gz", ".zst", ".zstd", ".xz"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        match name.rsplit('.').next() {
            Some("lis") => Self::Lis,
            Some("csv" | "tsv") => Self::Csv(Columns::default()),
            Some("trc" | "lirs") => Self::Lirs,
            Some("pct") => Self::Columnar,
            _ if name.contains("oraclegeneral") || head.contains(&0) => Self::OracleGeneral,
            _ => Self::Text,
        }
    }
}

/// Opens the trace in the file `path`.
///
/// # Errors
///
/// The file cannot be opened, or its beginning is not that of the format.
pub fn open(path: &Path, format: &Format) -> Result<Box<dyn Source + Send>, TraceError> {
    let fault = |error: std::io::Error| TraceError::at(Place::Whole, error.to_string()).in_file(path);
    let file = File::open(path).map_err(fault)?;
    if file.metadata().map_err(fault)?.is_dir() {
        return Err(TraceError::at(Place::Whole, "is a folder; name the trace files in it").in_file(path));
    }
    let source = read_from(file, path, format).map_err(|error| error.in_file(path))?;
    Ok(Box::new(InFile { source, path: path.to_owned() }))
}

/// Reads a trace from anything that gives bytes; `name` helps [`Format::Auto`] where the content
/// does not decide.
///
/// # Errors
///
/// The beginning cannot be read, or is not that of the format.
pub fn read_from(
    input: impl Read + Send + 'static,
    name: &Path,
    format: &Format,
) -> Result<Box<dyn Source + Send>, TraceError> {
    let io = |error: std::io::Error| TraceError::io(Place::Byte(0), &error);
    let mut input = decompressed(input).map_err(io)?;
    let format = match format {
        Format::Auto => {
            let beginning = input.fill_buf().map_err(io)?;
            let told = Format::told_from(name, beginning);
            if told == Format::Text && may_be_timed(beginning) {
                let cause = "two numbers a line, the first always rising: if they are page and relation, give --format text; \
                             if they are time and page, take the time out";
                return Err(TraceError::at(Place::Line(1), cause));
            }
            told
        }
        other => other.clone(),
    };
    Ok(match format {
        Format::Auto | Format::Text => Box::new(Text::new(input)),
        Format::Csv(columns) => Box::new(Csv::new(input, &columns)?),
        Format::OracleGeneral => Box::new(OracleGeneral::new(input)),
        Format::Lis => Box::new(Lis::new(input)),
        Format::Lirs => Box::new(Text::lirs(input)),
        Format::Columnar => Box::new(ColumnarReader::new(input)?),
    })
}

/// Adds the file's name to errors.
struct InFile {
    source: Box<dyn Source + Send>,
    path: std::path::PathBuf,
}

impl Source for InFile {
    fn next(&mut self) -> Result<Option<super::Record>, TraceError> {
        self.source.next().map_err(|error| error.in_file(&self.path))
    }

    fn reads(&mut self, pages: &mut Vec<pagecast_core::PageId>) -> Result<(), TraceError> {
        self.source.reads(pages).map_err(|error| error.in_file(&self.path))
    }
}
