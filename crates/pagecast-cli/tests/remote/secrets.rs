//! Passwords and signatures of URLs, over a server that answers well at first and then fails in all
//! ways: nothing that a verb writes or tells a client holds them.

use std::process::{Command, Output, Stdio};

use crate::http::{Failure, Files};
use crate::{SECRETS, closed_port, data, pagecast, rows, said, sql};

/// Of `me:hunter2`.
const LOGIN: &str = "Basic bWU6aHVudGVyMg==";
const QUERY: &str = "SELECT count(*), sum(l_quantity) FROM lineitem";

/// All that a command writes, whatever becomes of it, in which no secret may be.
#[track_caller]
fn written(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert_clean(&text);
    (status.code(), text)
}

#[track_caller]
fn assert_clean(text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} in: {text}");
    }
}

fn with_login(place: &str, file: &str) -> String {
    format!("http://me:hunter2@{place}/{file}")
}

/// The ways in which a server fails. What is tried again takes half a minute: it is last.
fn failures() -> Vec<Failure> {
    let (thief, _) = Files::serve(data().to_owned(), true, None);
    let elsewhere = format!("http://{}/lineitem.parquet?X-Amz-Signature=not-to-be-shown#moved", thief.place());
    let repeated = "you asked for http://me:hunter2@host/a?sig=not-to-be-shown with Basic bWU6aHVudGVyMg== \
                    and /a?X-Amz-Signature=not-to-be-shown, hunter2";
    vec![
        Failure::Status("401 Unauthorized", repeated.to_owned()),
        Failure::Status("403 Forbidden", format!("<Error><Code>No</Code><Message>{repeated}</Message></Error>")),
        Failure::Status("404 Not Found", repeated.to_owned()),
        Failure::Redirect(elsewhere),
        Failure::Redirect("http://me:hunter2@127.0.0.1:1/?token=not-to-be-shown".to_owned()),
        Failure::Redirect("ftp://me:hunter2@host/?token=not-to-be-shown".to_owned()),
        Failure::Cut,
        Failure::Status("500 Internal Server Error", repeated.to_owned()),
    ]
}

#[test]
fn a_login_of_a_url_is_sent_and_not_shown() {
    let (files, place) = Files::serve(data().to_owned(), true, Some(LOGIN));
    let expected = said(&mut sql(data().to_str().unwrap(), &["-c", QUERY]));
    let url = with_login(&place, "lineitem.parquet");
    let shown = said(&mut sql(&url, &["-c", QUERY]));
    assert_eq!(rows(&shown), rows(&expected));
    assert!(files.logins().iter().all(|login| login == LOGIN));
    for statement in ["EXPLAIN", "EXPLAIN ANALYZE", "EXPLAIN VERBOSE"] {
        let (status, text) = written(&mut sql(&url, &["-c", &format!("{statement} {QUERY}")]));
        assert!(status == Some(0) && text.contains("lineitem"), "{text}");
    }
    let settings = "SHOW ALL; SELECT * FROM information_schema.df_settings; SHOW CREATE TABLE lineitem";
    assert!(written(&mut sql(&url, &["-c", settings])).1.contains("datafusion."));
}

