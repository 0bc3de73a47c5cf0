//! The interactive shell of `pagecast sql`, in a terminal that util-linux's `script` makes.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::lineitem;

/// How long a shell may live.
const PATIENCE: Duration = Duration::from_secs(300);

/// A terminal of 24 lines with the shell in it.
struct Shell {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Shell {
    /// Opens the shell in the folder `data`. `None` where there is no `script`.
    fn open(data: &Path, cache: &Path, args: &str) -> Option<Self> {
        let command = env!("CARGO_BIN_EXE_pagecast");
        let shell = format!("stty rows 24 cols 120; exec {command} sql --data {} {args}", data.display());
        let mut command = Command::new("script");
        command.args(["-qec", &shell, "/dev/null"]).env("XDG_CACHE_HOME", cache).env("TERM", "xterm");
        // What the pager gets comes out between two marks; it leaves Ctrl-C to the shell.
        command.env("PAGER", "trap '' INT; echo [paged; cat; echo paged]").current_dir(data);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = match started {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("skipped: there is no `script`, which makes a terminal");
                return None;
            }
            started => started.unwrap(),
        };
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        // An answer that never comes ends the test, and not the patience of whoever runs it.
        let id = child.id().to_string();
        std::thread::spawn(move || {
            std::thread::sleep(PATIENCE);
            let _ = Command::new("kill").arg(id).status();
        });
        let mut shell = Self { child, input, output };
        shell.until("", "", "pagecast> ");
        Some(shell)
    }

    /// Types a line, and reads on until `answer` has come, and `then` after it: what is typed
    /// before the next prompt the terminal may throw away.
    #[track_caller]
    fn until(&mut self, typed: &str, answer: &str, then: &str) -> String {
        self.input.write_all(typed.as_bytes()).unwrap();
        let (mut seen, mut piece) = (String::new(), [0; 4096]);
        while !seen.split_once(answer).is_some_and(|(_, rest)| rest.contains(then)) {
            let length = self.output.read(&mut piece).unwrap();
            assert!(length > 0, "no `{answer}` and `{then}` in: {seen}");
            seen += &String::from_utf8_lossy(&piece[..length]);
        }
        seen
    }

    /// Runs a line, whose answer has `answer`.
    #[track_caller]
    fn ask(&mut self, line: &str, answer: &str) -> String {
        self.until(&format!("{line}\r"), answer, "pagecast> ")
    }

