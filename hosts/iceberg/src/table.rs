//! A table, its versions, and their scans.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use futures::FutureExt;
use iceberg::spec::{NestedField, Schema};
use pagecast_tables::{Asked, TableColumns, TableFile, TableSnapshot, TableVersion, TableVersions, Wanted};
use parking_lot::Mutex;
use roaring::RoaringTreemap;
use tokio::sync::OnceCell;

use crate::catalog::Catalog;
use crate::columns::columns;
use crate::deletes::{Reader, table_file};
use crate::error::{IcebergError, Result};
use crate::metadata::{Metadata, MetadataFile, newest};
use crate::place::{Location, Place};
use crate::plan::{Manifests, Named, Planned, plan};
use crate::schemas::Schemas;
use crate::statistics::statistics;

/// Where the newest metadata of a table are.
#[derive(Debug)]
enum Source {
    /// In its folder.
    Folder(Location),
    /// In this file for ever.
    File(String),
    Catalog(Catalog),
}

/// An Iceberg table. It may be shared by any number of threads.
#[derive(Debug)]
pub struct Table {
    source: Source,
    place: Place,
    newest: Mutex<Option<(MetadataFile, Arc<Version>)>>,
}

/// Where a table is, and where else its files may lie.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Folders or URLs of folders.
    pub allow: Vec<String>,
}

impl Table {
    /// The table in a folder, or of one metadata file, which may be given as URLs of a store that
    /// is one of `stores`. Its files lie in that folder.
    ///
    /// # Errors
    /// There is none, its metadata are broken, or it has what is not read here.
    pub async fn open(at: &str, options: &Options, stores: Option<&dyn ObjectStoreRegistry>) -> Result<Arc<Self>> {
        let missing = |what: &str| IcebergError::Missing { at: at.to_owned(), what: what.to_owned() };
        let is_url = at.contains("://") || at.starts_with("file:");
        let named = if is_url { Location::of(at) } else { Location::of_path(Path::new(at)) };
        let mut location = named.ok_or_else(|| missing("no store has such a place"))?;
        if let Some(path) = location.local() {
            location = Location::of_path(&path).ok_or_else(|| missing("its name is no text"))?;
        }
        let (root, source) = if location.name().contains(".metadata.json") {
            let folder = location.parent();
            let root = if folder.name() == "metadata" { folder.parent() } else { folder };
            (root, Source::File(location.to_string()))
        } else {
            (location.clone(), Source::Folder(location))
        };
        Self::of(source, vec![root], None, options, stores).await
    }

    pub(crate) async fn of_catalog(
        catalog: Catalog,
        options: &Options,
        stores: Option<&dyn ObjectStoreRegistry>,
    ) -> Result<Arc<Self>> {
        let own = catalog.folder();
        let file = catalog.metadata_file().await?;
        Self::of(Source::Catalog(catalog), own.into_iter().collect(), Some(file), options, stores).await
    }

    /// The store of a table is that of its metadata `file`, if a catalog has named it, or of the
    /// first place.
    async fn of(
        source: Source,
        mut allowed: Vec<Location>,
        file: Option<String>,
        options: &Options,
        stores: Option<&dyn ObjectStoreRegistry>,
    ) -> Result<Arc<Self>> {
        for place in &options.allow {
            let location = Location::of(place);
            allowed.push(location.ok_or_else(|| IcebergError::Refused {
                at: place.clone(),
                what: "option 'allow' takes whole paths or URLs of folders".to_owned(),
            })?);
        }
        if let Some(file) = file.as_deref().and_then(Location::of) {
            allowed.sort_by_key(|place| !place.is_beside(&file));
        }
        let place = Place::new(&allowed, stores)?;
        let table = Arc::new(Self { source, place, newest: Mutex::default() });
        match file {
            Some(at) => table.version_in(MetadataFile { at, made: None }).await?,
            None => table.newest_version().await?,
        };
        Ok(table)
    }

