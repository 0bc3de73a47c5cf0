//! `pagecast simulate` and `pagecast trace` as a user meets them: results, files, and one clear
//! line for each fault.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

struct Run {
    status: i32,
    out: String,
    err: String,
}

fn pagecast(arguments: &[&str]) -> Run {
    let done = Command::new(env!("CARGO_BIN_EXE_pagecast")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { status: done.status.code().unwrap(), out: text(done.stdout), err: text(done.stderr) }
}

/// A folder with a small trace in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        let pages: String = (0..4000u32).map(|i| format!("{}\n", i % 52)).collect();
        folder.put("good.txt", pages.as_bytes());
        folder
    }

    fn put(&self, name: &str, contents: &[u8]) -> String {
        std::fs::write(self.path(name), contents).unwrap();
        self.text(name)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The run failed with `status`, and said so in one line that contains all of `parts`.
#[track_caller]
fn fails(run: &Run, status: i32, parts: &[&str]) {
    assert_eq!(run.status, status, "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    for part in parts {
        assert!(run.err.contains(part), "`{part}` is not in: {}", run.err);
    }
}

#[test]
fn rows_have_the_agreed_keys_in_the_asked_order() {
    let folder = Folder::new();
    let (good, out) = (folder.text("good.txt"), folder.text("out.json"));
    let (csv, html) = (folder.text("out.csv"), folder.text("out.html"));
    let policies = "lru,clock(max=1,init=0),opt";
    let arguments = ["simulate", &good, &good, "--policies", policies, "--sizes", "10,30%,1MiB"];
    let files = ["--json", &out, "--csv", &csv, "--html", &html, "--jobs", "2"];
    let run = pagecast(&[&arguments[..], &files].concat());
    assert_eq!(run.status, 0, "{}", run.err);
    let result = json(&folder.path("out.json"));
    assert_eq!(result["schema"], 1);
    let rows = result["rows"].as_array().unwrap();
    let keys = ["misses", "params", "policy", "requests", "seconds", "size_pages", "trace", "write_backs", "writes"];
    for row in rows {
        let mut found: Vec<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, keys);
        assert_eq!(row["requests"], 4000);
    }
    let cells: Vec<_> =
        rows.iter().map(|row| (row["policy"].as_str().unwrap(), row["size_pages"].as_u64().unwrap())).collect();
    let unique = 52;
    let third = unique * 3 / 10;
    let once = [
        ("lru", 10),
        ("lru", third),
        ("lru", 128),
        ("clock(max=1,init=0)", 10),
        ("clock(max=1,init=0)", third),
        ("clock(max=1,init=0)", 128),
        ("opt", 10),
        ("opt", third),
        ("opt", 128),
    ];
    assert_eq!(cells, [once, once].concat());
    let misses = |at: usize| rows[at]["misses"].as_u64().unwrap();
    assert!(misses(6) < misses(0) && misses(8) == unique && misses(2) == unique);
    assert_eq!(rows[3]["params"], "max=1,init=0");
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 1 + rows.len());
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.contains("Distance to the optimum") && page.contains("Accesses of good<"));
}

