//! Deletion vectors: which rows of a file are gone. A commit writes one file for all its vectors,
//! beside the data.

use std::ops::Range;
use std::path::{Path, PathBuf};

use delta_kernel::actions::deletion_vector::{DeletionVectorDescriptor, DeletionVectorStorageType};
use delta_kernel::actions::deletion_vector_writer::{KernelDeletionVector, StreamingDeletionVectorWriter};
use delta_kernel::{Engine, KernelResult};
use roaring::RoaringTreemap;
use uuid::Uuid;

use crate::engine::LocalEngine;
use crate::error::{DeltaError, Result, decoded};

/// Reads the vector of a file in the table at `root`.
pub(crate) fn read(engine: &LocalEngine, root: &Path, vector: &DeletionVectorDescriptor) -> Result<RoaringTreemap> {
    let path = path(engine, vector)?.unwrap_or_else(|| root.to_owned());
    let url = engine.url()?;
    let rows = decoded(&path, || match vector.read(engine.storage_handler(), &url) {
        Ok(rows) => Ok(rows),
        Err(error) => Err(engine.fault(error).of_file(&path)),
    })?;
    if i64::try_from(rows.len()) != Ok(vector.cardinality) {
        let (has, said) = (rows.len(), vector.cardinality);
        return Err(DeltaError::broken(
            &path,
            None,
            format!("the deletion vector has {has} rows, and the log says {said}"),
        ));
    }
    Ok(rows)
}

/// The file that a vector is in, unless it is in the log.
pub(crate) fn path(engine: &LocalEngine, vector: &DeletionVectorDescriptor) -> Result<Option<PathBuf>> {
    let url = vector.absolute_path(&engine.url()?).map_err(|error| engine.fault(error))?;
    url.map(|url| engine.places().path_of(url.as_str())).transpose()
}

/// Vectors that are written together.
pub(crate) struct VectorFile {
    /// Its name in the table's folder.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// By the paths of the data files.
    pub(crate) vectors: Vec<(String, DeletionVectorDescriptor)>,
}

impl VectorFile {
    /// A file of these vectors; nothing if there are none.
    pub(crate) fn of<'a>(vectors: impl Iterator<Item = (&'a str, &'a RoaringTreemap)>) -> KernelResult<Option<Self>> {
        let id = Uuid::new_v4();
        let (mut bytes, mut written) = (Vec::new(), Vec::new());
        let mut writer = StreamingDeletionVectorWriter::new(&mut bytes);
        for (path, rows) in vectors {
            let mut vector = KernelDeletionVector::new();
            vector.add_deleted_row_indexes(rows.iter());
            let at = writer.write_deletion_vector(vector)?;
            let (kind, id) = (DeletionVectorStorageType::PersistedRelative, z85::encode(id.as_bytes()));
            let vector =
                DeletionVectorDescriptor::try_new(kind, id, Some(at.offset), at.size_in_bytes, at.cardinality)?;
            written.push((path.to_owned(), vector));
        }
        writer.finalize()?;
        let name = format!("deletion_vector_{id}.bin");
        Ok((!written.is_empty()).then_some(Self { name, bytes, vectors: written }))
    }
}

/// The numbers in `rows` as stretches.
pub(crate) fn stretches(rows: &RoaringTreemap) -> impl Iterator<Item = Range<u64>> {
    let mut rows = rows.iter().peekable();
    std::iter::from_fn(move || {
        let start = rows.next()?;
        let mut end = start + 1;
        while rows.next_if_eq(&end).is_some() {
            end += 1;
        }
        Some(start..end)
    })
}
