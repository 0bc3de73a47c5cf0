//! The file that names hot pages, and how one is read that nobody vouches for.
//!
//! ```text
//!  "PGCSTHOT"  version u32  page size u32  relations u32  pages u32  queries u32
//!  relation:   generation (size u64  modified i128  bearer 2 u64  tag u128)  name length u32  name
//!  page:       relation u32 (its place above)  block u32
//!  query:      what is known of when it comes back, 14 times u64
//!  FNV-1a of all before, u64
//! ```
//!
//! Numbers are little endian. The checksum finds damage, not malice; whatever the bytes say,
//! reading them takes memory in proportion to the file's length, and what they name is looked up,
//! never opened.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use pagecast_core::forecast::Template;

use super::WarmError;
use crate::storage::Generation;

const MAGIC: &[u8; 8] = b"PGCSTHOT";
/// 1: the generation was that of a file, in another order. 2: without queries. 3: without days off.
const VERSION: u32 = 4;
/// The longest file that is read: a list of more than 100 million pages.
const MAX_LENGTH: u64 = 1 << 30;
const CHECKSUM: usize = size_of::<u64>();

/// Which pages were hot.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Dump {
    pub(super) page_size: u32,
    pub(super) relations: Vec<(PathBuf, Generation)>,
    /// The place of the relation, and the block; the hottest first.
    pub(super) pages: Vec<(u32, u32)>,
    pub(super) queries: Vec<[u64; Template::WORDS]>,
}

impl Dump {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let mut put = |value: u32| bytes.extend(value.to_le_bytes());
        let counts = [self.relations.len(), self.pages.len(), self.queries.len()].map(|count| count as u32);
        [VERSION, self.page_size].into_iter().chain(counts).for_each(&mut put);
        for (path, generation) in &self.relations {
            bytes.extend(generation.encode());
            let name = path.as_os_str().as_bytes();
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend(name);
        }
        for (relation, block) in &self.pages {
            bytes.extend(relation.to_le_bytes());
            bytes.extend(block.to_le_bytes());
        }
        self.queries.iter().flatten().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(fnv(&bytes).to_le_bytes());
        bytes
    }

    /// A reader finds the old file or the new one.
    pub(super) fn write(&self, path: &Path) -> Result<(), WarmError> {
        let failed = |source| WarmError::Io { path: path.to_owned(), what: "writing", source };
        crate::files::write(path, &self.encode()).map_err(failed)
    }

    /// The dump in the file; nothing if it is one of another version of pagecast.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, WarmError> {
        let read = || -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            File::open(path)?.take(MAX_LENGTH + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().map_err(|source| WarmError::Io { path: path.to_owned(), what: "reading", source })?;
        let damaged = |(offset, how)| WarmError::Damaged { path: path.to_owned(), offset, how };
        Self::decode(&bytes).map_err(damaged)
    }

    /// The dump in `bytes`, if it is of this version, or where and how they are no dump.
    fn decode(bytes: &[u8]) -> Result<Option<Self>, (usize, &'static str)> {
        if bytes.len() as u64 > MAX_LENGTH {
            return Err((MAX_LENGTH as usize, "it is too long"));
        }
        let mut rest = Reader { bytes, at: 0 };
        if rest.take(MAGIC.len())? != MAGIC {
            return Err((0, "it begins otherwise"));
        }
        let version = rest.u32()?;
        let end = bytes.len().checked_sub(CHECKSUM).ok_or((bytes.len(), "it ends too early"))?;
        let (body, checksum) = bytes.split_at(end);
        if checksum != fnv(body).to_le_bytes() {
            return Err((end, "its checksum is wrong"));
        }
        if version != VERSION {
            return Ok(None);
        }
        rest.bytes = body;
        let (page_size, relations, pages, queries) = (rest.u32()?, rest.u32()?, rest.u32()?, rest.u32()?);
        // Grown as they are read, so that a count without what it counts takes no memory.
        let relations = (0..relations).map(|_| rest.relation()).collect::<Result<Vec<_>, _>>()?;
        let pages = (0..pages).map(|_| Ok((rest.u32()?, rest.u32()?))).collect::<Result<Vec<_>, _>>()?;
        let queries = (0..queries).map(|_| rest.query()).collect::<Result<Vec<_>, _>>()?;
        if rest.at != body.len() {
            return Err((rest.at, "more follows than it says"));
        }
        Ok(Some(Self { page_size, relations, pages, queries }))
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

type Taken<T> = Result<T, (usize, &'static str)>;

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Taken<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..count).ok_or((self.bytes.len(), "it ends too early"))?;
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Taken<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many bytes as were taken"))
    }

    fn u32(&mut self) -> Taken<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn query(&mut self) -> Taken<[u64; Template::WORDS]> {
        let mut words = [0; Template::WORDS];
        for word in &mut words {
            *word = u64::from_le_bytes(self.array()?);
        }
        Ok(words)
    }

    fn relation(&mut self) -> Taken<(PathBuf, Generation)> {
        let generation = Generation::decode(&self.array()?);
        let length = self.u32()? as usize;
        let name = std::ffi::OsString::from_vec(self.take(length)?.to_vec());
        Ok((name.into(), generation))
    }
}

/// Fowler, Noll and Vo's hash, variant 1a, of 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn dump() -> Dump {
        let generation = |size| Generation::of_object(size, -3, Some("tag"));
        let relations = vec![("a".into(), generation(4)), ("b/ü".into(), generation(u64::MAX))];
        Dump {
            page_size: 4096,
            relations,
            pages: vec![(1, 7), (0, u32::MAX), (1, 0)],
            queries: vec![[9; Template::WORDS]],
        }
    }

    #[test]
    fn the_hash_is_the_one_of_its_authors() {
        assert_eq!((fnv(b""), fnv(b"a")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c));
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Dump::decode(&dump().encode()), Ok(Some(dump())));
    }

    #[test]
    fn another_version_is_no_damage() {
        let mut bytes = dump().encode();
        bytes[MAGIC.len()] = 1;
        let end = bytes.len() - CHECKSUM;
        let checksum = fnv(&bytes[..end]).to_le_bytes();
        bytes[end..].copy_from_slice(&checksum);
        assert_eq!(Dump::decode(&bytes), Ok(None));
    }

    #[test]
    fn damage_anywhere_is_found() {
        let bytes = dump().encode();
        for length in 0..bytes.len() {
            assert!(Dump::decode(&bytes[..length]).is_err(), "cut at {length}");
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            assert!(Dump::decode(&bytes).is_err(), "changed at {at}");
        }
    }

    #[test]
    fn bytes_that_lie_are_refused_whatever_their_checksum() {
        // With every run of four bytes replaced by the largest number, and the checksum made right.
        let bytes = dump().encode();
        for at in 12..bytes.len() - CHECKSUM - 4 {
            let mut body = bytes[..bytes.len() - CHECKSUM].to_vec();
            body[at..at + 4].fill(0xff);
            let checksum = fnv(&body);
            body.extend(checksum.to_le_bytes());
            if let Ok(read) = Dump::decode(&body) {
                let read = read.expect("its version is as it was");
                assert_eq!((read.relations.len(), read.pages.len()), (2, 3), "lies at {at} change no count");
            }
        }
    }
}
