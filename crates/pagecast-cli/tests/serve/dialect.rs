//! One dialect through every door: expressions as PostgreSQL 15 answers them, and as the server,
//! Flight SQL and the shell do. The wheel's tests read the same table.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use arrow::array::{Array, RecordBatch, StringArray};
use arrow::ipc::reader::FileReader;
use pagecast_sql::values;
use tempfile::TempDir;

use crate::tpch::tables;
use crate::wire::{Client, fields};
use crate::{Server, pagecast};

/// Lines of an expression, PostgreSQL's answer and, at times, ours. Rows are parted by `;`. What is
/// refused has its class.
const ANSWERS: &str = include_str!("dialect.tsv");

/// What is behind this line is about a connection, which the shell has not.
const OF_CONNECTIONS: &str = "# Of connections.";

struct Line {
    sql: String,
    /// PostgreSQL's answer, and ours.
    theirs: &'static str,
    ours: &'static str,
    /// Whether it is about a connection.
    connects: bool,
}

fn lines() -> Vec<Line> {
    let (common, of_connections) = ANSWERS.split_once(OF_CONNECTIONS).unwrap();
    let lines = |text: &'static str, connects| {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        lines.map(move |line| {
            let columns: Vec<&str> = line.split('\t').collect();
            let ours = columns.get(2).unwrap_or(&columns[1]);
            Line { sql: format!("SELECT {}", columns[0]), theirs: columns[1], ours, connects }
        })
    };
    lines(common, false).chain(lines(of_connections, true)).collect()
}

fn answer(client: &mut Client, sql: &str) -> String {
    client.query(sql);
    let messages = client.until_ready();
    if let Some((_, error)) = messages.iter().find(|(kind, _)| *kind == b'E') {
        return format!("ERR {}", &fields(error)[..5]);
    }
    shown(messages.iter().filter_map(crate::wire::row_of))
}

fn shown(rows: impl IntoIterator<Item = Vec<Option<String>>>) -> String {
    let value = |value: Option<String>| value.unwrap_or_else(|| "NULL".to_owned());
    let row = |row: Vec<Option<String>>| row.into_iter().map(value).collect::<Vec<_>>().join("|");
    rows.into_iter().map(row).collect::<Vec<_>>().join(";")
}

fn shown_batches(batches: &[RecordBatch]) -> String {
    let rows = batches.iter().flat_map(|batch| {
        let columns: Vec<StringArray> = batch.columns().iter().map(|column| values::texts(column).unwrap()).collect();
        let value = |column: &StringArray, row| column.is_valid(row).then(|| column.value(row).to_owned());
        let row = move |row| columns.iter().map(|column| value(column, row)).collect::<Vec<_>>();
        (0..batch.num_rows()).map(row)
    });
    shown(rows)
}

