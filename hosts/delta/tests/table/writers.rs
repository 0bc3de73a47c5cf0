//! Processes that write and read one table at once, and are killed at random.
//!
//! A writer moves an amount between two accounts and leaves a row of its own, in one transaction.
//! So the sum of all accounts is the same in every version, each such row is there once, and there
//! are as many as the log has commits that no compaction made. What a writer was told is committed,
//! it notes in a file. `PAGECAST_WRITERS` is how many writers, and as many readers, there are;
//! `PAGECAST_KILLS` is how many of them are killed at least, in at least `PAGECAST_SECONDS`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagecast_delta::{DeltaError, Table};

use super::data::{Session, options, rows, schema};
use super::peers;

const ACCOUNTS: i64 = 50;
const AMOUNT: i64 = 1000;
/// Rows of writers are numbered from here on.
const NOTES: i64 = 1_000_000;
const ROLE: &str = "PAGECAST_ROLE";
const CHECK: &str = "SELECT sum(CASE WHEN id < 1000000 THEN part END), count(DISTINCT id), count(*),
    sum(CASE WHEN id < 1000000 THEN 1 END) FROM t";

fn from_environment(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn random(below: i64) -> i64 {
    let mut bytes = [0; 8];
    std::io::Read::read_exact(&mut fs::File::open("/dev/urandom").unwrap(), &mut bytes).unwrap();
    (u64::from_le_bytes(bytes) % below as u64) as i64
}

/// The numbers of a one-row result.
async fn numbers(session: &Session, sql: &str) -> Vec<i64> {
    let text = session.run(sql).await;
    text.lines().nth(3).unwrap().split('|').filter_map(|cell| cell.trim().parse().ok()).collect()
}

/// How many rows of writers there are to be, version by version, as the log says.
#[derive(Default)]
struct Notes(Vec<i64>);

impl Notes {
    fn at(&mut self, folder: &Path, version: u64) -> i64 {
        while self.0.len() as u64 <= version {
            let log = format!("t/_delta_log/{:020}.json", self.0.len());
            let text = fs::read_to_string(folder.join(log)).unwrap();
            // Versions 0 and 1 are the table and its accounts.
            let adds = self.0.len() > 1 && !text.contains("\"OPTIMIZE\"");
            self.0.push(self.0.last().copied().unwrap_or(0) + i64::from(adds));
        }
        self.0[version as usize]
    }
}

/// All amounts are there, and no row is missing, or there twice.
async fn check(table: &Arc<Table>, version: u64, notes: &mut Notes) -> i64 {
    let snapshot = table.at(version).unwrap();
    let found = numbers(&Session::of(table.provider_at(&snapshot), None, 1), CHECK).await;
    assert_eq!(found[0], ACCOUNTS * AMOUNT, "version {version}: the sum of the accounts");
    assert_eq!(found[1], found[2], "version {version}: rows that are there twice");
    assert_eq!(found[3], ACCOUNTS, "version {version}: accounts");
    let noted = notes.at(table.folder().parent().unwrap(), version);
    assert_eq!(found[2] - ACCOUNTS, noted, "version {version}: rows of writers");
    noted
}

async fn write_for_ever(folder: &Path) {
    let table = Table::open_with(folder.join("t"), options()).unwrap();
    let mut told = fs::File::create(folder.join(format!("told-{}", std::process::id()))).unwrap();
    loop {
        let transaction = table.begin().unwrap();
        let session = Session::of(transaction.provider(), None, 1);
        let (from, to, amount, note) = (random(ACCOUNTS), random(ACCOUNTS), random(9), NOTES + random(1 << 40));
        session.run(&format!("UPDATE t SET part = part - {amount} WHERE id = {from}")).await;
        session.run(&format!("UPDATE t SET part = part + {amount} WHERE id = {to}")).await;
        session.run(&format!("INSERT INTO t VALUES ({note}, 0, 'note')")).await;
        match transaction.commit() {
            Ok(_) => writeln!(told, "{note}").unwrap(),
            Err(DeltaError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        if random(50) == 0 {
            match table.compact(0.3) {
                Ok(_) | Err(DeltaError::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

async fn read_for_ever(folder: &Path) {
    let table = Table::open(folder.join("t")).unwrap();
    let mut seen = fs::File::create(folder.join(format!("seen-{}", std::process::id()))).unwrap();
    let mut notes = Notes::default();
    loop {
        let newest = table.newest().unwrap().version();
        check(&table, newest, &mut notes).await;
        check(&table, random(newest as i64) as u64 + 1, &mut notes).await;
        writeln!(seen, "{newest}").unwrap();
    }
}

/// The life of a process that [`killed_writers_lose_nothing`] begins.
#[tokio::test]
#[ignore = "a process of another test"]
async fn process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (role, folder) = role.split_once(':').unwrap();
    match role {
        "writer" => write_for_ever(Path::new(folder)).await,
        _ => read_for_ever(Path::new(folder)).await,
    }
}

fn begin(role: &str, folder: &Path) -> Child {
    let log = fs::File::options().create(true).append(true).open(folder.join("said")).unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "table::writers::process", "--ignored", "--nocapture"])
        .env(ROLE, format!("{role}:{}", folder.display()))
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// The lines of the files whose names begin so.
fn lines_of(folder: &Path, name: &str) -> Vec<String> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = paths.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(name));
    named.flat_map(|path| fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[tokio::test]
async fn killed_writers_lose_nothing() {
    let (count, kills) = (from_environment("PAGECAST_WRITERS", 2), from_environment("PAGECAST_KILLS", 6));
    let until = Instant::now() + Duration::from_secs(from_environment("PAGECAST_SECONDS", 0) as u64);
    let folder = tempfile::tempdir().unwrap();
    let table = Table::create(folder.path().join("t"), &schema(), &[], options()).unwrap();
    let session = Session::new(&table, None);
    let accounts = session.ctx.read_batch(rows(0..ACCOUNTS)).unwrap();
    session.ctx.register_table("new", accounts.into_view()).unwrap();
    session.run(&format!("INSERT INTO t SELECT id, {AMOUNT}, text FROM new")).await;

    let roles = ["writer", "reader"];
    let mut running = Processes((0..2 * count).map(|i| begin(roles[i % 2], folder.path())).collect());
    for kill in 0.. {
        if kill >= kills && Instant::now() >= until {
            break;
        }
        // Something happens between two kills.
        let before = table.newest().unwrap().version();
        while table.newest().unwrap().version() < before + 3 {
            std::thread::sleep(Duration::from_millis(20));
            for child in &mut running.0 {
                let said = || fs::read_to_string(folder.path().join("said")).unwrap();
                assert!(child.try_wait().unwrap().is_none(), "a process ended by itself: {}", said());
            }
        }
        let one = random(2 * count as i64) as usize;
        running.0[one].kill().unwrap();
        running.0[one].wait().unwrap();
        running.0[one] = begin(roles[one % 2], folder.path());
        println!("kill {kill} at version {before}");
    }
    drop(running);

    let found = Table::open(folder.path().join("t")).unwrap();
    let newest = found.newest().unwrap().version();
    // Every version has a file more, so of very many not all are looked at.
    let step = (newest / 300).max(1) as usize;
    let looked_at: Vec<u64> = (1..=newest).rev().step_by(step).collect();
    let mut notes = Notes::default();
    for &version in &looked_at {
        check(&found, version, &mut notes).await;
    }
    let (told, session) = (lines_of(folder.path(), "told-"), Session::new(&found, None));
    assert!(!told.is_empty());
    let there = format!("SELECT count(*) FROM t WHERE id IN ({})", told.join(", "));
    assert_eq!(session.number(&there).await, told.len() as i64, "what was told to be committed is there");
    println!(
        "{newest} versions ({} looked at), readers saw {}, {} rows were told, {} are there",
        looked_at.len(),
        lines_of(folder.path(), "seen-").len(),
        told.len(),
        notes.at(folder.path(), newest)
    );
    peers::reads_versions(&found, &looked_at).await;
}