#[test]
fn bad_words_are_usage_errors_and_nothing_is_written() {
    let folder = Folder::new();
    let (good, out) = (folder.text("good.txt"), folder.text("out.json"));
    let simulate = |policies: &str, sizes: &str| {
        pagecast(&["simulate", &good, "--policies", policies, "--sizes", sizes, "--json", &out])
    };
    fails(&simulate("lruu", "10"), 2, &["--policies", "lruu", "there are"]);
    fails(&simulate("clock(min=3)", "10"), 2, &["--policies", "min", "max, init"]);
    fails(&simulate("clock(max=NaN)", "10"), 2, &["max=NaN"]);
    fails(&simulate("lru,,opt", "10"), 2, &["--policies"]);
    fails(&simulate("lru", "0"), 2, &["--sizes", "0 pages"]);
    fails(&simulate("lru", "0MiB"), 2, &["--sizes", "0 pages"]);
    fails(&simulate("lru", "101%"), 2, &["--sizes", "101%"]);
    fails(&simulate("lru", "NaN%"), 2, &["--sizes", "NaN%"]);
    fails(&simulate("lru", "-5"), 2, &["--sizes"]);
    fails(&simulate("lru", "5000000000"), 2, &["--sizes", "2^32"]);
    fails(&simulate("lru", ""), 2, &["--sizes"]);
    fails(&simulate("", "5"), 2, &["--policies"]);
    fails(&simulate("lirs(hir=NaN)", "5"), 2, &["hir=NaN", "share"]);
    for (flag, value) in
        [("--sample", "NaN"), ("--sample", "0"), ("--jobs", "0"), ("--curve", "1"), ("--page-size", "0")]
    {
        let run = pagecast(&["simulate", &good, "--policies", "lru", "--sizes", "5", flag, value]);
        fails(&run, 2, &[flag, value]);
        assert!(!run.err.contains("--help"), "{}", run.err);
    }
    fails(
        &pagecast(&["simulate", &good, "--policies", "lru", "--sizes", "5", "--format", "tar"]),
        2,
        &["--format", "tar"],
    );
    fails(
        &pagecast(&["simulate", &good, "--policies", "opt", "--sizes", "5", "--time", "logical"]),
        2,
        &["opt", "logical"],
    );
    fails(
        &pagecast(&["simulate", &good, "--policies", "lru", "--sizes", "5", "--json", "/no/folder/x"]),
        2,
        &["--json"],
    );
    assert!(!folder.path("out.json").exists());
}

#[test]
fn what_could_be_computed_is_kept() {
    let folder = Folder::new();
    let bad = folder.put("bad.txt", b"1\n2\nthree\n4\n");
    let none = folder.text("missing.txt");
    let (good, out) = (folder.text("good.txt"), folder.text("out.json"));
    let run = pagecast(&["simulate", &bad, &good, &none, "--policies", "lru", "--sizes", "10", "--json", &out]);
    assert_eq!(run.status, 1);
    let lines: Vec<_> = run.err.lines().collect();
    assert_eq!(lines.len(), 2, "{}", run.err);
    assert!(lines[0].contains("bad.txt: line 3: `three` is no page"), "{}", lines[0]);
    assert!(lines[1].contains("missing.txt"), "{}", lines[1]);
    let result = json(&folder.path("out.json"));
    assert_eq!(result["rows"].as_array().unwrap().len(), 1);
    let missing: Vec<_> = result["errors"].as_array().unwrap().iter().map(|error| error.as_str().unwrap()).collect();
    assert!(lines.iter().map(|line| line.trim_start_matches("pagecast: ")).eq(missing));
    assert!(run.out.contains("good.txt"));
}

