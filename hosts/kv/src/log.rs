//! The write-ahead log: two files in turn, flushed for all who wait at once.
//!
//! Rules:
//! * (L1) A record is whole or it is none, and records become durable in their order.
//! * (L2) A file is begun anew only when a checkpoint has made every record of it needless, and
//!   when all records of the other one are durable. Its header is durable before the other file
//!   names it, and that before a record follows. So a header that was written in vain, because its
//!   write or the power failed, changes nothing.
//! * (L3) After a sync has failed nothing is said to be durable any more: nobody knows what is on
//!   the device. A write that failed is made again by the next flush, of the same bytes.
//! * (L4) What a log held when it was opened is durable up to the last durable end that it knows.
//!   What follows is written again before anybody builds on it: it may be in the system's cache
//!   only.
//! * (L5) After a recovery places go on behind all that the recovered file could have had. So no
//!   page is of a later record than one that is still to come, whatever was lost.
//!
//! Group commit: whoever finds no flush under way flushes all that has come so far, without the
//! lock, and the others wait. Those who come meanwhile share the next flush.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use pagecast::Lsn;
use pagecast::storage::{Device, Storage, read_full, write_full};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::found::Found;
use crate::log_file::{
    Aligned, BLOCK, FIRST, Header, Note, ROOM, RecordKind, block_offset, blocks, encode, file_length, open_error,
    record_length,
};
use crate::{Error, Result};

pub(crate) struct WriteAheadLog {
    files: [Arc<dyn Storage>; 2],
    page_size: u32,
    store: u64,
    /// Bytes of records in a file, after which the other one is begun.
    capacity: u64,
    state: Mutex<State>,
    flush_ended: Condvar,
}

struct State {
    /// The file that is written, and its header; of life 0 if none was begun.
    file: usize,
    header: Header,
    /// The last life of either file.
    last_life: u64,
    /// The place of the next record.
    end: u64,
    /// Records before this place are durable.
    durable: u64,
    /// Records before this place are not needed after a crash.
    checkpointed: u64,
    /// Where the last batch ends: behind it are checkpoints only.
    changed: u64,
    /// Places that no record of this log ever had (L5): behind the end of what was recovered.
    never: Range<u64>,
    /// The records of the file from byte `pending_at` of all on that are not durable, and what
    /// comes before them in their block.
    pending: Vec<u8>,
    pending_at: u64,
    is_flushing: bool,
    /// What a flush writes from.
    memory: Aligned,
    /// Why nothing can be made durable any more.
    broken: Option<Error>,
}

impl WriteAheadLog {
    /// Opens the two files, or makes them. What they held before is `None` for a new store; then
    /// `page_size` and `capacity` are of use.
    pub(crate) fn open(device: &Device, folder: &Path, page_size: u32, capacity: u64) -> Result<(Self, Option<Found>)> {
        let files = [open_file(device, &folder.join("log.0"))?, open_file(device, &folder.join("log.1"))?];
        let found = Found::read(&files)?;
        let (file, last_life) = found.as_ref().map_or((1, 0), |found| (found.file, found.life));
        let header = found.as_ref().map_or_else(
            || Header { page_size, store: new_number(), life: 0, after: FIRST, start: FIRST, from: FIRST, capacity },
            |found| *found.header(),
        );
        let length = file_length(header.capacity);
        // Once more if that was begun before: nobody knows how far it came.
        files
            .iter()
            .filter(|file| found.is_none() || file.len() < length)
            .try_for_each(|file| allocate(file, length))?;
        // A store that was never written to is a new one still.
        let found = found.filter(|found| !found.is_new());
        let (durable, pending_at, pending) = found.as_ref().map_or((FIRST, 0, Vec::new()), Found::tail);
        let end = found.as_ref().map_or(FIRST, |found| found.end().0);
        let state = State {
            file,
            header,
            last_life,
            end,
            durable,
            checkpointed: found.as_ref().map_or(FIRST, |found| found.from),
            changed: end,
            never: end..end,
            pending,
            pending_at,
            is_flushing: false,
            memory: Aligned::default(),
            broken: None,
        };
        let (page_size, store, capacity) = (header.page_size, header.store, header.capacity);
        Ok((Self { files, page_size, store, capacity, state: Mutex::new(state), flush_ended: Condvar::new() }, found))
    }

    pub(crate) fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Bytes of records in a file.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The number of the store.
    pub(crate) fn store(&self) -> u64 {
        self.store
    }

    /// Whether a page that is of record `at` tells that the end of the log was lost.
    pub(crate) fn has_lost(&self, at: Lsn) -> bool {
        self.state.lock().never.contains(&at.0)
    }

    /// What is wrong if the pages of a store are there and its log is empty.
    pub(crate) fn is_missing(&self) -> Error {
        let what = "it is empty, and the pages are those of a store";
        Error::DamagedLog { path: self.files[0].path().to_owned(), offset: 0, what }
    }

