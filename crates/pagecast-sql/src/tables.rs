//! Files of tables, and tables whose metadata say which files they have.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, TableReference};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::prelude::SessionContext;
use pagecast::storage::without_secrets;
use pagecast_datafusion::{is_encrypted, read_footer};
use parquet::errors::ParquetError;
use parquet::file::metadata::PageIndexPolicy;

use crate::formats::Format;
use crate::keys::{Numbers, is_hidden, key_of, keys};
use crate::listed::Listed;
use crate::logs::{Log, is_table, tables_of};
use crate::unpacked::{Packing, unpacked};

/// A table: a file, a folder of files of one format, or a Delta or Iceberg table.
#[derive(Clone, Debug)]
pub struct Table {
    /// The file's name without its ending, or the folder's name.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// The same for DataFusion, in which nothing is a pattern.
    url: String,
    is_file: bool,
    /// Of its files.
    pub format: Format,
    /// Its files, sorted by name.
    pub files: Vec<PathBuf>,
    /// The keys of its folders, `year` of `year=2024`, with the type of their values.
    keys: Vec<(String, DataType)>,
    /// What its metadata say, if it is a Delta or Iceberg table.
    log: Option<Log>,
}

/// A table that cannot be read.
#[derive(Debug)]
pub struct Closed {
    /// What it would be called.
    pub name: String,
    /// Names the file and its fault.
    pub fault: anyhow::Error,
}

/// What a folder holds.
#[derive(Debug, Default)]
pub struct Found {
    /// Those that can be read, by name.
    pub tables: Vec<Table>,
    /// Those that cannot.
    pub closed: Vec<Closed>,
}

impl Found {
    /// The tables, where each must be one that can be read.
    pub fn all(self) -> anyhow::Result<Vec<Table>> {
        self.closed.into_iter().next().map_or(Ok(self.tables), |closed| Err(closed.fault))
    }

    /// Closes the tables of this machine that have files outside of `bounds`.
    pub(crate) fn close_outside(&mut self, bounds: &[PathBuf]) {
        let mut closed = Vec::new();
        self.tables.retain(|table| {
            let paths = std::iter::once(&table.path).chain(&table.files);
            let Some((path, real)) = paths.into_iter().find_map(|path| Some((path, outside(path, bounds)?))) else {
                return true;
            };
            let (path, real) = (path.display(), real.display());
            let fault = anyhow!("{path} leads out of --data, to {real}: that is not read without --allow");
            closed.push(Closed { name: table.name.clone(), fault });
            false
        });
        self.closed.extend(closed);
    }
}

/// Where `path` is without links, if that is outside of `bounds`.
fn outside(path: &Path, bounds: &[PathBuf]) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|real| !bounds.iter().any(|folder| real.starts_with(folder)))
}

/// The tables in `data`, which is a file, a Delta or Iceberg table or a folder: of a folder each
/// file whose ending is that of a format, and each subfolder that is such a table or holds such
/// files, be it in folders below; or only the folder itself, if it holds folders of keys
/// (`year=2024`). Where a Parquet table and one of another format would have one name, there is the
/// Parquet table. Every footer is read, and every log, so that a broken one closes its table here
/// and ends no run in its middle.
pub fn discover(data: &Path) -> anyhow::Result<Found> {
    discover_allowing(data, &[])
}

/// What is at a place that a statement names: a folder is one table, which has all of its files.
pub(crate) fn at(place: &Path) -> anyhow::Result<Found> {
    let place = &place.canonicalize().with_context(|| format!("cannot open {}", place.display()))?;
    match place.is_dir() {
        true => found(
            Candidate::all_at(place.clone(), place).into_iter().map(|table| (table.name.clone(), table)).collect(),
            place,
            &[],
        ),
        false => discover(place),
    }
}

