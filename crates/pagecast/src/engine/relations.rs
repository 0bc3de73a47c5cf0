//! The files that are open, by name and by number.
//!
//! A file stays open for as long as somebody uses it, or a page of it is resident: whoever opens it
//! again finds its pages. Files come and go by their thousands where tables are rewritten, so those
//! that nobody has opened for long are let go: whenever there are twice as many as the last time,
//! those that were not opened since.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagecast_core::RelationId;

use crate::paged_file::PagedFile;

/// So many are open before it is looked for those that nobody uses.
const FEW: usize = 1024;

/// Each in its newest generation, and the next number.
pub(super) struct Relations {
    by_path: HashMap<PathBuf, Opened>,
    /// The same ones.
    by_id: HashMap<RelationId, Arc<PagedFile>>,
    pub(super) next: u32,
    /// With so many it is looked for those that nobody uses.
    many: usize,
}

struct Opened {
    file: Arc<PagedFile>,
    /// Whether somebody has opened it since it was looked for those that nobody uses.
    is_used: bool,
}

impl Relations {
    /// None, and the first number to be given.
    pub(super) fn new(next: u32) -> Self {
        Self { by_path: HashMap::new(), by_id: HashMap::new(), next, many: FEW }
    }

    /// The newest generation that was opened of this name, by somebody who opens it now.
    pub(super) fn open(&mut self, path: &Path) -> Option<Arc<PagedFile>> {
        let opened = self.by_path.get_mut(path)?;
        opened.is_used = true;
        Some(opened.file.clone())
    }

    /// Whether this is the newest generation of the name, or there is none.
    pub(super) fn is_newest(&self, path: &Path, file: Option<&Arc<PagedFile>>) -> bool {
        self.by_path.get(path).map(|opened| Arc::as_ptr(&opened.file)) == file.map(Arc::as_ptr)
    }

    /// Makes a file the newest generation of its name, in the place of `old`.
    pub(super) fn insert(&mut self, path: &Path, file: &Arc<PagedFile>, old: Option<&Arc<PagedFile>>) {
        self.by_path.insert(path.to_owned(), Opened { file: file.clone(), is_used: true });
        if let Some(old) = old {
            self.by_id.remove(&old.id());
        }
        self.by_id.insert(file.id(), file.clone());
    }

    pub(super) fn by_id(&self, id: RelationId) -> Option<Arc<PagedFile>> {
        self.by_id.get(&id).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<PagedFile>> {
        self.by_id.values().cloned().collect()
    }

    /// Lets go of files that nobody has opened for long, that nobody uses, and that are none of
    /// `kept`, which is asked once it is known which files nobody uses: what nobody uses does not
    /// come to have pages meanwhile. Which they were.
    pub(super) fn let_go(&mut self, kept: impl FnOnce() -> HashSet<RelationId>) -> Vec<RelationId> {
        if self.by_path.len() < self.many {
            return Vec::new();
        }
        // Both maps, and nobody else.
        let is_unused = |opened: &Opened| !opened.is_used && Arc::strong_count(&opened.file) == 2;
        let unused: HashSet<_> =
            self.by_path.values().filter(|opened| is_unused(opened)).map(|opened| opened.file.id()).collect();
        let kept = kept();
        let gone: HashSet<_> = unused.difference(&kept).copied().collect();
        self.by_path.retain(|_, opened| {
            opened.is_used = false;
            !gone.contains(&opened.file.id())
        });
        self.by_id.retain(|id, _| !gone.contains(id));
        self.many = (2 * self.by_path.len()).max(FEW);
        gone.into_iter().collect()
    }
}
