//! Files of a table lie in its folder, or where the user allows it, as those of shallow clones. Logs
//! can name others, by a whole path, by `..` or by a link; whoever writes a log would read what the
//! process can read.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::error::{DeltaError, Result};

/// Where files of a table may lie: in its folder, and in others that the user allows.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    root: PathBuf,
    /// As the user names them, and without links.
    allowed: Arc<[PathBuf]>,
}

impl Places {
    /// The table's folder has no links.
    ///
    /// # Errors
    /// An allowed folder is not there.
    pub(crate) fn new(root: &Path, allowed: &[PathBuf]) -> Result<Self> {
        let mut places = Vec::new();
        for folder in allowed {
            let real = folder.canonicalize().map_err(DeltaError::io(folder))?;
            places.extend([std::path::absolute(folder).map_err(DeltaError::io(folder))?, real]);
        }
        places.dedup();
        Ok(Self { root: root.to_owned(), allowed: places.into() })
    }

    /// Where a file of the log is.
    ///
    /// # Errors
    /// It is no file of this machine, or in none of the places.
    pub(crate) fn path_of(&self, path: &str) -> Result<PathBuf> {
        let what = |why: &str| format!("its file {path} {why}");
        let refused = |why: &str| DeltaError::Refused { path: self.root.clone(), what: what(why) };
        let decoded = percent_decode_str(local(path).ok_or_else(|| refused(ELSEWHERE))?).decode_utf8();
        let broken = |_| DeltaError::broken(&self.root, None, format!("a file's name is no text: {path}"));
        let decoded = decoded.map_err(broken)?;
        let allowed = self.allowed.iter().filter(|_| decoded.starts_with('/'));
        let mut places = std::iter::once(&self.root).chain(allowed);
        places.find_map(|place| joined(place, &decoded)).ok_or_else(|| refused(OUTSIDE))
    }

    /// Fails if links lead from a file or folder out of the places.
    pub(crate) fn check(&self, path: &Path) -> Result<()> {
        check(&self.root, &self.allowed, path)
    }
}

/// Fails if links lead from a file or folder of the table out of the table's folder `root`.
pub(crate) fn check_own(root: &Path, path: &Path) -> Result<()> {
    check(root, &[], path)
}

fn check(root: &Path, allowed: &[PathBuf], path: &Path) -> Result<()> {
    let Ok(root) = root.canonicalize() else { return Ok(()) };
    match path.canonicalize() {
        Ok(real) if !real.starts_with(&root) && !allowed.iter().any(|place| real.starts_with(place)) => {
            let what = format!("its file {} leads outside of its folder, and is not read", path.display());
            Err(DeltaError::Refused { path: root, what })
        }
        // What is not there is missed by who reads it.
        _ => Ok(()),
    }
}

const ELSEWHERE: &str = "lies elsewhere, and only local files are read";
const OUTSIDE: &str = "lies outside of its folder, and is not read unless you allow its place";

/// The path in a text of the log, if it may be one of this machine. A scheme is none of a file's
/// name: writers escape the colon.
fn local(text: &str) -> Option<&str> {
    let scheme = text.split(['/', '%']).next().unwrap_or_default().split_once(':').map(|(scheme, _)| scheme);
    match scheme {
        Some(scheme) if scheme.eq_ignore_ascii_case("file") => {
            let path = &text[scheme.len() + 1..];
            // `file:/a`, `file:///a`, `file://localhost/a`
            let whole = path.strip_prefix("//").map(|rest| rest.strip_prefix("localhost").unwrap_or(rest));
            Some(whole.unwrap_or(path)).filter(|path| path.starts_with('/'))
        }
        Some(scheme) if !scheme.is_empty() && scheme.bytes().all(is_of_scheme) => None,
        _ => Some(text),
    }
    .filter(|path| !path.contains("://"))
}

fn is_of_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

