//! Clients that would hurt others: what each of them meets, what the server takes meanwhile, and
//! how long another client waits.
//!
//! `SERVE_ATTACK_ROUNDS` (1) says how much of each there is. `SERVE_ATTACK_SECONDS` says how long
//! another client may wait: a second, and five where nothing is optimized.

#[cfg(feature = "flight")]
mod flight;
mod logins;
mod memory;
mod places;

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

use crate::Server;
use crate::wire::{Client, fields};

/// Rows of the large table, which are one row group of 24 MB.
const ROWS: usize = 768 << 10;
/// What pages and statements may take, in the servers that are attacked.
const MEMORY: &str = "256MiB";
const MEMORY_BYTES: u64 = 256 << 20;
/// What a server may grow by beyond that.
const MARGIN: u64 = 128 << 20;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

fn rounds() -> usize {
    number("SERVE_ATTACK_ROUNDS").unwrap_or(1) as usize
}

/// How long another client may wait for its answer.
fn longest_wait() -> Duration {
    let usual = if cfg!(debug_assertions) { 5 } else { 1 };
    Duration::from_secs(number("SERVE_ATTACK_SECONDS").unwrap_or(usual))
}

/// A table whose row group is large, and a small one.
fn data() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let write = |folder: &Path, name: &str, rows: usize| {
        let mut random = 1u64;
        let mut column = || {
            let next = |_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random ^ (random >> 29)) as i64
            };
            Arc::new((0..rows).map(next).collect::<Int64Array>()) as ArrayRef
        };
        let columns = ["a", "b", "c", "d"].map(|name| (name, column()));
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let properties = WriterProperties::builder().set_dictionary_enabled(false);
        let properties = properties.set_compression(Compression::UNCOMPRESSED).build();
        let file = File::create(folder.join(format!("{name}.parquet"))).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    };
    let made = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "large", ROWS);
        write(folder.path(), "small", 1000);
        folder
    });
    made.path()
}

/// A server with a memory, and with what else `args` say.
fn attacked(args: &[&str]) -> Server {
    Server::of(data(), &[&["--memory", MEMORY], args].concat())
}

/// A file of users, and the folder that it is in.
fn users(lines: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    fs::write(&file, lines).unwrap();
    let name = file.to_str().unwrap().to_owned();
    (folder, name)
}

/// Bytes of memory that a process has.
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

/// Does what an attacker does, while somebody else asks the server again and again. Says what it
/// took, and fails if that is too much.
#[track_caller]
fn attack<T>(
    name: &str,
    server: &Server,
    most_bytes: u64,
    mut ask: impl FnMut() + Send,
    work: impl FnOnce() -> T,
) -> T {
    ask();
    let (process, before) = (server.child.id(), resident(server.child.id()));
    let (ends, peak, slowest, asked) =
        (AtomicBool::new(false), AtomicU64::new(before), AtomicU64::new(0), AtomicU64::new(0));
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                peak.fetch_max(resident(process), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                let began = Instant::now();
                ask();
                slowest.fetch_max(began.elapsed().as_millis() as u64, Ordering::Relaxed);
                asked.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        // A panic in it ends those two as well, so that the test fails and does not hang.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        ends.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let grown = peak.into_inner() - before;
    let (slowest, asked) = (Duration::from_millis(slowest.into_inner()), asked.into_inner());
    eprintln!("attack: {name}: {} MiB more at most, {slowest:?} the longest of {asked} answers", grown >> 20);
    assert!(grown <= most_bytes, "{name}: the server grew by {grown} bytes, and {most_bytes} are its limit");
    assert!(asked > 0 && slowest <= longest_wait(), "{name}: another client waited {slowest:?}");
    done
}

/// Somebody who asks over one connection, and must be answered.
fn bystander(server: &Server) -> impl FnMut() + Send + use<> {
    let mut client = Client::connect(server.port, "bystander");
    move || {
        client.query("SELECT count(*) FROM small");
        let messages = client.until_ready();
        let error = messages.iter().find(|(kind, _)| *kind == b'E').map(|(_, body)| fields(body));
        assert_eq!(error, None, "a bystander is not answered");
        assert!(messages.iter().any(|(kind, _)| *kind == b'D'), "a bystander is hung up on");
    }
}

/// Somebody who comes anew for each question.
fn newcomer(server: &Server) -> impl FnMut() + Send + use<> {
    let port = server.port;
    move || assert_eq!(Client::connect(port, "newcomer").rows("SELECT count(*) FROM small").len(), 1)
}

/// The error among the messages up to the one that says that the server is ready, if there is one.
fn error_of(client: &mut Client) -> Option<String> {
    client.until_ready().iter().find(|(kind, _)| *kind == b'E').map(|(_, body)| fields(body))
}
