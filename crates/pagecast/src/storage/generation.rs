//! Which content a name stands for.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;

use thiserror::Error;

/// What tells one content of a file or an object from another, as its store says it: of a file the
/// device, its number there, size and times; of an object the ETag, version, size and time, as far
/// as there are any. Two things, or two states of one, do not share it.
///
/// A rewritten file has another change time even where size and modification time are put back.
/// File systems count time in ticks of a few milliseconds; a change within the tick of the previous
/// one is not seen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Generation {
    size: u64,
    /// Nanoseconds since 1970; 0 if nobody says.
    modified: i128,
    /// Which thing bears the name: device and number of a file. An object is its name alone.
    bearer: [u64; 2],
    /// When anything of a file changed, or a hash of an object's tag; 0 if nobody says.
    tag: u128,
}

impl Generation {
    /// Bytes in a dump.
    pub(crate) const ENCODED: usize = 56;

    /// Of a file.
    pub fn of_file(metadata: &Metadata) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            size: metadata.size(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            bearer: [metadata.dev(), metadata.ino()],
            tag: nanoseconds(metadata.ctime(), metadata.ctime_nsec()).cast_unsigned(),
        }
    }

    /// Of an object of `size` bytes. `modified` is when it was written, in nanoseconds since 1970,
    /// or 0 if nobody says; `tag` its ETag or its version.
    pub fn of_object(size: u64, modified: i128, tag: Option<&str>) -> Self {
        Self { size, modified, bearer: [0; 2], tag: tag.map_or(0, |tag| hash(tag.as_bytes())) }
    }

    /// Of a file in memory: the how-manieth of its name, after so many writes.
    pub(super) fn of_memory(number: u64, size: u64, writes: u64) -> Self {
        Self { size, modified: writes.into(), bearer: [0, number], tag: writes.into() }
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Last change of the content, in nanoseconds since 1970; 0 if nobody says.
    pub fn modified(&self) -> i128 {
        self.modified
    }

    /// Whether it is known to have been there before `other`.
    pub(crate) fn is_before(&self, other: &Generation) -> bool {
        self.modified != 0 && self.modified < other.modified
    }

    /// Whether `now` is a later state of the same file, of at least `len` bytes.
    pub(super) fn is_grown_to(&self, now: &Generation, len: u64) -> bool {
        self.bearer == now.bearer && now.size >= len
    }

    /// What differs in `now`, for people.
    pub(super) fn difference(&self, now: &Generation) -> String {
        if self.size != now.size {
            format!("its size went from {} to {} bytes", self.size, now.size)
        } else if self.bearer != now.bearer {
            "another file has its name".to_owned()
        } else {
            "same size, but it was written to".to_owned()
        }
    }

    pub(crate) fn encode(&self) -> [u8; Self::ENCODED] {
        let mut bytes = [0; Self::ENCODED];
        bytes[..8].copy_from_slice(&self.size.to_le_bytes());
        bytes[8..24].copy_from_slice(&self.modified.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.bearer[0].to_le_bytes());
        bytes[32..40].copy_from_slice(&self.bearer[1].to_le_bytes());
        bytes[40..].copy_from_slice(&self.tag.to_le_bytes());
        bytes
    }

    /// A hash of this generation of what is called `name`: to look for it, not to be sure of it.
    pub(crate) fn hash_with(&self, name: &[u8]) -> u128 {
        hash(&[&self.encode(), name].concat())
    }

    pub(crate) fn decode(bytes: &[u8; Self::ENCODED]) -> Self {
        fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
            std::array::from_fn(|i| bytes[at + i])
        }
        Self {
            size: u64::from_le_bytes(part(bytes, 0)),
            modified: i128::from_le_bytes(part(bytes, 8)),
            bearer: [u64::from_le_bytes(part(bytes, 24)), u64::from_le_bytes(part(bytes, 32))],
            tag: u128::from_le_bytes(part(bytes, 40)),
        }
    }
}

/// Fowler, Noll and Vo's hash, variant 1a, of 128 bits. Of a tag, which a store makes.
fn hash(tag: &[u8]) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let begin = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    tag.iter().fold(begin, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

/// What a request fails with, inside an [`io::Error`], where the name stands for another content
/// than the one that was opened.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("the content changed ({how})")]
pub struct Changed {
    /// What differs.
    pub how: String,
}

impl From<Changed> for io::Error {
    fn from(changed: Changed) -> Self {
        Self::other(changed)
    }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_one_of_its_authors() {
        assert_eq!(hash(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(hash(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }

    #[test]
    fn objects_differ_by_size_time_and_tag() {
        let one = Generation::of_object(7, 9, Some("\"1\""));
        for other in [
            Generation::of_object(8, 9, Some("\"1\"")),
            Generation::of_object(7, 8, Some("\"1\"")),
            Generation::of_object(7, 9, Some("\"2\"")),
            Generation::of_object(7, 9, None),
        ] {
            assert_ne!(one, other);
            assert_eq!(Generation::decode(&other.encode()), other);
        }
        assert!(Generation::of_object(7, 8, None).is_before(&one));
        assert!(!Generation::of_object(7, 0, None).is_before(&one), "nobody knows");
    }
}
