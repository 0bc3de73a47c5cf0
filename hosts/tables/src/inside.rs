//! Files of a table lie in folders that the user named. Metadata can name others, by a whole path,
//! by `..` or by a link; whoever writes it would read what the process can read.

use std::path::{Component, Path, PathBuf};

/// The file at `path` without links, if it lies in one of these folders. A file that is not there
/// is missed by who reads it.
///
/// # Errors
/// It lies elsewhere, or its path goes up.
pub fn inside(folders: &[PathBuf], path: &Path) -> Result<PathBuf, String> {
    let goes_up = path.components().any(|part| matches!(part, Component::ParentDir));
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_in = |folder: &PathBuf| {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        real != folder && real.starts_with(folder)
    };
    if goes_up || !folders.iter().any(is_in) {
        return Err(format!("file {} lies outside of the folders that may be read, and is not read", path.display()));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn files_lie_in_the_folders() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let root = folder.join("t");
        std::fs::create_dir(&root).unwrap();
        for file in ["secret", "t/own", "tt"] {
            std::fs::write(folder.join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink("../secret", root.join("out")).unwrap();
        std::os::unix::fs::symlink("own", root.join("in")).unwrap();
        let folders = [root.clone()];
        for file in ["t/own", "t/in"] {
            assert_eq!(inside(&folders, &folder.join(file)).unwrap(), root.join("own"), "{file}");
        }
        assert!(inside(&folders, &root.join("absent")).is_ok());
        for file in ["secret", "tt", "t", "t/out", "t/../t/own", "t/../secret"] {
            let fault = inside(&folders, &folder.join(file)).unwrap_err();
            assert!(fault.ends_with("is not read"), "{file}: {fault}");
        }
    }
}
