//! What is more than `--memory` is in a folder of the server's own, and does not stay when it is
//! killed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::wire::{Client, fields};
use crate::{Server, pagecast};

/// A statement has a sort for each.
fn cores() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

/// Of half a kilobyte: twice what each sort may have in memory.
fn rows() -> usize {
    120_000 * cores()
}

fn table() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (text, path) = ("x".repeat(500), folder.path().join("t.parquet"));
        let count = rows();
        let rows = format!("SELECT CAST(value AS VARCHAR) || '{text}' AS text, value FROM generate_series(1, {count})");
        let copied = pagecast().args(["sql", "-c"]).arg(format!("COPY ({rows}) TO '{}'", path.display())).status();
        assert!(copied.unwrap().success());
        folder
    });
    folder.path()
}

fn server(temporary: &Path) -> Server {
    let (memory, temporary) = (format!("{}MiB", 32 * cores()), temporary.to_str().unwrap());
    Server::start(pagecast(), table(), &["--memory", &memory, "--temp", temporary])
}

/// The folders there, and the bytes in them.
fn folders(temporary: &Path) -> Vec<(PathBuf, u64)> {
    fn bytes(path: &Path) -> u64 {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| bytes(&entry.path()) + entry.metadata().map_or(0, |file| file.len())).sum()
    }
    let entries = fs::read_dir(temporary).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), bytes(&path))).collect()
}

/// A server that has written rows to its folder and waits for its client.
fn spilled(temporary: &Path) -> (Server, Client, PathBuf) {
    let known: Vec<_> = folders(temporary).into_iter().map(|(path, _)| path).collect();
    let server = server(temporary);
    let mut client = Client::connect(server.port, "me");
    client.query("SELECT * FROM t ORDER BY value DESC");
    let began = Instant::now();
    loop {
        let found = folders(temporary).into_iter().find(|(path, bytes)| !known.contains(path) && *bytes > 1 << 20);
        if let Some((path, _)) = found {
            return (server, client, path);
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is written: {:?}", folders(temporary));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_killed_server_leaves_nothing_for_long() {
    let temporary = tempfile::tempdir().unwrap();
    let (killed, _client, left) = spilled(temporary.path());
    assert_eq!(fs::metadata(&left).unwrap().permissions().mode() & 0o777, 0o700);
    // kill -9
    drop(killed);
    assert!(left.exists());
    let next = server(temporary.path());
    assert!(!left.exists(), "{:?}", folders(temporary.path()));
    assert_eq!(folders(temporary.path()).len(), 1);
    // It listens to signals when it listens to clients.
    assert_eq!(next.status("queries_running"), 1);
    assert_eq!(next.terminate().0, Some(0));
    assert!(folders(temporary.path()).is_empty(), "{:?}", folders(temporary.path()));
}

#[test]
fn servers_that_live_leave_each_other_alone() {
    let temporary = tempfile::tempdir().unwrap();
    let (one, mut client, own) = spilled(temporary.path());
    let two = server(temporary.path());
    let other = pagecast().env("TMPDIR", temporary.path()).args(["sql", "-c", "SELECT 1"]).status().unwrap();
    assert!(other.success() && own.exists());
    assert_eq!(folders(temporary.path()).len(), 2);
    let messages = client.until_ready();
    // Sorts may take each other's memory, but nobody takes their files.
    let is_starved = |body: &[u8]| String::from_utf8_lossy(body).contains("Resources exhausted");
    let count = messages.iter().filter(|(kind, _)| *kind == b'D').count();
    let errors: Vec<_> = messages.iter().filter(|(kind, _)| *kind == b'E').collect();
    let said: Vec<_> = errors.iter().map(|(_, body)| fields(body)).collect();
    assert!(count == rows() || errors.iter().any(|(_, body)| is_starved(body)), "{count} rows, {said:?}");
    assert_eq!((one.terminate().0, two.terminate().0), (Some(0), Some(0)));
    assert!(folders(temporary.path()).is_empty());
}
