//! What a connection keeps: settings in and out of transactions, options, prepared statements, and
//! rows that are copied.

use crate::Server;
use crate::tpch::tables;
use crate::wire::{Client, Message, fields, framed};

fn server() -> Server {
    Server::of(tables(), &["--pool", "1MiB"])
}

fn one(client: &mut Client, sql: &str) -> String {
    client.rows(sql)[0][0].clone().unwrap()
}

/// Names and values of what the server says of its settings.
fn statuses(messages: &[Message]) -> Vec<String> {
    let status = |(_, body): &Message| String::from_utf8_lossy(&body[..body.len() - 1]).replace('\0', "=");
    messages.iter().filter(|(kind, _)| *kind == b'S').map(status).collect()
}

#[test]
fn transactions_give_settings_back() {
    let server = server();
    let mut client = Client::connect(server.port, "ada");
    let timeout = |client: &mut Client| one(client, "SHOW statement_timeout");
    // Outside of a transaction SET LOCAL does nothing but warn.
    client.query("SET LOCAL statement_timeout = 1000");
    let messages = client.until_ready();
    assert!(messages.iter().any(|(kind, body)| *kind == b'N' && fields(body).starts_with("25P01")));
    assert_eq!(timeout(&mut client), "0");
    client.rows("BEGIN");
    client.rows("SET LOCAL statement_timeout = 1000");
    assert_eq!(timeout(&mut client), "1000");
    client.rows("COMMIT");
    assert_eq!(timeout(&mut client), "0");
    client.rows("BEGIN");
    client.rows("SET statement_timeout = 2000");
    client.rows("SAVEPOINT a");
    client.rows("SET statement_timeout = 3000");
    client.rows("ROLLBACK TO SAVEPOINT a");
    assert_eq!(timeout(&mut client), "2000");
    client.rows("ROLLBACK");
    assert_eq!(timeout(&mut client), "0");
    // Clients hear of what changes, there and back.
    client.rows("BEGIN");
    client.query("SET application_name = 'job'");
    assert_eq!(statuses(&client.until_ready()), ["application_name=job"]);
    client.query("ROLLBACK");
    assert_eq!(statuses(&client.until_ready()), ["application_name="]);
    assert!(client.error("SAVEPOINT a").starts_with("25P01"));
    client.rows("BEGIN");
    assert!(client.error("RELEASE SAVEPOINT nothing").starts_with("3B001"));
    client.rows("ROLLBACK AND CHAIN");
    client.rows("SAVEPOINT b");
    client.rows("ROLLBACK");
    client.rows("SET client_encoding TO \"'utf-8'\"");
}

#[test]
fn settings_are_set_by_a_function() {
    let server = server();
    let mut client = Client::connect(server.port, "ada");
    let name = |client: &mut Client| one(client, "SELECT current_setting('application_name')");
    client.query("SELECT set_config('application_name', 'job', false)");
    assert_eq!(statuses(&client.until_ready()), ["application_name=job"]);
    assert_eq!((name(&mut client), one(&mut client, "SHOW application_name")), ("job".into(), "job".into()));
    // Nothing is set by what has no rows, by what fails, or beyond the end of a transaction.
    assert!(
        client.rows("SELECT set_config('application_name', 'none', false) FROM nation WHERE n_name = ''").is_empty()
    );
    assert_eq!(name(&mut client), "job");
    let fails = "SELECT set_config('application_name', 'late', false), 1 / (n_nationkey - n_nationkey) FROM nation";
    assert!(client.error(fails).starts_with("22012"));
    assert!(client.error("SET application_name = late; SELECT 1 / 0").starts_with("22012"));
    assert_eq!(name(&mut client), "job");
    client.rows("BEGIN");
    client.rows("SELECT set_config('statement_timeout', '5s', true), set_config('application_name', 'x', false)");
    assert_eq!(one(&mut client, "SHOW statement_timeout"), "5000");
    client.rows("COMMIT");
    assert_eq!((one(&mut client, "SHOW statement_timeout"), name(&mut client)), ("0".into(), "x".into()));
    client.rows("BEGIN");
    client.rows("SELECT set_config('application_name', 'y', false)");
    client.rows("ROLLBACK");
    assert_eq!(name(&mut client), "x");
    // Each in its place among others of the same message.
    client.query("SET application_name = z; SELECT current_setting('application_name')");
    assert_eq!(client.until_ready().iter().find_map(crate::wire::row_of).unwrap(), [Some("z".to_owned())]);
}

