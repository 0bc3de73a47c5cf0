//! Folders outside of which no local file is read, whatever links in it lead to.
//!
//! What holds: a link that stands when a file is opened is followed to its end, and what ends
//! outside is refused. Whoever may exchange folders and links meanwhile can win a race.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pagecast::{Relation, RelationId};
use parking_lot::Mutex;

use crate::HostError;

/// More files than these are looked at anew.
const MOST: usize = 1 << 16;

/// Bounds, if there are any.
#[derive(Default)]
pub(crate) struct Bounds {
    inside: OnceLock<Vec<PathBuf>>,
    /// Files that were found inside: under one id there is one file.
    known: Mutex<HashSet<RelationId>>,
}

impl Bounds {
    /// Sets them. The first ones stay.
    pub(crate) fn set(&self, inside: Vec<PathBuf>) {
        // Who was first is as good.
        let _ = self.inside.set(inside);
    }

    /// Fails for a path that leads outside. One that leads nowhere is for others to refuse.
    pub(crate) fn check(&self, path: &Path) -> Result<(), HostError> {
        let Some(inside) = self.inside.get() else { return Ok(()) };
        match path.canonicalize() {
            Ok(real) if !inside.iter().any(|folder| real.starts_with(folder)) => {
                Err(HostError::Outside { path: path.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// The same for an open file, once.
    pub(crate) fn check_open(&self, relation: &Relation) -> Result<(), HostError> {
        if self.inside.get().is_none() || self.known.lock().contains(&relation.id()) {
            return Ok(());
        }
        self.check(relation.path())?;
        let mut known = self.known.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(relation.id());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn links_are_followed_to_their_end() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        std::fs::create_dir(at("in")).unwrap();
        std::fs::write(at("in/file"), "").unwrap();
        std::fs::write(at("secret"), "").unwrap();
        std::os::unix::fs::symlink(at("secret"), at("in/link")).unwrap();
        std::os::unix::fs::symlink(at("."), at("in/folder")).unwrap();
        std::os::unix::fs::symlink("file", at("in/own")).unwrap();
        let bounds = Bounds::default();
        assert!(bounds.check(&at("secret")).is_ok());
        bounds.set(vec![at("in")]);
        for inside in ["in/file", "in/own", "in/absent", "in/folder/in/file"] {
            assert!(bounds.check(&at(inside)).is_ok(), "{inside}");
        }
        for outside in ["secret", "in/link", "in/folder/secret", "in/../secret"] {
            let error = bounds.check(&at(outside)).unwrap_err().to_string();
            assert!(error.contains("leads out of"), "{error}");
        }
    }
}
