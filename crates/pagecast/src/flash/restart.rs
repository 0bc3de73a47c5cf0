//! What a tier's file holds of a former pool.
//!
//! The index says where to look. It may be older than the slots: what was written after it is not
//! found, and what has left its slot since is found to be another page when it is read.

use std::collections::HashMap;
use std::io::{self, IoSliceMut};

use pagecast_core::{FrameId, PageId, RelationId};

use super::layout::{BLOCK, ENTRIES, ENTRY, Layout, read_entry};
use crate::buffer::Buffer;
use crate::storage::{Storage, read_full, write_full};

/// Blocks of the index that are read at once.
const AT_ONCE: u32 = 256;

/// What was found.
#[derive(Default)]
pub(super) struct Found {
    /// By the hash of name and generation: a number for each, from 0.
    pub(super) relations: HashMap<u128, RelationId>,
    pub(super) pages: Vec<(FrameId, PageId)>,
}

/// Reads the index, if the file is one of this layout. Else begins the file anew, and asks for its
/// room.
pub(super) fn read(storage: &dyn Storage, layout: Layout) -> io::Result<Found> {
    let mut head = Buffer::new(BLOCK as usize);
    let is_whole = storage.len() == layout.bytes() && {
        read_full(storage, 0, &mut [IoSliceMut::new(head.bytes_mut())])?;
        head.bytes() == layout.head()
    };
    if !is_whole {
        begin_anew(storage, layout)?;
        return Ok(Found::default());
    }
    let mut found = Found::default();
    for first in (0..layout.index_blocks()).step_by(AT_ONCE as usize) {
        let blocks = AT_ONCE.min(layout.index_blocks() - first);
        let mut index = Buffer::new(blocks as usize * BLOCK as usize);
        read_full(storage, layout.index_offset(first), &mut [IoSliceMut::new(index.bytes_mut())])?;
        for (slot, entry) in (first * ENTRIES..layout.slots).zip(index.bytes().chunks(ENTRY)) {
            found.enter(slot, entry);
        }
    }
    Ok(found)
}

impl Found {
    fn enter(&mut self, slot: u32, entry: &[u8]) {
        if let Some((hash, block)) = read_entry(slot, entry) {
            let next = RelationId(self.relations.len() as u32);
            let relation = *self.relations.entry(hash).or_insert(next);
            self.pages.push((FrameId(slot), PageId::new(relation, block)));
        }
    }
}

/// An empty file of its full length. The head comes last: without it nothing is read of it.
fn begin_anew(storage: &dyn Storage, layout: Layout) -> io::Result<()> {
    storage.set_len(0)?;
    storage.allocate(layout.bytes())?;
    let mut head = Buffer::new(BLOCK as usize);
    head.bytes_mut().copy_from_slice(&layout.head());
    write_full(storage, 0, head.bytes())
}
