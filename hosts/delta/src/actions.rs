//! The actions of the log, as the protocol writes them: one in a line of JSON, or in a row of a
//! checkpoint. What is not named here is left out when it is read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Values of the partition columns of a file, as texts.
pub(crate) type PartitionValues = BTreeMap<String, Option<String>>;

/// One line of the log. One of its fields is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Action {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) protocol: Option<Protocol>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) meta_data: Option<Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) add: Option<Add>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remove: Option<Remove>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) txn: Option<Txn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) commit_info: Option<Value>,
}

/// What a reader and a writer must know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Protocol {
    pub(crate) min_reader_version: i32,
    pub(crate) min_writer_version: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reader_features: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) writer_features: Option<Vec<String>>,
}

/// What the table is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    pub(crate) format: Format,
    pub(crate) schema_string: String,
    #[serde(default)]
    pub(crate) partition_columns: Vec<String>,
    #[serde(default)]
    pub(crate) configuration: BTreeMap<String, Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created_time: Option<i64>,
}

impl Metadata {
    pub(crate) fn property(&self, key: &str) -> Option<&str> {
        self.configuration.get(key)?.as_deref()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Format {
    pub(crate) provider: String,
    #[serde(default)]
    pub(crate) options: BTreeMap<String, Option<String>>,
}

/// A file is in the table, without the rows of its deletion vector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Add {
    /// Relative to the table's folder, and escaped as in a URL.
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) partition_values: PartitionValues,
    pub(crate) size: i64,
    #[serde(default)]
    pub(crate) modification_time: i64,
    pub(crate) data_change: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stats: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tags: Option<PartitionValues>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deletion_vector: Option<DeletionVector>,
}

/// A file is no longer in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remove {
    pub(crate) path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deletion_timestamp: Option<i64>,
    pub(crate) data_change: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) extended_file_metadata: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) partition_values: Option<PartitionValues>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deletion_vector: Option<DeletionVector>,
}

/// Where the numbers of a file's deleted rows are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeletionVector {
    pub(crate) storage_type: String,
    pub(crate) path_or_inline_dv: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) offset: Option<i32>,
    pub(crate) size_in_bytes: i32,
    pub(crate) cardinality: i64,
}

/// How far an application has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Txn {
    pub(crate) app_id: String,
    pub(crate) version: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_updated: Option<i64>,
}

/// What tells files of a version apart: the path, and which deletion vector it has.
pub(crate) type FileKey = (String, Option<(String, Option<i32>)>);

fn key(path: &str, vector: Option<&DeletionVector>) -> FileKey {
    let vector = vector.map(|dv| (format!("{}{}", dv.storage_type, dv.path_or_inline_dv), dv.offset));
    (path.to_owned(), vector)
}

impl Add {
    pub(crate) fn key(&self) -> FileKey {
        key(&self.path, self.deletion_vector.as_ref())
    }

    /// That it is no longer there.
    pub(crate) fn removed(&self, now: i64, data_change: bool) -> Remove {
        Remove {
            path: self.path.clone(),
            deletion_timestamp: Some(now),
            data_change,
            extended_file_metadata: Some(true),
            partition_values: Some(self.partition_values.clone()),
            size: Some(self.size),
            deletion_vector: self.deletion_vector.clone(),
        }
    }
}

impl Remove {
    pub(crate) fn key(&self) -> FileKey {
        key(&self.path, self.deletion_vector.as_ref())
    }
}