    /// Begins the log of a new store.
    pub(crate) fn begin(&self) -> Result<()> {
        self.begin_other_file(self.state.lock(), None).map(drop)
    }

    /// Every record so far is needless: goes on in the other file, behind all places that this one
    /// could have had (L5).
    pub(crate) fn begin_anew(&self) -> Result<()> {
        let state = self.state.lock();
        let start = state.header.start + file_length(self.capacity);
        self.begin_other_file(state, Some(start)).map(drop)
    }

    /// Goes on in the other file, in a new life (L2): at the end, or at a place before which
    /// nothing is needed. Rarely, and others wait: each file takes many flushes.
    fn begin_other_file<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        anew: Option<u64>,
    ) -> Result<MutexGuard<'s, State>> {
        loop {
            let end = state.end;
            state = self.flush_from(state, end)?;
            if state.durable == state.end {
                break;
            }
        }
        // With all of it durable no flush is under way, and none begins while this is held.
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        let State { file, header: Header { life, .. }, end, checkpointed, .. } = *state;
        let (start, from) = anew.map_or((end, checkpointed), |start| (start, start));
        let (other, next) = (1 - file, state.last_life + 1);
        let header = Header { life: next, after: end, start, from, ..state.header };
        let mut memory = std::mem::take(&mut state.memory);
        let head = memory.of_length(BLOCK);
        head.copy_from_slice(&header.block());
        self.write_and_sync(&mut state, other, 0, head)?;
        if life > 0 {
            let mut records = state.pending.clone();
            encode(life, end, RecordKind::Next, &next.to_le_bytes(), &mut records);
            let at = state.pending_at;
            let tail = blocks(life, end, at, &records, &mut memory);
            self.write_and_sync(&mut state, file, block_offset(at), tail)?;
        }
        state.memory = memory;
        (state.file, state.header, state.last_life) = (other, header, next);
        (state.end, state.durable, state.checkpointed) = (start, start, from);
        if anew.is_some() {
            state.never = end..start;
        }
        (state.pending, state.pending_at) = (Vec::new(), 0);
        Ok(state)
    }

    /// While nobody else flushes.
    fn write_and_sync(&self, state: &mut State, file: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = &self.files[file];
        let failed = |source| Error::Log { path: file.path().to_owned(), offset, source: Arc::new(source) };
        write_full(file.as_ref(), offset, bytes).map_err(failed)?;
        let synced = file.sync().map_err(failed);
        state.broken = synced.clone().err();
        synced
    }

    /// Makes room for a record of so many bytes. False: a checkpoint must be made first (L2).
    /// One thread at a time.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<bool> {
        let state = self.state.lock();
        if state.end - state.header.start + bytes <= self.capacity {
            return Ok(true);
        }
        if state.checkpointed < state.header.start {
            return Ok(false);
        }
        self.begin_other_file(state, None).map(|_| true)
    }

    /// Adds a record. Its pages are pinned alone, and room was reserved.
    pub(crate) fn append(&self, content: &[u8]) -> Lsn {
        self.state.lock().append(RecordKind::Batch, content)
    }

    /// Where the next record goes.
    pub(crate) fn end(&self) -> Lsn {
        Lsn(self.state.lock().end)
    }

    /// Bytes that wait to be flushed.
    pub(crate) fn waiting(&self) -> u64 {
        let state = self.state.lock();
        state.end - state.durable
    }

    /// Every change before `upto` is on storage. Checkpoints without a change between them take one
    /// record: nobody reserves room for theirs.
    pub(crate) fn checkpointed(&self, upto: Lsn) {
        let mut state = self.state.lock();
        if upto.0.min(state.changed) > state.checkpointed {
            state.checkpointed = upto.0;
            state.append(RecordKind::Checkpoint, &upto.0.to_le_bytes());
        }
    }

    /// Whether a checkpoint is due: the other file is needed soon, and is not free yet.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        let state = self.state.lock();
        state.checkpointed < state.header.start && state.end - state.header.start > self.capacity / 2
    }

    /// Makes every record so far durable.
    pub(crate) fn flush(&self) -> Result<()> {
        let state = self.state.lock();
        let end = state.end;
        self.flush_from(state, end).map(drop)
    }

    /// Makes record `at` durable, and all before it.
    pub(crate) fn flush_record(&self, at: Lsn) -> Result<()> {
        let state = self.state.lock();
        let end = state.end.min(at.0 + 1);
        self.flush_from(state, end).map(drop)
    }

    /// Waits until all before `end` is durable, flushing if nobody does.
    fn flush_from<'s>(&'s self, mut state: MutexGuard<'s, State>, end: u64) -> Result<MutexGuard<'s, State>> {
        while state.durable < end {
            if let Some(error) = &state.broken {
                return Err(error.clone());
            }
            if state.is_flushing {
                self.flush_ended.wait(&mut state);
                continue;
            }
            state = self.flush_pending(state)?;
        }
        Ok(state)
    }

    /// One flush, of all that is there now.
    fn flush_pending<'s>(&'s self, mut state: MutexGuard<'s, State>) -> Result<MutexGuard<'s, State>> {
        let (file, at, end) = (&self.files[state.file], state.pending_at, state.end);
        let mut memory = std::mem::take(&mut state.memory);
        let length = state.pending.len();
        let bytes = blocks(state.header.life, state.durable, at, &state.pending, &mut memory);
        state.is_flushing = true;
        drop(state);

        let offset = block_offset(at);
        let failed = |source| Error::Log { path: file.path().to_owned(), offset, source: Arc::new(source) };
        let written = write_full(file.as_ref(), offset, bytes).map_err(failed);
        let synced = written.as_ref().map_or(Ok(()), |()| file.sync().map_err(failed));

        let mut state = self.state.lock();
        state.memory = memory;
        state.is_flushing = false;
        if let Err(error) = &synced {
            state.broken = Some(error.clone());
        }
        let outcome = written.and(synced);
        if outcome.is_ok() {
            state.durable = end;
            let done = length / ROOM * ROOM;
            state.pending.drain(..done);
            state.pending_at += done as u64;
        }
        self.flush_ended.notify_all();
        outcome.map(|()| state)
    }

    /// Flushes, and notes the end in the other file, before the log goes. Nobody waits for the
    /// note: it tells later that a record is damaged, and not torn. What fails leaves it out.
    pub(crate) fn end_with_note(&self) -> Result<()> {
        self.flush()?;
        let mut state = self.state.lock();
        let note = Note { life: state.header.life, durable: state.durable };
        if note.life > 0 && note.durable == state.end && state.broken.is_none() {
            let other = self.files[1 - state.file].as_ref();
            let block = state.memory.of_length(BLOCK);
            if read_full(other, 0, &mut [IoSliceMut::new(block)]).is_ok_and(|read| read == BLOCK) {
                note.put(block);
                let _ = write_full(other, 0, block);
            }
        }
        Ok(())
    }
}