#[test]
fn schemas_are_those_of_the_search_path() {
    let server = server();
    let mut client = Client::connect(server.port, "ada");
    // As Grafana asks.
    let path = "SELECT trim(s[i]) FROM string_to_array(current_setting('search_path'), ',') s";
    for (set, schema, wanted) in [
        ("SET search_path TO DEFAULT", "public", "t"),
        ("SET search_path TO other, \"$user\"", "public", "f"),
        ("SET search_path TO other, \"$user\"", "ada", "t"),
        ("SELECT set_config('search_path', 'a, public', false)", "public", "t"),
    ] {
        client.rows(set);
        assert_eq!(one(&mut client, &format!("SELECT '{schema}' IN ({path})")), wanted, "{set}");
    }
    assert_eq!(one(&mut client, &format!("SELECT 'public' NOT IN ({path})")), "f");
}

/// Connects with options; the answer to SHOW, or the error.
fn with_options(server: &Server, options: &str, show: &str) -> String {
    let mut client = Client::open(server.port);
    let mut body = 196_608i32.to_be_bytes().to_vec();
    body.extend_from_slice(format!("user\0ada\0database\0pagecast\0options\0{options}\0\0").as_bytes());
    client.raw(&framed(None, &body));
    match client.until_ready().iter().find(|(kind, _)| *kind == b'E') {
        Some((_, error)) => fields(error),
        None => one(&mut client, &format!("SHOW {show}")),
    }
}

#[test]
fn options_of_the_first_message_are_set() {
    let server = server();
    assert_eq!(with_options(&server, "-c statement_timeout=5s", "statement_timeout"), "5000");
    assert_eq!(with_options(&server, "-c geqo=off --search_path=a", "search_path"), "a");
    assert_eq!(with_options(&server, "-c application_name=a\\ b", "application_name"), "a b");
    assert!(with_options(&server, "-c nosuch=1", "geqo").starts_with("42704 "));
    assert!(with_options(&server, "-z", "geqo").starts_with("42601 "));
}

#[test]
fn statements_are_prepared_by_sql() {
    let server = server();
    let mut client = Client::connect(server.port, "ada");
    client.rows("PREPARE nations (bigint, text) AS SELECT n_name FROM nation WHERE n_nationkey < $1 AND n_name > $2");
    assert_eq!(client.rows("EXECUTE nations(5, 'C')"), [[Some("CANADA".to_owned())], [Some("EGYPT".to_owned())]]);
    assert_eq!(client.rows("EXECUTE nations(-1, NULL)").len(), 0);
    assert!(client.error("PREPARE nations AS SELECT 1").starts_with("42P05"));
    assert!(client.error("EXECUTE nations(1)").starts_with("42601"));
    assert!(client.error("EXECUTE nothing").starts_with("26000"));
    client.rows("DEALLOCATE nations");
    assert!(client.error("EXECUTE nations(5, 'C')").starts_with("26000"));
    assert_eq!(one(&mut client, "SELECT pg_advisory_unlock_all()"), "");
}

/// The lines that a COPY sends, and its last word.
fn copied(client: &mut Client, sql: &str) -> String {
    client.query(sql);
    let mut text = String::new();
    for (kind, body) in client.until_ready() {
        match kind {
            b'd' => text += &String::from_utf8_lossy(&body),
            b'C' => text += &String::from_utf8_lossy(&body),
            b'E' => text += &fields(&body),
            _ => {}
        }
    }
    text
}

