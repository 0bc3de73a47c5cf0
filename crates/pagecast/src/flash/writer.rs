//! The thread that writes slots and the index.
//!
//! One page after the other, as they were admitted, each a request. The index is written when the
//! thread has had nothing to do for a while, after a part of the slots was written, and at the end.

use std::collections::BTreeSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use pagecast_core::{FrameId, PageId};

use super::layout::{BLOCK, ENTRIES, ENTRY, entry, seal};
use super::{Shared, State};
use crate::buffer::Buffer;
use crate::storage::write_full;

/// With nothing to write for so long, the index is written.
const IDLE: Duration = Duration::from_secs(1);
/// The index is written after this part of the slots, and no fewer than so many.
const PART: u32 = 16;
const FEWEST: u32 = 256;
/// Blocks of the index that are written at once.
const AT_ONCE: usize = 64;

/// A slot to be written, with the bytes.
pub(super) struct Slot {
    pub(super) slot: FrameId,
    pub(super) page: PageId,
    pub(super) buffer: Buffer,
}

/// What the file's index does not say yet.
#[derive(Default)]
pub(super) struct Index {
    /// Blocks of it.
    changed: BTreeSet<u32>,
    /// Slots that were written since the last time.
    slots: u32,
}

impl Index {
    /// The slot has another page than the index says.
    pub(super) fn change(&mut self, slot: FrameId) {
        self.changed.insert(slot.0 / ENTRIES);
    }

    /// The blocks that are to be written, from the first on, as far as they are neighbours.
    fn take_run(&mut self) -> Option<(u32, u32)> {
        let first = self.changed.pop_first()?;
        let mut end = first + 1;
        while ((end - first) as usize) < AT_ONCE && self.changed.remove(&end) {
            end += 1;
        }
        Some((first, end))
    }
}

/// What the thread does next.
enum Work {
    Slot(Slot),
    Index,
    /// Nothing, ever.
    End,
}

impl State {
    /// Whether the file has all that was admitted.
    pub(super) fn is_settled(&self) -> bool {
        self.queue.is_empty() && self.writing.is_empty() && self.index.changed.is_empty()
    }

    /// What there is to do now; nothing if that is to wait.
    fn next(&mut self, slots: u32, is_idle: bool) -> Option<Work> {
        let has_changed = !self.index.changed.is_empty();
        if has_changed && self.index.slots >= (slots / PART).max(FEWEST) {
            return Some(Work::Index);
        }
        if let Some(slot) = self.queue.pop_front() {
            return Some(Work::Slot(slot));
        }
        match has_changed && (is_idle || self.is_awaited || self.is_closed) {
            true => Some(Work::Index),
            false => self.is_closed.then_some(Work::End),
        }
    }
}

impl Shared {
    pub(super) fn work(&self) {
        while let Some(work) = self.next_work() {
            let done = catch_unwind(AssertUnwindSafe(|| match work {
                Work::Slot(slot) => self.write(slot),
                Work::Index => self.write_index(),
                Work::End => Ok(()),
            }));
            match done {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.turn_off(&error),
                Err(_) => self.turn_off(&io::Error::other("the storage panicked")),
            }
        }
        // Off or at the end: nobody has use for them.
        let mut state = self.state.lock();
        state.queue.clear();
        state.buffers.clear();
    }

    /// Waits for work; none when the tier is off or at its end.
    fn next_work(&self) -> Option<Work> {
        let mut state = self.state.lock();
        let mut is_idle = false;
        loop {
            if self.off.get().is_some() {
                return None;
            }
            match state.next(self.layout.slots, is_idle) {
                Some(Work::End) => return None,
                Some(work) => return Some(work),
                None => {}
            }
            if state.is_settled() {
                state.is_awaited = false;
                self.settled.notify_all();
            }
            is_idle = self.arrived.wait_for(&mut state, IDLE).timed_out();
        }
    }

    /// Writes a slot. From then on its page is found (F3).
    fn write(&self, slot: Slot) -> io::Result<()> {
        let Slot { slot, page, mut buffer } = slot;
        seal(buffer.bytes_mut());
        write_full(self.storage.as_ref(), self.layout.slot_offset(slot.0), buffer.bytes())?;
        self.counts.pages_written.fetch_add(1, Relaxed);
        self.counts.bytes_written.fetch_add(buffer.bytes().len() as u64, Relaxed);
        let mut state = self.state.lock();
        state.writing.remove(&slot);
        state.tier.release(slot);
        state.buffers.push(buffer);
        // A page that has left the tier meanwhile leaves an entry as it was.
        if state.tier.find(page) == Some(slot) {
            state.index.change(slot);
            state.index.slots += 1;
        }
        Ok(())
    }

    /// Writes what has changed of the index.
    fn write_index(&self) -> io::Result<()> {
        loop {
            let (offset, buffer) = {
                let mut state = self.state.lock();
                let Some((first, end)) = state.index.take_run() else {
                    state.index.slots = 0;
                    return Ok(());
                };
                (self.layout.index_offset(first), self.blocks(&state, first, end))
            };
            write_full(self.storage.as_ref(), offset, buffer.bytes())?;
            self.counts.bytes_written.fetch_add(buffer.bytes().len() as u64, Relaxed);
        }
    }

    /// The blocks of the index from `first` to before `end`.
    fn blocks(&self, state: &State, first: u32, end: u32) -> Buffer {
        let mut buffer = Buffer::new((end - first) as usize * BLOCK as usize);
        let slots = first * ENTRIES..(end * ENTRIES).min(self.layout.slots);
        for (slot, into) in slots.zip(buffer.bytes_mut().chunks_mut(ENTRY)) {
            let page = state.tier.page(FrameId(slot)).filter(|_| !state.writing.contains(&FrameId(slot)));
            let hash = page.and_then(|page| state.hashes.get(&page.relation()));
            if let Some((page, hash)) = page.zip(hash) {
                into.copy_from_slice(&entry(slot, *hash, page.block()));
            }
        }
        buffer
    }
}
