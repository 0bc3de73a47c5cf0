//! What `pagecast sql` writes: every format, to standard output and into files.

use std::process::Output;

use crate::{assert_fails, lineitem, pagecast};

/// Every kind of value that formats treat differently.
const ROWS: &str =
    "SELECT * FROM (VALUES (1, '', 1.5), (2, NULL, NULL), (3, 'a, \"b\"', -0.25)) AS t (n, text, x) ORDER BY n";

fn sql(args: &[&str]) -> Output {
    pagecast().arg("sql").args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn written(format: &str) -> String {
    stdout(&sql(&["--format", format, "-q", "-c", ROWS]))
}

#[test]
fn every_format_tells_null_from_an_empty_text() {
    assert_eq!(written("csv"), "n,text,x\n1,\"\",1.50\n2,,\n3,\"a, \"\"b\"\"\",-0.25\n");
    assert_eq!(written("tsv"), "n\ttext\tx\n1\t\"\"\t1.50\n2\t\t\n3\t\"a, \"\"b\"\"\"\t-0.25\n");
    let lines =
        [r#"{"n":1,"text":"","x":1.50}"#, r#"{"n":2,"text":null,"x":null}"#, r#"{"n":3,"text":"a, \"b\"","x":-0.25}"#];
    assert_eq!(written("ndjson"), format!("{}\n", lines.join("\n")));
    assert_eq!(written("jsonl"), written("ndjson"));
    let array: serde_json::Value = serde_json::from_str(&written("json")).unwrap();
    let expected: Vec<serde_json::Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(array, serde_json::Value::Array(expected));
    assert!(written("table").contains("| 2 | NULL"), "{}", written("table"));
    assert!(written("records").contains("text | NULL\n"), "{}", written("records"));
    assert!(written("markdown").starts_with("| n | text | x |\n| --- |"), "{}", written("markdown"));
    let named = stdout(&sql(&["--format", "csv", "--null", "\\N", "-qc", ROWS]));
    assert!(named.contains("\n2,\\N,\\N\n"), "{named}");
    let empty = |format| stdout(&sql(&["--format", format, "-qc", "SELECT 1 AS n WHERE false"]));
    assert_eq!((empty("csv"), empty("json"), empty("ndjson")), ("n\n".into(), "[]\n".into(), String::new()));
}

#[test]
fn programs_get_rows_alone() {
    let output = sql(&["--format", "csv", "-c", "SET datafusion.execution.batch_size = 10; SELECT 7 AS n"]);
    assert_eq!(stdout(&output), "n\n7\n");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("1 row in ") && said.lines().count() == 2, "{said}");
    let quiet = sql(&["--format", "csv", "-q", "-c", "SELECT 7 AS n"]);
    assert!(quiet.stderr.is_empty(), "{quiet:?}");
    let table = stdout(&sql(&["-q", "-c", "SELECT 7 AS n"]));
    assert!(!table.contains("row in"), "{table}");
}

#[test]
fn a_result_becomes_a_file_or_leaves_the_one_before() {
    let (_data, file) = lineitem();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let from = format!("FROM '{}'", file.display());
    let into = |name: &str, format: &str, query: &str| {
        let output = path(name);
        sql(&["--format", format, "-o", output.to_str().unwrap(), "-c", query])
    };
    let copied = into("copy.parquet", "parquet", &format!("SELECT * {from}"));
    assert!(stdout(&copied).contains("60175 rows in "), "figures are not in the file");
    let both = format!("SELECT count(*) AS n, sum(l_quantity) AS a, min(l_comment) AS b, max(l_shipdate) AS c {from}");
    let of_copy = both.replace(file.to_str().unwrap(), path("copy.parquet").to_str().unwrap());
    let ask = |query: &str| stdout(&sql(&["-q", "--format", "csv", "-c", query]));
    assert_eq!(ask(&both), ask(&of_copy));
    // Two results in one file of text, and none in a file of Parquet that has one.
    into("two.csv", "csv", "SELECT 1 AS a; SELECT 2 AS b");
    assert_eq!(std::fs::read_to_string(path("two.csv")).unwrap(), "a\n1\nb\n2\n");
    assert_fails(&into("two.parquet", "parquet", "SELECT 1 AS a; SELECT 2 AS b"), 1, &["statement 2", ".output FILE"]);
    assert_fails(&sql(&["--format", "parquet", "-c", "SELECT 1"]), 1, &["--output"]);
    assert_fails(&into("no/such/x.csv", "csv", "SELECT 1"), 2, &["--output", "no/such/x.csv"]);
    // A statement that fails in its middle leaves the file as it was.
    let fails = "SELECT 10 / (5000 - value) FROM generate_series(1, 10000)";
    assert_fails(&into("two.csv", "csv", fails), 1, &["ivide by zero"]);
    assert_eq!(std::fs::read_to_string(path("two.csv")).unwrap(), "a\n1\nb\n2\n");
    assert_fails(&into("new.csv", "csv", fails), 1, &["ivide by zero"]);
    assert!(!path("new.csv").exists());
}

/// The rows of `query` as CSV.
#[track_caller]
fn rows(query: &str) -> String {
    stdout(&sql(&["-q", "--format", "csv", "-c", query]))
}

#[test]
fn statements_name_files() {
    let (data, file) = lineitem();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let count = |name: &str| rows(&format!("SELECT count(*) AS n FROM '{}'", at(name)));
    for ending in ["parquet", "csv", "json"] {
        let copied = format!("COPY (SELECT * FROM '{}' LIMIT 500) TO '{}'", file.display(), at(&format!("x.{ending}")));
        assert_eq!(rows(&copied), "count\n500\n");
        assert_eq!(count(&format!("x.{ending}")), "n\n500\n");
    }
    for format in ["csv", "tsv", "json", "ndjson"] {
        let (path, query) =
            (at(&format!("own.{format}")), "SELECT value, value / 2.0 AS half FROM generate_series(1, 9)");
        stdout(&sql(&["--format", format, "-qo", &path, "-c", query]));
        assert_eq!(
            rows(&format!("SELECT sum(value) AS a, sum(half) AS b FROM '{path}'")),
            "a,b\n45,22.5\n",
            "{format}"
        );
    }
    std::fs::create_dir_all(folder.path().join("days/day=1")).unwrap();
    std::fs::create_dir_all(folder.path().join("days/day=2")).unwrap();
    std::fs::copy(&file, folder.path().join("days/day=1/a.parquet")).unwrap();
    std::fs::copy(&file, folder.path().join("days/day=2/b b.parquet")).unwrap();
    assert_eq!(count("days"), "n\n120350\n");
    assert_eq!(
        rows(&format!("SELECT day, count(*) AS n FROM '{}' GROUP BY 1 ORDER BY 1", at("days"))),
        "day,n\n1,60175\n2,60175\n"
    );
    assert_eq!(count("days/day=*/*.parquet"), "n\n120350\n");
    assert_eq!(count("days/day=2/b b.parquet"), "n\n60175\n");
    assert_eq!(rows(&format!("FROM 'file://{}' SELECT count(*) AS n", at("x.parquet"))), "n\n500\n");
    // Reads are the pool's, and registered: the second one finds all in it.
    let twice = format!("SELECT min(l_tax) FROM '{0}' WHERE l_tax >= 0;", file.display());
    let text = stdout(&sql(&["-c", &twice.repeat(2)]));
    let figures: Vec<_> = text.lines().filter(|line| line.starts_with("1 row in")).collect();
    assert!(!figures[0].contains(" 0 B read") && figures[1].contains(" 0 B read, hit rate 100.0 %"), "{text}");
    // It says what would be read, and how, now.
    let text = stdout(&sql(&["-c", &format!("{twice} EXPLAIN {twice}")]));
    let reads = text.split_once("reads=").unwrap().1;
    let (all, rest) = reads.split_once(" (").unwrap();
    assert!(!all.starts_with('0') && rest.starts_with(&format!("{all} in memory)")), "{reads:.50}");
    let explained = rows(&format!("EXPLAIN SELECT l_tax FROM '{}'", at("x.parquet")));
    assert!(explained.contains("delivery=in-order (it has fewer than 4 chunks)"), "{explained}");
    // A file of one page came with its footer.
    let (all, rest) = explained.split_once("reads=").unwrap().1.split_once(" (").unwrap();
    assert!(rest.starts_with(&format!("{all} in memory)")), "{explained}");
    let described = rows(&format!("DESCRIBE '{}'", at("x.csv")));
    assert!(described.contains("l_orderkey,Int64"), "{described}");
    drop(data);
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("broken.parquet"), b"PAR1").unwrap();
    std::fs::write(at("x.dat"), b"1").unwrap();
    std::fs::create_dir(at("empty")).unwrap();
    for (name, words) in [
        ("nowhere.parquet", "no such file"),
        ("nowhere*.csv", "no such file"),
        ("broken.parquet", "truncated"),
        ("x.dat", ".ndjson"),
        ("empty", "no Parquet file"),
    ] {
        let path = at(name).display().to_string();
        assert_fails(&sql(&["-c", &format!("SELECT * FROM '{path}'")]), 1, &[&path, words]);
    }
    assert_fails(&sql(&["-c", "SELECT * FROM nowhere"]), 1, &["no table is called nowhere", "--data", "in quotes"]);
    let (data, _) = lineitem();
    let output =
        pagecast().args(["sql", "--data"]).arg(data.path()).args(["-c", "SELECT * FROM line"]).output().unwrap();
    assert_fails(&output, 1, &["no table is called line", "tables: lineitem;"]);
}

