//! Tables in object stores, and of other formats than Parquet.

use std::path::Path;

use serde_json::json;

use crate::bench::bench;
use crate::sql::{sql, stdout};
use crate::{assert_fails, lineitem, pagecast};

/// The lines of a result's rows.
fn rows(text: &str) -> Vec<String> {
    text.lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect()
}

#[test]
fn a_place_in_a_store_has_the_tables_of_the_same_folder() {
    let (data, file) = lineitem();
    let folder = data.path();
    for key in ["year=2024/month=1", "year=2025/month=2"] {
        std::fs::create_dir_all(folder.join("by year").join(key)).unwrap();
        std::fs::copy(&file, folder.join("by year").join(key).join("a%b.parquet")).unwrap();
    }
    std::fs::create_dir_all(folder.join("neither/nor")).unwrap();
    std::fs::copy(&file, folder.join("neither/nor/c.parquet")).unwrap();
    let url = |path: &Path| format!("file://{}", path.display()).replace(' ', "%20").replace("a%b", "a%25b");
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1";
    let years = "SELECT year, month, count(*), max(l_comment) FROM \"by year\" WHERE year = 2025 GROUP BY 1, 2";
    let items = "SELECT count(*), sum(l_quantity) FROM lineitem";
    for (path, queries) in [
        (folder.to_owned(), &[tables, years, items][..]),
        (folder.join("by year"), &[tables, years][..]),
        (folder.join("lineitem.parquet"), &[tables, items][..]),
    ] {
        for query in queries {
            let by_path = rows(&stdout(&sql(&path, &["-c", query])));
            let by_url = rows(&stdout(&sql(Path::new(&url(&path)), &["-c", query])));
            assert!(by_path.len() > 1, "{query} of {path:?}: {by_path:?}");
            assert_eq!(by_path, by_url, "{query} of {}", url(&path));
        }
    }
}

#[test]
fn a_store_that_cannot_be_read_is_named_without_a_secret() {
    let fails = |data: &str, args: &[&str], status, words: &[&str]| {
        let output = sql(Path::new(data), &[args, &["-c", "SELECT 1"]].concat());
        assert_fails(&output, status, words);
        assert!(!String::from_utf8_lossy(&output.stderr).contains("hunter2"), "{output:?}");
    };
    fails("ftp://me:hunter2@host/x", &[], 2, &["ftp://host/x", "s3"]);
    fails("s3:// bucket", &[], 2, &["--data"]);
    fails("file:///nowhere/to/be/found", &[], 1, &["cannot open /nowhere/to/be/found"]);
    fails("/tmp", &["--endpoint", "http://127.0.0.1:1"], 2, &["--endpoint"]);
    for (flags, word) in [(["--price", "put=1"], "--price"), (["--refused", "2"], "--refused")] {
        let data = ["bench", "--data", "file:///tmp"];
        assert_fails(&pagecast().args(data).args(flags).output().unwrap(), 2, &[word]);
    }
    let of_files = pagecast().args(["bench", "--data", "/tmp", "--refused", "0.1"]).output().unwrap();
    assert_fails(&of_files, 2, &["--refused", "file://"]);
}

