//! Files that the command writes are there whole or not at all, also when it is killed or a disk is
//! full.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::pagecast;

const ROWS: &str = "SELECT a.value, repeat('x', 100) FROM range(100000) a, range(100000) b";

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

fn sql(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = pagecast();
    command.arg("sql").args(arguments).current_dir(folder);
    command
}

/// A folder in which `old.csv` is to be replaced.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("old.csv"), "old").unwrap();
    folder
}

#[test]
fn what_a_killed_process_left_is_removed_by_the_next_that_writes_there() {
    let endless = format!("COPY ({ROWS}) TO 'old.csv'");
    let ways: [&[&str]; 2] = [&["-c", &endless], &["-c", ROWS, "--format", "csv", "--output", "old.csv"]];
    for endless in ways {
        let folder = folder();
        let mut running = sql(folder.path(), endless).spawn().unwrap();
        let begun = Instant::now();
        // It is killed in the middle of its rows.
        let length = || {
            let left = names(folder.path()).into_iter().find(|name| name.starts_with(".pagecast-unfinished-"))?;
            Some(fs::metadata(folder.path().join(left)).ok()?.len())
        };
        while length().is_none_or(|length| length == 0) {
            assert!(running.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(120));
            std::thread::sleep(Duration::from_millis(5));
        }
        running.kill().unwrap();
        running.wait().unwrap();
        assert_eq!(fs::read(folder.path().join("old.csv")).unwrap(), b"old");
        assert_eq!(names(folder.path()).len(), 2, "{:?}", names(folder.path()));

        let output = sql(folder.path(), &["-c", "COPY (SELECT 1 AS one) TO 'old.csv'"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(fs::read(folder.path().join("old.csv")).unwrap(), b"one\n1\n");
        assert_eq!(names(folder.path()), ["old.csv"]);
    }
}

/// The disk is the shell's that mounts it, and goes with it.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_keeps_the_old_file() {
    use std::io::Write;

    let script = "mount -t tmpfs -o size=1m small . && cd \"$PWD\" || exit 99; file=$1; shift
        printf old > $file; \"$0\" sql \"$@\" && exit 98; cat $file; ls -A";
    let rows = "SELECT value, repeat(random()::text, 30) AS x FROM range(100000)";
    for file in ["old.csv", "old.json", "old.parquet", "old.arrow", "output.csv"] {
        let folder = tempfile::tempdir().unwrap();
        let mut shell = Command::new("unshare");
        shell.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_pagecast"), file]).current_dir(folder.path());
        match file {
            "output.csv" => shell.args(["-c", rows, "--format", "csv", "--output", file]),
            _ => shell.args(["-c", &format!("COPY ({rows}) TO '{file}'")]),
        };
        let skipped = |why: &str| _ = writeln!(std::io::stderr(), "skipped: no small disk can be mounted here: {why}");
        let output = match shell.output() {
            Ok(output) if !matches!(output.status.code(), Some(1 | 99)) => output,
            Ok(output) => return skipped(&String::from_utf8_lossy(&output.stderr)),
            Err(error) => return skipped(&error.to_string()),
        };
        let (told, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(told, format!("old{file}\n"), "{file}: {said}");
        assert!(said.contains("cannot write ") && said.contains(&format!("/{file}: ")), "{file}: {said}");
        assert!(said.contains("No space left"), "{file}: {said}");
    }
}
