//! Files of a table lie in its folder. Logs can name others, by a whole path, by `..` or by a link;
//! whoever writes a log would read what the process can read.

use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode_str;

use crate::error::{DeltaError, Result};

/// Where a file of the log is.
///
/// # Errors
/// It is no file of this machine, or not in the table's folder.
pub(crate) fn path_of(root: &Path, path: &str) -> Result<PathBuf> {
    let refused = |why: &str| DeltaError::Refused { path: root.to_owned(), what: format!("its file {path} {why}") };
    let decoded = percent_decode_str(local(path).ok_or_else(|| refused(ELSEWHERE))?).decode_utf8();
    let decoded = decoded.map_err(|_| DeltaError::broken(root, None, format!("a file's name is no text: {path}")))?;
    joined(root, &decoded).ok_or_else(|| refused(OUTSIDE))
}

const ELSEWHERE: &str = "lies elsewhere, and only local files are read";
const OUTSIDE: &str = "lies outside of its folder, and is not read";

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
pub(crate) fn joined(root: &Path, path: &str) -> Option<PathBuf> {
    let joined = root.join(path);
    let inside = joined.strip_prefix(root).ok()?;
    let is_plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
    (is_plain && inside != Path::new("") && !path.contains('\0')).then(|| joined.clone())
}

/// Fails if links lead from a file or folder of the table out of the table's folder `root`.
pub(crate) fn check(root: &Path, path: &Path) -> Result<()> {
    let Ok(root) = root.canonicalize() else { return Ok(()) };
    match path.canonicalize() {
        Ok(real) if !real.starts_with(&root) => {
            let what = format!("its file {} leads outside of its folder, and is not read", path.display());
            Err(DeltaError::Refused { path: root, what })
        }
        // What is not there is missed by who reads it.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn files_lie_in_the_folder() {
        let root = Path::new("/lake/t");
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
            assert_eq!(path_of(root, said).unwrap(), root.join(is), "{said}");
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
            let error = path_of(root, said).map_err(|error| error.to_string());
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
            check(&root, &root.join(inside)).unwrap();
        }
        assert!(check(&root, &root.join("out")).unwrap_err().to_string().contains("leads outside"));
    }
}
