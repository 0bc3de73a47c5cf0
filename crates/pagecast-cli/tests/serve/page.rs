//! The page of `--ui` in a browser, while queries run that are slow enough to look at.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Server;
use crate::tpch::tables;
use crate::wire::{Client, fields};

const QUERIES: [&str; 2] = [
    "SELECT l_returnflag, max(sha512(repeat(l_comment, 8))) FROM lineitem GROUP BY 1",
    "SELECT count(DISTINCT o_custkey), max(sha512(repeat(o_comment, 8))) FROM orders",
];

#[test]
fn a_browser_sees_scans_move() {
    let Some(python) = std::env::var_os("PAGECAST_BROWSER") else {
        eprintln!("skipped: PAGECAST_BROWSER names no Python with Selenium and Chromium (make test-serve)");
        return;
    };
    let server = Server::of(tables(), &["--pool", "2MiB", "--ui", "127.0.0.1:0"]);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/page.py");
    let mut look = Command::new(python);
    look.arg(page).arg(server.ui.as_deref().unwrap()).args(std::env::var_os("PAGECAST_PICTURES"));
    let (ended, port) = (AtomicBool::new(false), server.port);
    let output = std::thread::scope(|scope| {
        for query in QUERIES.iter().cycle().take(4) {
            scope.spawn(|| {
                let mut client = Client::connect(port, "stream");
                while !ended.load(Ordering::Relaxed) {
                    client.rows(query);
                }
            });
        }
        let output = look.output();
        ended.store(true, Ordering::Relaxed);
        output.unwrap()
    });
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{wrong}");
    eprint!("{said}");
}

#[test]
fn a_query_is_ended_on_the_page() {
    let server = Server::of(tables(), &["--pool", "2MiB", "--ui", "127.0.0.1:0"]);
    let mut client = Client::connect(server.port, "ada");
    client.query("SELECT sum(value) FROM generate_series(1, 1000000000000)");
    let mut other = Client::connect(server.port, "other");
    let activity = "SELECT pid FROM pg_stat_activity WHERE usename = 'ada' AND state = 'active'";
    let began = std::time::Instant::now();
    let pid = loop {
        if let [row] = &other.rows(activity)[..] {
            break row[0].clone().unwrap();
        }
        assert!(began.elapsed().as_secs() < 60, "the query never runs");
    };
    let url = server.ui.as_deref().unwrap().strip_prefix("http://").unwrap();
    let (address, query) = url.split_once("/?").unwrap();
    let post = |query: &str| {
        let mut page = TcpStream::connect(address).unwrap();
        write!(page, "POST /end?{query} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        let mut answer = String::new();
        page.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(post(&format!("number={pid}")).starts_with("HTTP/1.1 403 "), "without the token");
    assert!(post(&format!("{query}&number=-7")).starts_with("HTTP/1.1 404 "));
    assert!(post(&format!("{query}&number={pid}")).starts_with("HTTP/1.1 200 "));
    let messages = client.until_ready();
    let (_, error) = messages.iter().find(|(kind, _)| *kind == b'E').unwrap();
    assert!(fields(error).starts_with("57014 "), "{}", fields(error));
    assert_eq!(client.rows("SELECT 1").len(), 1);
}