#[test]
fn rows_are_copied_as_text_and_csv() {
    let server = server();
    let mut client = Client::connect(server.port, "ada");
    let rows = "COPY (SELECT * FROM (VALUES (1, 'a\tb'), (2, NULL)) AS t(x, y) ORDER BY x) TO STDOUT";
    assert_eq!(copied(&mut client, rows), "1\ta\\tb\n2\t\\N\nCOPY 2\0");
    let csv = "COPY (SELECT 1 AS x, 'a,b' AS \"Y\", NULL AS z, '' AS e) TO STDOUT WITH (FORMAT csv, HEADER)";
    assert_eq!(copied(&mut client, csv), "x,Y,z,e\n1,\"a,b\",,\"\"\nCOPY 1\0");
    let marks = "COPY (SELECT 1, NULL) TO STDOUT WITH (FORMAT csv, DELIMITER ';', NULL '-')";
    assert_eq!(copied(&mut client, marks), "1;-\nCOPY 1\0");
    assert!(copied(&mut client, "COPY nation TO STDOUT").ends_with("COPY 25\0"));
    assert!(copied(&mut client, "COPY (SELECT 1/0) TO STDOUT").starts_with("22012"));
    assert!(copied(&mut client, "COPY (DELETE FROM nation) TO STDOUT").starts_with("25006"));
    assert_eq!(one(&mut client, "SELECT 1"), "1");
}

#[test]
fn rows_are_copied_in_the_binary_format() {
    const MARK: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let server = server();
    let mut client = Client::connect(server.port, "ada");
    let mut copied = |sql: &str| {
        client.query(sql);
        let messages = client.until_ready();
        let formats = messages.iter().find(|(kind, _)| *kind == b'H').unwrap().1.clone();
        let data = messages.into_iter().filter(|(kind, _)| *kind == b'd').map(|(_, body)| body);
        (formats, data.collect::<Vec<_>>())
    };
    let (formats, data) = copied("COPY (SELECT 7::int, NULL::text, 'ab') TO STDOUT WITH (FORMAT binary)");
    assert_eq!(formats, [1, 0, 3, 0, 1, 0, 1, 0, 1]);
    // As PostgreSQL does, the first row comes with what is before it, and the end alone.
    let row = b"\0\x03\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff\0\0\0\x02ab";
    assert_eq!(data, [[MARK, row].concat(), b"\xff\xff".to_vec()]);
    let (_, data) = copied("COPY (SELECT n_name FROM nation WHERE n_name = '') TO STDOUT WITH BINARY");
    assert_eq!(data.concat(), [MARK, b"\xff\xff"].concat());
    assert!(client.error("COPY nation TO STDOUT (FORMAT binary, HEADER)").starts_with("42601"));
}

/// The types of a statement's parameters, none of which the client tells.
fn described(client: &mut Client, sql: &str) -> Vec<i32> {
    client.send(b'P', &[b"s\0".as_slice(), sql.as_bytes(), b"\0\0\0"].concat());
    client.send(b'D', b"Ss\0");
    client.send(b'C', b"Ss\0");
    client.send(b'S', b"");
    let messages = client.until_ready();
    let Some((_, body)) = messages.iter().find(|(kind, _)| *kind == b't') else {
        panic!("{sql}: {}", fields(&messages[0].1))
    };
    body[2..].chunks(4).map(|oid| i32::from_be_bytes(oid.try_into().unwrap())).collect()
}

#[test]
fn parameters_have_types_that_nobody_tells() {
    let (int8, int4, float8, text, varchar, numeric, date) = (20, 23, 701, 25, 1043, 1700, 1082);
    let server = server();
    let mut client = Client::connect(server.port, "ada");
    for (sql, types) in [
        ("SELECT $1::float8, $2::float, $3::varchar", vec![float8, float8, varchar]),
        ("SELECT $1::int + 1", vec![int4]),
        ("SELECT n_name FROM nation WHERE n_nationkey > $1", vec![int8]),
        ("SELECT n_name FROM nation WHERE $1 < n_nationkey LIMIT $2", vec![int8, int8]),
        ("SELECT n_name FROM nation WHERE n_name IN ($1, $2)", vec![text, text]),
        ("SELECT 1 FROM lineitem WHERE l_shipdate BETWEEN $1 AND $2", vec![date, date]),
        ("SELECT coalesce($1, n_nationkey) FROM nation", vec![int8]),
        ("SELECT l_discount + $1 FROM lineitem", vec![numeric]),
        ("SELECT n_nationkey + $1 FROM nation", vec![int8]),
        ("SELECT $1 IS NULL", vec![text]),
        ("SELECT 1 FROM nation WHERE n_name LIKE $1", vec![text]),
    ] {
        assert_eq!(described(&mut client, sql), types, "{sql}");
    }
}
