//! Deletion vectors: which rows of a file are gone.
//!
//! A vector is a Roaring bitmap of row numbers in the portable layout, inside the action itself or
//! in a file beside the data. A commit writes one such file for all its vectors.

use std::ops::Range;
use std::path::{Path, PathBuf};

use roaring::RoaringTreemap;
use uuid::Uuid;

use crate::actions::DeletionVector;
use crate::error::{DeltaError, Result};
use crate::inside;

const MAGIC: u32 = 1_681_511_377;
/// The first byte of a file of vectors.
const VERSION: u8 = 1;
const DIGITS: &[u8; 85] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// Reads the vector of a file in the table at `root`.
pub(crate) fn read(root: &Path, vector: &DeletionVector) -> Result<RoaringTreemap> {
    let unknown = |what: String| DeltaError::broken(root, None, format!("a deletion vector {what}"));
    let (path, at, bytes) = match vector.storage_type.as_str() {
        "i" => {
            let bytes = decode(&vector.path_or_inline_dv);
            (root.to_owned(), None, bytes.ok_or_else(|| unknown("in its action is no text of base 85".into()))?)
        }
        "u" | "p" => {
            let path = path(root, vector).ok_or_else(|| {
                unknown(format!("has a path that is none of its folder: {}", vector.path_or_inline_dv))
            })?;
            inside::check(root, &path)?;
            let (at, bytes) = read_part(&path, vector)?;
            (path, Some(at), bytes)
        }
        other => return Err(unknown(format!("is stored in a way that we do not know: {other}"))),
    };
    let broken = |what: String| DeltaError::broken(&path, at, what);
    let (magic, bitmap) = bytes.split_first_chunk().ok_or_else(|| broken("the deletion vector is empty".into()))?;
    if u32::from_le_bytes(*magic) != MAGIC {
        return Err(broken("what is here is no deletion vector".into()));
    }
    let rows = RoaringTreemap::deserialize_from(bitmap)
        .map_err(|error| broken(format!("the deletion vector makes no sense ({error})")))?;
    if i64::try_from(rows.len()) != Ok(vector.cardinality) {
        let (has, said) = (rows.len(), vector.cardinality);
        return Err(broken(format!("the deletion vector has {has} rows, and the log says {said}")));
    }
    Ok(rows)
}

/// The file that a vector is in, which lies in the table's folder.
pub(crate) fn path(root: &Path, vector: &DeletionVector) -> Option<PathBuf> {
    let text = &vector.path_or_inline_dv;
    if vector.storage_type == "p" {
        return inside::path_of(root, text).ok();
    }
    let (folder, id) = text.split_at_checked(text.len().checked_sub(20)?)?;
    let id = Uuid::from_slice(&decode(id)?).ok()?;
    inside::joined(root, Path::new(folder).join(file_name(id)).to_str()?)
}

fn file_name(id: Uuid) -> String {
    format!("deletion_vector_{id}.bin")
}

/// The bytes of a vector in its file, and where they are.
fn read_part(path: &Path, vector: &DeletionVector) -> Result<(u64, Vec<u8>)> {
    let file = std::fs::read(path).map_err(DeltaError::io(path))?;
    let start = usize::try_from(vector.offset.unwrap_or(1)).unwrap_or(usize::MAX);
    let len = usize::try_from(vector.size_in_bytes).unwrap_or(usize::MAX);
    let broken = |fault: &str| DeltaError::broken(path, start as u64, fault);
    let part = start.checked_add(4).and_then(|from| Some((from, from.checked_add(len)?)));
    let (from, to) =
        part.filter(|&(_, to)| to.checked_add(4).is_some_and(|end| end <= file.len())).ok_or_else(|| {
            broken(&format!("a deletion vector of {len} bytes reaches beyond the file's {} bytes", file.len()))
        })?;
    let number = |at: usize| file[at..at + 4].iter().fold(0, |number, &byte| number << 8 | u32::from(byte));
    if number(start) as usize != len {
        return Err(broken("the deletion vector has another length than the log says"));
    }
    if number(to) != crc32fast::hash(&file[from..to]) {
        return Err(broken("the checksum of the deletion vector is not that of its bytes"));
    }
    Ok((start as u64, file[from..to].to_vec()))
}

