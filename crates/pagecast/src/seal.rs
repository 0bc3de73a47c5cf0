//! What a page says of itself on storage: which page it is, as of which log record, and a checksum.
//!
//! ```text
//!  0 ........... page_size - 24 | -24   | -16     | -12         | -8      | -4
//!  the host's bytes             | lsn   | block   | page size   | "pgc1"  | CRC-32 of all before
//! ```
//!
//! All little-endian. The seal is part of the page, so that one write carries both: a file of
//! checksums beside the data could be a write ahead or behind of it after a crash. A page of zeros
//! is a page that was never written: a file grows before its pages are filled. The block number
//! tells a page that was written to the wrong place.
//!
//! CRC-32 (IEEE) finds every torn page whose halves differ in a run of at most 32 bits and all but
//! 1 in 2^32 others; it is no protection against an attacker. About 10 GB/s per core with the
//! processor's instructions for it.

use std::fmt;

/// The place of a record in the host's log. Later records have larger numbers; what else it says is
/// the host's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// No record: a page that was never logged.
    pub const NONE: Lsn = Lsn(0);
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log record {}", self.0)
    }
}

/// What a page's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// All of them the host's. The pool can tell neither a damaged page nor a wrong page size.
    #[default]
    Raw,
    /// All but the last [`SEAL_BYTES`](crate::SEAL_BYTES), which the pool fills with a checksum,
    /// the page's number and the log record of its last change when it writes the page, and checks
    /// when it reads it.
    Sealed,
}

/// Bytes of a page that the seal takes.
pub const SEAL_BYTES: u32 = 24;

const MAGIC: [u8; 4] = *b"pgc1";

/// What is wrong with a page that came from storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Broken {
    /// No seal, or bytes that are not what was sealed.
    Checksum,
    /// The page says that it is another.
    Misplaced { block: u32 },
}

/// Seals a page: writes its last [`SEAL_BYTES`] bytes.
pub(crate) fn seal(page: &mut [u8], block: u32, lsn: Lsn) {
    let (size, end) = (page.len() as u32, page.len());
    page[end - 24..end - 16].copy_from_slice(&lsn.0.to_le_bytes());
    page[end - 16..end - 12].copy_from_slice(&block.to_le_bytes());
    page[end - 12..end - 8].copy_from_slice(&size.to_le_bytes());
    page[end - 8..end - 4].copy_from_slice(&MAGIC);
    let checksum = crc32fast::hash(&page[..end - 4]);
    page[end - 4..].copy_from_slice(&checksum.to_le_bytes());
}

/// Checks a page that came from storage. The log record of its last change.
pub(crate) fn verify(page: &[u8], block: u32) -> Result<Lsn, Broken> {
    let Some(sealed) = Sealed::of(page) else {
        return if page.iter().all(|&byte| byte == 0) { Ok(Lsn::NONE) } else { Err(Broken::Checksum) };
    };
    if sealed.block == block { Ok(sealed.lsn) } else { Err(Broken::Misplaced { block: sealed.block }) }
}

/// What a whole seal says.
struct Sealed {
    lsn: Lsn,
    block: u32,
}

impl Sealed {
    fn of(page: &[u8]) -> Option<Self> {
        let (rest, checksum) = page.split_last_chunk::<4>()?;
        let (rest, magic) = rest.split_last_chunk::<4>()?;
        let (rest, size) = rest.split_last_chunk::<4>()?;
        let (rest, block) = rest.split_last_chunk::<4>()?;
        let (_, lsn) = rest.split_last_chunk::<8>()?;
        // Any page of a fuzzer passes for one that was written, so that hosts meet it.
        let is_whole = *magic == MAGIC
            && u32::from_le_bytes(*size) as usize == page.len()
            && (cfg!(fuzzing) || u32::from_le_bytes(*checksum) == crc32fast::hash(&page[..page.len() - 4]));
        is_whole.then(|| Self { lsn: Lsn(u64::from_le_bytes(*lsn)), block: u32::from_le_bytes(*block) })
    }
}

/// The size of the pages of a file that begins with `bytes`, if its first page is sealed with
/// another size than ours.
pub(crate) fn page_size_of(bytes: &[u8]) -> Option<u32> {
    let sizes = (4096..=bytes.len()).step_by(4096);
    let mut sealed = sizes.filter(|&size| Sealed::of(&bytes[..size]).is_some_and(|sealed| sealed.block == 0));
    sealed.next().map(|size| size as u32)
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    use super::*;

    fn page(block: u32) -> Vec<u8> {
        let mut page: Vec<u8> = (0..8192u32).map(|i| (i % 251) as u8).collect();
        seal(&mut page, block, Lsn(77));
        page
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let mut sealed = page(5);
        assert_eq!(verify(&sealed, 5), Ok(Lsn(77)));
        for bit in (0..8192 * 8).step_by(7) {
            sealed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(verify(&sealed, 5), Err(Broken::Checksum), "bit {bit}");
            sealed[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_page_in_the_wrong_place_and_a_torn_one_are_found() {
        assert_eq!(verify(&page(5), 6), Err(Broken::Misplaced { block: 5 }));
        let mut torn = page(5);
        let mut newer: Vec<u8> = vec![9; 8192];
        seal(&mut newer, 5, Lsn(78));
        torn[..512].copy_from_slice(&newer[..512]);
        assert_eq!(verify(&torn, 5), Err(Broken::Checksum));
    }

    #[test]
    fn zeros_are_a_page_that_was_never_written() {
        assert_eq!(verify(&[0; 4096], 3), Ok(Lsn::NONE));
        let mut page = [0; 4096];
        page[100] = 1;
        assert_eq!(verify(&page, 3), Err(Broken::Checksum));
    }

    #[test]
    fn the_size_of_another_is_recognized() {
        let mut file = page(0);
        file.extend(page(1));
        assert_eq!(page_size_of(&file), Some(8192));
        assert_eq!(page_size_of(&file[..4096]), None);
    }
}
