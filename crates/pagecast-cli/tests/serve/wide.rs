//! Every function and operator of a session over texts that are long, in a server that may have
//! little memory: none of them takes more than that, whatever a batch would come to. A function
//! that is new is called, too. `SERVE_WIDE_MS` (50) is how long each may take; one that cannot be
//! stopped takes longer, and has made all of it by then.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::load::number;
use crate::wire::{Client, fields};
use crate::{Server, pagecast};

/// Of 64 KiB, and few different ones, so that a file and a batch of them are small: what is made
/// of each column of them has 256 MiB.
const ROWS: usize = 4096;
const MEMORY: u64 = 64;
/// What the process may have beside that, in MiB: its own code, and a row group on its way.
const BESIDE: u64 = 128;

/// Calls of each function, with the first arguments that it takes.
const CALLS: usize = 2;

/// Arguments, of which functions take some: texts first.
const ARGUMENTS: [&str; 42] = [
    "s, 'a', 'bbbbbbbb', 'g'",
    "s, u, s, u",
    "s, ' ', u, s",
    "s, u, s",
    "s, u",
    "s, s",
    "s",
    "s, 'a', 'bbbb'",
    "s, ' ', 2",
    "s, ' '",
    "s, 3",
    "s, 100000",
    "b, 'hex'",
    "encode(b, 'hex'), 'hex'",
    "b",
    "words, s",
    "s, words",
    "words, words",
    "words, 'a', s",
    "words",
    "words, 'DESC'",
    "words, 'a', 'b', 2",
    "'a', s",
    "s, 'sha256'",
    "numbers, numbers",
    "numbers, 3, 2",
    "numbers, 3",
    "numbers",
    "n, n, s",
    "t, s",
    "n, s",
    "'day', t",
    "x, n",
    "x, 0.5",
    "x, n, 0.5",
    "n > 3",
    "3",
    "x",
    "n",
    "t",
    "t, t",
    "",
];

/// Functions that take what no column here has, or are no calls.
const OF_OTHER_TYPES: [&str; 18] = [
    "arrow_cast",
    "arrow_try_cast",
    "cast_to_type",
    "current_catalog",
    "current_user",
    "element_at",
    "get_field",
    "grouping",
    "make_time",
    "map_entries",
    "map_extract",
    "map_keys",
    "map_values",
    "session_user",
    "try_cast_to_type",
    "union_extract",
    "union_tag",
    "user",
];

const OPERATORS: [&str; 25] = [
    "SELECT s || u FROM w",
    "SELECT s || u || s || u || s FROM w WHERE n % 2 = 0",
    "SELECT n FROM w WHERE s || u LIKE '%x%'",
    "SELECT n FROM w WHERE s LIKE u",
    "SELECT n FROM w WHERE upper(s) ~ 'Q+'",
    "SELECT CAST(s AS bytea), CAST(b AS text) FROM w",
    "SELECT CASE WHEN n % 2 = 0 THEN upper(s) ELSE lower(u) END FROM w",
    "SELECT n FROM w ORDER BY upper(s)",
    "SELECT n FROM w ORDER BY s || u LIMIT 3",
    "SELECT sum(length(upper(s))) OVER () FROM w",
    "SELECT rank() OVER (PARTITION BY upper(s) ORDER BY lower(u), n) FROM w",
    "SELECT lag(upper(s), 2) OVER (ORDER BY n) FROM w",
    "SELECT lag(s) OVER (ORDER BY n), last_value(u) OVER (ORDER BY n) FROM w",
    "SELECT last_value(s) OVER (ORDER BY n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM w",
    "SELECT upper(s), count(*) FROM w GROUP BY 1",
    "SELECT DISTINCT s || u FROM w",
    "SELECT string_agg(s, ',') FROM w",
    "SELECT array_agg(upper(s) ORDER BY lower(u)) FROM w",
    "SELECT count(*) FROM w AS a JOIN w AS b ON a.n % 4 = b.n % 4 AND length(a.s || b.u) > 3",
    "SELECT count(*) FROM w AS a JOIN w AS b ON a.n < b.n AND upper(a.s) || b.u < 'a'",
    "SELECT count(*) FROM w AS a JOIN w AS b ON upper(a.s) = lower(b.u)",
    "SELECT unnest(string_to_array(s, ' ')) FROM w",
    "SELECT upper(s) FROM w UNION SELECT lower(u) FROM w",
    "SELECT repeat(repeat('x', 20000000), 2)",
    "SELECT levenshtein(repeat('x', 1000000), repeat('y', 1000000))",
];