    /// Leaves, and asserts that this is a success.
    fn leave(mut self) {
        self.input.write_all(b"\\q\r").unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn a_terminal_gets_a_limit_a_pager_and_ctrl_c() {
    let (data, _) = lineitem();
    let cache = tempfile::tempdir().unwrap();
    let Some(mut shell) = Shell::open(data.path(), cache.path(), "") else { return };
    let short = shell.ask("SELECT 41 + 1 AS x;", "row in ");
    assert!(short.contains("| 42 |") && !short.contains("[paged"), "{short}");
    let long = shell.ask("SELECT value AS n FROM generate_series(1, 5000);", "1000 rows in ");
    assert!(long.contains("[paged") && long.contains("| 1000 |") && !long.contains("| 1001 |"), "{long}");
    assert!(long.contains("the first 1000 rows"), "{long}");
    shell.ask("\\rows 2", "\n");
    let two = shell.ask("SELECT value AS n FROM generate_series(1, 5000);", "2 rows in ");
    assert!(two.contains("| 2 ") && !two.contains("| 3 ") && !two.contains("[paged"), "{two}");
    shell.ask(".rows 0", "\n");
    shell.ask(".pager off", "pager is off");
    let plain = shell.ask("SELECT value AS n FROM generate_series(1, 5000);", "5000 rows in ");
    assert!(!plain.contains("[paged"), "{plain}");
    shell.ask(".pager on", "pager is on");
    let endless = "SELECT value AS n FROM generate_series(1, 1000000000000);";
    shell.until(&format!("{endless}\r"), "| 100000 ", "");
    shell.until("\u{3}", "interrupted", "pagecast> ");
    let after = shell.ask("SELECT 6 * 7 AS y;", "row in ");
    assert!(after.contains("| 42 |"), "{after}");
    let history = std::fs::read_to_string(cache.path().join("pagecast/history")).unwrap();
    assert!(history.contains(endless) && history.contains("6 * 7") && history.contains(".rows 0"), "{history}");
    shell.leave();
}

#[test]
fn the_tab_key_completes() {
    let (data, _) = lineitem();
    let cache = tempfile::tempdir().unwrap();
    let Some(mut shell) = Shell::open(data.path(), cache.path(), "") else { return };
    let keyed = shell.ask("SELEC\tmin(l_ta\t) AS least FR\tlinei\t;", "1 row in ");
    assert!(keyed.contains("| least |") && keyed.contains("| 0.00 "), "{keyed}");
    // A statement of two lines knows what was typed before, and its alias.
    shell.until("SELECT count(*) FROM lineitem x\r", "", "-> ");
    let aliased = shell.ask("WHERE x.l_disc\t < 0 OR x.l_disc\t >= 0;", "1 row in ");
    assert!(aliased.contains("x.l_discount") && aliased.contains("| 60175 "), "{aliased}");
    let file = shell.ask("SELECT count(*) FROM 'line\t';", "1 row in ");
    assert!(file.contains("'lineitem.parquet") && file.contains("| 60175 "), "{file}");
    // A table that was made is completed from then on; so are commands and their arguments.
    shell.ask("CREATE VIEW \"Made Here\" AS SELECT 7 AS seven;", "0 rows in ");
    let made = shell.ask("SELECT * FROM Mad\t;", "1 row in ");
    assert!(made.contains("| seven |") && made.contains("| 7 "), "{made}");
    shell.ask(".mode nd\t", "\n");
    shell.ask("SELECT 1 AS one;", "{\"one\":1}");
    shell.leave();
}

#[test]
fn commands_say_and_change_how_results_are_shown() {
    let (data, _) = lineitem();
    let cache = tempfile::tempdir().unwrap();
    let Some(mut shell) = Shell::open(data.path(), cache.path(), "") else { return };
    let help = shell.ask("\\?", "formats: ");
    assert!(help.contains(".timer \\timing") && help.contains("ndjson"), "{help}");
    shell.ask("\\dt", "lineitem  (1 file)");
    let columns = shell.ask("\\d lineitem", "16 rows in ");
    assert!(columns.contains("l_orderkey") && columns.contains("Int64"), "{columns}");
    let functions = shell.ask("\\df levensh", "row in ");
    assert!(functions.contains("levenshtein"), "{functions}");
    shell.ask("\\timing", "figures are off");
    let quiet = shell.ask("SELECT 1 AS x;", "| 1 |");
    assert!(!quiet.contains(" row in "), "{quiet}");
    shell.ask("\\timing on", "figures are on");
    shell.ask("\\x", "written as records");
    shell.ask("SELECT 1 AS x, NULL AS y;", "y | NULL");
    shell.ask("\\x", "written as table");
    shell.ask("\\null nix", "");
    shell.ask("SELECT NULL AS y;", "| nix |");
    shell.ask(".pool", "evictions");
    let wrong = shell.ask("\\nope", "there is no command \\nope");
    assert!(wrong.contains(".help"), "{wrong}");
    // The shell goes on after an error, and says which statement it was.
    let two = shell.ask("SELECT nope; SELECT 5 AS five;", "five");
    assert!(two.contains("SELECT nope: ") && two.contains("| 5 "), "{two}");
    // A file for results, which is whole when the next one begins.
    shell.ask(".output out.csv", "");
    shell.ask(".mode csv", "");
    shell.ask("SELECT 1 AS a, NULL AS b, '' AS c;", "1 row in ");
    shell.ask(".output", "");
    assert_eq!(std::fs::read_to_string(data.path().join("out.csv")).unwrap(), "a,b,c\n1,nix,\"\"\n");
    shell.leave();
}
