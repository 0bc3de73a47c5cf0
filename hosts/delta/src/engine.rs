//! What the library of the protocol reads and writes the log of a table through.
//!
//! It reads no more than the table's folder and the places that the user allows, and writes into the
//! folder alone: a path that leaves them, by its words or by a link, is refused by its name. What it
//! writes has its name when it is whole and durable.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use delta_kernel::engine::arrow_expression::ArrowEvaluationHandler;
use delta_kernel::{
    Engine, EvaluationHandler, FileMeta, FileSlice, JsonHandler, KernelError, KernelResult, KernelResultIteratorStatic,
    ParquetHandler, StorageHandler,
};
use url::Url;

use crate::disk::Disk;
use crate::error::DeltaError;
use crate::inside::Places;
use crate::log;
use crate::options::Options;

/// The protocol's library as it works on one table.
#[derive(Clone, Debug)]
pub(crate) struct LocalEngine(Arc<Files>);

/// The files of a table's log.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    /// The table's folder, without links.
    pub(crate) root: PathBuf,
    /// That alone.
    own: Places,
    /// Where files are read.
    places: Places,
    pub(crate) disk: Arc<dyn Disk>,
}

impl LocalEngine {
    pub(crate) fn new(root: &Path, options: &Options) -> Result<Self, DeltaError> {
        let (own, places) = (Places::new(root, &[])?, Places::new(root, &options.allowed)?);
        Ok(Self(Arc::new(Files { root: root.to_owned(), own, places, disk: Arc::clone(&options.disk) })))
    }

    /// Where files of the table may lie.
    pub(crate) fn places(&self) -> &Places {
        &self.0.places
    }

    /// The table's folder as the library names it.
    pub(crate) fn url(&self) -> Result<Url, DeltaError> {
        let what = || "it has no whole path".to_owned();
        Url::from_directory_path(&self.0.root)
            .map_err(|()| DeltaError::Refused { path: self.0.root.clone(), what: what() })
    }

    /// What the library has said, in our words.
    pub(crate) fn fault(&self, error: KernelError) -> DeltaError {
        said(&self.0.root, error)
    }
}

impl Engine for LocalEngine {
    fn evaluation_handler(&self) -> Arc<dyn EvaluationHandler> {
        Arc::new(ArrowEvaluationHandler)
    }

    fn storage_handler(&self) -> Arc<dyn StorageHandler> {
        Arc::clone(&self.0) as _
    }

    fn json_handler(&self) -> Arc<dyn JsonHandler> {
        Arc::clone(&self.0) as _
    }

    fn parquet_handler(&self) -> Arc<dyn ParquetHandler> {
        Arc::clone(&self.0) as _
    }
}

impl Files {
    /// Where a file of the table's folder is that the library names.
    pub(crate) fn path(&self, url: &Url) -> KernelResult<PathBuf> {
        Self::path_in(&self.own, url)
    }

    fn path_in(places: &Places, url: &Url) -> KernelResult<PathBuf> {
        let path = places.path_of(url.as_str()).map_err(ours)?;
        places.check(&path).map_err(ours)?;
        Ok(path)
    }

    pub(crate) fn read(&self, url: &Url) -> KernelResult<(PathBuf, Vec<u8>)> {
        let path = Self::path_in(&self.places, url)?;
        let bytes = fs::read(&path).map_err(|error| failed(&path, error))?;
        Ok((path, bytes))
    }

    /// Writes a file that nobody sees a part of: it gets its name when it is whole.
    pub(crate) fn write(&self, url: &Url, bytes: &[u8], overwrite: bool) -> KernelResult<u64> {
        let path = self.path(url)?;
        let folder = path.parent().unwrap_or(&self.root);
        let draft = log::draft(folder);
        write_file(&self.disk, &draft, bytes).map_err(|error| failed(&draft, error))?;
        if overwrite {
            self.disk.replace(&draft, &path).map_err(|error| failed(&path, error))?;
        } else {
            self.link(&draft, &path)?;
        }
        self.disk.sync_folder(folder).map_err(|error| failed(folder, error))?;
        Ok(bytes.len() as u64)
    }

    fn link(&self, draft: &Path, path: &Path) -> KernelResult<()> {
        // The draft is ours alone, so that a second name is the version's: also where the file
        // system says that the link failed, or that the version was there.
        let linked = self.disk.link(draft, path).or_else(|error| match self.disk.names(draft) {
            Ok(2..) => Ok(()),
            _ => Err(error),
        });
        // A draft that stays does no harm: no reader looks at it.
        let _ = self.disk.remove(draft);
        linked.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => KernelError::FileAlreadyExists(path.display().to_string()),
            _ => failed(path, error),
        })
    }
}

