//! Which data files a snapshot has, and which delete files apply to each.
//! <https://iceberg.apache.org/spec/#scan-planning>

use std::collections::HashMap;
use std::sync::Arc;

use apache_avro::Reader;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use iceberg::spec::{
    DataContentType, DataFileFormat, FormatVersion, Literal, Manifest, ManifestEntry, ManifestEntryRef, ManifestFile,
    ManifestList, ManifestStatus, PrimitiveLiteral, Struct, Transform,
};
use object_store::path::Path as StorePath;

use crate::error::{IcebergError, Result, decoded};
use crate::place::{Location, Place};

/// Manifests that are read at a time.
const READ_AT_ONCE: usize = 8;

/// Rows of one partition lie in files of the same spec and values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Partition {
    spec: i32,
    values: Vec<Option<Literal>>,
}

impl Partition {
    /// Of two files one may have been written before a column's type was widened.
    fn of(spec: i32, values: &Struct) -> Self {
        let widened = |value: Option<&Literal>| match value? {
            Literal::Primitive(PrimitiveLiteral::Int(value)) => Some(Literal::long(*value)),
            Literal::Primitive(PrimitiveLiteral::Float(value)) => Some(Literal::double(f64::from(value.0))),
            other => Some(other.clone()),
        };
        Self { spec, values: values.iter().map(widened).collect() }
    }
}

/// A file of rows or of deletes that a manifest names.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) entry: ManifestEntryRef,
    /// As its store names it.
    pub(crate) path: StorePath,
    /// As files of deletes name it, in one way of several.
    pub(crate) location: Location,
    pub(crate) sequence: i64,
    pub(crate) partition: Partition,
    is_unpartitioned: bool,
    /// Values that all its rows have, by the ids of columns: those that it is partitioned by as
    /// they are.
    pub(crate) constants: Arc<[(i32, Option<PrimitiveLiteral>)]>,
}

impl Named {
    /// Whether its equality deletes are of rows in all partitions.
    pub(crate) fn is_of_all(&self) -> bool {
        self.is_unpartitioned
    }
}

/// A file of rows, and what deletes some of them.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) file: Arc<Named>,
    pub(crate) deletes: Vec<Arc<Named>>,
}

/// The files that manifests name, by where these are. A manifest never changes.
pub(crate) type Manifests = HashMap<String, Arc<[Arc<Named>]>>;

/// What a manifest list names, and its manifests. Those that are `known` are not read again.
pub(crate) async fn plan(
    place: &Place,
    list: &str,
    version: FormatVersion,
    known: Option<&Manifests>,
) -> Result<(Vec<Planned>, Manifests)> {
    let bytes = place.read(list).await?;
    let manifests = decoded(list, || parse_list(&bytes, version))?;
    let with_files = |manifest: &ManifestFile| manifest.has_added_files() || manifest.has_existing_files();
    let manifests: Vec<ManifestFile> = manifests.consume_entries().into_iter().filter(with_files).collect();
    let read = manifests.into_iter().map(|manifest| {
        let (place, known) = (place.clone(), known.and_then(|known| known.get(&manifest.manifest_path).cloned()));
        async move {
            match known {
                Some(files) => Ok((manifest.manifest_path, files)),
                None => files_of(&place, &manifest).await.map(|files| (manifest.manifest_path, files)),
            }
        }
    });
    let named: Vec<(String, Arc<[Arc<Named>]>)> = stream::iter(read).buffered(READ_AT_ONCE).try_collect().await?;
    let is_data = |named: &Arc<Named>| named.entry.content_type() == DataContentType::Data;
    let all = named.iter().flat_map(|(_, files)| files.iter().cloned());
    let (data, deletes): (Vec<_>, Vec<_>) = all.partition(is_data);
    let deletes = Deletes::of(deletes)?;
    let planned = data.into_iter().map(|file| Ok(Planned { deletes: deletes.of_file(&file)?, file }));
    Ok((planned.collect::<Result<_>>()?, named.into_iter().collect()))
}

/// A table may have been of an older version when the list was written.
fn parse_list(bytes: &Bytes, version: FormatVersion) -> std::result::Result<ManifestList, String> {
    let reader = Reader::new(&bytes[..]).map_err(|error| error.to_string())?;
    let written = match reader.user_metadata().get("format-version").map(Vec::as_slice) {
        Some(b"1") => FormatVersion::V1,
        Some(b"2") => FormatVersion::V2,
        Some(b"3") => FormatVersion::V3,
        _ => version,
    };
    ManifestList::parse_with_version(bytes, written).map_err(|error| error.to_string())
}

