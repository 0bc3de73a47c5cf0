//! The contract of `pagecast sql`.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::{assert_fails, lineitem, pagecast};

pub(crate) fn sql(data: &Path, args: &[&str]) -> Output {
    pagecast().args(["sql", "--data"]).arg(data).args(args).output().unwrap()
}

fn typed(data: &Path, input: &str) -> Output {
    let mut command = pagecast();
    command.args(["sql", "--data"]).arg(data).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn rows_come_in_the_delivery_that_is_asked_for() {
    let (data, _) = lineitem();
    let several = tempfile::tempdir().unwrap();
    std::fs::create_dir(several.path().join("lineitem")).unwrap();
    for number in 0..4 {
        let file = several.path().join(format!("lineitem/{number}.parquet"));
        std::fs::copy(data.path().join("lineitem.parquet"), file).unwrap();
    }
    let explained_in = |data: &Path, args: &[&str]| {
        stdout(&sql(data, &[args, &["-c", "EXPLAIN SELECT l_tax FROM lineitem"]].concat()))
    };
    let explained = |args: &[&str]| explained_in(several.path(), args);
    assert!(explained(&[]).contains("delivery=out-of-order"));
    assert!(explained(&["--delivery", "in-order"]).contains("delivery=in-order |"));
    assert!(!explained(&["--delivery", "stock"]).contains("-order"));
    // One file has too little to choose from.
    assert!(explained_in(data.path(), &[]).contains("delivery=in-order (it has fewer than 4 chunks)"));
    let sum = |delivery| {
        let query = "SELECT count(*), sum(l_quantity), min(l_comment) FROM lineitem";
        let text = stdout(&sql(data.path(), &["--delivery", delivery, "-c", query]));
        text.lines().filter(|line| line.contains('|')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(!sum("stock").is_empty());
    assert_eq!(sum("stock"), sum("in-order"));
    assert_eq!(sum("stock"), sum("out-of-order"));
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
    fails(&["-c", "SELECT 'x"], 1, &["-c", "1:8: Unterminated string literal"]);
    fails(&["-c", "SELECT * FROM nowhere"], 1, &["nowhere"]);
    fails(&["--pool", "0", "-c", "SELECT 1"], 2, &["--memory"]);
    fails(&["--memory", "1KiB", "-c", "SELECT 1"], 2, &["--memory", "too small"]);
    #[cfg(target_os = "linux")]
    for memory in ["2TiB", "30TiB", "10000000TiB"] {
        fails(&["--memory", memory, "-c", "SELECT 1"], 2, &["--memory", "more than the", "bytes of memory"]);
    }
    fails(&["--memory", "30%", "-c", "SELECT 1"], 2, &["--memory"]);
    fails(&["--memory", "0B", "-c", "SELECT 1"], 2, &["--memory", "too small"]);
    fails(&["--policy", "opt", "-c", "SELECT 1"], 2, &["--policy", "opt"]);
    fails(&["--policy", "nope", "-c", "SELECT 1"], 2, &["--policy", "nope"]);
    // Rows of one key are joined in memory.
    let side = "(SELECT value % 1 AS k, repeat('x', 100) || value AS t FROM range(1000000))";
    let hungry = format!("SELECT count(a.t || b.t) FROM {side} AS a JOIN {side} AS b ON a.k = b.k");
    fails(&["--memory", "1MiB", "-c", &hungry], 1, &["Resources exhausted"]);
    assert_fails(&sql(Path::new("/no/such/folder"), &["-c", "SELECT 1"]), 1, &["/no/such/folder"]);
    let first_only = typed(data.path(), "SELECT 1; SELECT nope; SELECT 3;");
    assert_fails(&first_only, 1, &["nope"]);
    assert!(!String::from_utf8_lossy(&first_only.stdout).contains("| 3 "), "the first failure ends the run");
    std::fs::write(&file, b"PAR1").unwrap();
    fails(&["-c", "SELECT 1"], 1, &["lineitem.parquet", "truncated"]);
}

/// Writes the rows of `select` as the Parquet file `path`.
fn write(path: &Path, select: &str) {
    let (data, _) = lineitem();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let made = data.path().join("made.parquet");
    stdout(&sql(data.path(), &["-c", &format!("COPY ({select}) TO '{}'", made.display())]));
    std::fs::rename(made, path).unwrap();
}

/// The cells of the first column of the one result of `query`.
#[track_caller]
fn column(data: &Path, query: &str) -> Vec<String> {
    let text = stdout(&sql(data, &["-c", query]));
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    cells.skip(1).map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn a_table_that_is_broken_closes_alone() {
    let (data, file) = lineitem();
    let path = |name: &str| data.path().join(name);
    std::fs::write(path("empty.parquet"), b"").unwrap();
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(path("cut.parquet"), &whole[..whole.len() - 100]).unwrap();
    let mut long = whole.clone();
    let at = long.len() - 8;
    long[at..at + 4].copy_from_slice(&(whole.len() as u32 + 1).to_le_bytes());
    std::fs::write(path("footer.parquet"), long).unwrap();
    std::fs::copy("../../hosts/datafusion/tests/faults/negative-offset.parquet", path("chunk.parquet")).unwrap();
    write(&path("mixed/1.parquet"), "SELECT 1 AS a, 'x' AS b");
    write(&path("mixed/2.parquet"), "SELECT 'one' AS a, 'x' AS b");

    let output = sql(data.path(), &["-c", "SELECT count(*) FROM lineitem"]);
    assert!(stdout(&output).contains("| 60175 "));
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(!said.contains("closed"), "nobody asked for them: {said}");
    for (table, words) in [
        ("chunk", "not inside a file of"),
        ("cut", "cut.parquet"),
        ("empty", "empty.parquet"),
        ("footer", "footer.parquet"),
        ("mixed", "mixed/2.parquet: column a"),
    ] {
        let refused = sql(data.path(), &["-c", &format!("SELECT * FROM {table}")]);
        assert_fails(&refused, 1, &[&format!("table {table} is closed: "), words]);
    }
    std::fs::remove_file(file).unwrap();
    assert_fails(&sql(data.path(), &["-c", "SELECT 1"]), 1, &[".parquet"]);
}

/// DataFusion's own reader of footers panics over a footer that is longer than its file.
#[test]
fn a_panic_ends_its_query_only() {
    let (data, file) = lineitem();
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.len() - 8;
    bytes[at..at + 4].copy_from_slice(&(at as u32 + 1).to_le_bytes());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.parquet"), bytes).unwrap();
    let create = format!("CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION '{}/'", folder.path().display());
    let mut command = pagecast();
    command.env_remove("RUST_BACKTRACE").args(["sql", "--data"]).arg(data.path()).args(["-c", &create]);
    assert_fails(&command.output().unwrap(), 1, &[]);
}

#[test]
fn names_that_look_like_patterns_are_names() {
    let data = tempfile::tempdir().unwrap();
    let odd = data.path().join("a*b [c]? %20#ü\\");
    write(&odd.join("one?.parquet"), "SELECT 1 AS n");
    write(&odd.join("t[12]/*.parquet"), "SELECT 2 AS n");
    write(&odd.join("t1/decoy.parquet"), "SELECT 3 AS n");
    write(&odd.join("t[12]/%2A.parquet"), "SELECT 20 AS n");
    assert_eq!(column(&odd, "SELECT n FROM \"one?\""), ["1"]);
    assert_eq!(column(&odd, "SELECT n FROM \"t[12]\" ORDER BY n"), ["2", "20"]);
    assert_eq!(column(&odd, "SELECT n FROM t1"), ["3"]);
}

#[test]
fn folders_of_keys_are_one_table() {
    let data = tempfile::tempdir().unwrap();
    for (year, month, n) in [(2023, "01", 1), (2024, "01", 2), (2024, "12", 3)] {
        write(&data.path().join(format!("sales/year={year}/month={month}/x.parquet")), &format!("SELECT {n} AS n"));
    }
    let in_folder = |query: &str| column(data.path(), query);
    assert_eq!(in_folder("SELECT sum(n) FROM sales"), ["6"]);
    assert_eq!(in_folder("SELECT n FROM sales WHERE year = 2024 ORDER BY n"), ["2", "3"]);
    assert_eq!(in_folder("SELECT n FROM sales WHERE month = '01' AND year > 2023"), ["2"]);
    assert_eq!(in_folder("SELECT arrow_typeof(year) FROM sales LIMIT 1"), ["Int64"]);
    let sales = data.path().join("sales");
    assert_eq!(column(&sales, "SELECT max(year) FROM sales"), ["2024"], "the folder itself may be given");
    write(&sales.join("year=2025/late.parquet"), "SELECT 4 AS n");
    assert_fails(&sql(data.path(), &["-c", "SELECT 1"]), 1, &["late.parquet", "keys"]);
}

#[test]
fn every_ending_of_parquet_is_seen() {
    let data = tempfile::tempdir().unwrap();
    let path = |name: &str| data.path().join(name);
    for (number, name) in
        ["a.parquet", "b.parq", "c.pq", "d.PARQUET", "all/a.pq", "all/b.PARQUET", "all/.c.pq"].iter().enumerate()
    {
        write(&path(name), &format!("SELECT {number} AS n"));
    }
    std::fs::write(path("all/_SUCCESS"), b"").unwrap();
    let sum = column(
        data.path(),
        "SELECT sum(n) FROM (SELECT * FROM a UNION ALL SELECT * FROM b UNION ALL SELECT * FROM c UNION ALL SELECT * FROM d)",
    );
    assert_eq!(sum, ["6"]);
    assert_eq!(column(data.path(), "SELECT sum(n) FROM \"all\""), ["9"], "hidden files are none of it");
    assert_eq!(column(&path("b.parq"), "SELECT n FROM b"), ["1"], "--data may be a file");
    std::fs::rename(path("a.parquet"), path("a.dat")).unwrap();
    assert_eq!(column(&path("a.dat"), "SELECT n FROM a"), ["0"], "with any ending");
}

#[test]
fn statements_are_cut_where_they_end() {
    let (data, _) = lineitem();
    let text = stdout(&typed(data.path(), "SELECT $$a;b$$, E'it\\'s;x', /* ; /* ; */ ; */ 'end';"));
    assert!(text.contains("| it's;x ") && text.contains("| a;b ") && text.matches(" row in ").count() == 1, "{text}");
}

/// Every kind of function that DataFusion's own session has.
#[test]
fn functions_are_all_there() {
    let (data, _) = lineitem();
    for (expression, value) in [
        ("array_append([1, 2], 3)", "[1, 2, 3]"),
        ("[1, 2]", "[1, 2]"),
        ("([10, 20])[2]", "20"),
        ("(struct('x' AS a))['a']", "x"),
        ("(MAP {'k': 7})['k']", "7"),
        ("md5('a')", "0cc175b9c0f1b6a831c399e269772661"),
        ("encode(sha256('a'), 'base64')", "ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs"),
        ("encode(digest('a', 'md5'), 'hex')", "0cc175b9c0f1b6a831c399e269772661"),
        ("decode('61', 'hex') = 'a'", "true"),
        ("regexp_like('pagecast', 'c.st$')", "true"),
        ("reverse('abc')", "cba"),
        ("date_part('year', DATE '2024-05-06')", "2024"),
    ] {
        assert_eq!(column(data.path(), &format!("SELECT {expression} AS x")), [value], "{expression}");
    }
    let names = column(data.path(), "SELECT count(DISTINCT routine_name) FROM information_schema.routines");
    assert!(names[0].parse::<u32>().unwrap() >= 314, "{names:?}");
}

#[test]
fn cells_are_told_apart_and_obeyed_by_nobody() {
    let (data, _) = lineitem();
    let text =
        stdout(&sql(data.path(), &["-c", "SELECT '' AS a, NULL AS b, chr(27) || '[2J' AS c, 'x' AS \"\u{1b}[1m\""]));
    assert!(text.contains("|   | NULL | \\u{1b}[2J | x "), "{text}");
    assert!(!text.contains('\u{1b}'));
    let refused = sql(data.path(), &["-c", "SELECT cast(chr(27) || '[2J' AS int)"]);
    assert_fails(&refused, 1, &["\\u{1b}[2J"]);
}

#[test]
fn errors_are_in_the_users_words() {
    let (data, _) = lineitem();
    for (query, words) in [
        ("SELECT abs('x')", "abs(Utf8)"),
        ("SELECT sum(l_comment) FROM lineitem", "sum"),
        ("SELECT substr(1, 2, 3, 4, 5)", "substr"),
        ("SELECT array_length(1)", "array_length(Int64)"),
        ("SELECT l_tax OVER () FROM lineitem", "1:19: Expected"),
        ("SET datafusion.nothing = 1", "nothing"),
        ("SELECT nope FROM lineitem", "nope"),
    ] {
        let output = sql(data.path(), &["-c", query]);
        assert_fails(&output, 1, &[words]);
        let said = String::from_utf8(output.stderr).unwrap();
        for internal in [
            "Internal error",
            "OneOf",
            "Signature",
            "Candidate",
            "ParserError",
            "ConfigOptions",
            "issue tracker",
            "Numeric(",
        ] {
            assert!(!said.contains(internal), "{said}");
        }
    }
}

/// The most memory that a process has had, in bytes.
#[cfg(target_os = "linux")]
fn peak_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// 150 MB of rows go through a pipe; the command waits for its reader, who looks at its memory
/// shortly before the end.
#[cfg(target_os = "linux")]
#[test]
fn a_result_is_never_whole_in_memory() {
    use std::io::{BufRead, BufReader};
    let (data, _) = lineitem();
    let query = "SET datafusion.execution.batch_size = 100;
        SELECT value, repeat('x', 1500) AS text FROM generate_series(1, 100000)";
    let mut command = pagecast();
    command.args(["sql", "--data"]).arg(data.path()).args(["--pool", "16MiB", "-c", query]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).split(b'\n');
    let rows = lines.by_ref().map(|line| line.unwrap().len()).filter(|&length| length > 1500).take(99_000);
    assert_eq!(rows.count(), 99_000);
    let peak = peak_memory(child.id());
    assert!(peak < 150 << 20, "{peak} bytes");
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    assert!(rest.last().unwrap().starts_with(b"100000 rows in "), "all rows go to a pipe");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_join_whose_hash_table_does_not_fit_runs_in_chunks() {
    let (data, tables) = (tempfile::tempdir().unwrap(), ["a", "b"]);
    for table in tables {
        let path = data.path().join(format!("{table}.parquet"));
        let columns = "value AS k, value * 3 AS v, value * 5 AS w, value * 7 AS x, value * 11 AS y";
        let rows = format!("SELECT {columns} FROM generate_series(1, 1500000)");
        let copy = format!("COPY ({rows}) TO '{}' OPTIONS ('format.max_row_group_size' '25000')", path.display());
        stdout(&pagecast().args(["sql", "-c", &copy]).output().unwrap());
    }
    let join = |delivery| {
        let sums = "max(a.v + a.w + a.x + a.y) = max(b.v + b.w + b.x + b.y)";
        let query = format!("SELECT count(*), count(DISTINCT a.k % 100), {sums} FROM a JOIN b ON a.k = b.k");
        sql(data.path(), &["--memory", "5MiB", "--delivery", delivery, "-c", query.as_str()])
    };
    // In order it goes to disk.
    for delivery in ["out-of-order", "in-order"] {
        let text = stdout(&join(delivery));
        assert!(text.contains("| 1500000  | 100 "), "{delivery}: {text}");
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_query() {
    use std::io::Read;
    let (data, _) = lineitem();
    let mut command = pagecast();
    command
        .args(["sql", "--data"])
        .arg(data.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // The first answer says that the handler is there; the second statement has rows without an
    // end.
    input.write_all(b"SELECT 41 + 1;\nSELECT * FROM generate_series(1, 1000000000000);\n").unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut start = vec![0; 100_000];
    out.read_exact(&mut start).unwrap();
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    out.read_to_end(&mut start).unwrap();
    assert_fails(&child.wait_with_output().unwrap(), 130, &["interrupted"]);
    drop(input);
}

#[cfg(unix)]
#[test]
fn a_second_ctrl_c_ends_what_waits_for_a_reader() {
    use std::io::Read;
    use std::time::{Duration, Instant};
    let mut command = pagecast();
    command.args(["sql", "-c", "SELECT * FROM generate_series(1, 1000000000000)"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // Rows come. When the pipe is full, whoever writes them looks at nothing any more.
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let press = || std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    press();
    std::thread::sleep(Duration::from_millis(300));
    press();
    let pressed = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(pressed.elapsed() < Duration::from_secs(5), "it took {:?}", pressed.elapsed());
}
