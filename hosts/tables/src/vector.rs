//! Deletion vectors as Iceberg, Delta and DuckLake store them beside data files.

use roaring::RoaringTreemap;

/// What a vector begins with, behind its length.
const MAGIC: [u8; 4] = [0xd1, 0xd3, 0x39, 0x64];

/// The rows of a deletion vector: the length of what follows it up to the checksum, a magic number,
/// a 64-bit Roaring bitmap, and a checksum of the two.
///
/// # Errors
/// It is not whole, or none.
pub fn deletion_vector(blob: &[u8]) -> Result<RoaringTreemap, String> {
    let whole = || -> Option<(&[u8], &[u8])> {
        let (length, rest) = blob.split_first_chunk::<4>()?;
        let (vector, checksum) = rest.split_last_chunk::<4>()?;
        let is_whole = u32::from_be_bytes(*length) as usize == vector.len();
        let is_same = u32::from_be_bytes(*checksum) == crc32fast::hash(vector);
        (is_whole && is_same).then_some((vector.get(..4)?, vector.get(4..)?))
    };
    let (magic, bitmap) = whole().ok_or("its deletion vector is not whole")?;
    if magic != MAGIC {
        return Err("what should be a deletion vector is none".to_owned());
    }
    RoaringTreemap::deserialize_from(bitmap).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_vector_is_whole_or_none() {
        let rows: RoaringTreemap = [0, 7, 1 << 33].into_iter().collect();
        let mut bitmap = MAGIC.to_vec();
        rows.serialize_into(&mut bitmap).unwrap();
        let mut blob = (bitmap.len() as u32).to_be_bytes().to_vec();
        blob.extend(&bitmap);
        blob.extend(crc32fast::hash(&bitmap).to_be_bytes());
        assert_eq!(deletion_vector(&blob).unwrap(), rows);
        for cut in 0..blob.len() {
            assert!(deletion_vector(&blob[..cut]).is_err(), "{cut}");
            let mut other = blob.clone();
            other[cut] ^= 1;
            assert!(deletion_vector(&other).is_err(), "{cut}");
        }
    }
}
