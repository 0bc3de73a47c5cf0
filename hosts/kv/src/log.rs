//! The write-ahead log: two files in turn, flushed for all who wait at once.
//!
//! Rules:
//! * (L1) A record is whole or it is none, and records become durable in their order.
//! * (L2) A file is begun anew only when a checkpoint has made every record of it needless, and
//!   when all records of the other one are durable, that checkpoint's too.
//! * (L3) A file is begun by a header, which is durable before the other file says that the log goes
//!   on there. That is durable before a record follows. So a header alone counts for nothing: its
//!   write may have failed. And a file that is missing is missed.
//! * (L4) After a sync has failed nothing is said to be durable any more: nobody knows what is on
//!   the device. A write that failed is made again by the next flush.
//! * (L5) What an opened log holds is written again and synced before it is of use: the process that
//!   wrote it may have died before its sync, and the device may lack what the system's cache has.
//!
//! Group commit: whoever finds no flush under way flushes all that has come so far, without the
//! lock, and the others wait. Those who come meanwhile share the next flush.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagecast::Lsn;
use pagecast::storage::{Device, Storage, write_full};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::log_file::{
    Aligned, BLOCK, Content, Header, RecordKind, Tail, file_length, mark, open_error, record_length,
};
use crate::{Error, Result};

/// The place of the very first record: above [`Lsn::NONE`].
const FIRST: u64 = BLOCK as u64;

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
    /// The file that is written, its life (0: none was begun), and the place of its first record.
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
    tail: Tail,
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
    /// Of what the files hold. `None`: neither was begun.
    fn of(contents: [Option<Content>; 2], paths: [PathBuf; 2]) -> Result<Option<Self>> {
        let file = match &contents {
            [None, None] => return Ok(None),
            [Some(one), Some(other)] if one.header.life == other.header.life => {
                return Err(other.damaged(0, "is a copy of the log's other file"));
            }
            [one, other] => {
                let life = |content: &Option<Content>| content.as_ref().map(|content| content.header.life);
                usize::from(life(one) < life(other))
            }
        };
        let [one, other] = contents;
        let (older, newer) = if file == 0 { (other, one) } else { (one, other) };
        let Some(newer) = newer else { return Ok(None) };
        if older.as_ref().is_some_and(|older| older.header.store != newer.header.store) {
            return Err(newer.damaged(0, "is of another store than the log's other file"));
        }
        match older {
            Some(older) if older.header.life + 1 == newer.header.life => Self::in_turn(older, newer, file).map(Some),
            _ => Self::alone(newer, file, &paths[1 - file]).map(Some),
        }
    }

    /// Of a file and the one that was begun after it.
    fn in_turn(older: Content, newer: Content, file: usize) -> Result<Self> {
        if older.next_life() != Some(newer.header.life) {
            // Its header is there, and nothing says that it counts (L3).
            if newer.end() > newer.header.start {
                return Err(older.damaged(older.offset(older.end()), "records that the other file follows are missing"));
            }
            return Self::alone(older, 1 - file, &newer.path);
        }
        if older.end() != newer.header.start {
            return Err(newer.damaged(0, "does not begin where the log's other file ends"));
        }
        if newer.next_life().is_some() {
            return Err(older.damaged(0, "is an old state of the file in which the log goes on"));
        }
        let from = newer.last_checkpoint().unwrap_or(newer.header.from);
        if from < older.header.start {
            return Err(newer.damaged(0, "needs records that are in no file"));
        }
        newer.check_mark()?;
        if from < newer.header.start {
            older.check_mark()?;
        }
        Ok(Self { older: Some(older), newer, file, from })
    }

    /// Of a file whose other file, `missing`, is of no use.
    fn alone(newer: Content, file: usize, missing: &Path) -> Result<Self> {
        let from = newer.last_checkpoint().unwrap_or(newer.header.from);
        if newer.next_life().is_some() || from < newer.header.start {
            let what = "the file is missing, or an old state of it, and has records that the pages may lack";
            return Err(Error::DamagedLog { path: missing.to_owned(), offset: 0, what });
        }
        let found = Self { older: None, newer, file, from };
        // A crash may have torn the first write of all.
        if !found.is_new() {
            found.newer.check_mark()?;
        }
        Ok(found)
    }

    /// Makes what it holds durable, if any of it is to be used (L5): batches, and that the log goes
    /// on in a file in which nothing is yet.
    fn write_again(&self, files: &[Arc<dyn Storage>; 2]) -> Result<()> {
        if self.batches().next().is_none() && self.newer.end() > self.newer.header.start {
            return Ok(());
        }
        let newer = (&files[self.file], &self.newer);
        for (file, content) in self.older.iter().map(|older| (&files[1 - self.file], older)).chain([newer]) {
            let (mut memory, bytes) = (Aligned::default(), content.bytes());
            let memory = memory.of_length(bytes.len());
            memory.copy_from_slice(&bytes);
            let written = write_full(file.as_ref(), 0, memory).and_then(|()| file.sync());
            let path = || content.path.clone();
            written.map_err(|source| Error::Log { path: path(), offset: 0, source: Arc::new(source) })?;
        }
        Ok(())
    }

    fn is_new(&self) -> bool {
        self.newer.header.start == FIRST && self.newer.end() == FIRST
    }

    /// Where the last batch ends.
    fn changed(&self) -> u64 {
        let last = self.batches().last();
        last.map_or(self.from, |(at, content)| at.0 + record_length(content.len()))
    }

    /// The batches that pages may lack, in their order.
    pub(crate) fn batches(&self) -> impl Iterator<Item = (Lsn, &[u8])> {
        let contents = self.older.iter().chain([&self.newer]);
        let batches = contents.flat_map(Content::records).filter(|record| record.kind == RecordKind::Batch);
        batches.filter(|record| record.place >= self.from).map(|record| (Lsn(record.place), record.content))
    }
}

