//! The contract of `pagecast sql`.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::{assert_fails, lineitem, pagecast};

fn sql(data: &Path, args: &[&str]) -> Output {
    pagecast().args(["sql", "--data"]).arg(data).args(args).output().unwrap()
}

fn typed(data: &Path, input: &str) -> Output {
    let mut command = pagecast();
    command.args(["sql", "--data"]).arg(data).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_statement_and_what_it_read() {
    let (data, _) = lineitem();
    let twice = "SELECT count(*) AS n, min(l_tax) FROM lineitem WHERE l_tax >= 0";
    let text = stdout(&sql(data.path(), &["-c", &format!("{twice}; {twice}")]));
    assert!(text.contains("| 60175 |"), "{text}");
    let figures: Vec<&str> = text.lines().filter(|line| line.starts_with("1 row in")).collect();
    assert_eq!(figures.len(), 2, "{text}");
    assert!(figures[0].contains("requested") && !figures[0].contains(" 0 B read"), "{text}");
    assert!(figures[1].contains(" 0 B read, hit rate 100.0 %"), "the second time all is in the pool: {text}");
}

#[test]
fn statements_of_standard_input() {
    let (data, _) = lineitem();
    let text =
        stdout(&typed(data.path(), "SELECT 41 + 1; -- first;\nSELECT ';' AS semicolon,\n 7 AS seven;\nSELECT 9"));
    assert!(!text.contains("pagecast>"), "no prompt without a terminal");
    let places: Vec<_> = ["| 42 ", "| ;  ", "| 9 "].iter().map(|cell| text.find(cell)).collect();
    assert!(places.is_sorted() && places[0].is_some(), "{text}");
    assert_eq!(text.matches(" row in ").count(), 3);
    assert_eq!(stdout(&typed(data.path(), " \n")), "");
}

#[test]
fn an_empty_result_has_its_columns() {
    let (data, _) = lineitem();
    let text = stdout(&sql(data.path(), &["-c", "SELECT l_tax FROM lineitem WHERE l_tax < 0"]));
    assert!(text.contains("l_tax") && text.contains("0 rows in"), "{text}");
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let (data, file) = lineitem();
    let fails = |args: &[&str], status, words: &[&str]| assert_fails(&sql(data.path(), args), status, words);
    fails(&["-c", "SELECT 1 +"], 1, &["1:11: "]);
    fails(&["-c", "SELECT 'x"], 1, &["-c", "quote"]);
    fails(&["-c", "SELECT * FROM nowhere"], 1, &["nowhere"]);
    fails(&["--pool", "0", "-c", "SELECT 1"], 2, &["--pool"]);
    fails(&["--pool", "1KiB", "-c", "SELECT 1"], 2, &["--pool", "too small"]);
    fails(&["--memory", "30%", "-c", "SELECT 1"], 2, &["--memory"]);
    fails(&["--policy", "opt", "-c", "SELECT 1"], 2, &["--policy", "opt"]);
    fails(&["--policy", "nope", "-c", "SELECT 1"], 2, &["--policy", "nope"]);
    let hungry = "SELECT l_comment, count(*) FROM lineitem GROUP BY 1 ORDER BY 1";
    fails(&["--memory", "1MiB", "-c", hungry], 1, &["emory"]);
    assert_fails(&sql(Path::new("/no/such/folder"), &["-c", "SELECT 1"]), 1, &["/no/such/folder"]);
    let first_only = typed(data.path(), "SELECT 1; SELECT nope; SELECT 3;");
    assert_fails(&first_only, 1, &["nope"]);
    assert!(!String::from_utf8_lossy(&first_only.stdout).contains("| 3 "), "the first failure ends the run");
    std::fs::write(&file, b"PAR1").unwrap();
    fails(&["-c", "SELECT 1"], 1, &["lineitem.parquet", "truncated"]);
}
