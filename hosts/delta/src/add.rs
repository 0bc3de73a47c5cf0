//! Files as the log has them, or will.

use std::collections::BTreeMap;
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::json::LineDelimitedWriter;
use datafusion::common::DataFusionError;
use delta_kernel::actions::deletion_vector::DeletionVectorDescriptor;
use serde::{Deserialize, Serialize};

use crate::error::{DeltaError, Result};

/// Values of the partition columns of a file, as texts, by the names that the files have for them.
pub(crate) type PartitionValues = BTreeMap<String, Option<String>>;

/// A file as the log has it, or will.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Add {
    /// Relative to the table's folder, and escaped as in a URL.
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) partition_values: PartitionValues,
    pub(crate) size: i64,
    pub(crate) modification_time: i64,
    pub(crate) stats: Option<String>,
    #[serde(skip_serializing)]
    pub(crate) deletion_vector: Option<DeletionVectorDescriptor>,
}

/// What tells files of a version apart: the path, and which deletion vector it has.
pub(crate) type FileKey<'a> = (&'a str, Option<(&'a str, Option<i32>)>);

/// A row of the library's scan.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scanned {
    #[serde(flatten)]
    add: Add,
    file_constant_values: Option<Constants>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Constants {
    #[serde(default)]
    partition_values: PartitionValues,
}

impl Add {
    pub(crate) fn key(&self) -> FileKey<'_> {
        let vector = self.deletion_vector.as_ref();
        (&self.path, vector.map(|vector| (vector.path_or_inline_dv.as_str(), vector.offset)))
    }

    /// The files of a scan, in its order.
    pub(crate) fn of_scan(root: &Path, rows: &RecordBatch) -> Result<Vec<Self>> {
        let mut json = LineDelimitedWriter::new(Vec::new());
        json.write(rows).and_then(|()| json.finish()).map_err(DataFusionError::from)?;
        let lines = json.into_inner();
        let lines = lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let add = |line| {
            let row: Scanned = serde_json::from_slice(line).map_err(|error| {
                DeltaError::broken(root, None, format!("a file in the log makes no sense ({error})"))
            })?;
            let partition_values = row.file_constant_values.map(|constants| constants.partition_values);
            Ok(Self { partition_values: partition_values.unwrap_or_default(), ..row.add })
        };
        lines.map(add).collect()
    }
}