/// Each file is refused with its name, the place and the cause.
#[test]
fn broken_traces_are_named() {
    let folder = Folder::new();
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let whole = gzip("17\n".repeat(10_000).as_bytes());
    let generated = folder.text("g.pct");
    assert_eq!(pagecast(&["trace", "generate", "loop(pages=50,rounds=2)", "--out", &generated]).status, 0);
    let columnar = std::fs::read(&generated).unwrap();
    let cases: Vec<(&str, Vec<u8>, &[&str])> = vec![
        ("empty.txt", vec![], &["holds no requests"]),
        ("comments.txt", b"# only\n\n".to_vec(), &["holds no requests"]),
        ("empty.csv", vec![], &["empty"]),
        ("cut.txt.gz", whole[..whole.len() - 9].to_vec(), &["truncated", "line"]),
        ("cut.oracleGeneral", vec![1; 60], &["byte 48", "12 bytes of a record of 24"]),
        ("zero.oracleGeneral", vec![0; 24], &["byte 4", "id 0"]),
        (
            "middle.oracleGeneral",
            [5u64, 7, 0, 9].map(|id| [&[1; 4][..], &id.to_le_bytes(), &[1; 12]].concat()).concat(),
            &["byte 52", "id 0"],
        ),
        ("cut.pct", columnar[..columnar.len() - 3].to_vec(), &["truncated", "byte"]),
        ("word.csv", b"page,op\n1,r\nx,r\n".to_vec(), &["line 3", "`x`"]),
        ("head.csv", b"a,b\n1,2\n".to_vec(), &["line 1", "csv(page=NAME)"]),
        ("few.csv", b"page,op\n1\n".to_vec(), &["line 2", "1 fields"]),
        ("huge.lis", b"5 99999999999 0 1\n".to_vec(), &["line 1", "99999999999 pages"]),
        ("short.lis", b"5 1 0 0\n5\n".to_vec(), &["line 2", "count is missing"]),
        ("write.txt", b"5 x\n".to_vec(), &["line 1", "neither r nor w"]),
        ("large.txt", b"1\n99999999999999999999999\n".to_vec(), &["line 2", "no page"]),
        ("relation.txt", b"4294967296 r 1\n".to_vec(), &["line 1", "below 2^32"]),
        ("empty.trc", b"*\n*\n".to_vec(), &["holds no requests"]),
        ("empty.lis", vec![], &["holds no requests"]),
        ("empty.oracleGeneral", vec![], &["holds no requests"]),
        ("empty.pct", vec![], &["truncated", "byte 0"]),
        ("head.pct", b"PGCTRC\0\x01".to_vec(), &["truncated", "byte 8"]),
        ("later.pct", b"PGCTRC\0\x02\0\0\0\0".to_vec(), &["version 2"]),
        ("only-head.csv", b"page,op\n".to_vec(), &["holds no requests"]),
        ("word.trc", b"5\nfive\n".to_vec(), &["line 2", "`five`"]),
        ("word.lis", b"5 1 0 0\n5 one 0 1\n".to_vec(), &["line 2", "`one`"]),
        ("nan.txt", b"1\nNaN\n".to_vec(), &["line 2", "`NaN`"]),
    ];
    for (name, contents, parts) in cases {
        let path = folder.put(name, &contents);
        let run = pagecast(&["simulate", &path, "--policies", "lru", "--sizes", "5"]);
        fails(&run, 1, &[&[name], parts].concat());
    }
    let run = pagecast(&["simulate", &folder.text(""), "--policies", "lru", "--sizes", "5"]);
    fails(&run, 1, &["is a folder"]);
}

#[test]
fn every_format_tells_the_same_story() {
    let folder = Folder::new();
    let misses = |path: &str, format: &str| {
        let out = folder.text("m.json");
        let arguments =
            ["simulate", path, "--policies", "lru,opt", "--sizes", "40", "--json", &out, "--format", format];
        let run = pagecast(&arguments);
        assert_eq!(run.status, 0, "{path}: {}", run.err);
        let rows = json(&folder.path("m.json"))["rows"].clone();
        [0, 1].map(|at: usize| rows[at]["misses"].as_u64().unwrap())
    };
    let pages: Vec<u32> = (0..3000).map(|i: u32| 1 + i * 7 % 80 * (i % 3)).collect();
    let lines = |line: &dyn Fn(u32) -> String| pages.iter().map(|&page| line(page)).collect::<String>();
    let text = folder.put("t.txt", lines(&|page| format!("{page}\n")).as_bytes());
    let expected = misses(&text, "auto");
    let writes = folder.put("w.txt", lines(&|page| format!("{page} w\r\n")).as_bytes());
    let lis = folder.put("t.lis", lines(&|page| format!("{page} 1 0 9\n")).as_bytes());
    let lirs = folder.put("t.trc", (lines(&|page| format!("{page}\n")) + "*\n").as_bytes());
    let csv =
        folder.put("t.csv", ("when;what;lbn\n".to_owned() + &lines(&|page| format!("3;\"R\";{page}\n"))).as_bytes());
    for (path, format) in [(&writes, "auto"), (&lis, "auto"), (&lirs, "lirs"), (&csv, "csv(page=lbn,write=what)")] {
        assert_eq!(misses(path, format), expected, "{path}");
    }
    for end in ["pct", "oracleGeneral", "txt"] {
        let path = folder.text(&format!("converted.{end}"));
        let run = pagecast(&["trace", "convert", &text, &path]);
        assert_eq!(run.status, 0, "{}", run.err);
        assert_eq!(misses(&path, "auto"), expected, "{end}");
    }
}

