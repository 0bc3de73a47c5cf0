//! Who is connected, as SQL has it, and who may end what others run.

use std::fs;
use std::time::{Duration, Instant};

use crate::Server;
use crate::clients::login;
use crate::tpch::tables;
use crate::wire::Client;

const LONG: &str = "SELECT sum(value) FROM generate_series(1, 1000000000000)";

fn one(client: &mut Client, sql: &str) -> String {
    let rows = client.rows(sql);
    rows.first().unwrap_or_else(|| panic!("no row of {sql}"))[0].clone().unwrap_or_else(|| "NULL".to_owned())
}

/// Waits until a lookup gives what it is to give.
fn becomes(client: &mut Client, sql: &str, wanted: &str) {
    let began = Instant::now();
    while one(client, sql) != wanted {
        assert!(began.elapsed() < Duration::from_secs(30), "{sql}: {}", one(client, sql));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn connections_are_seen_and_ended_by_sql() {
    let server = Server::of(tables(), &["--pool", "1MiB"]);
    let (mut ada, mut bob) = (Client::connect(server.port, "ada"), Client::connect(server.port, "bob"));
    let pid = one(&mut ada, "SELECT pg_backend_pid()");
    assert_ne!(pid, one(&mut bob, "SELECT pg_catalog.pg_backend_pid()"));
    ada.rows("SET application_name = 'report'");
    let state = format!("SELECT state FROM pg_stat_activity WHERE pid = {pid}");
    becomes(&mut bob, &state, "idle");
    let of_ada = "application_name || ' ' || usename || ' ' || client_addr || ' ' || query";
    let said = one(&mut bob, &format!("SELECT {of_ada} FROM pg_stat_activity WHERE pid = {pid}"));
    assert_eq!(said, "report ada 127.0.0.1 SET application_name = 'report'");
    let own = "SELECT state || ' ' || query FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    assert_eq!(one(&mut bob, own), format!("active {own}"));
    let times = "SELECT backend_start <= query_start AND query_start <= now() FROM pg_stat_activity WHERE pid = ";
    assert_eq!(one(&mut bob, &format!("{times}{pid}")), "t");
    ada.rows("BEGIN");
    becomes(&mut bob, &state, "idle in transaction");
    ada.rows("ROLLBACK");
    ada.query(LONG);
    becomes(&mut bob, &state, "active");
    assert_eq!(one(&mut bob, &format!("SELECT pg_cancel_backend({pid})")), "t");
    assert!(ada.until_ready().iter().any(|(kind, body)| *kind == b'E' && crate::wire::fields(body).contains("57014")));
    assert_eq!(one(&mut bob, "SELECT pg_cancel_backend(123456)"), "f");
    assert_eq!(one(&mut bob, "SELECT numbackends FROM pg_stat_database WHERE datname = 'pagecast'"), "2");
    // Whether it runs something or not.
    for sql in ["", LONG] {
        let mut eve = Client::connect(server.port, "eve");
        let pid = one(&mut eve, "SELECT pg_backend_pid()");
        if !sql.is_empty() {
            eve.query(sql);
            becomes(&mut bob, &format!("SELECT state FROM pg_stat_activity WHERE pid = {pid}"), "active");
        }
        assert_eq!(one(&mut bob, &format!("SELECT pg_terminate_backend({pid})")), "t");
        let said = eve.said();
        assert!(said.starts_with("57P01 terminating connection: another connection"), "{said}");
    }
    drop((ada, bob));
    server.assert_idle();
}

#[test]
fn users_see_and_end_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    fs::write(&users, "ada secret\nbob other\n").unwrap();
    let server = Server::of(tables(), &["--pool", "1MiB", "--users", users.to_str().unwrap()]);
    let seen = "SELECT usename, query FROM pg_stat_activity ORDER BY 1";
    let waiting = "SELECT count(*) FROM pg_stat_activity a, generate_series(1, 2000000000) WHERE usename = 'bob'";
    let Some((entered, _)) = login(&server, "ada", "secret", "disable", "SELECT 1") else { return };
    assert!(entered);
    std::thread::scope(|scope| {
        let bob = scope.spawn(|| login(&server, "bob", "other", "disable", waiting).unwrap());
        let began = Instant::now();
        let pid = loop {
            let pid = "SELECT pid FROM pg_stat_activity WHERE usename = 'bob' AND state = 'active'";
            let said = login(&server, "ada", "secret", "disable", pid).unwrap().1;
            if !said.trim().is_empty() {
                break said.trim().to_owned();
            }
            assert!(began.elapsed() < Duration::from_secs(30), "bob never came");
        };
        let said = login(&server, "ada", "secret", "disable", seen).unwrap().1;
        assert!(said.contains("bob|<insufficient privilege>") && said.contains(&format!("ada|{seen}")), "{said}");
        for function in ["pg_cancel_backend", "pg_terminate_backend"] {
            let sql = format!("SELECT {function}({pid})");
            let (done, said) = login(&server, "ada", "secret", "disable", &sql).unwrap();
            assert!(!done && said.contains("are ended by who is marked admin"), "{said}");
            assert!(!bob.is_finished());
        }
        let (done, said) =
            login(&server, "bob", "other", "disable", &format!("SELECT pg_cancel_backend({pid})")).unwrap();
        assert_eq!((done, said.as_str()), (true, "t\n"));
        let (done, said) = bob.join().unwrap();
        assert!(!done && said.contains("canceling statement"), "{said}");
    });
}

#[test]
fn settings_are_those_of_the_connection() {
    let server = Server::of(tables(), &["--pool", "1MiB"]);
    let mut client = Client::connect(server.port, "ada");
    client.rows("SET statement_timeout = '5s'");
    assert_eq!(one(&mut client, "SELECT current_setting('statement_timeout')"), "5000");
    let set = "SELECT setting || ' ' || source FROM pg_settings WHERE name = 'statement_timeout'";
    assert_eq!(one(&mut client, set), "5000 session");
    assert!(client.rows("SHOW ALL").iter().any(|row| row[0].as_deref() == Some("TimeZone")));
    assert_eq!(one(&mut client, "SELECT rolname FROM pg_roles WHERE rolname = current_user"), "ada");
}

#[test]
fn information_schema_has_words_of_postgresql() {
    let server = Server::of(tables(), &["--pool", "1MiB"]);
    let mut client = Client::connect(server.port, "ada");
    let columns =
        "SELECT ordinal_position, column_name, data_type, udt_name, is_nullable, numeric_precision, numeric_scale
        FROM INFORMATION_SCHEMA.COLUMNS WHERE table_schema = 'public' AND table_name = 'lineitem' ORDER BY 1";
    let rows = client.rows(columns);
    let row = |at: usize| rows[at].iter().map(|value| value.as_deref().unwrap_or("-")).collect::<Vec<_>>().join(" ");
    assert_eq!(row(0), "1 l_orderkey bigint int8 NO 64 0");
    assert_eq!(row(6), "7 l_discount numeric numeric NO 15 2");
    assert_eq!(row(8), "9 l_returnflag text text NO - -");
    assert_eq!(row(10), "11 l_shipdate date date NO - -");
    for view in ["table_constraints", "key_column_usage", "constraint_column_usage", "views"] {
        let rows = client.rows(&format!("SELECT * FROM information_schema.{view} WHERE table_name = 'nation'"));
        assert_eq!(rows.len(), 0, "{view}");
        assert_eq!(one(&mut client, &format!("SELECT count(*) FROM information_schema.{view}")), "0");
    }
    for (sql, answer) in [
        ("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'", "8"),
        ("SELECT count(*) FROM information_schema.schemata WHERE schema_name = 'public'", "1"),
        ("SELECT table_type FROM information_schema.tables WHERE table_name = 'nation'", "BASE TABLE"),
        (
            "SELECT information_schema.tables.table_type FROM information_schema.tables WHERE table_name = 'nation'",
            "BASE TABLE",
        ),
        ("SELECT count(*) > 0 FROM information_schema.routines", "t"),
        ("SELECT typname FROM pg_type WHERE typinput = 'array_in'::regproc AND typname = '_int8'", "_int8"),
        ("SELECT typreceive FROM pg_type WHERE typname = 'date'", "date_recv"),
        ("SELECT format('%s of %I and %L', 1, 'Two words', 'it''s')", "1 of \"Two words\" and 'it''s'"),
        ("SELECT 'pg_class'::regclass::oid", "1259"),
    ] {
        assert_eq!(one(&mut client, sql), answer, "{sql}");
    }
}
