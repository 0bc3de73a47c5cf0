//! The command `kv`: what it prints, and how it ends.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

/// The exit code, and what was printed: to the output, and to the error output.
fn kv(folder: &Path, words: &[&str]) -> (i32, String, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_kv")).arg(folder).args(words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
}

#[test]
fn entries_are_put_listed_counted_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("store");
    let (code, _, error) = kv(&folder, &["check"]);
    assert!(code == 2 && error.contains("there is no store"), "a look makes no store: {error}");
    assert!(!folder.exists());
    for (key, value) in [("b", "2"), ("a", "1"), ("c", "3")] {
        assert_eq!(kv(&folder, &["put", key, value]), (0, String::new(), String::new()));
    }
    assert_eq!(kv(&folder, &["get", "b"]).1, "2\n");
    assert_eq!(kv(&folder, &["list", "b"]).1, "b\t2\nc\t3\n");
    assert_eq!(kv(&folder, &["list", "a", "c"]).1, "a\t1\nb\t2\n");
    assert_eq!(
        (kv(&folder, &["delete", "a"]).0, kv(&folder, &["delete", "a"]).0, kv(&folder, &["get", "a"]).0),
        (0, 1, 1)
    );
    assert!(kv(&folder, &["check"]).1.ends_with("sound; 2 entries\n"));
    let (_, statistics, _) = kv(&folder, &["stats"]);
    assert!(statistics.starts_with("2 entries, 4 bytes") && statistics.contains("1 levels"), "{statistics}");
    assert!(kv(&folder, &["wash"]).2.contains("usage"));
}

#[test]
fn a_damaged_page_is_named() {
    let folder = tempfile::tempdir().unwrap();
    kv(folder.path(), &["put", "key", "value"]);
    let data = folder.path().join("data");
    let mut bytes = std::fs::read(&data).unwrap();
    bytes[4096 + 100] ^= 1;
    std::fs::write(&data, bytes).unwrap();
    let (code, output, error) = kv(folder.path(), &["check"]);
    assert!(code == 2 && output.is_empty() && error.contains("data") && error.contains("page 1"), "{code}: {error}");
}