/// Every format that can be written, in every compression, by name; and cut anywhere, each is
/// refused.
#[test]
fn converted_traces_are_compressed_by_name() {
    let folder = Folder::new();
    let good = folder.text("good.txt");
    let plain = |bytes: &[u8]| {
        let packed = [&[0x1f, 0x8b][..], &[0x28, 0xb5, 0x2f, 0xfd], &[0xfd, b'7', b'z', b'X', b'Z']];
        !packed.iter().any(|magic| bytes.starts_with(magic))
    };
    for format in ["pct", "txt", "oracleGeneral"] {
        for end in ["", ".gz", ".zst", ".xz"] {
            let name = format!("t.{format}{end}");
            let path = folder.text(&name);
            assert_eq!(pagecast(&["trace", "convert", &good, &path]).status, 0, "{name}");
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!(plain(&bytes), end.is_empty(), "{name}");
            let out = folder.text("i.json");
            assert_eq!(pagecast(&["trace", "info", &path, "--json", &out]).status, 0, "{name}");
            let info = json(&folder.path("i.json"));
            assert_eq!((&info["traces"][0]["requests"], &info["traces"][0]["unique"]), (&4000.into(), &52.into()));
            if name == "t.txt" {
                continue; // Text that is cut between two lines is shorter text.
            }
            let cut = folder.put(&format!("cut-{name}"), &bytes[..bytes.len() - 5]);
            let run = pagecast(&["simulate", &cut, "--policies", "lru", "--sizes", "5"]);
            fails(&run, 1, &["cut-t", "truncated"]);
            let damaged: Vec<u8> =
                bytes.iter().enumerate().map(|(i, b)| if i == bytes.len() / 2 { b ^ 0x55 } else { *b }).collect();
            // An oracleGeneral file has nothing that would show a changed id.
            if name != "t.oracleGeneral" {
                let damaged = folder.put(&format!("damaged-{name}"), &damaged);
                fails(&pagecast(&["trace", "info", &damaged]), 1, &["damaged-t"]);
            }
        }
    }
    fails(&pagecast(&["trace", "convert", &good, &folder.text("x.gz")]), 2, &["x.gz", "--to"]);
    // What a format cannot hold is said.
    let scans = folder.text("s.pct");
    assert_eq!(pagecast(&["trace", "generate", "loop(pages=8,rounds=2)", "--out", &scans]).status, 0);
    let run = pagecast(&["trace", "convert", &scans, &folder.text("s.txt")]);
    assert!(run.out.contains("16 requests, without 6 records of scans"), "{}", run.out);
    let writes = folder.put("w.txt", b"1 w\n2\n");
    let run = pagecast(&["trace", "convert", &writes, &folder.text("w.oracleGeneral")]);
    assert!(run.out.contains("2 requests, 1 writes as reads"), "{}", run.out);
}

/// One bad line among ten million: its number, and the results of the traces beside it.
#[test]
fn one_bad_line_among_millions() {
    let folder = Folder::new();
    let line = |i: u32| if i == 5_000_000 { "49x9\n".to_owned() } else { format!("{}\n", i % 977) };
    let mut text = String::with_capacity(50_000_000);
    (1..=10_000_000).for_each(|i| text += &line(i));
    let bad = folder.put("bad.txt", text.as_bytes());
    let (good, out, csv) = (folder.text("good.txt"), folder.text("out.json"), folder.text("out.csv"));
    let arguments = ["simulate", &good, &bad, "--policies", "lru,opt", "--sizes", "10", "--json", &out, "--csv", &csv];
    fails(&pagecast(&arguments), 1, &["bad.txt: line 5000000: `49x9` is no page"]);
    assert_eq!(json(&folder.path("out.json"))["rows"].as_array().unwrap().len(), 2);
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 3);
}

