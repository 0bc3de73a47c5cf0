//! Open descriptors of files that are only read. A table may have more files than a process may
//! have open, so a bounded number of them stays open, and a file that was closed is opened again
//! when it is next read.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// An eighth of the 1,024 that a process may usually have, so that the rest of the program has
/// enough.
const MOST: usize = 128;

/// The files of this process that are open and may be closed, the one that was opened first in
/// front.
static OPEN: Mutex<VecDeque<Weak<Descriptor>>> = Mutex::new(VecDeque::new());

/// A file that may be closed for others; nothing while it is.
#[derive(Debug, Default)]
pub(super) struct Descriptor(Mutex<Option<Arc<File>>>);

impl Descriptor {
    /// Of an open file, that may be closed from now on.
    pub(super) fn closable(file: File) -> Arc<Self> {
        let new = Arc::new(Self(Mutex::new(Some(Arc::new(file)))));
        note(&new);
        new
    }

    /// Of an open file that stays open: its lock would go with it.
    pub(super) fn lasting(file: File) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(Arc::new(file)))))
    }

    /// The open file, opened by `open` if it was closed. It stays open for as long as the caller
    /// has it.
    pub(super) fn file(self: &Arc<Self>, open: impl FnOnce() -> io::Result<File>) -> io::Result<Arc<File>> {
        let mut file = lock(&self.0);
        if let Some(file) = &*file {
            return Ok(Arc::clone(file));
        }
        let opened = Arc::new(open()?);
        *file = Some(Arc::clone(&opened));
        // Who closes files takes this lock, too.
        drop(file);
        note(self);
        Ok(opened)
    }
}

/// Takes notice of a file that was opened, and closes those that are too many.
fn note(opened: &Arc<Descriptor>) {
    let mut open = lock(&OPEN);
    if open.len() >= MOST {
        open.retain(|other| other.strong_count() > 0);
    }
    let too_many = (open.len() + 1).saturating_sub(MOST);
    let close: Vec<_> = open.drain(..too_many).collect();
    open.push_back(Arc::downgrade(opened));
    drop(open);
    for descriptor in close.iter().filter_map(Weak::upgrade) {
        lock(&descriptor.0).take();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
