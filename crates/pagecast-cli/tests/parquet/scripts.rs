//! Statements that come from files: their errors, commands among them, and exit codes.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::{assert_fails, pagecast};

/// Runs in `folder`, with `input` typed into a pipe.
fn sql(folder: &Path, args: &[&str], input: &str) -> Output {
    let mut command = pagecast();
    command.arg("sql").args(args).current_dir(folder);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Who fails before the end reads no more.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A folder with a script in it.
fn script(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("q.sql"), text).unwrap();
    folder
}

#[test]
fn files_and_standard_input_run_in_turn() {
    let folder = script("-- a comment\nSELECT 1 AS a;\nSELECT 2 AS a");
    std::fs::write(folder.path().join("r.sql"), "SELECT 4 AS a;").unwrap();
    let args = ["--format", "ndjson", "-q", "-f", "q.sql", "-f", "-", "--file", "r.sql"];
    let text = stdout(&sql(folder.path(), &args, "SELECT 3 AS a;\n"));
    assert_eq!(text, "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n{\"a\":4}\n");
    let both = ["-q", "--format", "ndjson", "-c", "SELECT 1 AS a; SELECT 2 AS a", "--query", "SELECT 3 AS a"];
    assert_eq!(stdout(&sql(folder.path(), &both, "")), "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n");
    assert_fails(&sql(folder.path(), &["-c", "SELECT 1", "-f", "q.sql"], ""), 2, &["cannot be used with"]);
    assert_fails(&sql(folder.path(), &["-f", "none.sql"], ""), 2, &["cannot open none.sql"]);
}

#[test]
fn an_error_says_which_statement_it_was() {
    let wrong = |text: &str, words: &[&str]| {
        let folder = script(text);
        assert_fails(&sql(folder.path(), &["-f", "q.sql"], ""), 1, words);
    };
    wrong("SELECT 1;\n\n  SELECT 2 AS a,\n nope FROM (VALUES (1)) t;", &["q.sql:3: statement 2: ", "nope"]);
    wrong("SELECT 1;\nSELECT 2; SELECT 3 +;\n", &["q.sql:2:21: "]);
    wrong("SELECT 1;\n\nSELECT\n  2 FROM;", &["q.sql:4:9: "]);
    wrong("SELECT 1;\nFROM t WHERE );\n", &["q.sql:2:14: "]);
    wrong("SELECT 1;\nSELECT 'x;\n", &["q.sql:2:8: Unterminated"]);
    wrong("SELECT 1;\n.nope\n", &["q.sql", "there is no command .nope; .help"]);
    let folder = script("SELECT 1;\nSELECT nope;");
    assert_fails(&sql(folder.path(), &["-c", ".read q.sql"], ""), 1, &["-c: q.sql:2: statement 2: ", "nope"]);
    assert_fails(&sql(folder.path(), &[], "SELECT 1;\nSELECT nope;"), 1, &["standard input:2: statement 2: ", "nope"]);
    assert_fails(&sql(folder.path(), &["-c", "SELECT 1; SELECT nope"], ""), 1, &["-c:1: statement 2: "]);
    let one = sql(folder.path(), &["-c", "SELECT nope"], "");
    assert_fails(&one, 1, &["nope"]);
    assert!(!String::from_utf8_lossy(&one.stderr).contains("statement"), "{one:?}");
}

#[test]
fn commands_stand_between_statements() {
    let folder = script(".mode csv\n\\timing off\nSELECT '.quit\n.quit' AS a;\n.read r.sql\nSELECT 3 AS c;\n");
    std::fs::write(folder.path().join("r.sql"), ".output r.csv\nSELECT 2 AS b;\n.output\n.quit\nSELECT 9;").unwrap();
    let text = stdout(&sql(folder.path(), &["-f", "q.sql"], ""));
    assert_eq!(text, "figures are off\na\n\".quit\n.quit\"\n", "a quit ends all that runs");
    assert_eq!(std::fs::read_to_string(folder.path().join("r.csv")).unwrap(), "b\n2\n");
    std::fs::write(folder.path().join("r.sql"), ".read r.sql").unwrap();
    assert_fails(&sql(folder.path(), &["-f", "r.sql"], ""), 1, &["r.sql is read by 16 files"]);
}

#[test]
fn everyday_statements_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let text = "CREATE TABLE t AS SELECT 1 AS a, 'x' AS b;
        CREATE VIEW v AS SELECT a FROM t;
        SHOW TABLES;
        DESCRIBE t;
        DESCRIBE SELECT a + 1 AS more FROM t;
        SHOW COLUMNS FROM t;
        COPY t TO 't.csv';
        FROM t;
        EXPLAIN SELECT * FROM t;
        SUMMARIZE t;
        DROP VIEW v;
        SHOW FUNCTIONS LIKE 'md5';
        SET datafusion.execution.batch_size = 100;
        SHOW datafusion.execution.batch_size;";
    let text = stdout(&sql(folder.path(), &["--format", "csv", "-q", "-f", "-"], text));
    for words in ["public,t,BASE TABLE", "public,v,VIEW", "a,Int64", "more,Int64", "\n1,x\n", "md5(", "batch_size,100"]
    {
        assert!(text.contains(words), "no {words} in {text}");
    }
    // A folder is a table by its name alone if there is one in it.
    std::fs::create_dir(folder.path().join("days")).unwrap();
    let of_days = || sql(folder.path(), &["-q", "--format", "csv", "-c", "SELECT * FROM days"], "");
    assert_fails(&of_days(), 1, &["no table is called days"]);
    stdout(&sql(folder.path(), &["-c", "COPY (SELECT 7 AS n) TO 'days/1.parquet'"], ""));
    assert_eq!(stdout(&of_days()), "n\n7\n");
    assert_eq!(std::fs::read_to_string(folder.path().join("t.csv")).unwrap(), "a,b\n1,x\n");
}