/// Vectors that are written together.
pub(crate) struct VectorFile {
    id: Uuid,
    pub(crate) bytes: Vec<u8>,
}

impl VectorFile {
    pub(crate) fn new() -> Self {
        Self { id: Uuid::new_v4(), bytes: vec![VERSION] }
    }

    /// Its name in the table's folder.
    pub(crate) fn name(&self) -> String {
        file_name(self.id)
    }

    pub(crate) fn push(&mut self, rows: &RoaringTreemap) -> DeletionVector {
        let offset = self.bytes.len();
        let mut data = MAGIC.to_le_bytes().to_vec();
        // Memory takes all that is written to it.
        let written = rows.serialize_into(&mut data);
        debug_assert!(written.is_ok());
        self.bytes.extend((data.len() as u32).to_be_bytes());
        self.bytes.extend(&data);
        self.bytes.extend(crc32fast::hash(&data).to_be_bytes());
        DeletionVector {
            storage_type: "u".to_owned(),
            path_or_inline_dv: encode(self.id.as_bytes()),
            offset: Some(offset as i32),
            size_in_bytes: data.len() as i32,
            cardinality: rows.len() as i64,
        }
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

/// Text of base 85 (Z85); the length is one of 4.
fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for four in bytes.chunks(4) {
        let number = four.iter().fold(0_u32, |number, &byte| number << 8 | u32::from(byte));
        text.extend([52_200_625, 614_125, 7225, 85, 1].map(|power| char::from(DIGITS[(number / power % 85) as usize])));
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(5) {
        return None;
    }
    let mut bytes = Vec::new();
    for five in text.as_bytes().chunks(5) {
        let mut number = 0_u64;
        for byte in five {
            number = number * 85 + DIGITS.iter().position(|digit| digit == byte)? as u64;
        }
        bytes.extend(u32::try_from(number).ok()?.to_be_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn base_85_is_that_of_its_specification() {
        assert_eq!(encode(&[0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B]), "HelloWorld");
        assert_eq!(decode("HelloWorld").unwrap(), [0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B]);
        assert_eq!((decode("Hell"), decode("#####"), decode("a\"aaa")), (None, None, None));
    }

    #[test]
    fn what_is_written_is_read_and_a_flipped_byte_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (mut file, mut vectors) = (VectorFile::new(), Vec::new());
        for rows in [vec![0, 1, 2, 9], (0..300).step_by(3).collect(), vec![1 << 40]] {
            let rows: RoaringTreemap = rows.into_iter().collect();
            vectors.push((file.push(&rows), rows));
        }
        let path = folder.path().join(file.name());
        std::fs::write(&path, &file.bytes).unwrap();
        for (vector, rows) in &vectors {
            assert_eq!(read(folder.path(), vector).unwrap(), *rows);
        }
        for at in 1..file.bytes.len() {
            let mut broken = file.bytes.clone();
            broken[at] ^= 0x10;
            std::fs::write(&path, &broken).unwrap();
            let faults: Vec<_> = vectors.iter().filter_map(|(vector, _)| read(folder.path(), vector).err()).collect();
            assert_eq!(faults.len(), 1, "byte {at}");
            assert!(faults[0].to_string().contains("deletion_vector_"), "{}", faults[0]);
        }
        for len in 0..file.bytes.len() {
            std::fs::write(&path, &file.bytes[..len]).unwrap();
            assert!(read(folder.path(), &vectors[2].0).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn hostile_vectors_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (kind, text) in
            [("i", "Hell"), ("i", ""), ("u", "short"), ("u", "ääääääääääääääääääääa"), ("x", ""), ("i", "HelloWorld")]
        {
            let vector =
                DeletionVector { storage_type: kind.into(), path_or_inline_dv: text.into(), ..Default::default() };
            assert!(read(folder.path(), &vector).is_err(), "{kind} {text}");
        }
        let rows: RoaringTreemap = [3, 4, 5, 9].into_iter().collect();
        assert!(stretches(&rows).eq([3..6, 9..10]));
    }
}
