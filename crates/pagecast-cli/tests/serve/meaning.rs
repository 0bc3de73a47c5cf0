//! Expressions as PostgreSQL answers them: each with its answer of PostgreSQL 15, and ours where it
//! is another one. What is refused has its class.

use std::fmt::Write;

use crate::Server;
use crate::tpch::tables;
use crate::wire::{Client, fields};

/// Lines of an expression, PostgreSQL's answer and, at times, ours. Rows are parted by `;`.
const ANSWERS: &str = include_str!("meaning.tsv");

fn answer(client: &mut Client, sql: &str) -> String {
    client.query(sql);
    let messages = client.until_ready();
    if let Some((_, error)) = messages.iter().find(|(kind, _)| *kind == b'E') {
        return format!("ERR {}", &fields(error)[..5]);
    }
    let rows = messages.iter().filter_map(crate::wire::row_of);
    let value = |value: Option<String>| value.unwrap_or_else(|| "NULL".to_owned());
    let row = |row: Vec<Option<String>>| row.into_iter().map(value).collect::<Vec<_>>().join("|");
    rows.map(row).collect::<Vec<_>>().join(";")
}

#[test]
fn expressions_mean_what_they_mean_in_postgresql() {
    let server = Server::of(tables(), &["--pool", "1MiB"]);
    let mut client = Client::connect(server.port, "ada");
    let mut wrong = String::new();
    for line in ANSWERS.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let wanted = *columns.get(2).unwrap_or(&columns[1]);
        let found = answer(&mut client, &format!("SELECT {}", columns[0]));
        if found != wanted {
            writeln!(wrong, "{}: {found}, and not {wanted}", columns[0]).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
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
        ("SELECT n_name FROM nation EXCEPT ALL SELECT n_name FROM nation", "0A000 EXCEPT ALL"),
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
