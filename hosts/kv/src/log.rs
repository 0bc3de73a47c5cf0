// STOP, please read /work/dur/AAA-two-engineers-are-in-this-worktree.txt: a second engineer has rewritten this file already
// (kv log format 3: faults 3, 4, 5, 8 done and tested; double_write faults 6, 7 under way) in /tmp/dur/wt, branch durability-kv.
// Please take faults 9 and 10 and the pool tests; answer in /tmp/dur/ANSWER.txt; `git checkout` this file.
//! The write-ahead log: two files in turn, flushed for all who wait at once.
//!
//! Rules:
//! * (L1) A record is whole or it is none, and records become durable in their order.
//! * (L2) A file is begun anew only when a checkpoint has made every record of it needless, and
//!   when all records of the other one are durable. Its header is durable before a record follows:
//!   of a header and records that were torn together, nothing tells what the records belong to.
//! * (L3) After a sync has failed nothing is said to be durable any more: nobody knows what is on
//!   the device. A write that failed is made again by the next flush, of the same bytes.
//!
//! Group commit: whoever finds no flush under way flushes all that has come so far, without the
//! lock, and the others wait. Those who come meanwhile share the next flush.

use std::io;
use std::path::Path;
use std::sync::Arc;

use pagecast::Lsn;
use pagecast::storage::{Device, Storage, write_full};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::log_file::{Aligned, BLOCK, Content, Header, RecordKind, encode, open_error, record_length};
use crate::{Error, Result};

/// The place of the very first record: above [`Lsn::NONE`].
const FIRST: u64 = BLOCK as u64;

pub(crate) struct WriteAheadLog {
    files: [Arc<dyn Storage>; 2],
    page_size: u32,
    /// Bytes of records in a file, after which the other one is begun.
    capacity: u64,
    state: Mutex<State>,
    flush_ended: Condvar,
}

struct State {
    /// The file that is written, its life, and the place of its first record.
    file: usize,
    life: u64,
    start: u64,
    /// The place of the next record.
    end: u64,
    /// Records before this place are durable.
    durable: u64,
    /// Records before this place are not needed after a crash.
    checkpointed: u64,
    /// Where the last batch ends: behind it are checkpoints only.
    changed: u64,
    /// The bytes of the file from `pending_at` on that are not durable, and those before them that
    /// share their block.
    pending: Vec<u8>,
    pending_at: u64,
    is_flushing: bool,
    /// What a flush writes from.
    memory: Aligned,
    /// Why nothing can be made durable any more.
    broken: Option<Error>,
}

/// What an opened log says has happened.
pub(crate) struct Found {
    older: Option<Content>,
    newer: Content,
    /// Which file the newer one is.
    file: usize,
    /// Records before this place are not needed.
    from: u64,
}

impl Found {
    /// Of the older file, only what is needed.
    fn of(older: Option<Content>, newer: Content, file: usize) -> Result<Self> {
        let from = last_checkpoint(&newer).unwrap_or(newer.header.from);
        let older = older.filter(|_| from < newer.header.start);
        if let Some(older) = older.as_ref().filter(|older| older.end() != newer.header.start) {
            let offset = BLOCK as u64 + older.end() - older.header.start;
            let what = "a record is missing that the pages may lack";
            return Err(Error::DamagedLog { path: older.path.clone(), offset, what });
        }
        Ok(Self { older, newer, file, from })
    }

    fn is_new(&self) -> bool {
        self.newer.header.start == FIRST && self.newer.records().all(|record| record.kind != RecordKind::Batch)
    }

    /// The batches that pages may lack, in their order.
    pub(crate) fn batches(&self) -> impl Iterator<Item = (Lsn, &[u8])> {
        let records = self.older.iter().flat_map(Content::records).chain(self.newer.records());
        let batches = records.filter(|record| record.kind == RecordKind::Batch && record.place >= self.from);
        batches.map(|record| (Lsn(record.place), record.content))
    }
}

