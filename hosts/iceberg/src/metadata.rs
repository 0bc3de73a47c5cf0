//! The metadata file of a table: which is the newest, what it says, and which snapshot is meant.

use std::collections::BTreeMap;
use std::io::Read;

use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use bytes::Bytes;
use flate2::read::GzDecoder;
use iceberg::spec::{NameMapping, SchemaRef, SnapshotRef, TableMetadata};
use object_store::ObjectMeta;
use serde_json::Value;

use crate::error::{IcebergError, Result, decoded};
use crate::place::{Location, Place};

const NAME_MAPPING: &str = "schema.name-mapping.default";
const FOLDER: &str = "metadata";
/// What a compressed metadata file may come to.
const MOST_BYTES: u64 = 1 << 30;

/// Whether a folder holds a table.
pub fn is_table(folder: &std::path::Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder.join(FOLDER)) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_str().is_some_and(|name| number_of(name).is_some()))
}

/// Which version a metadata file is of, if it is one: `v3.metadata.json`,
/// `00003-8a0d.metadata.json`, or one of them compressed.
fn number_of(name: &str) -> Option<u64> {
    let stem = name.strip_suffix(".gz").unwrap_or(name).strip_suffix(".metadata.json")?;
    let stem = stem.strip_suffix(".gz").unwrap_or(stem);
    let number = stem.strip_prefix('v').or_else(|| Some(stem.split_once('-')?.0))?;
    number.parse().ok()
}

/// Where a metadata file that is not named is, and what tells it from one that replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetadataFile {
    pub(crate) at: String,
    pub(crate) made: Option<(u64, i64)>,
}

/// The newest metadata file in a table's folder: the one that `version-hint.text` names in full,
/// or that of the highest version. Writers that lost a race may leave files of the same version, so
/// the one that was written last counts; a catalog knows better.
pub(crate) async fn newest(place: &Place, table: &Location) -> Result<MetadataFile> {
    let folder = table.child(FOLDER);
    let files = place.list(&folder).await?;
    let name = |file: &ObjectMeta| file.location.filename().unwrap_or_default().to_owned();
    let mut hinted = None;
    if files.iter().any(|file| name(file) == "version-hint.text") {
        let hint = place.read(&folder.child("version-hint.text").to_string()).await?;
        let hint = String::from_utf8_lossy(&hint).trim().to_owned();
        hinted = files.iter().find(|file| name(file) == format!("{hint}.metadata.json"));
    }
    let versions = files.iter().filter_map(|file| Some((number_of(&name(file))?, file.last_modified, file)));
    let newest = versions.max_by_key(|(number, time, _)| (*number, *time)).map(|(_, _, file)| file);
    let Some(file) = hinted.or(newest) else {
        return Err(IcebergError::Missing { at: table.to_string(), what: "no Iceberg table is here".to_owned() });
    };
    let made = Some((file.size, file.last_modified.timestamp_micros()));
    Ok(MetadataFile { at: folder.child(&name(file)).to_string(), made })
}

/// What a metadata file says.
#[derive(Debug)]
pub(crate) struct Metadata {
    /// The file.
    pub(crate) at: String,
    pub(crate) table: TableMetadata,
    /// Branches and tags, and whether each is a branch.
    refs: BTreeMap<String, (i64, bool)>,
    pub(crate) names: Option<NameMapping>,
}

impl Metadata {
    pub(crate) async fn read(place: &Place, at: &str) -> Result<Self> {
        Self::parse(at, &place.read(at).await?)
    }

    fn parse(at: &str, bytes: &Bytes) -> Result<Self> {
        let broken = |error: &dyn std::fmt::Display| IcebergError::broken(at, error);
        let mut text = Vec::new();
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let read = GzDecoder::new(&bytes[..]).take(MOST_BYTES + 1).read_to_end(&mut text);
            if read.map_err(|error| broken(&error))? as u64 > MOST_BYTES {
                return Err(broken(&"it is too large to be metadata"));
            }
        } else {
            text.extend_from_slice(bytes);
        }
        let mut raw: Value = serde_json::from_slice(&text).map_err(|error| broken(&error))?;
        check_features(at, &raw)?;
        // Snapshots of version 1 have none, and in tables of version 3 the library wants one.
        for snapshot in raw["snapshots"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            snapshot.entry("sequence-number").or_insert(0.into());
        }
        // The library tries one version after the other, and says only that none fits.
        let unlike =
            |_| format!("a part that format version {} has is not there or of another kind", raw["format-version"]);
        let table: TableMetadata = decoded(at, || serde_json::from_value(raw.clone()).map_err(unlike))?;
        check_defaults(at, &raw, &table)?;
        let refs = raw["refs"].as_object().into_iter().flatten();
        let refs = refs.filter_map(|(name, said)| {
            Some((name.clone(), (said["snapshot-id"].as_i64()?, said["type"].as_str() == Some("branch"))))
        });
        let names = table.properties().get(NAME_MAPPING);
        let names = names.map(|names| serde_json::from_str(names)).transpose();
        let names = names.map_err(|error| broken(&format!("its {NAME_MAPPING} makes no sense: {error}")))?;
        Ok(Self { at: at.to_owned(), refs: refs.collect(), table, names })
    }

    /// The newest snapshot, and the columns of the table. A new table has no snapshot.
    pub(crate) fn newest(&self) -> (Option<SnapshotRef>, SchemaRef) {
        (self.table.current_snapshot().cloned(), self.table.current_schema().clone())
    }

    /// The snapshot that is called this: a branch or tag, `s` and the number of a snapshot, or a
    /// time, whose snapshot was the newest then. A branch has the table's columns, others have
    /// those of their time.
    pub(crate) fn named(&self, name: &str) -> Result<(Option<SnapshotRef>, SchemaRef)> {
        let missing = |what: String| IcebergError::Missing { at: self.at.clone(), what };
        let (id, is_branch) = if let Some(known) = self.refs.get(name) {
            *known
        } else if let Some(id) = name.strip_prefix('s').and_then(|id| id.parse::<i64>().ok()) {
            (id, false)
        } else if let Some(time) = string_to_timestamp_nanos(name).ok().filter(|_| name.starts_with(char::is_numeric)) {
            let before = |log: &&iceberg::spec::SnapshotLog| log.timestamp_ms <= time.div_euclid(1_000_000);
            let log = self.table.history().iter().rev().find(before);
            (log.ok_or_else(|| missing(format!("it had no snapshot at {name}")))?.snapshot_id, false)
        } else {
            let known = self.refs.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let what = format!("it has no branch or tag {name}; it has {known}; @s and a number name a snapshot");
            return Err(missing(what));
        };
        let snapshot = self.table.snapshot_by_id(id).cloned();
        let snapshot = snapshot.ok_or_else(|| missing(format!("it has no snapshot {id}, which may have expired")))?;
        let schema = if is_branch { Ok(self.table.current_schema().clone()) } else { snapshot.schema(&self.table) };
        Ok((Some(snapshot), schema.map_err(|error| IcebergError::broken(&self.at, error.message()))?))
    }
}