    /// The newest version.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub async fn newest_version(&self) -> Result<Arc<Version>> {
        self.version_in(self.newest_file().await?).await
    }

    /// The newest version, which is that of this file.
    async fn version_in(&self, file: MetadataFile) -> Result<Arc<Version>> {
        let known = self.newest.lock().clone();
        if let Some((_, version)) = known.as_ref().filter(|(known, _)| *known == file) {
            return Ok(Arc::clone(version));
        }
        let metadata = Metadata::read(&self.place, &file.at).await?;
        let (snapshot, schema) = metadata.newest();
        let version = self.version(metadata, snapshot, &schema, known.map(|(_, version)| version)).await?;
        *self.newest.lock() = Some((file, Arc::clone(&version)));
        Ok(version)
    }

    /// The version that is called this: a branch, a tag, `s` and the number of a snapshot, or a
    /// time.
    async fn version_named(&self, name: &str) -> Result<Arc<Version>> {
        let file = self.newest_file().await?;
        let metadata = Metadata::read(&self.place, &file.at).await?;
        let (snapshot, schema) = metadata.named(name)?;
        let known = self.newest.lock().as_ref().map(|(_, version)| Arc::clone(version));
        self.version(metadata, snapshot, &schema, known).await
    }

    async fn newest_file(&self) -> Result<MetadataFile> {
        match &self.source {
            Source::Folder(folder) => newest(&self.place, folder).await,
            Source::File(at) => Ok(MetadataFile { at: at.clone(), made: None }),
            Source::Catalog(catalog) => Ok(MetadataFile { at: catalog.metadata_file().await?, made: None }),
        }
    }

    async fn version(
        &self,
        metadata: Metadata,
        snapshot: Option<iceberg::spec::SnapshotRef>,
        schema: &Schema,
        known: Option<Arc<Version>>,
    ) -> Result<Arc<Version>> {
        let read = known.as_ref().map(|known| &known.manifests);
        let (files, manifests) = match &snapshot {
            Some(snapshot) if snapshot.manifest_list().is_empty() => {
                return Err(IcebergError::feature(&metadata.at, "a snapshot without a manifest list"));
            }
            Some(snapshot) => {
                plan(&self.place, snapshot.manifest_list(), metadata.table.format_version(), read).await?
            }
            None => Default::default(),
        };
        Version::of(self.place.clone(), metadata, schema, (files, manifests), known).map(Arc::new)
    }
}

#[async_trait]
impl TableVersions for Table {
    async fn columns(&self) -> datafusion::common::Result<SchemaRef> {
        Ok(Arc::clone(&self.newest_version().await?.columns))
    }

    async fn newest(
        &self,
        _state: &dyn Session,
        _asked: &Asked<'_>,
    ) -> datafusion::common::Result<Arc<dyn TableVersion>> {
        Ok(self.newest_version().await?)
    }

    async fn named(&self, name: &str) -> datafusion::common::Result<Option<Arc<dyn TableVersion>>> {
        Ok(Some(self.version_named(name).await?))
    }
}

/// A table at a snapshot. It never changes.
pub struct Version {
    place: Place,
    /// The metadata file.
    at: String,
    schemas: Schemas,
    columns: SchemaRef,
    files: Vec<Planned>,
    manifests: Manifests,
    known: Mutex<Option<Arc<Self>>>,
    /// Deleted rows of each file, once somebody has asked.
    deleted: OnceCell<Vec<Arc<RoaringTreemap>>>,
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Version").field("at", &self.at).field("files", &self.files.len()).finish_non_exhaustive()
    }
}

impl Version {
    fn of(
        place: Place,
        metadata: Metadata,
        schema: &Schema,
        (files, manifests): (Vec<Planned>, Manifests),
        known: Option<Arc<Self>>,
    ) -> Result<Self> {
        let schemas = Schemas::of(&metadata, schema);
        let fields: Vec<&NestedField> = schemas.current.iter().map(|field| &**field).collect();
        let columns = Arc::clone(columns(&metadata.at, &fields, None, &[])?.all());
        let rows = files.iter().try_fold(0_u64, |sum, file| sum.checked_add(file.file.entry.record_count()));
        if rows.is_none_or(|rows| rows >= i64::MAX as u64) {
            return Err(IcebergError::broken(&metadata.at, "its manifests count more rows than there can be"));
        }
        // One whose deletes were read, so that versions that nobody scans do not keep others.
        let known =
            known.and_then(|known| if known.deleted.initialized() { Some(known) } else { known.known.lock().clone() });
        let (known, deleted) = (Mutex::new(known), OnceCell::new());
        Ok(Self { place, at: metadata.at, schemas, columns, files, manifests, known, deleted })
    }