#[test]
fn a_folder_is_measured_as_a_store_that_is_declared() {
    let (data, _) = lineitem();
    let url = format!("file://{}", data.path().display());
    let model = ["--bandwidth", "400MB/s", "--latency", "1ms", "--refused", "0.2", "--seed", "3"];
    let flags = ["--policies", "pbm", "--pool", "4MiB", "--price", "get=1,list=10,egress=0"];
    let (json, table) = bench(Path::new(&url), &[&flags[..], &model[..]].concat());
    let storage = &json["config"]["storage"];
    assert_eq!((&storage["declared"], &storage["outstanding"]), (&true.into(), &256.into()), "{storage}");
    assert_eq!(storage["prices"], "get=1,list=10,egress=0");
    let (of_files, _) = bench(data.path(), &["--policies", "pbm", "--pool", "4MiB", "--seed", "3"]);
    assert_eq!(json["config"]["data_bytes"], of_files["config"]["data_bytes"]);
    assert_eq!(json["config"]["touched_bytes"], of_files["config"]["touched_bytes"]);
    let runs = json["runs"].as_array().unwrap();
    for (run, of_files) in runs.iter().zip(of_files["runs"].as_array().unwrap()) {
        let count = |kind: &str| run["store"][kind].as_u64().unwrap();
        assert!(count("gets") > 0 && count("heads") > 0, "one file is looked at, and not listed: {run}");
        assert_eq!(run["storage_requests"], run["store"]["gets"]);
        let cost = (count("gets") + count("heads")) as f64 / 1e3 + count("lists") as f64 / 1e2;
        assert!((run["store"]["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-9, "{run}");
        assert_eq!(run["queries"][0]["rows"], of_files["queries"][0]["rows"]);
        assert!(run["bytes_requested"].as_u64().unwrap() > 0 && of_files["store"].is_null());
    }
    assert!(runs.iter().any(|run| run["store"]["refused"].as_u64().unwrap() > 0), "one in five is refused");
    assert!(runs[0]["store"]["gap_bytes"].is_null() && runs[1]["store"]["gap_bytes"].is_u64());
    for word in ["GET", "LIST", "refused", "cost", "$", "declared: 400 MB/s, 1 ms per request"] {
        assert!(table.contains(word), "no {word} in {table}");
    }
}

#[test]
fn a_tier_on_flash_is_measured_beside_none() {
    let (data, _) = lineitem();
    let (url, folder) = (format!("file://{}", data.path().display()), tempfile::tempdir().unwrap());
    let place = format!("{}:1MiB", folder.path().display());
    let flags = ["--policies", "pbm", "--pool", "320KiB", "--page-size", "4KiB", "--delivery", "in-order"];
    let flash = ["--bandwidth", "400MB/s", "--latency", "1ms", "--flash", &place];
    let fillings = ["--flash-policies", "none,predicted,second-touch"];
    let (json, table) = bench(Path::new(&url), &[&flags[..], &flash[..], &fillings[..]].concat());
    let runs = json["runs"].as_array().unwrap();
    let of = |row: usize, name: &str| runs[row]["flash"][name].as_u64().unwrap();
    assert_eq!(runs.len(), 3);
    assert!(runs[0]["flash"].is_null(), "{}", runs[0]);
    assert_eq!((&runs[1]["flash"]["filling"], &runs[2]["flash"]["off"]), (&"predicted".into(), &json!(null)));
    // How much of a burst the tier has the time to write is the machine's; a page has its checksum.
    assert!(of(1, "pages_written") > 0 && of(1, "bytes_written") > of(1, "pages_written") * 4096, "{}", runs[1]);
    assert_eq!(of(1, "hits") > 0, of(1, "bytes_read") > 0, "{}", runs[1]);
    for row in [1, 2] {
        assert_eq!(runs[row]["queries"][0]["rows"], runs[0]["queries"][0]["rows"]);
    }
    for word in ["from flash", "to flash", "second-touch"] {
        assert!(table.contains(word), "no {word} in {table}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    let fails = |flags: &[&str], word: &str| {
        let output = pagecast().args(["bench", "--streams", "1", "--data", &url]).args(flags).output().unwrap();
        assert_fails(&output, 2, &[word]);
    };
    fails(&[&flags[..], &["--flash", "/nowhere/to/be/found:1MiB"]].concat(), "/nowhere/to/be/found");
    fails(&["--flash", "much"], "/mnt/nvme:100GiB");
    let of_files = pagecast().args(["bench", "--data", "/tmp", "--flash", &place]).output().unwrap();
    assert_fails(&of_files, 2, &["--flash", "file://"]);
}

/// The tier of `sql` stays, and says what it did; local files are not copied.
#[test]
fn sql_takes_a_tier_on_flash() {
    let (data, _) = lineitem();
    let folder = tempfile::tempdir().unwrap();
    let place = format!("{}:16MiB", folder.path().display());
    let output = sql(data.path(), &["--flash", &place, "-c", "SELECT count(*), max(l_comment) FROM lineitem"]);
    let figures = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(figures.contains("0 B of it from flash, 0 B written there"), "{figures}");
    assert!(folder.path().join("pagecast.flash").metadata().unwrap().len() <= 16 << 20);
    let output = sql(data.path(), &["--flash", "/nowhere/to/be/found:1GiB", "-c", "SELECT 1"]);
    assert_fails(&output, 2, &["--flash", "/nowhere/to/be/found"]);
}

#[test]
fn files_of_other_formats_are_tables_by_their_endings() {
    let (data, _) = lineitem();
    let folder = data.path();
    let csv = |ids: std::ops::Range<u32>| ids.fold("id,name\n".to_owned(), |text, id| text + &format!("{id},n{id}\n"));
    std::fs::write(folder.join("people.csv"), csv(0..100)).unwrap();
    // The Parquet table of that name is the table.
    std::fs::write(folder.join("lineitem.csv"), csv(0..1)).unwrap();
    let lines: String = (0..50).map(|id| format!("{{\"id\": {id}, \"kind\": \"k{}\"}}\n", id % 3)).collect();
    std::fs::write(folder.join("events.ndjson"), lines).unwrap();
    for year in [2024, 2025] {
        let keyed = folder.join(format!("visits/year={year}"));
        std::fs::create_dir_all(&keyed).unwrap();
        std::fs::write(keyed.join("a.csv"), csv(0..year - 2020)).unwrap();
        std::fs::write(keyed.join("b.csv"), csv(0..1)).unwrap();
    }
    let copy = format!("COPY (SELECT * FROM people) TO '{}' STORED AS ARROW", folder.join("copied.arrow").display());
    stdout(&sql(folder, &["-c", &copy]));
    let url = format!("file://{}", folder.display());
    for place in [folder.to_str().unwrap(), &url] {
        // The cells of the one row.
        let answer = |query: &str| {
            let row = rows(&stdout(&sql(Path::new(place), &["-c", query]))).pop().unwrap();
            row.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(answer("SELECT count(*), sum(id), max(name) FROM people"), "100 4950 n99", "{place}");
        assert_eq!(answer("SELECT count(*) FROM events WHERE kind = 'k1'"), "17", "{place}");
        assert_eq!(answer("SELECT count(*), sum(year) FROM visits WHERE year > 2024"), "6 12150", "{place}");
        assert_eq!(answer("SELECT count(*) FROM copied JOIN people USING (id, name)"), "100", "{place}");
        assert_ne!(answer("SELECT count(*) FROM lineitem"), "1", "{place}");
    }
}