/// What is wrong with the answers of a door.
fn compared(door: &str, answers: impl IntoIterator<Item = (String, String, String)>) {
    let mut wrong = String::new();
    for (sql, found, wanted) in answers {
        if found != wanted {
            writeln!(wrong, "{sql}: {found}, and not {wanted}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{door}:\n{wrong}");
}

#[test]
fn the_server_answers_as_postgresql_does() {
    let server = Server::of(tables(), &["--pool", "1MiB"]);
    let mut client = Client::connect(server.port, "ada");
    let answers = lines().into_iter().map(|line| (answer(&mut client, &line.sql), line));
    compared("server", answers.map(|(found, line)| (line.sql, found, line.ours.to_owned())));
}

#[cfg(feature = "flight")]
#[test]
fn flight_sql_answers_as_the_server_does() {
    use crate::flight::{all, client, run};
    let server = Server::of(tables(), &["--pool", "1MiB", "--flight", "127.0.0.1:0"]);
    let answers = run(async {
        let mut client = client(&server).await;
        let mut answers = Vec::new();
        for line in lines().into_iter().filter(|line| !line.connects) {
            let found = match all(&mut client, &line.sql).await {
                Ok(batches) => shown_batches(&batches),
                // The class stands at the end, in parentheses.
                Err(error) => {
                    let class = line.ours.strip_prefix("ERR ").filter(|class| error.contains(&format!("({class})")));
                    format!("ERR {}", class.unwrap_or(&error))
                }
            };
            answers.push((line.sql, found, line.ours.to_owned()));
        }
        answers
    });
    compared("Flight SQL", answers);
}

/// What the shell writes for a statement, as an Arrow file; `None` if it fails.
fn by_shell(sql: &str, file: &Path) -> Option<String> {
    let copy = format!("COPY ({sql}) TO '{}' STORED AS ARROW", file.display());
    let output = pagecast().args(["sql", "--quiet", "-c", &copy]).output().unwrap();
    if !output.status.success() {
        return None;
    }
    let reader = FileReader::try_new(File::open(file).unwrap(), None).unwrap();
    Some(shown_batches(&reader.map(Result::unwrap).collect::<Vec<_>>()))
}

#[test]
fn the_shell_answers_as_the_server_does() {
    let folder = tempfile::tempdir().unwrap();
    let answers = lines().into_iter().filter(|line| !line.connects).enumerate().map(|(number, line)| {
        let file = folder.path().join(format!("{number}.arrow"));
        let found = by_shell(&line.sql, &file).or_else(|| {
            // In a file each column has a name of its own.
            let columns = line.ours.split(';').next()?.split('|').count();
            let names = (0..columns).map(|number| format!("c{number}")).collect::<Vec<_>>().join(", ");
            by_shell(&format!("SELECT * FROM ({}) AS t ({names})", line.sql), &file)
        });
        let found = found.unwrap_or_else(|| "ERR".to_owned());
        let wanted = if line.ours.starts_with("ERR") { "ERR" } else { line.ours };
        // A query around another keeps no order.
        let sorted = |rows: &str| {
            let mut rows: Vec<&str> = rows.split(';').collect();
            rows.sort_unstable();
            rows.join(";")
        };
        (line.sql, sorted(&found), sorted(wanted))
    });
    compared("shell", answers);
}

/// A PostgreSQL 15 of its own, until the test ends.
struct Postgres {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Postgres {
    /// `None` where there is none, which is said.
    fn start() -> Option<Self> {
        let bin = Path::new("/usr/lib/postgresql/15/bin");
        if !bin.join("initdb").exists() {
            eprintln!("skipped: there is no PostgreSQL 15 in {}", bin.display());
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        // It does not run as root.
        let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
        let program = |name: &str| match is_root {
            true => {
                let mut command = Command::new("runuser");
                command.args(["-u", "postgres", "--"]).arg(bin.join(name));
                command
            }
            false => Command::new(bin.join(name)),
        };
        if is_root {
            assert!(Command::new("chown").arg("postgres").arg(folder.path()).status().unwrap().success());
        }
        let mut made = program("initdb");
        made.arg("-D").arg(&data).args(["-U", "ada", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
        assert!(made.stdout(Stdio::null()).status().unwrap().success());
        let mut single = program("postgres");
        single.args(["--single", "-D"]).arg(&data).arg("postgres").stdin(Stdio::piped()).stdout(Stdio::null());
        let mut single = single.spawn().unwrap();
        single.stdin.take().unwrap().write_all(b"CREATE DATABASE pagecast\n").unwrap();
        assert!(single.wait().unwrap().success());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = program("postgres");
        server.arg("-D").arg(&data).args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        server.args(["-c", &format!("port={port}"), "-c", "TimeZone=UTC", "-c", "fsync=off"]);
        let child = server.stderr(Stdio::null()).spawn().unwrap();
        let postgres = Self { child, port, _folder: folder };
        let began = Instant::now();
        // It takes connections before it answers them.
        let mut ready = Command::new(bin.join("pg_isready"));
        ready.args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()]);
        while !ready.status().unwrap().success() {
            assert!(began.elapsed() < Duration::from_secs(60), "PostgreSQL does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(postgres)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Whoever runs it for root hands the signal on.
        _ = Command::new("kill").arg(self.child.id().to_string()).status();
        _ = self.child.wait();
    }
}

#[test]
fn postgresql_answers_what_the_table_says() {
    let Some(postgres) = Postgres::start() else { return };
    let mut client = Client::connect(postgres.port, "ada");
    let answers = lines().into_iter().map(|line| (answer(&mut client, &line.sql), line));
    compared("PostgreSQL", answers.map(|(found, line)| (line.sql, found, line.theirs.to_owned())));
}

#[test]
fn nothing_of_a_statement_is_left_out() {
    let server = Server::of(tables(), &["--pool", "1MiB"]);
    let mut client = Client::connect(server.port, "ada");
    for (sql, said) in [
        ("SELECT * FROM nation TABLESAMPLE SYSTEM (10)", "0A000 TABLESAMPLE"),
        ("SELECT * FROM (SELECT 1) AS t TABLESAMPLE BERNOULLI (10)", "0A000 TABLESAMPLE"),
        ("SELECT * FROM nation FOR UPDATE", "25006 cannot execute SELECT FOR UPDATE"),
        ("SELECT * FROM generate_series(1, 2) WITH ORDINALITY", "0A000 WITH ORDINALITY"),
        ("SELECT n_name FROM nation ORDER BY 1 FETCH FIRST 2 ROWS WITH TIES", "0A000 FETCH FIRST"),
        ("SELECT upper(DISTINCT n_name) FROM nation", "42809 DISTINCT"),
        ("SELECT upper(n_name) FILTER (WHERE true) FROM nation", "42809 FILTER"),
        ("SELECT upper(n_name) OVER () FROM nation", "42809 OVER"),
        ("SELECT sum(1) OVER (w ORDER BY 1) FROM nation WINDOW w AS (PARTITION BY n_name)", "0A000 OVER (w ...)"),
        ("SELECT n_name FROM nation ORDER BY n_name COLLATE \"de_DE\"", "0A000 text is compared"),
        ("SELECT 'abc'::char(5)", "0A000 char(n)"),
        ("SELECT * FROM nation JOIN region", "42601 a join wants ON"),
        ("SELECT max(x) FROM (VALUES (interval '1 day')) AS t(x)", "0A000 max of intervals"),
        ("SELECT to_char(n_nationkey, '999') FROM nation", "0A000 to_char takes dates"),
        ("SELECT to_char(date '2024-01-01', 'YYYY OF')", "0A000 to_char knows no OF"),
        ("SELECT n_name SIMILAR TO n_comment FROM nation", "0A000 SIMILAR TO"),
    ] {
        let found = client.error(sql);
        assert!(found.starts_with(said), "{sql}: {found}");
    }
    // These are known by other words.
    let one = |client: &mut Client, sql: &str| client.rows(sql)[0][0].clone().unwrap();
    assert_eq!(client.rows("SELECT n_name FROM nation ORDER BY 1 FETCH FIRST 2 ROWS ONLY").len(), 2);
    assert_eq!(one(&mut client, "SELECT n_name FROM nation ORDER BY n_name COLLATE \"C\" LIMIT 1"), "ALGERIA");
    let regions = "SELECT ARRAY(SELECT n_nationkey FROM nation WHERE n_regionkey = r_regionkey ORDER BY 1 DESC) \
                   FROM region ORDER BY r_regionkey LIMIT 1";
    assert_eq!(one(&mut client, regions), "{16,15,14,5,0}");
    let exists = "SELECT EXISTS (SELECT 1 FROM nation WHERE n_regionkey = r_regionkey) FROM region LIMIT 1";
    assert_eq!(one(&mut client, exists), "t");
    assert_eq!(one(&mut client, "SELECT count(*) FROM ONLY nation"), "25");
}

#[test]
fn sums_and_columns_say_when_they_leave_their_type() {
    let server = Server::of(tables(), &["--pool", "1MiB"]);
    let mut client = Client::connect(server.port, "ada");
    for (sql, said) in [
        ("SELECT sum(l_orderkey * 1000000000000000) FROM lineitem", "22003 bigint out of range"),
        ("SELECT sum(9223372036854775807 - l_orderkey) FROM lineitem", "22003 bigint out of range"),
        (
            "SELECT l_orderkey % 7, sum(9223372036854775807 - l_orderkey) FROM lineitem GROUP BY 1",
            "22003 bigint out of range",
        ),
        ("SELECT count(*) FROM lineitem WHERE l_orderkey * 9223372036854775807 > 0", "22003 bigint out of range"),
        ("SELECT 1::float8 / (n_nationkey - n_nationkey) FROM nation", "22012"),
    ] {
        let found = client.error(sql);
        assert!(found.starts_with(said), "{sql}: {found}");
    }
    let right = "SELECT count(*), sum(n_nationkey + 1), min(-n_nationkey) FROM nation WHERE n_nationkey * 2 < 20";
    let texts: Vec<_> = client.rows(right)[0].iter().map(|value| value.clone().unwrap()).collect();
    assert_eq!(texts, ["10", "55", "-9"]);
    // The days that an interval moves are still compared as days, so that files are left out.
    let plan =
        client.rows("EXPLAIN SELECT count(*) FROM lineitem WHERE l_shipdate <= date '1998-12-01' - interval '90 days'");
    let plan = format!("{plan:?}");
    assert!(plan.contains("1998-09-02") && !plan.contains("CAST(lineitem.l_shipdate"), "{plan}");
}