impl WriteAheadLog {
    /// Opens the two files, or makes them. What they held before is `None` for a new store; then
    /// `page_size` and `capacity` are of use.
    pub(crate) fn open(device: &Device, folder: &Path, page_size: u32, capacity: u64) -> Result<(Self, Option<Found>)> {
        let paths = ["log.0", "log.1"].map(|name| folder.join(name));
        let files = [open_file(device, &paths[0])?, open_file(device, &paths[1])?];
        let found = Found::of([Content::read(&files[0])?, Content::read(&files[1])?], paths)?;
        let header = match &found {
            Some(found) => found.newer.header,
            None => Header { page_size, store: new_number(), life: 0, start: FIRST, from: FIRST, capacity },
        };
        // A file that is needed is as long as it was made.
        files.iter().try_for_each(|file| allocate(file, header.capacity))?;
        let state = State::of(&header, found.as_ref());
        found.iter().try_for_each(|found| found.write_again(&files))?;
        // A store that was never written to is a new one still.
        let found = found.filter(|found| !found.is_new());
        let Header { page_size, store, capacity, .. } = header;
        let (state, flush_ended) = (Mutex::new(state), Condvar::new());
        Ok((Self { files, page_size, store, capacity, state, flush_ended }, found))
    }

    pub(crate) fn page_size(&self) -> u32 {
        self.page_size
    }

    /// A number that no other store has.
    pub(crate) fn store(&self) -> u64 {
        self.store
    }

    /// Bytes of records in a file.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Begins both files of a new store, one after the other: so each of them is missed if it is
    /// missing, from the first record on.
    pub(crate) fn begin(&self) -> Result<()> {
        let mut state = self.state.lock();
        while state.life < 2 {
            self.begin_file(&mut state)?;
        }
        Ok(())
    }

