//! `pagecast bench` and `pagecast sql`: the built command on small generated data.
#![cfg(feature = "sql")]
#![allow(clippy::unwrap_used)]

mod bench;
mod delta;
mod folders;
mod results;
mod scripts;
mod shape;
mod shell;
mod sql;
mod stores;
mod whole;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// The command, with a cache folder that all tests of this process share and no other process sees.
fn pagecast() -> Command {
    static CACHE: OnceLock<TempDir> = OnceLock::new();
    let cache = CACHE.get_or_init(|| tempfile::tempdir().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagecast"));
    command.env("XDG_CACHE_HOME", cache.path()).stdin(Stdio::null());
    command
}

/// A copy of its own of the generated lineitem, scale factor 0.01, for a test to read or to spoil.
fn lineitem() -> (TempDir, PathBuf) {
    static SOURCE: OnceLock<PathBuf> = OnceLock::new();
    let source = SOURCE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("out.json");
        let args =
            ["bench", "--sf", "0.01", "--streams", "1", "--queries", "1", "--policies", "lru", "--bandwidth", "local"];
        let output = pagecast().args(args).arg("--json").arg(&json).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        Path::new(json["config"]["data"].as_str().unwrap()).join("lineitem.parquet")
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lineitem.parquet");
    std::fs::copy(source, &path).unwrap();
    (folder, path)
}

/// Asserts that `output` failed with `status` and one line on stderr in which each of `words`
/// occurs.
#[track_caller]
fn assert_fails(output: &Output, status: i32, words: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("pagecast: "), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "no `{word}` in: {stderr}");
    }
}