/// A result file that cannot be written costs none of the others.
#[cfg(target_os = "linux")]
#[test]
fn one_file_that_fails_leaves_the_others() {
    let folder = Folder::new();
    let (good, csv) = (folder.text("good.txt"), folder.text("out.csv"));
    // It can be opened, and takes nothing.
    let run =
        pagecast(&["simulate", &good, "--policies", "lru", "--sizes", "10", "--json", "/dev/full", "--csv", &csv]);
    fails(&run, 1, &["cannot write /dev/full"]);
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 2);
    assert!(run.out.contains("good.txt"));
    for unwritable in ["/no/folder/x", "/proc/x"] {
        let run = pagecast(&["simulate", &good, "--policies", "lru", "--sizes", "10", "--csv", unwritable]);
        fails(&run, 2, &["--csv", unwritable]);
        assert_eq!(run.out, "", "found before the run");
    }
}

#[test]
fn logical_time_shows_each_rows_own_floor() {
    let folder = Folder::new();
    let (trace, out) = (folder.text("s.pct"), folder.text("o.json"));
    let workload = "sequential(streams=6,queries=3,pages=600)";
    assert_eq!(pagecast(&["trace", "generate", workload, "--out", &trace, "--seed", "5"]).status, 0);
    let run =
        pagecast(&["simulate", &trace, "--policies", "lru,pbm", "--sizes", "10%", "--time", "logical", "--json", &out]);
    assert_eq!(run.status, 0, "{}", run.err);
    let result = json(&folder.path("o.json"));
    assert!(result["config"]["time"].as_str().unwrap().contains("logical"));
    let row = |at: usize, key: &str| result["rows"][at][key].as_u64().unwrap();
    for at in [0, 1] {
        assert!(row(at, "opt_misses") <= row(at, "misses"));
    }
    // Fewer misses make the same work end earlier.
    assert!(row(1, "misses") < row(0, "misses") && row(1, "ticks") < row(0, "ticks"));
}

#[test]
fn curves_say_how_wrong_they_are() {
    let folder = Folder::new();
    let (trace, out) = (folder.text("y.pct"), folder.text("o.json"));
    let workload = "ycsb(operations=60000,pages=8000,skew=0.75)";
    assert_eq!(pagecast(&["trace", "generate", workload, "--out", &trace]).status, 0);
    let common = ["simulate", &trace, "--policies", "lru,clock", "--sizes", "10%,40%", "--json", &out, "--curve", "6"];
    let run = pagecast(&[&common[..], &["--sample", "25%"]].concat());
    assert_eq!(run.status, 0, "{}", run.err);
    for curve in json(&folder.path("o.json"))["curves"].as_array().unwrap() {
        assert!(curve["mean_error"].as_f64().unwrap() < 0.03, "{curve}");
        assert_eq!(curve["points"].as_array().unwrap().len(), 6);
        assert!((0.2..0.3).contains(&curve["rate"].as_f64().unwrap()));
    }
    // Without a sample LRU's one pass gives what its replays give, to the miss.
    assert_eq!(pagecast(&common).status, 0);
    let exact = json(&folder.path("o.json"));
    let last = exact["curves"][0]["points"].as_array().unwrap().last().unwrap()[1].as_f64().unwrap();
    let unique = exact["curves"][0]["points"].as_array().unwrap().last().unwrap()[0].as_f64().unwrap();
    assert!((last - unique / exact["rows"][0]["requests"].as_f64().unwrap()).abs() < 1e-9);
}