/// That nothing stands in the metadata which the library would stumble over without its name.
fn check_features(at: &str, raw: &Value) -> Result<()> {
    let version = &raw["format-version"];
    if version.as_u64().is_some_and(|version| version > 3) {
        return Err(IcebergError::feature(at, format!("format version {version}")));
    }
    let is_encrypted = raw["encryption-keys"].as_array().is_some_and(|keys| !keys.is_empty());
    if is_encrypted || !raw["properties"]["encryption.key-id"].is_null() {
        return Err(IcebergError::feature(at, "encryption"));
    }
    for field in fields(raw) {
        let kinds = [&field["type"], &field["type"]["element"], &field["type"]["key"], &field["type"]["value"]];
        for kind in kinds.into_iter().filter_map(Value::as_str) {
            let word = kind.split('(').next().unwrap_or_default();
            if matches!(word, "variant" | "geometry" | "geography" | "unknown") {
                let name = field["name"].as_str().unwrap_or("?");
                return Err(IcebergError::feature(at, format!("the type {word} (column {name})")));
            }
        }
    }
    Ok(())
}

/// The library takes a default that it cannot read for none.
fn check_defaults(at: &str, raw: &Value, table: &TableMetadata) -> Result<()> {
    for field in fields(raw).filter(|field| !field["initial-default"].is_null()) {
        let id = field["id"].as_i64().and_then(|id| i32::try_from(id).ok());
        let of_id = id.and_then(|id| table.schemas_iter().find_map(|schema| schema.field_by_id(id)));
        if of_id.is_none_or(|field| field.initial_default.is_none()) {
            let name = field["name"].as_str().unwrap_or("?");
            return Err(IcebergError::feature(at, format!("a default of column {name}: {}", field["initial-default"])));
        }
    }
    Ok(())
}

/// All fields of all schemas, also those in others.
fn fields(raw: &Value) -> impl Iterator<Item = &Value> {
    let schemas = raw["schemas"].as_array().into_iter().flatten().chain([&raw["schema"]]);
    let mut open: Vec<&Value> = schemas.collect();
    std::iter::from_fn(move || {
        let next = open.pop()?;
        let inside = if next["id"].is_null() { next } else { &next["type"] };
        open.extend(inside["fields"].as_array().into_iter().flatten());
        open.extend(["element", "key", "value"].iter().map(|part| &inside[part]).filter(|part| part.is_object()));
        Some(next)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn metadata_files_have_numbers() {
        for (name, number) in [
            ("v3.metadata.json", Some(3)),
            ("v12.gz.metadata.json", Some(12)),
            ("00007-8a0d-4b.metadata.json", Some(7)),
            ("00007-8a0d.gz.metadata.json", Some(7)),
            ("00007-8a0d.metadata.json.gz", Some(7)),
            ("snap-7.avro", None),
            ("x.metadata.json", None),
            ("v.metadata.json", None),
            ("metadata.json", None),
        ] {
            assert_eq!(number_of(name), number, "{name}");
        }
    }

    #[test]
    fn fields_in_fields_are_seen() {
        let raw = serde_json::json!({"schemas": [{"type": "struct", "fields": [
            {"id": 1, "name": "a", "type": "long"},
            {"id": 2, "name": "b", "type": {"type": "list", "element-id": 3, "element":
                {"type": "struct", "fields": [{"id": 4, "name": "c", "type": "variant"}]}}},
            {"id": 5, "name": "d", "type": {"type": "map", "key": "string", "value": "geometry(srid:4326)"}}]}]});
        let error = |raw: &Value| check_features("t", raw).unwrap_err().to_string();
        assert!(error(&raw).contains("geometry (column d)"), "{}", error(&raw));
        let names: Vec<_> = fields(&raw).filter_map(|field| field["name"].as_str()).collect();
        assert_eq!(names.len(), 4, "{names:?}");
        let without = serde_json::json!({"schemas": [raw["schemas"][0]["fields"][1]]});
        assert!(error(&without).contains("variant (column c)"));
        assert!(error(&serde_json::json!({"format-version": 4})).contains("format version 4"));
        assert!(error(&serde_json::json!({"properties": {"encryption.key-id": "k"}})).contains("encryption"));
    }
}