/// [`discover`], where such tables may have files in these folders, too.
pub(crate) fn discover_allowing(data: &Path, allowed: &[PathBuf]) -> anyhow::Result<Found> {
    let data = &data.canonicalize().with_context(|| format!("cannot open {}", data.display()))?;
    let entries = if data.is_dir() { entries(data)? } else { Vec::new() };
    let whole = entries.is_empty() || is_table(data) || entries.iter().any(|path| key_of(path).is_some());
    let mut named: BTreeMap<String, Candidate> = BTreeMap::new();
    for path in if whole { vec![data.to_owned()] } else { entries } {
        for new in Candidate::all_at(path, data) {
            match named.get(&new.name) {
                Some(other) if other.rank() == new.rank() => {
                    let (other, new, name) = (other.path.display(), new.path.display(), &new.name);
                    bail!("{other} and {new} would both be table {name}; rename one");
                }
                Some(other) if other.rank() < new.rank() => {}
                _ => _ = named.insert(new.name.clone(), new),
            }
        }
    }
    found(named, data, allowed)
}

/// The tables that these candidates of `data` are.
fn found(named: BTreeMap<String, Candidate>, data: &Path, allowed: &[PathBuf]) -> anyhow::Result<Found> {
    if named.is_empty() {
        bail!(
            "no Parquet file in {}; each *.parquet, *.csv, *.json or *.arrow file, folder of them or Delta table is a \
             table",
            data.display()
        );
    }
    let mut found = Found::default();
    for (name, candidate) in named {
        match candidate.table(allowed) {
            Ok(table) => found.tables.push(table),
            Err(fault) => found.closed.push(Closed { name, fault }),
        }
    }
    Ok(found)
}

/// What may be a table.
struct Candidate {
    name: String,
    path: PathBuf,
    /// Its files, if no metadata say which they are.
    files: Option<anyhow::Result<(Format, Vec<PathBuf>)>>,
}

impl Candidate {
    /// What is at `path`: a table, those of a catalog, or none.
    fn all_at(path: PathBuf, data: &Path) -> Vec<Self> {
        let of_catalog = tables_of(&path);
        if of_catalog.is_empty() {
            return Self::at(path, data).into_iter().collect();
        }
        of_catalog.into_iter().map(|name| Self { name, path: path.clone(), files: None }).collect()
    }

    /// What is at `path`; none if that is no table. `data` itself is one whatever its ending is.
    fn at(path: PathBuf, data: &Path) -> Option<Self> {
        let name = if path.is_dir() { path.file_name() } else { Format::stem(&path) };
        let name = name.unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let files = if is_table(&path) {
            None
        } else if path == data && path.is_file() {
            Some(Ok((Format::of(&path).unwrap_or(Format::Parquet), vec![path.clone()])))
        } else {
            Some(files_of(&path).and_then(Format::of_all).transpose()?)
        };
        Some(Self { name, path, files })
    }

    /// Of two with one name, the one of the lower rank is the table.
    fn rank(&self) -> Format {
        match &self.files {
            Some(Ok((format, _))) => *format,
            _ => Format::Parquet,
        }
    }

    fn table(self, allowed: &[PathBuf]) -> anyhow::Result<Table> {
        let Self { name, path, files } = self;
        match files {
            None => Table::of_log(name, path, allowed),
            Some(files) => files.and_then(|(format, files)| Table::of(name, path, format, files)),
        }
    }
}

impl Table {
    fn of(name: String, path: PathBuf, format: Format, files: Vec<PathBuf>) -> anyhow::Result<Self> {
        if format == Format::Parquet {
            files.iter().try_for_each(|file| check_footer(file))?;
        }
        files.iter().try_for_each(|file| format.check_names(file))?;
        let (keys, url, is_file) = (keys(&path, &files)?, url(&path), path.is_file());
        Ok(Self { name, path, url, is_file, format, files, keys, log: None })
    }

    /// A table in an object store. Nothing of it is read here.
    pub(crate) fn in_store(
        name: String,
        path: PathBuf,
        url: String,
        (format, files): (Format, Vec<PathBuf>),
        is_file: bool,
    ) -> anyhow::Result<Self> {
        let keys = keys(&path, &files)?;
        Ok(Self { name, path, url, is_file, format, files, keys, log: None })
    }