impl State {
    fn append(&mut self, kind: RecordKind, content: &[u8]) -> Lsn {
        let place = self.end;
        encode(self.header.life, place, kind, content, &mut self.pending);
        self.end += record_length(content.len());
        if kind == RecordKind::Batch {
            self.changed = self.end;
        }
        Lsn(place)
    }
}

/// What the pool asks before it writes a page.
impl pagecast::Log for WriteAheadLog {
    fn flush_to(&self, at: Lsn) -> io::Result<Lsn> {
        self.flush_record(at).map_err(io::Error::other)?;
        Ok(Lsn(self.state.lock().durable - 1))
    }
}

/// Gives a file all its bytes now, so that a full disk does not stop a commit later.
fn allocate(file: &Arc<dyn Storage>, length: u64) -> Result<()> {
    const PIECE: usize = 1 << 20;
    let mut memory = Aligned::default();
    let mut pieces = (0..length).step_by(PIECE);
    let mut zero = |at| write_full(file.as_ref(), at, memory.of_length(PIECE.min((length - at) as usize)));
    pieces.try_for_each(&mut zero).and_then(|()| file.sync()).map_err(|source| open_error(file, source))
}

/// One that no other store has.
fn new_number() -> u64 {
    // Its keys are random.
    RandomState::new().hash_one(0)
}

fn open_file(device: &Device, path: &Path) -> Result<Arc<dyn Storage>> {
    device.open_to_write(path, true).map_err(|source| match source.kind() {
        io::ErrorKind::ResourceBusy => Error::Locked { path: path.to_owned() },
        _ => Error::Open { path: path.to_owned(), source: Arc::new(source) },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use pagecast::storage::MemoryFiles;

    #[test]
    fn checkpoints_of_nothing_new_take_no_room() {
        let device = Device::new(MemoryFiles::new(), None);
        let (log, found) = WriteAheadLog::open(&device, "s".as_ref(), 4096, 1 << 16).unwrap();
        assert!(found.is_none());
        log.begin().unwrap();
        for _ in 0..2 {
            assert!(log.reserve(100).unwrap());
            log.append(b"a change");
            log.checkpointed(log.end());
            let end = log.end();
            (0..3).for_each(|_| log.checkpointed(log.end()));
            assert_eq!(log.end(), end);
        }
        log.flush().unwrap();
        let (_, found) = WriteAheadLog::open(&device, "s".as_ref(), 4096, 1 << 16).unwrap();
        assert_eq!(found.unwrap().batches().count(), 0, "a checkpoint was made after the last of them");
    }
}