/// A path in the folder `root`, which a whole path may repeat. Nothing goes up.
fn joined(root: &Path, path: &str) -> Option<PathBuf> {
    let joined = root.join(path);
    let inside = joined.strip_prefix(root).ok()?;
    let is_plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
    (is_plain && inside != Path::new("") && !path.contains('\0')).then(|| joined.clone())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn files_lie_in_the_folder() {
        let root = Path::new("/lake/t");
        let places = Places::new(root, &[]).unwrap();
        for (said, is) in [
            ("a.parquet", "a.parquet"),
            ("k=1%2F2/a%20b.parquet", "k=1/2/a b.parquet"),
            ("/lake/t/a.parquet", "a.parquet"),
            ("file:///lake/t/a.parquet", "a.parquet"),
            ("file:/lake/t/a.parquet", "a.parquet"),
            ("FILE://localhost/lake/t/a.parquet", "a.parquet"),
            ("k=a%3Ab/a.parquet", "k=a:b/a.parquet"),
            ("k=a:b/a.parquet", "k=a:b/a.parquet"),
            ("..a/b..parquet", "..a/b..parquet"),
        ] {
            assert_eq!(places.path_of(said).unwrap(), root.join(is), "{said}");
        }
        for said in [
            "/etc/passwd",
            "%2Fetc%2Fpasswd",
            "file:///etc/passwd",
            "file:/etc/passwd",
            "file://host/etc/passwd",
            "file:etc/passwd",
            "File:///etc/passwd",
            "../u/a.parquet",
            "a/../../u/a.parquet",
            "%2e%2e/u/a.parquet",
            "..%2Fu%2Fa.parquet",
            "file:///lake/t/../u/a.parquet",
            "/lake/t2/a.parquet",
            "/lake/t",
            "",
            ".",
            "a%00b",
            "s3://bucket/a.parquet",
            "s3:/bucket/a.parquet",
            "http://host/a.parquet",
            "x/http://host/a.parquet",
        ] {
            let error = places.path_of(said).map_err(|error| error.to_string());
            assert!(error.as_ref().is_err_and(|error| error.starts_with("/lake/t: its file")), "{said}: {error:?}");
        }
    }

    #[test]
    fn links_out_of_the_folder_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("t");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(folder.path().join("secret"), "").unwrap();
        std::fs::write(root.join("own"), "").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("out")).unwrap();
        std::os::unix::fs::symlink("own", root.join("in")).unwrap();
        for inside in ["own", "in", "absent"] {
            check_own(&root, &root.join(inside)).unwrap();
        }
        assert!(check_own(&root, &root.join("out")).unwrap_err().to_string().contains("leads outside"));
    }

    #[test]
    fn places_that_are_allowed_hold_files_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        ["t", "source", "source2"].iter().for_each(|name| std::fs::create_dir(at(name)).unwrap());
        std::fs::write(at("secret"), "").unwrap();
        std::os::unix::fs::symlink(at("secret"), at("source/out")).unwrap();
        std::os::unix::fs::symlink(at("source"), at("link")).unwrap();
        std::fs::write(at("source/a.parquet"), "").unwrap();
        std::os::unix::fs::symlink(at("source/a.parquet"), at("t/in")).unwrap();
        let places = Places::new(&at("t"), &[at("link")]).unwrap();
        let named = |name: &str| places.path_of(&at(name).display().to_string());
        for inside in ["source/a.parquet", "link/a.parquet", "t/b.parquet", "t/in"] {
            assert_eq!(named(inside).unwrap(), at(inside));
            places.check(&at(inside)).unwrap();
        }
        for outside in ["secret", "source2/a.parquet", "source/../secret", "link/../secret", "source"] {
            assert!(named(outside).unwrap_err().to_string().contains("unless you allow"), "{outside}");
        }
        assert!(places.path_of("../source/a.parquet").is_err());
        assert!(places.check(&at("source/out")).unwrap_err().to_string().contains("leads outside"));
        assert!(Places::new(&at("t"), &[at("absent")]).unwrap_err().to_string().contains("absent"));
    }
}
