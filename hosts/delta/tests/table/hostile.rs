//! Logs, checkpoints and deletion vectors that anybody may have written: a table opens or says what
//! is wrong in one line, and nothing panics. The fuzz target `hosts/delta/fuzz` goes on from here.

use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::prelude::SessionContext;
use futures::FutureExt;
use pagecast_core::random::Random;
use pagecast_delta::Table;

use super::data::{Session, table};

/// What stands in the place of a word of JSON.
const WORDS: [&str; 12] = [
    "0",
    "-1",
    "18446744073709551616",
    "1e308",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "\"../../x\"",
    "\"\\u0000\"",
    "\"long\"",
];

/// A table with a checkpoint, a deletion vector, and versions after it.
async fn whole() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[500, 500]).await;
    let session = Session::new(&table, None);
    session.run("DELETE FROM t WHERE id % 3 = 0").await;
    for first in (1000..1120).step_by(10) {
        session.insert(first..first + 10).await;
    }
    session.run("DELETE FROM t WHERE id > 1100").await;
    folder
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found.retain(|path| path.is_file());
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.join("_delta_log")).unwrap();
    for folder in ["", "_delta_log"] {
        for file in files(&from.join(folder)) {
            fs::copy(&file, to.join(folder).join(file.file_name().unwrap())).unwrap();
        }
    }
}

/// Edits a file, as JSON or as bytes.
fn edit(path: &Path, random: &mut Random) -> String {
    let mut bytes = fs::read(path).unwrap();
    let at = random.below(bytes.len().max(1) as u32) as usize;
    let what = match random.below(5) {
        0 if !bytes.is_empty() => {
            bytes[at] ^= 1 << random.below(8);
            format!("a bit of byte {at}")
        }
        1 => {
            bytes.truncate(at);
            format!("cut at {at}")
        }
        2 => {
            let end = (at + 1 + random.below(200) as usize).min(bytes.len());
            bytes.drain(at..end);
            format!("{at}..{end} are gone")
        }
        _ => {
            // A number, string or name becomes something else.
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let begin = text[text.floor_char_boundary(at)..]
                .find([':', '[', ','])
                .map_or(0, |found| text.floor_char_boundary(at) + found + 1);
            let end = text[begin..].find([',', '}', ']']).map_or(text.len(), |found| begin + found);
            let word = WORDS[random.below(WORDS.len() as u32) as usize];
            bytes = format!("{}{word}{}", &text[..begin], &text[end..]).into_bytes();
            format!("{begin}..{end} is {word}")
        }
    };
    fs::write(path, bytes).unwrap();
    format!("{}: {what}", path.file_name().unwrap().display())
}

/// Opens the table and reads all of it: the number of rows, or what is wrong.
async fn read(folder: &Path) -> Result<usize, String> {
    let table: Arc<Table> = Table::open(folder).map_err(|fault| fault.to_string())?;
    let newest = table.provider().map_err(|fault| fault.to_string())?;
    let ctx = SessionContext::new();
    ctx.register_table("t", Arc::new(newest)).map_err(|fault| fault.to_string())?;
    let rows = ctx.sql("SELECT * FROM t").await.map_err(|fault| fault.to_string())?;
    let rows = rows.collect().await.map_err(|fault| fault.to_string())?;
    Ok(rows.iter().map(|batch| batch.num_rows()).sum())
}

#[tokio::test]
async fn logs_and_checkpoints_that_anybody_wrote_are_read_or_refused() {
    let rounds = std::env::var("DELTA_ROUNDS").map_or(300, |rounds| rounds.parse().unwrap());
    let whole = whole().await;
    let expected = read(whole.path()).await.unwrap();
    let (mut read_whole, mut refused) = (0, 0);
    for seed in 0..rounds {
        let mut random = Random::new(seed);
        let folder = tempfile::tempdir().unwrap();
        copy(whole.path(), folder.path());
        let mut log = files(&folder.path().join("_delta_log"));
        log.extend(files(folder.path()).into_iter().filter(|path| path.extension().is_some_and(|end| end == "bin")));
        let edits: Vec<_> =
            (0..=random.below(2)).map(|_| edit(&log[random.below(log.len() as u32) as usize], &mut random)).collect();
        let outcome = AssertUnwindSafe(read(folder.path())).catch_unwind().await;
        match outcome.unwrap_or_else(|_| panic!("seed {seed}, {edits:?}: a panic")) {
            Ok(rows) => read_whole += usize::from(rows == expected),
            Err(fault) => {
                assert!(!fault.trim().is_empty(), "seed {seed}, {edits:?}");
                refused += 1;
            }
        }
    }
    println!("{rounds} tables: {read_whole} read as before, {refused} refused");
    assert!(refused > rounds / 5 && read_whole > rounds as usize / 20);
}
