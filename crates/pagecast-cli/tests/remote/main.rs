//! The command over stores behind a network, which are all on loopback.
#![cfg(feature = "sql")]
#![allow(clippy::unwrap_used)]

mod http;
mod providers;
mod s3;
mod secrets;
#[path = "../../../pagecast/servers/tests/s3/server.rs"]
mod server;

#[cfg(feature = "serve")]
#[allow(dead_code)]
#[path = "../serve/wire.rs"]
mod wire;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// The command, which knows nothing of this machine's user and of its clouds.
fn pagecast() -> Command {
    static HOME: OnceLock<TempDir> = OnceLock::new();
    let home = HOME.get_or_init(|| tempfile::tempdir().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagecast"));
    for (name, _) in std::env::vars_os() {
        let told = ["AWS_", "AZURE_", "GOOGLE_"].iter().any(|start| name.to_string_lossy().starts_with(start));
        if told {
            command.env_remove(name);
        }
    }
    command.env("HOME", home.path()).env("XDG_CACHE_HOME", home.path()).stdin(Stdio::null());
    command
}

/// `pagecast sql` over what lies at `data`.
fn sql(data: &str, args: &[&str]) -> Command {
    let mut command = pagecast();
    command.args(["sql", "--data", data]).args(args);
    command
}

/// What a command that works says: results and figures.
#[track_caller]
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat()
}

/// The rows in what was said.
fn rows(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.starts_with('|')).collect()
}

/// What nobody may see: keys, passwords, and the latter as HTTP sends them.
const SECRETS: [&str; 4] = ["not-to-be-shown", "hunter2", "aHVudGVyMg", "bWU6aHVudGVyMg"];

/// Asserts that a command fails with `status` and one line, which has these words and no secret.
#[track_caller]
fn assert_fails(command: &mut Command, status: i32, words: &[&str]) {
    let Output { status: ended, stderr, .. } = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    println!("{}", stderr.trim_end());
    assert_eq!((ended.code(), stderr.lines().count()), (Some(status), 1), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "no `{word}` in: {stderr}");
    }
    for secret in SECRETS {
        assert!(!stderr.contains(secret), "{stderr}");
    }
}

/// A port of this machine that nobody listens at.
fn closed_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A folder with `lineitem.parquet` at scale factor 0.01 and `people.csv`.
fn data() -> &'static Path {
    static FOLDER: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, folder) = FOLDER.get_or_init(|| {
        let kept = tempfile::tempdir().unwrap();
        let json = kept.path().join("bench.json");
        let small = ["bench", "--sf", "0.01", "--streams", "1", "--queries", "1", "--policies", "lru"];
        let mut command = pagecast();
        command.args(small).args(["--bandwidth", "local", "--json"]).arg(&json);
        command.env("XDG_CACHE_HOME", kept.path());
        said(&mut command);
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        let folder = PathBuf::from(json["config"]["data"].as_str().unwrap());
        let people = (0..100).fold("id,name\n".to_owned(), |text, id| text + &format!("{id},n{id}\n"));
        std::fs::write(folder.join("people.csv"), people).unwrap();
        (kept, folder)
    });
    folder
}
