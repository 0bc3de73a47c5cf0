//! What a table asks of its writers, and whether we know it. The library of the protocol says what
//! it can write; our own part is the data files. What one of both does not know is refused by its
//! name, before anything is written.

use std::path::Path;

use delta_kernel::snapshot::Snapshot;
use delta_kernel::table_features::{Operation, TableFeature};

use crate::engine::said;
use crate::error::{DeltaError, Result};

/// The property that lets rows be deleted without writing their file anew.
pub(crate) const ENABLE_VECTORS: &str = "delta.enableDeletionVectors";

/// Features that ask nothing of data files, or what ours have. Some of them ask it of certain
/// changes: see [`check_change`].
const WRITTEN: [TableFeature; 13] = [
    TableFeature::AppendOnly,
    TableFeature::ChangeDataFeed,
    TableFeature::ClusteredTable,
    TableFeature::ColumnMapping,
    TableFeature::DeletionVectors,
    TableFeature::DomainMetadata,
    TableFeature::InCommitTimestamp,
    TableFeature::Invariants,
    TableFeature::RowTracking,
    TableFeature::TimestampWithoutTimezone,
    TableFeature::TypeWidening,
    TableFeature::V2Checkpoint,
    TableFeature::VacuumProtocolCheck,
];
/// What each of the old versions of the protocol asked of writers.
const OLD_WRITERS: [(i32, &str); 4] =
    [(3, "checkConstraints"), (4, "changeDataFeed and generatedColumns"), (5, "columnMapping"), (6, "identityColumns")];
/// What a column's metadata asks of writers.
const OF_COLUMNS: [&str; 3] = ["delta.invariants", "delta.generationExpression", "delta.identity."];

/// Whether we can read the table. The library has said so of its own part.
pub(crate) fn check_read(root: &Path, table: &Snapshot) -> Result<()> {
    let format = table.table_configuration().metadata().format_provider();
    match format {
        "parquet" => Ok(()),
        other => Err(DeltaError::Feature {
            path: root.to_owned(),
            what: "its readers must know",
            feature: format!("files of {other}"),
        }),
    }
}

/// Whether we can write the table.
pub(crate) fn check_write(root: &Path, table: &Snapshot) -> Result<()> {
    let refused =
        |feature: String| Err(DeltaError::Feature { path: root.to_owned(), what: "its writers must know", feature });
    let (table, protocol) = (table.table_configuration(), table.table_configuration().protocol());
    if let Some((_, name)) = OLD_WRITERS.iter().find(|(version, _)| *version == protocol.min_writer_version()) {
        return refused((*name).to_owned());
    }
    if let Some(unknown) = protocol.writer_features().into_iter().flatten().find(|name| !WRITTEN.contains(name)) {
        return refused(unknown.to_string());
    }
    let columns = table.metadata().schema_string();
    if let Some(asked) = OF_COLUMNS.iter().find(|asked| columns.contains(*asked)) {
        return refused((*asked).to_owned());
    }
    table.ensure_operation_supported(Operation::Write).map_err(|error| said(root, error))
}

/// A change that some features ask more of than others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    /// Rows go.
    Delete,
    /// Rows get other values, or another file.
    Move,
}

/// Whether we can change the rows of the table in this way. What rows were before goes into a change
/// feed, and rows that move take their ids along: we write neither.
pub(crate) fn check_change(root: &Path, table: &Snapshot, change: Asking) -> Result<()> {
    let is_on = |feature| table.table_configuration().is_feature_enabled(&feature);
    let feature = match change {
        Asking::Delete if is_on(TableFeature::ChangeDataFeed) => "changeDataFeed (rows can only be added)",
        Asking::Move if is_on(TableFeature::RowTracking) => "rowTracking (rows can be added and marked as deleted)",
        _ => return Ok(()),
    };
    Err(DeltaError::Feature { path: root.to_owned(), what: "its writers must know", feature: feature.to_owned() })
}

/// Whether deleted rows are marked, and their file stays.
pub(crate) fn has_vectors(table: &Snapshot) -> bool {
    table.table_configuration().is_feature_enabled(&TableFeature::DeletionVectors)
}