async fn files_of(place: &Place, manifest: &ManifestFile) -> Result<Arc<[Arc<Named>]>> {
    let at = &manifest.manifest_path;
    if manifest.key_metadata.is_some() {
        return Err(IcebergError::feature(at, "encryption"));
    }
    let bytes = place.read(at).await?;
    let read = decoded(at, || Manifest::parse_avro(&bytes))?;
    let spec = read.metadata().partition_spec();
    let as_they_are = |(place, field): (usize, &iceberg::spec::PartitionField)| {
        (field.transform == Transform::Identity).then_some((place, field.source_id))
    };
    let identity: Vec<(usize, i32)> = spec.fields().iter().enumerate().filter_map(as_they_are).collect();
    let alive = read.entries().iter().filter(|entry| entry.is_alive());
    let named = |entry: &ManifestEntryRef| {
        let file = entry.data_file();
        let refused = |feature: &str| Err(IcebergError::feature(file.file_path(), feature));
        let is_vector = file.content_type() == DataContentType::PositionDeletes;
        match file.file_format() {
            DataFileFormat::Parquet => {}
            DataFileFormat::Puffin if is_vector => {}
            format => return refused(&format!("a data file of format {format}")),
        }
        if file.key_metadata().is_some() {
            return refused("encryption");
        }
        let path = place.file(file.file_path())?;
        let location = Location::of(file.file_path());
        let location = location.ok_or_else(|| IcebergError::broken(at, format!("{} is no file", file.file_path())))?;
        let values = file.partition();
        let constant = |&(place, id): &(usize, i32)| match values.fields().get(place) {
            Some(Some(Literal::Primitive(value))) => Ok((id, Some(value.clone()))),
            Some(None) => Ok((id, None)),
            _ => Err(IcebergError::broken(at, format!("{} has no values of its partition", file.file_path()))),
        };
        Ok(Arc::new(Named {
            sequence: sequence(entry, manifest)
                .ok_or_else(|| IcebergError::broken(at, format!("{} has no sequence number", file.file_path())))?,
            partition: Partition::of(manifest.partition_spec_id, values),
            is_unpartitioned: spec.is_unpartitioned(),
            constants: identity.iter().map(constant).collect::<Result<_>>()?,
            entry: Arc::clone(entry),
            path,
            location,
        }))
    };
    alive.map(named).collect()
}

/// An added file has that of its manifest.
fn sequence(entry: &ManifestEntry, manifest: &ManifestFile) -> Option<i64> {
    let is_inherited = entry.status() == ManifestStatus::Added || manifest.sequence_number == 0;
    entry.sequence_number().or(is_inherited.then_some(manifest.sequence_number))
}

/// Delete files, by what they may apply to.
#[derive(Default)]
struct Deletes {
    /// Those that say which one file they are about.
    of_files: HashMap<Location, Vec<Arc<Named>>>,
    of_partitions: HashMap<Partition, Vec<Arc<Named>>>,
    of_all: Vec<Arc<Named>>,
}

impl Deletes {
    fn of(named: Vec<Arc<Named>>) -> Result<Self> {
        let mut deletes = Self::default();
        for delete in named {
            let about = about(&delete)?;
            let is_equality = delete.entry.content_type() == DataContentType::EqualityDeletes;
            match about {
                Some(location) => deletes.of_files.entry(location).or_default().push(delete),
                None if is_equality && delete.is_of_all() => deletes.of_all.push(delete),
                None => deletes.of_partitions.entry(delete.partition.clone()).or_default().push(delete),
            }
        }
        Ok(deletes)
    }

    /// Where a deletion vector applies, files of positions do not.
    fn of_file(&self, file: &Named) -> Result<Vec<Arc<Named>>> {
        let of_file = self.of_files.get(&file.location).into_iter().flatten();
        let of_partition = self.of_partitions.get(&file.partition).into_iter().flatten();
        let applies = |delete: &&Arc<Named>| match delete.entry.content_type() {
            DataContentType::EqualityDeletes => file.sequence < delete.sequence,
            _ => file.sequence <= delete.sequence,
        };
        let mut found: Vec<Arc<Named>> =
            of_file.chain(of_partition).chain(&self.of_all).filter(applies).cloned().collect();
        let is_vector = |delete: &Arc<Named>| delete.entry.file_format() == DataFileFormat::Puffin;
        match found.iter().filter(|delete| is_vector(delete)).count() {
            0 => {}
            1 => found
                .retain(|delete| is_vector(delete) || delete.entry.content_type() == DataContentType::EqualityDeletes),
            _ => return Err(IcebergError::broken(file.entry.file_path(), "it has two deletion vectors")),
        }
        Ok(found)
    }
}

/// The one data file that deleted positions are of, if their file says so.
fn about(delete: &Named) -> Result<Option<Location>> {
    let file = delete.entry.data_file();
    if file.content_type() == DataContentType::EqualityDeletes {
        return Ok(None);
    }
    match file.referenced_data_file() {
        Some(path) => match Location::of(&path) {
            Some(location) => Ok(Some(location)),
            None => Err(IcebergError::broken(file.file_path(), format!("it deletes rows of {path}, which is no file"))),
        },
        None if file.file_format() == DataFileFormat::Puffin => {
            Err(IcebergError::broken(file.file_path(), "a deletion vector does not say of which file it is"))
        }
        None => Ok(None),
    }
}
