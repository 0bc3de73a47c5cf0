//! `pagecast serve`: the built command, over its socket. What needs psql, or packages of Python and
//! Java that variables name (`make test-serve`), says `skipped` without.
#![cfg(feature = "serve")]
#![allow(clippy::unwrap_used)]

mod activity;
mod attacks;
mod clients;
mod dialect;
mod drivers;
#[cfg(feature = "flight")]
mod flight;
mod hostile;
mod load;

mod metadata;
mod metrics;
mod outside;
mod page;
mod protocol;
mod session;
mod shares;
mod spill;
#[cfg(target_os = "linux")]
mod stops;
mod tpch;
#[cfg(target_os = "linux")]
mod wide;
mod wire;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The command, where no cache folder of the user's is touched.
fn pagecast() -> Command {
    // Whoever attacks an optimized build names it.
    let built = std::env::var_os("SERVE_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_pagecast").into());
    let mut command = Command::new(built);
    command.stdin(Stdio::null());
    command
}

/// A server of its own, which ends with the test.
struct Server {
    child: Child,
    port: u16,
    /// The address of its page, with --ui.
    ui: Option<String>,
    /// Where it speaks Flight SQL, with --flight.
    flight: Option<String>,
    /// The address of its numbers, with --metrics.
    metrics: Option<String>,
}

impl Server {
    fn of(data: &Path, args: &[&str]) -> Self {
        Self::start(pagecast(), data, args)
    }

    fn start(mut command: Command, data: &Path, args: &[&str]) -> Self {
        command.arg("serve").arg("--data").arg(data).args(["--listen", "127.0.0.1:0"]).args(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut ui, mut flight, mut metrics) = (None, None, None);
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let after = |words: &str| line.strip_prefix(words).map(str::to_owned);
            ui = ui.or_else(|| after("pagecast shows its pool on "));
            flight = flight.or_else(|| after("pagecast speaks Flight SQL on "));
            metrics = metrics.or_else(|| after("pagecast has its numbers at "));
            // The last one that it says.
            if line.starts_with("pagecast serves ") {
                let port = line.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap();
                return Self { child, port, ui, flight, metrics };
            }
        }
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        child.wait().unwrap();
        panic!("no server: {stderr}");
    }

    /// Ends it as an operator does. Gives its exit status, and how long it took.
    fn terminate(mut self) -> (Option<i32>, Duration) {
        let began = Instant::now();
        let killed = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(killed.success());
        let status = self.child.wait().unwrap();
        (status.code(), began.elapsed())
    }

    /// A number of `pagecast.status`.
    fn status(&self, name: &str) -> i64 {
        let mut client = wire::Client::connect(self.port, "checker");
        let rows = client.rows(&format!("SELECT value FROM pagecast.status WHERE name = '{name}'"));
        rows[0][0].as_deref().unwrap().parse().unwrap()
    }

    /// Waits until nothing is left of what clients did: no query, no scan, no pin, no memory.
    #[track_caller]
    fn assert_idle(&self) {
        let began = Instant::now();
        loop {
            let names = ["scans", "unordered_scans", "pages_pinned", "query_memory_bytes"];
            let left: Vec<_> = names.iter().map(|name| (*name, self.status(name))).collect();
            // The one that asks.
            let others = (self.status("connections") - 1, self.status("queries_running") - 1);
            if left.iter().all(|(_, count)| *count == 0) && others == (0, 0) {
                return;
            }
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "left behind: {left:?}, connections, queries {others:?}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