#[test]
fn a_summary_has_a_row_for_each_column() {
    let (data, file) = lineitem();
    let ask = |query: &str| {
        let mut command = pagecast();
        command.args(["sql", "-q", "--format", "csv", "--data"]).arg(data.path()).args(["-c", query]);
        stdout(&command.output().unwrap())
    };
    let head = "column_name,column_type,min,max,approx_unique,avg,std,q25,q50,q75,count,null_percentage\n";
    let made = "SUMMARIZE SELECT * FROM (VALUES (1, 'a', 0.5, DATE '2024-01-01'), (3, NULL, 1.5, DATE '2024-01-03'), \
                (2, 'b', 1.0, DATE '2024-01-02')) AS t (n, text, x, day)";
    let rows = ask(made);
    assert!(rows.starts_with(head), "{rows}");
    let cells: Vec<Vec<&str>> = rows.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(cells.len(), 4, "{rows}");
    assert_eq!(cells[0][..7], ["n", "Int64", "1", "3", "3", "2.0", "1.0"], "{rows}");
    assert_eq!(cells[0][8], "2.0", "{rows}");
    assert_eq!(cells[1][2..5], ["a", "b", "2"], "{rows}");
    assert_eq!((cells[1][5], cells[1][10], &cells[1][11][..5]), ("", "2", "33.33"), "{rows}");
    assert_eq!((cells[3][2], cells[3][8]), ("2024-01-01", "2024-01-02"), "{rows}");
    let table = ask("summarize lineitem");
    assert_eq!(table.lines().count(), 17, "{table}");
    assert!(table.contains("l_returnflag,Utf8View,A,R,3,"), "{table}");
    assert_eq!(table.lines().count(), ask(&format!("SUMMARIZE '{}'", file.display())).lines().count());
    let odd = ask("SUMMARIZE SELECT [1, 2] AS l, struct(1 AS a) AS s, NULL AS n, true AS b");
    assert_eq!(odd.lines().count(), 5, "{odd}");
    let wrong = |query: &str, words: &[&str]| assert_fails(&sql(&["-c", query]), 1, words);
    wrong("SUMMARIZE", &["-c:1:", "Expected: identifier"]);
    wrong("SUMMARIZE SELECT 1 +", &["1:21: "]);
    wrong("SUMMARIZE nowhere", &["no table is called nowhere"]);
}

#[test]
fn a_copy_that_is_interrupted_leaves_nothing() {
    for signal in ["-INT", "-TERM"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        let endless = "COPY (SELECT value FROM generate_series(1, 1000000000000)) TO '{}'";
        let endless = endless.replace("{}", path.to_str().unwrap());
        let mut command = pagecast();
        command.args([
            "sql",
            "--temp",
            folder.path().to_str().unwrap(),
            "-c",
            &format!("SELECT 41 + 1 AS n; {endless}"),
        ]);
        let pipe = std::process::Stdio::piped;
        let mut child = command.stdout(pipe()).stderr(pipe()).spawn().unwrap();
        // A folder for what does not fit, and the file that is not whole.
        let begun = || std::fs::read_dir(folder.path()).unwrap().count() > 1;
        while !begun() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        let ended = child.wait_with_output().unwrap();
        match signal {
            "-INT" => assert_fails(&ended, 130, &["statement 2", "interrupted"]),
            _ => assert_eq!(ended.status.code(), Some(143)),
        }
        assert!(!path.exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{signal}");
    }
}