#[test]
fn no_function_takes_more_memory_than_there_is() {
    let folder = tempfile::tempdir().unwrap();
    write_table(folder.path());
    let server = Server::of(folder.path(), &["--memory", &format!("{MEMORY}MiB")]);
    let mut tried = Tried::new(&server);
    let mut not_called = Vec::new();
    for kind in ["SCALAR", "AGGREGATE", "WINDOW"] {
        let over = if kind == "WINDOW" { " OVER (ORDER BY n)" } else { "" };
        for name in tried.functions(kind) {
            let calls = ARGUMENTS.iter().filter(|given| tried.call(&format!("SELECT {name}({given}){over} FROM w")));
            if calls.take(CALLS).count() == 0 {
                not_called.push(name);
            }
        }
    }
    for sql in OPERATORS {
        tried.call(sql);
    }
    println!("{} statements; at most {} MiB: {}", tried.count, tried.most.0, tried.most.1);
    assert!(tried.above.is_empty(), "beside {} MiB at first:\n{}", tried.before, tried.above.join("\n"));
    not_called.retain(|name| !OF_OTHER_TYPES.contains(&name.as_str()));
    assert!(not_called.is_empty(), "ARGUMENTS has none for {not_called:?}");
}

fn write_table(folder: &Path) {
    let text = |from: &str| format!("repeat('ab c,1 ' || CAST(value % 4 + {from} AS text), 8192)");
    let rows = format!(
        "SELECT {} AS s, {} AS u, CAST({} AS bytea) AS b, value AS n, value / 7.0 AS x, \
         timestamp '2024-05-06 07:08:09' AS t, range(0, 100) AS numbers, string_to_array('a b c d e f', ' ') AS words \
         FROM generate_series(1, {ROWS})",
        text("0"),
        text("1"),
        text("2"),
    );
    let copy = format!("COPY ({rows}) TO '{}'", folder.join("w.parquet").display());
    // Few rows at once, of which each is wide.
    let args = ["sql", "-c", "SET datafusion.execution.batch_size = 64", "-c", &copy];
    let output = pagecast().args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

struct Tried<'a> {
    server: &'a Server,
    client: Client,
    /// MiB of the process before the first statement.
    before: u64,
    count: usize,
    /// The most that the process had, and when.
    most: (u64, String),
    last: String,
    /// What took more than it may.
    above: Vec<String>,
}

impl<'a> Tried<'a> {
    fn new(server: &'a Server) -> Self {
        let mut client = Client::connect(server.port, "wide");
        client.rows("SELECT count(*), max(n) FROM w");
        client.query(&format!("SET statement_timeout = {}", number("SERVE_WIDE_MS", 50)));
        client.until_ready();
        let before = peak(server);
        Self { server, client, before, count: 0, most: (0, String::new()), last: String::new(), above: Vec::new() }
    }

    fn functions(&mut self, kind: &str) -> BTreeSet<String> {
        let sql = format!("SELECT routine_name FROM information_schema.routines WHERE function_type = '{kind}'");
        let names: BTreeSet<String> = self.client.rows(&sql).into_iter().filter_map(|mut row| row[0].take()).collect();
        // The other name of the same.
        let is_alias =
            |name: &str| name.strip_prefix("list_").is_some_and(|rest| names.contains(&format!("array_{rest}")));
        names.iter().filter(|name| !is_alias(name)).cloned().collect()
    }

    /// Whether it runs. It may end for its time or memory, or over a value that it finds.
    fn call(&mut self, sql: &str) -> bool {
        forget_peak(self.server);
        self.client.query(&format!("EXPLAIN ANALYZE {sql}"));
        let messages = self.client.until_ready();
        let error = messages.iter().find(|(kind, _)| *kind == b'E').map(|(_, body)| fields(body));
        self.last = error.unwrap_or_default();
        let runs = self.last.is_empty() || ["22", "53", "54", "57"].iter().any(|class| self.last.starts_with(class));
        let peak = peak(self.server).saturating_sub(self.before);
        if peak > MEMORY + BESIDE {
            self.above.push(format!("{sql}: {peak} MiB; {}", self.last));
        }
        if peak > self.most.0 {
            self.most = (peak, sql.to_owned());
        }
        self.count += usize::from(runs);
        runs
    }
}

/// MiB that the process had at most since [`forget_peak`].
fn peak(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

fn forget_peak(server: &Server) {
    fs::write(format!("/proc/{}/clear_refs", server.child.id()), "5").unwrap();
}