#[test]
fn statements_and_flags_with_secrets_are_refused_without_them() {
    let (_files, place) = Files::serve(data().to_owned(), true, Some(LOGIN));
    let url = with_login(&place, "lineitem.parquet");
    let signed = format!("http://{place}/lineitem.parquet?X-Amz-Signature=not-to-be-shown");
    for (statement, word) in [
        (format!("SELECT count(*) FROM '{url}'"), "no password"),
        (format!("EXPLAIN SELECT count(*) FROM '{url}'"), "no password"),
        (format!("SELECT count(*) FROM '{signed}'"), "presigned"),
        (format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{url}'"), "no password"),
        (format!("COPY (SELECT 1) TO '{url}' STORED AS PARQUET"), ""),
        (
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 's3://b/c.csv' OPTIONS ('aws.secret_access_key' 'hunter2')"
                .to_owned(),
            "",
        ),
        ("SET aws.secret_access_key = 'hunter2'".to_owned(), ""),
    ] {
        let (status, text) = written(pagecast().args(["sql", "-c", &statement]));
        assert!(status != Some(0) && text.contains(word), "{statement}: {text}");
    }
    for (flag, place, word) in [
        ("--data", signed.as_str(), "presigned"),
        ("--data", "http://me:hun/ter2hunter2@host/a", "no URL"),
        ("--data", "s3://key:hunter2@bucket/a", "variables"),
        ("--data", "nothing://me:hunter2@host/a", "nothing:"),
        ("--endpoint", "http://me:hunter2@host", "no password"),
        ("--endpoint", "http://host/?sig=not-to-be-shown", "no password"),
        ("--pool", "http://me:hunter2@host", ""),
    ] {
        let mut command = pagecast();
        command.args(["sql", "-c", "SELECT 1"]).args([flag, place]);
        if flag != "--data" {
            command.args(["--data", "s3://bucket/a"]);
        }
        let (status, text) = written(&mut command);
        assert!(status == Some(2) && text.contains(word), "{flag}: {text}");
    }
}

#[test]
fn failures_of_a_server_show_no_secret() {
    let words = ["401", "403", "no such", "", "", "", "", "500"];
    std::thread::scope(|scope| {
        for (failure, word) in failures().into_iter().zip(words) {
            scope.spawn(move || {
                let (files, place) = Files::serve(data().to_owned(), true, Some(LOGIN));
                files.fail(failure.clone());
                let url = with_login(&place, "lineitem.parquet");
                let (status, text) = written(&mut sql(&url, &["-c", QUERY]));
                println!("{failure:?}: {text}");
                // A file that was moved is read where it is.
                let expected = if failure.is_harmless() { 0 } else { 1 };
                assert!(status == Some(expected) && text.contains(word), "{failure:?}: {text}");
            });
        }
        scope.spawn(|| {
            let url = with_login(&format!("127.0.0.1:{}", closed_port()), "lineitem.parquet");
            let (status, text) = written(&mut sql(&url, &["-c", QUERY]));
            assert!(status == Some(1) && text.contains("cannot be reached"), "{text}");
        });
    });
}

#[test]
fn a_login_does_not_follow_to_another_server() {
    let (thief, other) = Files::serve(data().to_owned(), true, None);
    let (files, place) = Files::serve(data().to_owned(), true, Some(LOGIN));
    files.fail(Failure::Redirect(format!("http://{other}/lineitem.parquet")));
    written(&mut sql(&with_login(&place, "lineitem.parquet"), &["-c", QUERY]));
    assert!(thief.logins().is_empty(), "{:?}", thief.logins());
    assert!(!files.logins().is_empty());
}

#[test]
fn reports_of_a_bench_show_no_secret() {
    let (files, place) = Files::serve(data().to_owned(), true, Some(LOGIN));
    let folder = tempfile::tempdir().unwrap();
    let (json, html) = (folder.path().join("a.json"), folder.path().join("a.html"));
    let mut bench = pagecast();
    bench.args(["bench", "--data", &with_login(&place, "lineitem.parquet"), "--streams", "1", "--queries", "1"]);
    bench.args(["--policies", "lru"]).arg("--json").arg(&json).arg("--html").arg(&html);
    let (status, text) = written(&mut bench);
    assert_eq!(status, Some(0), "{text}");
    for report in [json, html] {
        let report = std::fs::read_to_string(report).unwrap();
        assert!(report.contains(&format!("http://{place}")));
        assert_clean(&report);
    }
    files.fail(failures().swap_remove(0));
    assert_eq!(written(&mut bench).0, Some(1));
}

/// A process that ends with its test.
#[cfg(feature = "serve")]
struct Ended(std::process::Child);

#[cfg(feature = "serve")]
impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(feature = "serve")]
#[test]
fn clients_of_a_server_are_shown_no_secret() {
    use std::io::{BufRead, BufReader, Read, Write};

    use crate::wire::Client;

    std::thread::scope(|scope| {
        for failure in failures() {
            scope.spawn(move || {
                let (files, place) = Files::serve(data().to_owned(), true, Some(LOGIN));
                let file = if matches!(failure, Failure::Cut) { "people.csv" } else { "lineitem.parquet" };
                let mut command = pagecast();
                command.args(["serve", "--listen", "127.0.0.1:0", "--ui", "127.0.0.1:0", "--pool", "2MiB", "--data"]);
                command.arg(with_login(&place, file)).stdout(Stdio::piped()).stderr(Stdio::piped());
                let mut server = Ended(command.spawn().unwrap());
                let child = &mut server.0;
                let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
                let page = lines.find(|line| line.contains("shows its pool")).unwrap();
                let served = lines.find(|line| line.contains("pagecast serves")).unwrap();
                let port: u16 = served.rsplit_once(':').unwrap().1.parse().unwrap();
                files.fail(failure.clone());
                let mut client = Client::connect(port, "me");
                let mut told = |sql: &str| {
                    client.query(sql);
                    let messages = client.until_ready();
                    let is_error = messages.iter().any(|(kind, _)| *kind == b'E');
                    let bodies = messages.iter().map(|(_, body)| String::from_utf8_lossy(body));
                    assert_clean(&bodies.collect::<String>());
                    is_error
                };
                let table = file.split('.').next().unwrap();
                let is_error = told(&format!("SELECT * FROM {table}"));
                // A table without its only file is an empty one to DataFusion.
                let is_gone = matches!(failure, Failure::Status("404 Not Found", _));
                assert!(is_gone || is_error != failure.is_harmless(), "{failure:?}");
                told(&format!("EXPLAIN ANALYZE SELECT count(*) FROM {table}"));
                assert!(told("SELECT 1 FROM 'http://me:hunter2@h/a.parquet'"));
                // The page: while a statement runs, and what it says of the pool.
                let (address, token) = page.rsplit_once("http://").unwrap().1.split_once("/?token=").unwrap();
                let mut browser = std::net::TcpStream::connect(address).unwrap();
                write!(browser, "GET /events?token={token} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
                let mut running = Client::connect(port, "me");
                let slow = "SELECT 'http://me:hunter2@h/', sum(a.value * b.value) \
                            FROM generate_series(1, 3000) AS a, generate_series(1, 3000) AS b";
                running.query(slow);
                let samples =
                    BufReader::new(browser).lines().map(Result::unwrap).take(9).collect::<Vec<_>>().join("\n");
                assert!(samples.contains("\"queries\""), "{samples}");
                assert_clean(&samples);
                child.kill().unwrap();
                let mut stderr = String::new();
                child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
                child.wait().unwrap();
                assert_clean(&stderr);
            });
        }
    });
}
