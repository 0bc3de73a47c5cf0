//! How changes of an older version become the next one: put on top of what others have committed
//! since, or refused by the version that they do not go with.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use arrow::json::ReaderBuilder;
use arrow::json::reader::infer_json_schema_from_iterator;
use datafusion::common::DataFusionError;
use delta_kernel::EngineData;
use delta_kernel::committer::FileSystemCommitter;
use delta_kernel::engine::arrow_data::ArrowEngineData;
use delta_kernel::transaction::{CommitResult, Transaction, UpdateTableOperation};
use roaring::RoaringTreemap;
use serde_json::Value;

use crate::add::Add;
use crate::error::{DeltaError, Result};
use crate::log::{self, Line};
use crate::snapshot::{DataFile, Snapshot};
use crate::table::Table;

/// What was committed since changes began.
pub(crate) struct Since<'a> {
    table: &'a Table,
    base: &'a Snapshot,
    /// The newest version.
    pub(crate) tip: &'a Snapshot,
}

/// Commits what `changes` adds to the next version, and asks it again whenever somebody else was
/// first. The version. With `same_rows` whoever follows the table's changes finds none.
pub(crate) fn commit(
    table: &Table,
    base: &Snapshot,
    operation: UpdateTableOperation,
    same_rows: bool,
    changes: impl Fn(&Since<'_>, &mut Transaction) -> Result<()>,
) -> Result<u64> {
    let fault = |error| table.engine.fault(error);
    loop {
        let tip = table.newest()?;
        let since = Since { table, base, tip: &tip };
        since.check_columns()?;
        if tip.version() >= log::LAST {
            return Err(DeltaError::Refused { path: table.root.clone(), what: "it has its last version".to_owned() });
        }
        let next = Arc::clone(&tip.kernel).update_table(operation.clone(), crate::ENGINE, !same_rows);
        let mut next = next.build(&table.engine, Box::new(FileSystemCommitter::new())).map_err(fault)?;
        // Rows that stay where they are keep their ids, and no others are changed where rows have ids.
        next.ack_row_tracking_preservation();
        changes(&since, &mut next)?;
        match next.commit(&table.engine).map_err(fault)? {
            CommitResult::Committed(done) => {
                table.after_commit(done.commit_version());
                return Ok(done.commit_version());
            }
            CommitResult::Conflicted(_) => {}
            CommitResult::Retryable(failed) => return Err(fault(failed.error)),
        }
    }
}

/// New files as the library takes them.
pub(crate) fn added(adds: &[Add]) -> Result<Box<dyn EngineData>> {
    let row = |add: &Add| {
        let mut row = serde_json::to_value(add)?;
        let stats = add.stats.as_deref().map(serde_json::from_str).transpose()?;
        row["stats"] = stats.unwrap_or_default();
        Ok(row)
    };
    let rows = adds.iter().map(row).collect::<serde_json::Result<Vec<Value>>>();
    let rows = rows.map_err(|error| DataFusionError::External(Box::new(error)))?;
    let entry = vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)];
    let entries = Field::new("key_value", DataType::Struct(entry.into()), false);
    let stats = infer_json_schema_from_iterator(rows.iter().map(|row| Ok(&row["stats"])));
    let stats = DataType::Struct(stats.map_err(DataFusionError::from)?.fields().clone());
    let schema = Schema::new(vec![
        Field::new("path", DataType::Utf8, false),
        Field::new("partitionValues", DataType::Map(Arc::new(entries), false), false),
        Field::new("size", DataType::Int64, false),
        Field::new("modificationTime", DataType::Int64, false),
        Field::new("stats", stats, true),
    ]);
    let decoder = ReaderBuilder::new(Arc::new(schema)).with_batch_size(rows.len()).build_decoder();
    let mut decoder = decoder.map_err(DataFusionError::from)?;
    decoder.serialize(&rows).map_err(DataFusionError::from)?;
    let batch = decoder.flush().map_err(DataFusionError::from)?;
    let batch = batch.ok_or_else(|| DataFusionError::Internal("no files to add".to_owned()))?;
    Ok(Box::new(ArrowEngineData::new(batch)))
}

impl<'a> Since<'a> {
    fn check_columns(&self) -> Result<()> {
        let (tip, base) = (self.tip.kernel.table_configuration(), self.base.kernel.table_configuration());
        if tip.metadata() == base.metadata() && tip.protocol() == base.protocol() {
            return Ok(());
        }
        Err(self.conflict(Line::is_of_table, "has changed the table's columns or properties"))
    }

    /// The file as it is now, if these rows of it can be deleted there.
    pub(crate) fn file(&self, path: &str, rows: &RoaringTreemap) -> Result<&'a Arc<DataFile>> {
        let file = self.tip.files.iter().map(|(_, file)| file).find(|file| file.add.path == path);
        let what = match file {
            None => "has rewritten or removed a file in which this change deletes rows",
            Some(file) if !file.deleted.is_disjoint(rows) => "has changed a row that this change changes, too",
            Some(file) => return Ok(file),
        };
        Err(self.conflict(|line| line.names(path), what))
    }

    /// That the file still has the rows that it had.
    pub(crate) fn unchanged(&self, file: &DataFile) -> Result<()> {
        if self.tip.files.iter().any(|(_, now)| now.add.key() == file.add.key()) {
            return Ok(());
        }
        let what = "has changed a file that was being compacted";
        Err(self.conflict(|line| line.names(&file.add.path), what))
    }

    /// The last version since the base with such an action.
    fn conflict(&self, touches: impl Fn(&Line) -> bool, what: &str) -> DeltaError {
        let versions = (self.base.version() + 1..=self.tip.version()).rev();
        let with = |version: &u64| log::lines(&self.table.root, *version).is_ok_and(|lines| lines.iter().any(&touches));
        let version = { versions }.find(with).unwrap_or(self.tip.version());
        DeltaError::Conflict { path: self.table.root.clone(), version, what: what.to_owned() }
    }
}
