//! The files that are open, by name and by number.
//!
//! A file stays open for as long as somebody uses it, or a page of it is resident: whoever opens it
//! again finds its pages. Files come and go by their thousands where tables are rewritten. So those
//! are let go that are gone, and those that nobody has opened while as many files were opened as
//! [`UNUSED`] times all of them: whoever reads a large table again and again keeps all of it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagecast_core::RelationId;

use crate::paged_file::PagedFile;

/// So many more are open before it is looked again for those that nobody uses.
const FEW: usize = 1024;
/// See above.
const UNUSED: u64 = 4;

/// Each in its newest generation, and the next number.
pub(super) struct Relations {
    by_path: HashMap<PathBuf, Opened>,
    /// The same ones.
    by_id: HashMap<RelationId, Arc<PagedFile>>,
    pub(super) next: u32,
    /// How often files were opened.
    opened: u64,
    /// With so many it is looked for those that nobody uses.
    many: usize,
}

struct Opened {
    file: Arc<PagedFile>,
    /// When somebody has opened it last, by [`Relations::opened`].
    at: u64,
}

impl Relations {
    /// None, and the first number to be given.
    pub(super) fn new(next: u32) -> Self {
        Self { by_path: HashMap::new(), by_id: HashMap::new(), next, opened: 0, many: FEW }
    }

    /// The newest generation that was opened of this name, by somebody who opens it now.
    pub(super) fn open(&mut self, path: &Path) -> Option<Arc<PagedFile>> {
        let opened = self.by_path.get_mut(path)?;
        self.opened += 1;
        opened.at = self.opened;
        Some(opened.file.clone())
    }

    /// Whether this is the newest generation of the name, or there is none.
    pub(super) fn is_newest(&self, path: &Path, file: Option<&Arc<PagedFile>>) -> bool {
        self.by_path.get(path).map(|opened| Arc::as_ptr(&opened.file)) == file.map(Arc::as_ptr)
    }

    /// Makes a file the newest generation of its name, in the place of `old`.
    pub(super) fn insert(&mut self, path: &Path, file: &Arc<PagedFile>, old: Option<&Arc<PagedFile>>) {
        self.opened += 1;
        self.by_path.insert(path.to_owned(), Opened { file: file.clone(), at: self.opened });
        if let Some(old) = old {
            self.by_id.remove(&old.id());
        }
        self.by_id.insert(file.id(), file.clone());
    }

    /// Forgets a file. Whether it was the newest generation of its name.
    pub(super) fn remove(&mut self, file: &Arc<PagedFile>) -> bool {
        let is_newest = self.is_newest(file.path(), Some(file));
        if is_newest {
            self.by_path.remove(file.path());
            self.by_id.remove(&file.id());
        }
        is_newest
    }

    pub(super) fn by_id(&self, id: RelationId) -> Option<Arc<PagedFile>> {
        self.by_id.get(&id).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<PagedFile>> {
        self.by_id.values().cloned().collect()
    }

    /// Lets go of files that nobody uses, and that are gone or were not opened for long, but of
    /// none of `kept`. That is asked once it is known which files nobody uses: what nobody uses
    /// does not come to have pages meanwhile. Which they were.
    pub(super) fn let_go(&mut self, kept: impl FnOnce() -> HashSet<RelationId>) -> Vec<RelationId> {
        let count = self.by_path.len();
        if count < self.many {
            return Vec::new();
        }
        let long_ago = self.opened.saturating_sub(UNUSED * count as u64);
        let unused = |opened: &&Opened| {
            // Both maps have it, and nobody else.
            Arc::strong_count(&opened.file) == 2 && (opened.at < long_ago || opened.file.is_gone())
        };
        let unused: HashSet<_> = self.by_path.values().filter(unused).map(|opened| opened.file.id()).collect();
        let kept = if unused.is_empty() { HashSet::new() } else { kept() };
        let gone: HashSet<_> = unused.difference(&kept).copied().collect();
        self.by_path.retain(|_, opened| !gone.contains(&opened.file.id()));
        self.by_id.retain(|id, _| !gone.contains(id));
        self.many = self.by_path.len() + (self.by_path.len() / 2).max(FEW);
        gone.into_iter().collect()
    }
}
