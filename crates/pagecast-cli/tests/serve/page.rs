//! The page of `--ui` in a browser, while queries run that are slow enough to look at.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Server;
use crate::tpch::tables;
use crate::wire::Client;

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
