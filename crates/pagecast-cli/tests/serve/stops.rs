//! Every operator gives way: each statement of `stops.sql` is cancelled while it runs, and nothing
//! of it is left then. `ci/stops.py` measures how long that takes, by all doors. This machine may
//! be busy and the build is not optimized, and each would go on for far longer if it did not look.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::wire::{Client, fields, framed};
use crate::{Server, pagecast};

/// How long a statement runs at least before it is cancelled.
const RUNS: Duration = Duration::from_millis(150);
/// How long it may be told, and how long the process may compute then.
const LONGEST: Duration = Duration::from_secs(10);
/// A process that computes nothing for so long has nothing to do.
const IDLE: Duration = Duration::from_millis(60);
/// Files of a table.
const FILES: usize = 100;

struct Shape {
    name: &'static str,
    before: Vec<String>,
    sql: String,
}

/// The text with each `<<3|, |x#>>` written out, inner ones first.
fn repeated(mut text: String) -> String {
    while let Some(start) = text.rfind("<<") {
        let end = start + text[start..].find(">>").unwrap();
        let mut parts = text[start + 2..end].splitn(3, '|');
        let (count, between, what) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        let all: Vec<_> = (0..count.parse().unwrap()).map(|at: usize| what.replace('#', &at.to_string())).collect();
        let all = all.join(between);
        text.replace_range(start..end + 2, &all);
    }
    text
}

/// Those that a server may be asked, of tables that are made here.
fn shapes() -> Vec<Shape> {
    let parts = include_str!("stops.sql").split("\n--- ").skip(1).map(|part| part.split_once('\n').unwrap());
    let shapes = parts.filter(|(head, _)| ["[shell]", "[python]", "[long]"].iter().all(|word| !head.contains(word)));
    let shapes = shapes.map(|(head, text)| {
        let text = repeated(text.to_owned());
        let mut before: Vec<_> = text.split(";\n").map(str::trim).filter(|sql| !sql.is_empty()).collect();
        let sql = before.pop().unwrap().to_owned();
        Shape { name: head, before: before.into_iter().map(str::to_owned).collect(), sql }
    });
    shapes.collect()
}

/// Few bytes on disk and many files.
fn data() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let copy = |to: &str, rows: usize| {
        let to = folder.path().join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        let columns = "value AS k, value::DOUBLE AS p, 'text ' || value AS s";
        let copy = format!("COPY (SELECT {columns} FROM range({rows})) TO '{}'", to.display());
        assert!(pagecast().args(["sql", "-c", &copy]).stdout(Stdio::null()).status().unwrap().success());
    };
    copy("s.parquet", 300_000);
    copy("t.parquet", 1000);
    for ending in ["parquet", "csv", "json", "arrow"] {
        copy(&format!("many_{ending}/0.{ending}"), 100_000);
        let table = folder.path().join(format!("many_{ending}"));
        let first = table.join(format!("0.{ending}"));
        (1..FILES).for_each(|at| fs::hard_link(&first, table.join(format!("{at}.{ending}"))).unwrap());
    }
    delta(&folder.path().join("many_delta"), &folder.path().join("many_parquet/0.parquet"));
    folder
}

/// The first version of a Delta table.
fn delta(table: &Path, file: &Path) {
    fs::create_dir_all(table.join("_delta_log")).unwrap();
    let column = |name: &str, kind: &str| {
        format!(r#"{{\"name\":\"{name}\",\"type\":\"{kind}\",\"nullable\":true,\"metadata\":{{}}}}"#)
    };
    let columns = [column("k", "long"), column("p", "double"), column("s", "string")].join(",");
    let mut log = r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#.to_owned();
    log += &format!(
        r#"
{{"metaData":{{"id":"0","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{{\"type\":\"struct\",\"fields\":[{columns}]}}","partitionColumns":[],"configuration":{{}},"createdTime":0}}}}"#
    );
    let bytes = fs::metadata(file).unwrap().len();
    for at in 0..FILES {
        fs::hard_link(file, table.join(format!("{at}.parquet"))).unwrap();
        log += &format!(
            r#"
{{"add":{{"path":"{at}.parquet","partitionValues":{{}},"size":{bytes},"modificationTime":0,"dataChange":true}}}}"#
        );
    }
    fs::write(table.join("_delta_log/00000000000000000000.json"), log + "\n").unwrap();
}

/// What the processors have worked for a process, in hundredths of a second.
fn worked(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Waits until it computes nothing any more, or for too long.
fn until_idle(process: u32) -> Duration {
    let began = Instant::now();
    let (mut since, mut before) = (began, worked(process));
    while since.elapsed() < IDLE && began.elapsed() < LONGEST {
        std::thread::sleep(Duration::from_millis(10));
        let now = worked(process);
        // One of them is what its timers take.
        if now > before + 1 {
            (since, before) = (Instant::now(), now);
        }
    }
    began.elapsed()
}

/// Runs and cancels a statement; what is wrong with that.
fn stopped(server: &Server, watcher: &mut Client, shape: &Shape) -> Result<(), String> {
    let mut client = Client::connect(server.port, "stops");
    for sql in &shape.before {
        client.query(sql);
        client.until_ready();
    }
    client.query(&shape.sql);
    std::thread::sleep(RUNS);
    // Where the machine is busy, a text of megabytes may not have arrived yet.
    let (sent, active) = (Instant::now(), "SELECT 1 FROM pg_stat_activity WHERE state = 'active' OFFSET 1");
    while watcher.rows(active).is_empty() && sent.elapsed() < LONGEST {}
    let began = Instant::now();
    let request = [&80_877_102i32.to_be_bytes()[..], &client.key].concat();
    Client::open(server.port).raw(&framed(None, &request));
    let error = client.until_ready().iter().find(|(kind, _)| *kind == b'E').map(|(_, body)| fields(body));
    let told = began.elapsed();
    let error = error.ok_or("it was done before it was cancelled")?;
    if !error.starts_with("57014 ") {
        return Err(format!("it ended by itself: {error}"));
    }
    let idle = until_idle(server.child.id());
    eprintln!("{}: told in {told:?}, and at its end {idle:?} later", shape.name);
    match told.max(idle) < LONGEST {
        true => Ok(()),
        false => Err(format!("its client was told in {told:?}, and it ended {idle:?} later")),
    }
}

#[test]
fn every_operator_gives_way() {
    let data = data();
    let server = Server::of(data.path(), &["--memory", "1GiB", "--max-message", "64MiB"]);
    let shapes = shapes();
    assert!(shapes.len() >= 60);
    let mut watcher = Client::connect(server.port, "watcher");
    let wrong = shapes.iter().filter_map(|shape| Some((shape.name, stopped(&server, &mut watcher, shape).err()?)));
    let wrong: Vec<_> = wrong.collect();
    drop(watcher);
    assert!(wrong.is_empty(), "{wrong:#?}");
    server.assert_idle();
}