    /// Begins the other file: makes its header durable. Rarely, and others wait: each file takes
    /// many flushes.
    fn begin_file(&self, state: &mut State) -> Result<()> {
        let header = Header {
            page_size: self.page_size,
            store: self.store,
            life: state.life + 1,
            start: state.end,
            from: state.checkpointed,
            capacity: self.capacity,
        };
        let failed = |file: &Arc<dyn Storage>, offset| {
            let path = file.path().to_owned();
            move |source| Error::Log { path, offset, source: Arc::new(source) }
        };
        let (file, other) = (&self.files[state.file], &self.files[1 - state.file]);
        let State { tail, memory, broken, .. } = state;
        let begin = memory.of_length(2 * BLOCK);
        begin[..BLOCK].copy_from_slice(&header.block());
        mark(header.life, header.start, &mut begin[BLOCK..]);
        write_full(other.as_ref(), 0, begin).map_err(failed(other, 0))?;
        other.sync().map_err(failed(other, 0)).inspect_err(|error| *broken = Some(error.clone()))?;
        if header.life > 1 {
            // From here on the header counts (L3). The tail itself stays as it is: if this fails,
            // the next flush writes over it.
            let mut tail = tail.clone();
            tail.append(RecordKind::Switch, &header.life.to_le_bytes());
            let frame = tail.frame(state.durable, memory);
            frame.write(file.as_ref()).map_err(failed(file, frame.offset))?;
            file.sync().map_err(failed(file, frame.offset)).inspect_err(|error| *broken = Some(error.clone()))?;
        }
        (state.file, state.life, state.start) = (1 - state.file, header.life, header.start);
        state.tail = Tail::new(&header);
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
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        self.begin_file(&mut state)?;
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
        let (file, end) = (&self.files[state.file], state.end);
        let mut memory = std::mem::take(&mut state.memory);
        let frame = state.tail.frame(state.durable, &mut memory);
        state.is_flushing = true;
        drop(state);

        let failed =
            |source| Error::Log { path: file.path().to_owned(), offset: frame.offset, source: Arc::new(source) };
        let written = frame.write(file.as_ref()).map_err(failed);
        let synced = written.as_ref().map_or(Ok(()), |()| file.sync().map_err(failed));

        let mut state = self.state.lock();
        state.is_flushing = false;
        if let Err(error) = &synced {
            state.broken = Some(error.clone());
        }
        let outcome = written.and(synced);
        if outcome.is_ok() {
            state.durable = end;
            frame.is_durable(&mut state.tail);
        }
        state.memory = memory;
        self.flush_ended.notify_all();
        outcome.map(|()| state)
    }
}

impl State {
    /// Behind what was found.
    fn of(header: &Header, found: Option<&Found>) -> Self {
        let (end, checkpointed) = found.map_or((FIRST, FIRST), |found| (found.newer.end(), found.from));
        Self {
            file: found.map_or(1, |found| found.file),
            life: header.life,
            start: header.start,
            end,
            durable: end,
            checkpointed,
            changed: found.map_or(FIRST, Found::changed),
            tail: found.map_or_else(|| Tail::new(header), |found| found.newer.tail()),
            is_flushing: false,
            memory: Aligned::default(),
            broken: None,
        }
    }

    fn append(&mut self, kind: RecordKind, content: &[u8]) -> Lsn {
        let place = self.end;
        self.tail.append(kind, content);
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

/// Gives a file all its bytes now, if it lacks some, so that a full disk does not stop a commit
/// later.
fn allocate(file: &Arc<dyn Storage>, capacity: u64) -> Result<()> {
    const PIECE: usize = 1 << 20;
    let (mut memory, length) = (Aligned::default(), file_length(capacity));
    if file.len() >= length {
        return Ok(());
    }
    let mut pieces = (0..length).step_by(PIECE);
    let mut zero = |at| {
        let piece = memory.of_length(PIECE.min((length - at) as usize));
        piece.fill(0);
        write_full(file.as_ref(), at, piece)
    };
    pieces.try_for_each(&mut zero).and_then(|()| file.sync()).map_err(|source| open_error(file, source))
}

/// A number that no store has yet, as far as chance can tell.
fn new_number() -> u64 {
    // Each such state has keys of its own, which the system draws.
    RandomState::new().hash_one(std::process::id()).max(1)
}

fn open_file(device: &Device, path: &Path) -> Result<Arc<dyn Storage>> {
    device.open_to_write(path, true).map_err(|source| match source.kind() {
        io::ErrorKind::ResourceBusy => Error::Locked { path: path.to_owned() },
        _ => Error::Open { path: path.to_owned(), source: Arc::new(source) },
    })
}

#[cfg(test)]
mod tests;