impl StorageHandler for Files {
    fn list_from(&self, from: &Url) -> KernelResult<KernelResultIteratorStatic<FileMeta>> {
        let folder = from.join(".")?;
        let after = from.as_str().strip_prefix(folder.as_str()).unwrap_or_default();
        let path = self.path(&folder)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(&path).map_err(|error| failed(&path, error))? {
            let entry = entry.map_err(|error| failed(&path, error))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if log::is_of_version(&name) && name.as_str() > after {
                // Another process may have removed it since.
                found.extend(entry.metadata().ok().map(|file| (name, file)));
            }
        }
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let files = found.into_iter().map(move |(name, file)| Ok(meta(folder.join(&name)?, &file)));
        Ok(Box::new(files))
    }

    fn read_files(&self, files: Vec<FileSlice>) -> KernelResult<KernelResultIteratorStatic<bytes::Bytes>> {
        let read = |(url, range): FileSlice| {
            // The hint spares a listing that we make anyway, and may name what is not whole.
            if url.path().ends_with("/_last_checkpoint") {
                return Err(KernelError::FileNotFound(url.to_string()));
            }
            let (path, bytes) = self.read(&url)?;
            let bytes = bytes::Bytes::from(bytes);
            let Some(range) = range else { return Ok(bytes) };
            if range.start > range.end || range.end > bytes.len() as u64 {
                return Err(ours(DeltaError::broken(&path, range.start, "the file ends before that")));
            }
            Ok(bytes.slice(range.start as usize..range.end as usize))
        };
        Ok(Box::new(files.into_iter().map(read).collect::<Vec<_>>().into_iter()))
    }

    fn copy_atomic(&self, from: &Url, to: &Url) -> KernelResult<()> {
        let (_, bytes) = self.read(from)?;
        self.write(to, &bytes, false).map(drop)
    }

    fn put(&self, url: &Url, data: bytes::Bytes, overwrite: bool) -> KernelResult<()> {
        self.write(url, &data, overwrite).map(drop)
    }

    fn head(&self, url: &Url) -> KernelResult<FileMeta> {
        let path = self.path(url)?;
        let file = fs::metadata(&path).map_err(|error| failed(&path, error))?;
        Ok(meta(url.clone(), &file))
    }

    fn delete(&self, url: &Url) -> KernelResult<()> {
        let path = self.path(url)?;
        self.disk.remove(&path).map_err(|error| failed(&path, error))
    }
}

fn meta(url: Url, file: &fs::Metadata) -> FileMeta {
    let since = file.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    FileMeta::new(url, since.map_or(0, |since| since.as_millis() as i64), file.len())
}

/// Writes a file, durable but for its name.
pub(crate) fn write_file(disk: &Arc<dyn Disk>, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = disk.create(path)?;
    file.write_all(bytes)?;
    file.sync()
}

/// A file of the log, opened.
pub(crate) fn open(path: &Path) -> KernelResult<File> {
    File::open(path).map_err(|error| failed(path, error))
}

/// What the library of the protocol has said of the table at `root`.
pub(crate) fn said(root: &Path, error: KernelError) -> DeltaError {
    let path = root.to_owned();
    match error {
        KernelError::Backtraced { source, .. } => said(root, *source),
        // One of our own, from where the library reads and writes.
        KernelError::GenericError { source } => {
            source.downcast().map_or_else(|other| DeltaError::broken(root, None, other.to_string()), |ours| *ours)
        }
        KernelError::FileNotFound(name) => DeltaError::Io { path: name.into(), source: io::ErrorKind::NotFound.into() },
        KernelError::MissingVersion(version) => {
            let fault = format!("version {version} is missing, and those behind it need it");
            DeltaError::broken(&log::commit_path(root, version), None, fault)
        }
        KernelError::MissingMetadataAndProtocol | KernelError::MissingMetadata | KernelError::MissingProtocol => {
            let first = log::commit_path(root, 0);
            let fault = if first.exists() {
                "the log names no protocol or no schema"
            } else {
                "version 0 is missing, and no checkpoint is whole"
            };
            DeltaError::broken(&first, None, fault)
        }
        KernelError::EmptyLog => DeltaError::Missing { path, what: "its log is empty".to_owned() },
        KernelError::Unsupported(what) => {
            DeltaError::Feature { path, what: "the table asks for what cannot be done:", feature: what }
        }
        other => DeltaError::broken(root, None, other.to_string()),
    }
}

/// One of our faults, on its way through the library.
pub(crate) fn ours(error: DeltaError) -> KernelError {
    KernelError::GenericError { source: Box::new(error) }
}

/// That a file is not there is nothing special to the library: it asks for what may be there.
pub(crate) fn failed(path: &Path, error: io::Error) -> KernelError {
    match error.kind() {
        io::ErrorKind::NotFound => KernelError::FileNotFound(path.display().to_string()),
        _ => ours(DeltaError::io(path)(error)),
    }
}

/// That a file of the log is not what it should be.
pub(crate) fn broken(path: &Path, error: impl Display) -> KernelError {
    ours(DeltaError::broken(path, None, error.to_string()))
}
