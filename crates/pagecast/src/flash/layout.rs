//! Where things are in the tier's file.
//!
//! ```text
//!  4096 bytes of head | the index: 32 bytes a slot, to a whole 4096 | slots: 4096 bytes of header and a page each
//!  head:   magic 8 | page size 4 | slots 4 | CRC-32 of the head before 4
//!  entry:  hash of name and generation 16 | block 4 | CRC-32 of the slot's number and the entry before 4 | unused 8
//!  header: magic 8 | CRC-32 of all that follows, the page included 4 | page size 4 | block 4 | bytes of the page 4 |
//!          generation 56 | length of name 4 | name | zeros to 4096
//! ```
//!
//! All little-endian. Nothing is ever made safe from a crash, and no write waits for another: the
//! header says whole what the page is, and the checksum tells whether both are of one write. The
//! index is where to look, no more. A page is what its header says, wherever it is found.

use crate::storage::Generation;

/// What direct requests are multiples of, and the length of head and headers.
pub(super) const BLOCK: u64 = 4096;
const MAGIC: [u8; 8] = *b"pgc-fl\0\x01";
pub(super) const ENTRY: usize = 32;
/// Entries in a block of the index.
pub(super) const ENTRIES: u32 = BLOCK as u32 / ENTRY as u32;
/// Bytes of a header before the name.
const FIXED: usize = 84;
/// Pages of files with longer names are not copied.
pub(super) const MAX_NAME: usize = BLOCK as usize - FIXED;

/// How the file is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) slots: u32,
    pub(super) page_size: u32,
}

impl Layout {
    /// As many slots as there can be in a file of `bytes` bytes.
    pub(super) fn within(bytes: u64, page_size: u32) -> Self {
        let of = |slots: u64| Self { slots: slots.min(u64::from(u32::MAX - 1)) as u32, page_size };
        let each = BLOCK + u64::from(page_size) + ENTRY as u64;
        let mut slots = bytes.saturating_sub(BLOCK) / each;
        // The index ends with a whole block.
        while slots > 0 && of(slots).bytes() > bytes {
            slots -= 1;
        }
        of(slots)
    }

    /// The fewest bytes of a tier.
    pub(super) fn minimum(page_size: u32) -> u64 {
        Self { slots: 1, page_size }.bytes()
    }

    pub(super) fn slot_bytes(self) -> usize {
        BLOCK as usize + self.page_size as usize
    }

    pub(super) fn index_blocks(self) -> u32 {
        self.slots.div_ceil(ENTRIES)
    }

    pub(super) fn index_offset(self, block: u32) -> u64 {
        BLOCK * (1 + u64::from(block))
    }

    pub(super) fn slot_offset(self, slot: u32) -> u64 {
        self.index_offset(self.index_blocks()) + u64::from(slot) * self.slot_bytes() as u64
    }

    /// Of the whole file.
    pub(super) fn bytes(self) -> u64 {
        self.slot_offset(self.slots)
    }

    /// The file's head, which another layout has otherwise.
    pub(super) fn head(self) -> [u8; BLOCK as usize] {
        let mut head = [0; BLOCK as usize];
        head[..8].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&self.page_size.to_le_bytes());
        head[12..16].copy_from_slice(&self.slots.to_le_bytes());
        let checksum = crc32fast::hash(&head[..16]);
        head[16..20].copy_from_slice(&checksum.to_le_bytes());
        head
    }
}

/// What a slot's bytes are of.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Identity {
    pub(super) name: Box<[u8]>,
    pub(super) generation: Generation,
    pub(super) hash: u128,
}

impl Identity {
    /// None if the name is too long.
    pub(super) fn new(name: &[u8], generation: Generation) -> Option<Self> {
        let hash = generation.hash_with(name);
        (name.len() <= MAX_NAME).then(|| Self { name: name.into(), generation, hash })
    }

    /// What the header says of block `block`, of which there are `len` bytes; its first twelve
    /// bytes, which depend on the page, are left out.
    fn header(&self, page_size: u32, block: u32, len: u32) -> [u8; BLOCK as usize] {
        let mut header = [0; BLOCK as usize];
        header[12..16].copy_from_slice(&page_size.to_le_bytes());
        header[16..20].copy_from_slice(&block.to_le_bytes());
        header[20..24].copy_from_slice(&len.to_le_bytes());
        header[24..24 + Generation::ENCODED].copy_from_slice(&self.generation.encode());
        header[80..84].copy_from_slice(&(self.name.len() as u32).to_le_bytes());
        header[FIXED..FIXED + self.name.len()].copy_from_slice(&self.name);
        header
    }

    /// Fills a slot's bytes: `page` is block `block`.
    pub(super) fn fill(&self, slot: &mut [u8], block: u32, page: &[u8]) {
        let (header, into) = slot.split_at_mut(BLOCK as usize);
        header.copy_from_slice(&self.header(into.len() as u32, block, page.len() as u32));
        into[..page.len()].copy_from_slice(page);
        into[page.len()..].fill(0);
    }

    /// Whether `header` and `page` are a whole slot with the `len` bytes of block `block`.
    pub(super) fn is_in(&self, header: &[u8], page: &[u8], block: u32, len: u32) -> bool {
        header[..8] == MAGIC
            && header[12..] == self.header(page.len() as u32, block, len)[12..]
            && header[8..12] == checksum(header, page).to_le_bytes()
    }
}