    /// A table in an object store of which its metadata say which files it has.
    pub(crate) fn of_log_in_store(name: String, url: String, log: Log) -> Self {
        let (path, format) = (PathBuf::from(&url), Format::Parquet);
        Self { name, path, url, is_file: false, format, files: Vec::new(), keys: Vec::new(), log: Some(log) }
    }

    /// The table of which metadata at this path say which files it has.
    fn of_log(name: String, path: PathBuf, allowed: &[PathBuf]) -> anyhow::Result<Self> {
        let log = Log::open(&path, &name, allowed)?;
        let (files, url, format, keys) = (log.files()?, url(&path), Format::Parquet, Vec::new());
        Ok(Self { name, url, path, is_file: false, format, files, keys, log: Some(log) })
    }

    /// Its files as they are now.
    pub fn list(&self) -> anyhow::Result<Vec<PathBuf>> {
        match &self.log {
            Some(log) => log.files(),
            None if self.is_file => Ok(self.files.clone()),
            None => Ok(self.format.among(files_of(&self.path)?)),
        }
    }

    /// How many files it has; None if its metadata lie in a store, and nobody has asked yet.
    pub fn file_count(&self) -> Option<usize> {
        let is_known = self.log.as_ref().is_none_or(Log::is_open);
        is_known.then_some(self.files.len())
    }

    /// Makes the table known to SQL.
    pub async fn register(&self, ctx: &SessionContext) -> anyhow::Result<()> {
        let table = self.provider(ctx).await?;
        ctx.register_table(self.reference(), table).map_err(|error| anyhow!(message(&error)))?;
        Ok(())
    }

    /// The table for DataFusion.
    pub async fn provider(&self, ctx: &SessionContext) -> anyhow::Result<Arc<dyn TableProvider>> {
        if let Some(log) = &self.log {
            return log.provider(ctx).await;
        }
        let table = self.of_files(ctx).await.map_err(|error| anyhow!(message(&error)));
        table.with_context(|| format!("{} is no table", self.path.display()))
    }

    fn reference(&self) -> TableReference {
        TableReference::bare(self.name.as_str())
    }

    async fn of_files(&self, ctx: &SessionContext) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        // The endings decide what is listed.
        let first = self.files.first().map(PathBuf::as_path).filter(|file| file.is_file());
        let options = self.format.options(ctx, self.keys.clone(), first)?.with_file_extension("");
        let file = self.is_file.then(|| self.path.display().to_string());
        Listed { urls: self.urls()?, options, numbers: Numbers::Plain, file }.table(&ctx.state(), None).await
    }

    /// Where DataFusion looks for the files: the one, or the folder, once for each ending that its
    /// files have.
    fn urls(&self) -> Result<Vec<ListingTableUrl>, DataFusionError> {
        // One store has all files of a table.
        let is_packed = self.files.iter().any(|file| Packing::of(file).is_some());
        let url = if is_packed { unpacked(&self.url) } else { self.url.clone() };
        if self.is_file {
            return Ok(vec![ListingTableUrl::parse(&url)?.with_table_ref(self.reference())]);
        }
        let mut endings: Vec<_> = self.files.iter().filter_map(|file| Format::endings_of(file)).collect();
        endings.sort_unstable();
        endings.dedup();
        let folder = format!("{url}/");
        let of_ending = |ending: &str| {
            let folder = folder.parse().map_err(|error| DataFusionError::External(Box::new(error)))?;
            let pattern = format!("*.{ending}").parse().ok();
            Ok(ListingTableUrl::try_new(folder, pattern)?.with_table_ref(self.reference()))
        };
        endings.into_iter().map(of_ending).collect()
    }
}

/// Makes `tables` known to SQL.
pub async fn register(ctx: &SessionContext, tables: &[Table]) -> anyhow::Result<()> {
    for table in tables {
        table.register(ctx).await?;
    }
    Ok(())
}

/// Bytes of a message that are said.
const LONGEST: usize = 8 << 10;

/// What went wrong in DataFusion, without the layers that only pass it on, without words about its
/// own structures and without secrets.
pub fn message(error: &DataFusionError) -> String {
    without_secrets(&said(error))
}

