//! What a table asks of its readers and writers, and whether we know it. What we do not know is
//! refused by its name, before anything is read or written.

use std::path::Path;

use crate::actions::{Metadata, Protocol};
use crate::error::{DeltaError, Result};

/// The feature that lets rows be deleted without writing their file anew.
pub(crate) const DELETION_VECTORS: &str = "deletionVectors";
/// The property that says so.
pub(crate) const ENABLE_VECTORS: &str = "delta.enableDeletionVectors";

/// Features that say how data is to be read.
const READ: [&str; 3] = [DELETION_VECTORS, "timestampNtz", "vacuumProtocolCheck"];
/// Features of tables that we may write.
const WRITTEN: [&str; 5] = [DELETION_VECTORS, "timestampNtz", "vacuumProtocolCheck", "appendOnly", "invariants"];
/// What each of the old versions of the protocol asked of writers.
const OLD_WRITERS: [(i32, &str); 6] = [
    (2, "appendOnly and invariants"),
    (3, "checkConstraints"),
    (4, "changeDataFeed and generatedColumns"),
    (5, "columnMapping"),
    (6, "identityColumns"),
    (7, ""),
];
/// What a column's metadata asks of writers.
const OF_COLUMNS: [&str; 3] = ["delta.invariants", "delta.generationExpression", "delta.identity."];

fn refused(root: &Path, what: &'static str, feature: impl Into<String>) -> DeltaError {
    DeltaError::Feature { path: root.to_owned(), what, feature: feature.into() }
}

/// Whether we can read the table.
pub(crate) fn check_read(root: &Path, protocol: &Protocol, metadata: &Metadata) -> Result<()> {
    const READERS: &str = "its readers must know";
    match protocol.min_reader_version {
        1 => {}
        2 => {
            if metadata.property("delta.columnMapping.mode").is_some_and(|mode| mode != "none") {
                return Err(refused(root, READERS, "columnMapping"));
            }
        }
        3 => {
            let features = protocol.reader_features.iter().flatten();
            let mapped = metadata.property("delta.columnMapping.mode").is_some_and(|mode| mode != "none");
            let unknown = |name: &&String| !READ.contains(&name.as_str()) && (mapped || *name != "columnMapping");
            if let Some(unknown) = { features }.find(unknown) {
                return Err(refused(root, READERS, unknown));
            }
        }
        newer => return Err(refused(root, READERS, format!("version {newer} of the protocol"))),
    }
    match metadata.format.provider.as_str() {
        "parquet" => Ok(()),
        other => Err(refused(root, READERS, format!("files of {other}"))),
    }
}

/// Whether we can write the table.
pub(crate) fn check_write(root: &Path, protocol: &Protocol, metadata: &Metadata) -> Result<()> {
    const WRITERS: &str = "its writers must know";
    check_read(root, protocol, metadata)?;
    match protocol.min_writer_version {
        1 | 2 => {}
        7 => {
            let unknown = |name: &&String| !WRITTEN.contains(&name.as_str());
            if let Some(unknown) = protocol.writer_features.iter().flatten().find(unknown) {
                return Err(refused(root, WRITERS, unknown));
            }
        }
        version => {
            let name = OLD_WRITERS.iter().find(|(known, _)| *known == version).map(|(_, name)| *name);
            let name = name.map_or_else(|| format!("version {version} of the protocol"), str::to_owned);
            return Err(refused(root, WRITERS, name));
        }
    }
    if let Some(asked) = OF_COLUMNS.iter().find(|asked| metadata.schema_string.contains(*asked)) {
        return Err(refused(root, WRITERS, *asked));
    }
    Ok(())
}

/// Whether deleted rows are marked, and their file stays.
pub(crate) fn has_vectors(protocol: &Protocol, metadata: &Metadata) -> bool {
    let features = protocol.reader_features.iter().flatten();
    { features }.any(|name| name == DELETION_VECTORS) && metadata.property(ENABLE_VECTORS) == Some("true")
}

/// Whether rows may only be added.
pub(crate) fn is_append_only(metadata: &Metadata) -> bool {
    metadata.property("delta.appendOnly") == Some("true")
}