#[test]
fn trace_tools_name_their_faults() {
    let folder = Folder::new();
    let good = folder.text("good.txt");
    fails(&pagecast(&["trace", "generate", "lop", "--out", &folder.text("x.pct")]), 2, &["lop", "there are"]);
    fails(&pagecast(&["trace", "generate", "loop", "--out", &folder.text("x.what")]), 2, &["x.what", "--to"]);
    fails(&pagecast(&["trace", "convert", &good, &folder.text("x.lis"), "--to", "lis"]), 2, &["--to"]);
    fails(&pagecast(&["trace", "plot", &good]), 2, &["--html"]);
    let bad = folder.put("bad.txt", b"1\n2.5\n");
    fails(&pagecast(&["trace", "convert", &bad, &folder.text("x.pct")]), 1, &["bad.txt", "line 2"]);
    #[cfg(feature = "redset")]
    fails(
        &pagecast(&["trace", "import", &good, "--out", &folder.text("x.pct")]),
        1,
        &["good.txt", "no readable Parquet"],
    );
    assert!(!folder.path("x.pct").exists());
    let info = pagecast(&["trace", "info", &good, "--json", &folder.text("i.json")]);
    assert_eq!(info.status, 0, "{}", info.err);
    assert_eq!(json(&folder.path("i.json"))["traces"][0]["unique"], 52);
}

/// What is printed and what is written go into the same file there, which must not begin anew in
/// between.
#[cfg(target_os = "linux")]
#[test]
fn results_go_into_what_standard_output_is() {
    let folder = Folder::new();
    let out = folder.path("out.txt");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagecast"));
    command.args(["simulate", &folder.text("good.txt"), "--policies", "lru", "--sizes", "10", "--json", "/dev/stdout"]);
    command.stdout(std::fs::File::create(&out).unwrap());
    assert!(command.status().unwrap().success());
    let text = std::fs::read_to_string(&out).unwrap();
    let (json, table) = text.split_once("\n}\n").map(|(json, rest)| (json.to_owned() + "\n}", rest)).unwrap();
    assert!(serde_json::from_str::<Value>(&json).is_ok_and(|json| json["schema"] == 1), "{text}");
    assert!(table.starts_with("trace ") && table.contains("good.txt"), "{text}");
    assert_eq!(std::fs::read_dir(folder.0.path()).unwrap().count(), 2);
}

/// Lines of two numbers are page and relation in the text format, and time and page in many others.
#[test]
fn lines_that_may_begin_with_a_time_are_asked_about() {
    let folder = Folder::new();
    let lines = |line: &dyn Fn(u32) -> String| (0..4000).map(|i| line(i) + "\n").collect::<String>();
    let timed = folder.put("timed.txt", lines(&|i| format!("{} {}", 1000 + i / 3, i * 7 % 52)).as_bytes());
    let asked = ["timed.txt: line 1", "--format text", "time"];
    fails(&pagecast(&["trace", "info", &timed]), 1, &asked);
    fails(&pagecast(&["simulate", &timed, "--policies", "lru", "--sizes", "10"]), 1, &asked);
    assert_eq!(pagecast(&["trace", "info", &timed, "--format", "text"]).status, 0);
    let one_table = folder.put("scan.txt", lines(&|i| format!("{i} 7")).as_bytes());
    let tables = folder.put("tables.txt", lines(&|i| format!("{} {}", i % 52, i % 3)).as_bytes());
    let written = folder.put("written.txt", lines(&|i| format!("{i} w {}", i % 3)).as_bytes());
    let info = pagecast(&["trace", "info", &one_table, &tables, &written]);
    assert_eq!((info.status, info.err.as_str()), (0, ""));
}