/// Seals a slot that was filled: what is read as a slot is all of it.
pub(super) fn seal(slot: &mut [u8]) {
    let (header, page) = slot.split_at_mut(BLOCK as usize);
    let checksum = checksum(header, page);
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&checksum.to_le_bytes());
}

fn checksum(header: &[u8], page: &[u8]) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&header[12..]);
    checksum.update(page);
    checksum.finalize()
}

/// The entry of the index for a slot with block `block` of what has this hash.
pub(super) fn entry(slot: u32, hash: u128, block: u32) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    entry[..16].copy_from_slice(&hash.to_le_bytes());
    entry[16..20].copy_from_slice(&block.to_le_bytes());
    let checksum = entry_checksum(slot, &entry[..20]);
    entry[20..24].copy_from_slice(&checksum.to_le_bytes());
    entry
}

/// The hash and the block of a slot's entry, unless it is empty or broken.
pub(super) fn read_entry(slot: u32, entry: &[u8]) -> Option<(u128, u32)> {
    let (hash, rest) = entry.split_first_chunk::<16>()?;
    let (block, rest) = rest.split_first_chunk::<4>()?;
    let (checksum, _) = rest.split_first_chunk::<4>()?;
    let is_whole = *checksum == entry_checksum(slot, &entry[..20]).to_le_bytes();
    is_whole.then(|| (u128::from_le_bytes(*hash), u32::from_le_bytes(*block)))
}

/// Not that of an empty entry, but for one in 2^32, which then leads to a slot that is none.
fn entry_checksum(slot: u32, entry: &[u8]) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&slot.to_le_bytes());
    checksum.update(&MAGIC);
    checksum.update(entry);
    checksum.finalize()
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PAGE: usize = 8192;

    fn identity(name: &str, tag: &str) -> Identity {
        Identity::new(name.as_bytes(), Generation::of_object(100_000, 7, Some(tag))).unwrap()
    }

    fn slot(identity: &Identity, block: u32, byte: u8) -> Vec<u8> {
        let mut slot = vec![0xee; BLOCK as usize + PAGE];
        identity.fill(&mut slot, block, &vec![byte; PAGE - 100]);
        seal(&mut slot);
        slot
    }

    fn is_in(slot: &[u8], identity: &Identity, block: u32, len: u32) -> bool {
        identity.is_in(&slot[..BLOCK as usize], &slot[BLOCK as usize..], block, len)
    }

    #[test]
    fn a_slot_is_the_page_of_one_name_generation_block_and_length() {
        let (one, len) = (identity("s3://a/b", "1"), PAGE as u32 - 100);
        let slot = slot(&one, 3, 7);
        assert!(is_in(&slot, &one, 3, len));
        assert!(!is_in(&slot, &one, 4, len) && !is_in(&slot, &one, 3, len + 1));
        assert!(!is_in(&slot, &identity("s3://a/c", "1"), 3, len) && !is_in(&slot, &identity("s3://a/b", "2"), 3, len));
    }

    /// A write over another page's slot that ended anywhere is neither page.
    #[test]
    fn a_slot_that_was_torn_anywhere_is_none() {
        let (one, two, len) = (identity("s3://a/b", "1"), identity("s3://a/b", "2"), PAGE as u32 - 100);
        let (old, new) = (slot(&one, 3, 7), slot(&two, 3, 8));
        for cut in 1..old.len() {
            let mut torn = old.clone();
            torn[..cut].copy_from_slice(&new[..cut]);
            // Between the last byte that differs and the end, and before the first, it is whole.
            let is_whole = [torn == old, torn == new];
            assert_eq!([is_in(&torn, &one, 3, len), is_in(&torn, &two, 3, len)], is_whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_bit_that_flipped_is_found() {
        let (one, len) = (identity("s3://a/b", "1"), PAGE as u32 - 100);
        let mut slot = slot(&one, 3, 7);
        for bit in (0..slot.len() * 8).step_by(61) {
            slot[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_in(&slot, &one, 3, len), "bit {bit}");
            slot[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn an_entry_is_of_its_slot_and_nothing_is_none() {
        let entry = entry(5, 1 << 100, 9);
        assert_eq!(read_entry(5, &entry), Some((1 << 100, 9)));
        assert_eq!(read_entry(6, &entry), None);
        assert!((0..1000).all(|slot| read_entry(slot, &[0; ENTRY]).is_none()));
    }

    #[test]
    fn the_file_is_never_longer_than_its_cap() {
        for page_size in [4096, 65_536, 4 << 20] {
            let minimum = Layout::minimum(page_size);
            for bytes in (0..40).map(|step| minimum + step * 1_234_567) {
                let layout = Layout::within(bytes, page_size);
                let more = Layout { slots: layout.slots + 1, ..layout };
                assert!(layout.slots > 0 && layout.bytes() <= bytes && more.bytes() > bytes, "{layout:?} in {bytes}");
            }
            assert_eq!(Layout::within(minimum - 1, page_size).slots, 0);
        }
        assert!(identity(&"x".repeat(MAX_NAME), "1").header(4096, 0, 0).len() == 4096);
        assert!(Identity::new(&[b'x'; MAX_NAME + 1], Generation::of_object(1, 1, None)).is_none());
    }
}