fn said(error: &DataFusionError) -> String {
    let root = error.find_root();
    let text = match root {
        DataFusionError::SQL(error, _) => error.to_string(),
        DataFusionError::NotImplemented(_) | DataFusionError::ResourcesExhausted(_) => root.strip_backtrace(),
        DataFusionError::ParquetError(error) => match &**error {
            ParquetError::External(error) => error.to_string(),
            error => error.to_string(),
        },
        _ => root.message().split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or_default().to_owned(),
    };
    // A value may be in it, of any length.
    let mut text = text.get(..text.floor_char_boundary(LONGEST)).unwrap_or(&text);
    for end in
        ["\n\tCandidate functions:", ", errors: Error during planning: ", "\nThis issue was likely caused by a bug"]
    {
        text = text.split(end).next().unwrap_or_default();
    }
    for layer in ["Error during planning: ", "Internal error: ", "sql parser error: "] {
        text = text.strip_prefix(layer).unwrap_or(text);
    }
    match text.split_once(" to the signature ").and_then(|(head, rest)| Some((head, rest.split_once(" failed")?.1))) {
        Some((head, tail)) => format!("{head} failed{tail}"),
        None => text.replace(" not found on ConfigOptions", " not found"),
    }
}

fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect()
    };
    let mut paths = read().with_context(|| format!("cannot list folder {}", folder.display()))?;
    paths.retain(|path| !path.file_name().and_then(OsStr::to_str).is_some_and(is_hidden));
    paths.sort();
    Ok(paths)
}

/// The files of some format of the table at `path`, also those in its folders, sorted by name; none
/// if it is no table.
fn files_of(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let is_ours = |path: &Path| Format::of(path).is_some() && path.is_file();
    if !path.is_dir() {
        return Ok(if is_ours(path) { vec![path.to_owned()] } else { Vec::new() });
    }
    let mut files = Vec::new();
    for inner in entries(path)? {
        if !inner.is_dir() {
            files.extend(is_ours(&inner).then_some(inner));
        } else if is_table(&inner) {
            return Err(table_of_its_own(&inner.display().to_string(), &path.display().to_string()));
        } else if !is_of_catalog(&inner) {
            files.extend(files_of(&inner)?);
        }
    }
    Ok(files)
}

/// What is wrong with a folder in which there is a table whose metadata say which files it has.
pub(crate) fn table_of_its_own(inner: &str, folder: &str) -> anyhow::Error {
    anyhow!("{folder} is no table: {inner} in it is one, whose metadata say which files it has; name that one")
}

/// Whether a folder has the files of the catalog beside it, which says what they are.
fn is_of_catalog(folder: &Path) -> bool {
    folder.extension().is_some_and(|ending| ending == "files") && !tables_of(&folder.with_extension("")).is_empty()
}

/// `path` as a URL, in which nothing is a pattern.
fn url(path: &Path) -> String {
    format!("file://{}", encoded(path.as_os_str().as_encoded_bytes()))
}

/// A path as it stands in a URL.
pub(crate) fn encoded(path: &[u8]) -> String {
    let mut url = String::with_capacity(path.len());
    for &byte in path {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'=' => url.push(byte.into()),
            byte if byte.is_ascii_alphanumeric() => url.push(byte.into()),
            byte => url += &format!("%{byte:02X}"),
        }
    }
    url
}

/// Fails unless a file has a footer, and the data that it speaks of.
fn check_footer(path: &Path) -> anyhow::Result<()> {
    let check = || -> anyhow::Result<()> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let read = |range: Range<u64>| {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            file.read_exact_at(&mut bytes, range.start)?;
            Ok(bytes.into())
        };
        // The decoder believes what it reads, and may panic over nonsense.
        let parse = AssertUnwindSafe(|| read_footer(length, PageIndexPolicy::Skip, read, anyhow::Error::new));
        panic::catch_unwind(parse).map_err(|_| anyhow!("its footer makes no sense"))?.map(drop)
    };
    check().map_err(|error| match error.downcast_ref().is_some_and(is_encrypted) {
        true => anyhow!("{} is encrypted: pagecast reads no encrypted Parquet files", path.display()),
        false => error.context(format!("{} is truncated or no Parquet file", path.display())),
    })
}
