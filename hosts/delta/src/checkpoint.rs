//! Checkpoints: the state at a version in one Parquet file, so that the log before it need not be
//! read.
//!
//! A row of a checkpoint is an action with the same fields as in a line of the log. Both ways lead
//! through JSON, so that there is one reader of actions. Classic checkpoints are read, of one file
//! or of several; one file is written. Checkpoints of version 2 are a table feature, which is
//! refused.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::json::{LineDelimitedWriter, ReaderBuilder};
use datafusion::common::DataFusionError;
use parquet::arrow::ArrowWriter;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::actions::Action;
use crate::error::{DeltaError, Result, decoded};
use crate::log::State;

/// Columns of a checkpoint that are read.
const COLUMNS: [&str; 5] = ["protocol", "metaData", "add", "remove", "txn"];
/// Tombstones are kept for a week, as the protocol says where the table does not.
const KEPT_MS: i64 = 7 * 24 * 60 * 60 * 1000;

/// The actions of a file of a checkpoint.
pub(crate) fn read(path: &Path) -> Result<Vec<Action>> {
    decoded(path, || actions(path))
}

fn actions(path: &Path) -> Result<Vec<Action>> {
    let broken = |error: &dyn std::fmt::Display| DeltaError::parquet(path, error);
    let file = File::open(path).map_err(DeltaError::io(path))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| broken(&error))?;
    let roots = builder.parquet_schema().root_schema().get_fields();
    let wanted = roots.iter().enumerate().filter(|(_, field)| COLUMNS.contains(&field.name()));
    let mask = ProjectionMask::roots(builder.parquet_schema(), wanted.map(|(i, _)| i).collect::<Vec<_>>());
    let mut json = LineDelimitedWriter::new(Vec::new());
    for batch in builder.with_projection(mask).build().map_err(|error| broken(&error))? {
        let batch = batch.map_err(|error| broken(&error))?;
        json.write(&batch).map_err(|error| broken(&error))?;
    }
    json.finish().map_err(|error| broken(&error))?;
    let lines = json.into_inner();
    let lines = lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).map_err(|error| broken(&error))).collect()
}

/// The checkpoint of `state`, and how many actions it has.
pub(crate) fn bytes(state: &State, now: i64) -> Result<(Vec<u8>, usize)> {
    let keep_all = state.metadata.property("delta.deletedFileRetentionDuration").is_some();
    let kept = |at: Option<i64>| keep_all || at.is_none_or(|at| at > now - KEPT_MS);
    let one = Action::default;
    let mut actions = vec![
        Action { protocol: Some(state.protocol.clone()), ..one() },
        Action { meta_data: Some(state.metadata.clone()), ..one() },
    ];
    actions.extend(state.files.values().map(|add| Action { add: Some(add.clone()), ..one() }));
    let removed = state.removed.values().filter(|remove| kept(remove.deletion_timestamp));
    actions.extend(removed.map(|remove| Action { remove: Some(remove.clone()), ..one() }));
    actions.extend(state.applications.values().map(|txn| Action { txn: Some(txn.clone()), ..one() }));
    let count = actions.len();
    let written = write(&actions).map_err(DeltaError::DataFusion)?;
    Ok((written, count))
}

fn write(actions: &[Action]) -> std::result::Result<Vec<u8>, DataFusionError> {
    let schema = Arc::new(schema());
    let mut writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), None)?;
    for actions in actions.chunks(8192) {
        let mut decoder = ReaderBuilder::new(Arc::clone(&schema)).with_batch_size(actions.len()).build_decoder()?;
        decoder.serialize(actions)?;
        let batch: Option<RecordBatch> = decoder.flush()?;
        batch.map_or(Ok(()), |batch| writer.write(&batch))?;
    }
    Ok(writer.into_inner()?)
}

fn schema() -> Schema {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let long = |name: &str| Field::new(name, DataType::Int64, true);
    let int = |name: &str| Field::new(name, DataType::Int32, true);
    let boolean = |name: &str| Field::new(name, DataType::Boolean, true);
    let list =
        |name: &str| Field::new(name, DataType::List(Arc::new(Field::new("element", DataType::Utf8, true))), true);
    let map = |name: &str| {
        let entry =
            Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)]);
        let entries = Field::new("key_value", DataType::Struct(entry), false);
        Field::new(name, DataType::Map(Arc::new(entries), false), true)
    };
    let fields = |name: &str, fields: Vec<Field>| Field::new(name, DataType::Struct(fields.into()), true);
    let vector = || {
        let where_ =
            vec![text("storageType"), text("pathOrInlineDv"), int("offset"), int("sizeInBytes"), long("cardinality")];
        fields("deletionVector", where_)
    };
    let txn = vec![text("appId"), long("version"), long("lastUpdated")];
    let add = vec![
        text("path"),
        map("partitionValues"),
        long("size"),
        long("modificationTime"),
        boolean("dataChange"),
        text("stats"),
        map("tags"),
        vector(),
    ];
    let remove = vec![
        text("path"),
        long("deletionTimestamp"),
        boolean("dataChange"),
        boolean("extendedFileMetadata"),
        map("partitionValues"),
        long("size"),
        vector(),
    ];
    let metadata = vec![
        text("id"),
        text("name"),
        text("description"),
        fields("format", vec![text("provider"), map("options")]),
        text("schemaString"),
        list("partitionColumns"),
        map("configuration"),
        long("createdTime"),
    ];
    let protocol =
        vec![int("minReaderVersion"), int("minWriterVersion"), list("readerFeatures"), list("writerFeatures")];
    Schema::new(vec![
        fields("txn", txn),
        fields("add", add),
        fields("remove", remove),
        fields("metaData", metadata),
        fields("protocol", protocol),
    ])
}