/// The first trace is short. The second is a pipe that nobody ever writes to, so that the work on
/// it never ends.
#[cfg(unix)]
#[test]
fn ctrl_c_keeps_what_is_done() {
    use std::io::Read;
    let folder = Folder::new();
    let (good, endless, out) = (folder.text("good.txt"), folder.text("endless.txt"), folder.text("out.json"));
    assert!(Command::new("mkfifo").arg(&endless).status().unwrap().success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagecast"));
    command.args(["simulate", &good, &endless, "--policies", "lru,opt", "--sizes", "10,20", "--jobs", "1"]);
    command.args(["--json", &out, "--html", &folder.text("out.html")]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    // Opened for writing only when the command has opened it for reading, which one job does after
    // the first trace.
    let _writer = std::fs::File::options().write(true).open(&endless).unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let (mut table, mut error) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut table).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{error}");
    assert_eq!(error, "pagecast: interrupted: the results are partial\n");
    assert_eq!(table.matches("good.txt").count(), 4, "{table}");
    let result = json(&folder.path("out.json"));
    assert_eq!(result["partial"], true);
    assert_eq!(result["rows"].as_array().unwrap().len(), 4);
    assert!(std::fs::read_to_string(folder.path("out.html")).unwrap().contains("the results are partial"));
}

#[test]
fn buffers_of_tuples_have_rows_of_their_own() {
    let folder = Folder::new();
    let (rows, out, html) = (folder.text("rows.pct"), folder.text("out.json"), folder.text("out.html"));
    let csv = folder.text("out.csv");
    let near = folder.text("near.pct");
    for (clustering, path) in [(0, &rows), (1, &near)] {
        let workload = format!("tuples(requests=20000,pages=500,clustering={clustering})");
        let made = pagecast(&["trace", "generate", &workload, "--out", path]);
        assert_eq!(made.status, 0, "{}", made.err);
    }
    let asked = ["simulate", &rows, &near, "--policies", "lru,arc", "--tuples", "off,learn,mg,bound"];
    let how = ["--sizes", "20%", "--warm-up", "50%", "--checkpoint", "1000"];
    let run = pagecast(&[&asked[..], &how, &["--json", &out, "--html", &html, "--csv", &csv]].concat());
    assert_eq!(run.status, 0, "{}", run.err);
    let result = json(&folder.path("out.json"));
    let names: Vec<_> = result["rows"].as_array().unwrap()[..6]
        .iter()
        .map(|row| format!("{} {}", row["policy"].as_str().unwrap(), row["tuples"].as_str().unwrap()))
        .collect();
    assert_eq!(names, ["lru off", "lru learn", " mg(f=20%)", " bound", "arc off", "arc learn"]);
    for row in result["rows"].as_array().unwrap() {
        assert_eq!((row["requests"].as_u64(), row["memory"].as_u64()), (Some(10_000), Some(100 * 4096)));
        let sum = ["misses", "cleaning_reads", "write_backs"].map(|key| row[key].as_u64().unwrap()).iter().sum::<u64>();
        assert_eq!((row["device_requests"].as_u64(), row["device_bytes"].as_u64()), (Some(sum), Some(sum * 4096)));
    }
    let head = std::fs::read_to_string(folder.path("out.csv")).unwrap();
    assert!(head.lines().next().unwrap().ends_with(",cleaning_reads,device_requests,device_bytes"));
    assert!(std::fs::read_to_string(folder.path("out.html")).unwrap().contains("Hit rate from trace to trace"));
}

#[test]
fn what_makes_no_sense_with_tuples_is_refused() {
    let folder = Folder::new();
    let good = folder.text("good.txt");
    let simulate =
        |more: &[&str]| pagecast(&[&["simulate", &good, "--sizes", "10", "--policies", "lru"], more].concat());
    fails(&simulate(&["--tuples", "mgg"]), 2, &["--tuples", "no buffer `mgg`", "off, row(50%), mg, amg"]);
    fails(&simulate(&["--warm-up", "10%"]), 2, &["--warm-up", "--tuples only"]);
    fails(&simulate(&["--tuples", "off", "--curve", "9"]), 2, &["--tuples", "--curve"]);
    fails(&simulate(&["--tuples", "off", "--tuple-size", "1MiB"]), 2, &["--tuple-size"]);
    let opt = ["simulate", &good, "--sizes", "10", "--policies", "opt", "--tuples", "off"];
    fails(&pagecast(&opt), 2, &["`opt` knows pages only"]);
}