    /// The data files that are on this machine.
    ///
    /// # Errors
    /// One lies where none may.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        let local = self.files.iter().map(|file| self.place.local(file.file.entry.file_path()));
        local.filter_map(Result::transpose).collect()
    }

    async fn scan_of(&self, state: &dyn Session, wanted: &Wanted<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        // Decoders of Parquet may panic over nonsense.
        let read = || AssertUnwindSafe(self.read_deletes(state)).catch_unwind();
        let read = || async { read().await.unwrap_or_else(|_| Err(self.senseless())) };
        let deleted = self.deleted.get_or_try_init(read).await?;
        // Files differ in what they are partitioned by, where that has changed.
        let mut groups: BTreeMap<Vec<i32>, Group> = BTreeMap::new();
        let fields: Vec<&NestedField> = self.schemas.current.iter().map(|field| &**field).collect();
        for (planned, deleted) in self.files.iter().zip(deleted) {
            let (stored, file) = (planned.file.entry.record_count(), &planned.file);
            let rows = stored - deleted.len();
            if rows == 0 {
                continue;
            }
            let constant: Vec<i32> = file.constants.iter().map(|(id, _)| *id).collect();
            let in_file: Vec<&NestedField> =
                fields.iter().filter(|field| !constant.contains(&field.id)).copied().collect();
            let (columns, values) = self.schemas.of_file(&self.at, &fields, &file.constants)?;
            let known = statistics(file.entry.data_file(), rows, &in_file);
            let mut part = table_file(file).with_values(values).with_statistics(Arc::new(known));
            if rows < stored {
                part = part.without(stored, deleted.iter());
            }
            let group = groups.entry(constant).or_insert_with(|| Group { columns, files: Vec::new(), rows: 0 });
            group.files.push(part);
            group.rows += rows;
        }
        if groups.is_empty() {
            let (columns, _) = self.schemas.of_file(&self.at, &fields, &[])?;
            groups.insert(Vec::new(), Group { columns, files: Vec::new(), rows: 0 });
        }
        let scans = groups.into_values().map(|group| {
            let snapshot = TableSnapshot::new(self.place.url().clone(), group.columns, group.files);
            snapshot.of_rows(group.rows).matching(state, wanted.filters)?.scan(state, wanted.columns, wanted.limit)
        });
        let mut scans = scans.collect::<datafusion::common::Result<Vec<_>>>()?;
        Ok(if scans.len() == 1 { scans.swap_remove(0) } else { UnionExec::try_new(scans)? })
    }

    fn senseless(&self) -> IcebergError {
        IcebergError::broken(&self.at, "one of its files of deletes makes no sense")
    }

    /// What an earlier version knows of a file with the same deletes is not read again.
    async fn read_deletes(&self, state: &dyn Session) -> Result<Vec<Arc<RoaringTreemap>>> {
        let known = self.known.lock().take();
        let earlier: HashMap<_, _> = known
            .as_ref()
            .and_then(|known| Some(known.files.iter().zip(known.deleted.get()?)))
            .into_iter()
            .flatten()
            .map(|(file, deleted)| (Key::of(file), deleted))
            .collect();
        let mut deleted: Vec<Option<Arc<RoaringTreemap>>> = Vec::new();
        for file in &self.files {
            let none = || file.deletes.is_empty().then(Arc::default);
            deleted.push(earlier.get(&Key::of(file)).map(|&rows| Arc::clone(rows)).or_else(none));
        }
        let unknown: Vec<&Planned> =
            self.files.iter().zip(&deleted).filter(|(_, rows)| rows.is_none()).map(|(file, _)| file).collect();
        let reader = Reader { state, place: &self.place, schemas: &self.schemas };
        let mut read = reader.deleted(&unknown).await?.into_iter();
        Ok(deleted.into_iter().map(|rows| rows.unwrap_or_else(|| Arc::new(read.next().unwrap_or_default()))).collect())
    }
}

#[async_trait]
impl TableVersion for Version {
    fn schema(&self) -> &SchemaRef {
        &self.columns
    }

    async fn scan(
        &self,
        state: &dyn Session,
        wanted: &Wanted<'_>,
    ) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        Ok(self.scan_of(state, wanted).await?)
    }
}

/// What decides which rows of a file are deleted.
#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    file: &'a str,
    sequence: i64,
    /// Where each is, and its sequence number.
    deletes: Vec<(&'a str, Option<i64>, i64)>,
}

impl<'a> Key<'a> {
    fn of(planned: &'a Planned) -> Self {
        let place = |delete: &'a Arc<Named>| {
            (delete.entry.file_path(), delete.entry.data_file().content_offset(), delete.sequence)
        };
        let (file, sequence) = (planned.file.entry.file_path(), planned.file.sequence);
        Self { file, sequence, deletes: planned.deletes.iter().map(place).collect() }
    }
}

/// Files that have the same constant columns.
struct Group {
    columns: TableColumns,
    files: Vec<TableFile>,
    rows: u64,
}