impl WriteAheadLog {
    /// Opens the two files, or makes them. What they held before is `None` for a new store; then
    /// `page_size` and `capacity` are of use.
    pub(crate) fn open(device: &Device, folder: &Path, page_size: u32, capacity: u64) -> Result<(Self, Option<Found>)> {
        let files = [open_file(device, &folder.join("log.0"))?, open_file(device, &folder.join("log.1"))?];
        let found = match (Content::read(&files[0])?, Content::read(&files[1])?) {
            (None, None) => None,
            (Some(one), None) => Some(Found::of(None, one, 0)?),
            (None, Some(other)) => Some(Found::of(None, other, 1)?),
            (Some(one), Some(other)) if one.header.life < other.header.life => Some(Found::of(Some(one), other, 1)?),
            (Some(one), Some(other)) => Some(Found::of(Some(other), one, 0)?),
        };
        let file = found.as_ref().map_or(1, |found| found.file);
        // A store that was never written to is a new one still.
        let (header, found) = match found {
            Some(found) if found.is_new() => (found.newer.header, None),
            Some(found) => (found.newer.header, Some(found)),
            None => {
                files.iter().try_for_each(|file| allocate(file, capacity))?;
                (Header { page_size, life: 0, start: FIRST, from: FIRST, capacity }, None)
            }
        };
        let (end, checkpointed) = found.as_ref().map_or((FIRST, FIRST), |found| (found.newer.end(), found.from));
        let state = State {
            file,
            life: header.life,
            start: header.start,
            end,
            durable: end,
            checkpointed,
            changed: end,
            pending: Vec::new(),
            pending_at: BLOCK as u64,
            is_flushing: false,
            memory: Aligned::default(),
            broken: None,
        };
        let (page_size, capacity) = (header.page_size, header.capacity);
        Ok((Self { files, page_size, capacity, state: Mutex::new(state), flush_ended: Condvar::new() }, found))
    }

    pub(crate) fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Bytes of records in a file.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Every record so far is needless: goes on in the other file, in a new life. So what a crash
    /// left behind the last record is never taken for one.
    pub(crate) fn begin_anew(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.checkpointed = state.end;
        self.begin_other_file(&mut state)
    }

    /// Rarely, and others wait: each file takes many flushes.
    fn begin_other_file(&self, state: &mut State) -> Result<()> {
        let (life, start, from) = (state.life + 1, state.end, state.checkpointed);
        let header = Header { page_size: self.page_size, life, start, from, capacity: self.capacity };
        let file = &self.files[1 - state.file];
        let bytes = state.memory.of_length(BLOCK);
        bytes.copy_from_slice(&header.block());
        let failed = |source| Error::Log { path: file.path().to_owned(), offset: 0, source: Arc::new(source) };
        write_full(file.as_ref(), 0, bytes).map_err(failed)?;
        if let Err(error) = file.sync().map_err(failed) {
            state.broken = Some(error.clone());
            return Err(error);
        }
        (state.file, state.life, state.start) = (1 - state.file, life, start);
        (state.pending, state.pending_at) = (Vec::new(), BLOCK as u64);
        Ok(())
    }

    /// Makes room for a record of so many bytes. False: a checkpoint must be made first (L2).
    /// One thread at a time.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<bool> {
        let mut state = self.state.lock();
        if state.end - state.start + bytes <= self.capacity {
            return Ok(true);
        }
        if state.checkpointed < state.start {
            return Ok(false);
        }
        while state.durable < state.end {
            let end = state.end;
            state = self.flush_from(state, end)?;
        }
        self.begin_other_file(&mut state)?;
        Ok(true)
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
        state.checkpointed < state.start && state.end - state.start > self.capacity / 2
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
        let (file, offset, end) = (&self.files[state.file], state.pending_at, state.end);
        let mut memory = std::mem::take(&mut state.memory);
        let length = state.pending.len();
        let bytes = memory.of_length(length.next_multiple_of(BLOCK));
        bytes[..length].copy_from_slice(&state.pending);
        bytes[length..].fill(0);
        state.is_flushing = true;
        drop(state);

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
            let done = length / BLOCK * BLOCK;
            state.pending.drain(..done);
            state.pending_at += done as u64;
        }
        self.flush_ended.notify_all();
        outcome.map(|()| state)
    }
}

impl State {
    fn append(&mut self, kind: RecordKind, content: &[u8]) -> Lsn {
        let place = self.end;
        encode(self.life, place, kind, content, &mut self.pending);
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

/// The place that the last record of a checkpoint names.
fn last_checkpoint(content: &Content) -> Option<u64> {
    let checkpoints = content.records().filter(|record| record.kind == RecordKind::Checkpoint);
    checkpoints.filter_map(|record| Some(u64::from_le_bytes(record.content.try_into().ok()?))).last()
}

/// Gives a file all its bytes now, so that a full disk does not stop a commit later: those of its
/// records, and of a checkpoint behind them.
fn allocate(file: &Arc<dyn Storage>, capacity: u64) -> Result<()> {
    const PIECE: usize = 1 << 20;
    let (mut memory, length) = (Aligned::default(), (2 * BLOCK as u64 + capacity).next_multiple_of(BLOCK as u64));
    let mut pieces = (0..length).step_by(PIECE);
    let mut zero = |at| write_full(file.as_ref(), at, memory.of_length(PIECE.min((length - at) as usize)));
    pieces.try_for_each(&mut zero).and_then(|()| file.sync()).map_err(|source| open_error(file, source))
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
        log.begin_anew().unwrap();
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
