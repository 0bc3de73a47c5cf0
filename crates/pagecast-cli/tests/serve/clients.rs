//! Clients as people have them: what psql, psycopg and SQLAlchemy ask of a server by themselves,
//! passwords, TLS, and limits of users.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Server;
use crate::tpch::{psql, tables};
use crate::wire::Client;

/// What psql prints for a command.
fn printed(server: &Server, command: &str) -> Option<String> {
    let output = psql(server)?.args(["-At", "-v", "ON_ERROR_STOP=1", "-c", command]).output().unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command}: {wrong}");
    assert_eq!(wrong, "", "{command}");
    Some(said.into_owned())
}

#[test]
fn psql_describes_what_there_is() {
    let server = Server::of(tables(), &["--pool", "1MiB"]);
    let Some(listed) = printed(&server, "\\dt") else { return };
    assert!(listed.contains("public|lineitem|table|pagecast"), "{listed}");
    let described = printed(&server, "\\d lineitem").unwrap();
    assert!(described.contains("l_orderkey|bigint|"), "{described}");
    assert!(described.contains("l_discount|numeric(15,2)|"), "{described}");
    for (command, part) in [
        ("\\l", "pagecast|"),
        ("\\dn", "public|"),
        ("\\du", "pagecast|"),
        ("\\d", "public|nation|table"),
        ("\\dv", ""),
        ("\\di", ""),
        ("\\df", ""),
        ("\\dt+ nat*", "public|nation|table"),
        ("\\d+ nation", "n_name|text"),
        ("\\conninfo", "pagecast"),
        ("\\encoding", "UTF8"),
        ("SELECT version()", "PostgreSQL 16.0 (pagecast"),
        ("SELECT current_user, current_database()", "tester|pagecast"),
        ("SHOW server_version_num", "160000"),
        ("SHOW TABLES", "pagecast|public|lineitem|"),
        ("SELECT 'lineitem'::regclass::oid", "1638"),
    ] {
        let said = printed(&server, command).unwrap();
        assert!(said.contains(part), "{command}: {said}");
    }
}

#[test]
fn values_look_as_in_postgresql() {
    let server = Server::of(tables(), &["--pool", "1MiB"]);
    for (sql, text) in [
        ("SELECT true, false, NULL, ''", "t|f||"),
        ("SELECT 1.50::numeric(5,2), -0.001::numeric(10,5)", "1.50|-0.00100"),
        ("SELECT 1e20::float8, 0.1::float8, 1.5e-7::float8, 100000::float8", "1e+20|0.1|1.5e-07|100000"),
        ("SELECT 'NaN'::float8, 'Infinity'::float8", "NaN|Infinity"),
        ("SELECT DATE '2024-02-29', TIMESTAMP '2024-02-29 12:00:00.5'", "2024-02-29|2024-02-29 12:00:00.5"),
        ("SELECT INTERVAL '1 month 2 days'", "1 mon 2 days"),
        ("SELECT ARRAY[1, NULL, 3], ARRAY['a b', 'c']", "{1,NULL,3}|{\"a b\",c}"),
        ("SELECT '\\x0102ff'::bytea", ""),
    ] {
        let Some(said) = printed(&server, sql) else { return };
        assert!(said.trim_end().ends_with(text), "{sql}: {said}");
    }
}

#[test]
fn psycopg_and_sqlalchemy_work() {
    let Some(python) = std::env::var_os("PAGECAST_PYTHON") else {
        eprintln!("skipped: PAGECAST_PYTHON names no Python with psycopg and SQLAlchemy (make test-serve)");
        return;
    };
    let server = Server::of(tables(), &["--pool", "1MiB"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/clients.py");
    let output = Command::new(python).arg(script).arg(server.port.to_string()).output().unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{wrong}");
    server.assert_idle();
}

#[test]
fn jdbc_works() {
    let Some(driver) = std::env::var_os("PAGECAST_JDBC") else {
        eprintln!("skipped: PAGECAST_JDBC names no driver of PostgreSQL for Java (make test-serve)");
        return;
    };
    let server = Server::of(tables(), &["--pool", "1MiB"]);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/Jdbc.java");
    let output =
        Command::new("java").arg("-cp").arg(driver).arg(program).arg(server.port.to_string()).output().unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{wrong}");
    server.assert_idle();
}

/// psql with a password, and with or without TLS.
pub(crate) fn login(server: &Server, user: &str, password: &str, tls: &str, sql: &str) -> Option<(bool, String)> {
    let mut psql = psql(server)?;
    psql.env("PGPASSWORD", password).env("PGSSLMODE", tls).args(["-U", user, "-At", "-c", sql]);
    let output = psql.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn users_have_passwords_and_limits() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    fs::write(&users, "# who may connect\nada secret memory=1MiB\nbob other\n").unwrap();
    let server = Server::of(tables(), &["--pool", "1MiB", "--users", users.to_str().unwrap()]);
    let Some(ada) = login(&server, "ada", "secret", "disable", "SELECT current_user") else { return };
    assert_eq!(ada, (true, "ada\n".to_owned()));
    for (user, password) in [("ada", "other"), ("ada", ""), ("eve", "secret"), ("ada", "secret ")] {
        let (entered, said) = login(&server, user, password, "disable", "SELECT 1").unwrap();
        assert!(!entered, "{user} {password}");
        assert!(said.contains("password authentication failed") || said.contains("no password supplied"), "{said}");
    }
    // Somebody who is not there is asked for a password as those who are.
    let mut nobody = Client::open(server.port);
    nobody.hello("eve");
    assert_eq!(nobody.message().map(|(kind, body)| (kind, body[3])), Some((b'R', 10)));
    // More memory than ada has; bob has it.
    let greedy = "SELECT sum(length(s)) FROM (SELECT string_agg(repeat(l_comment, 10), '') AS s FROM lineitem)";
    let (done, said) = login(&server, "ada", "secret", "disable", greedy).unwrap();
    assert!(!done && said.contains("ada") | said.contains("memory") | said.contains("Resources"), "{said}");
    assert!(login(&server, "bob", "other", "disable", greedy).unwrap().0);
}

#[test]
fn clients_come_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]);
    openssl.arg("-keyout").arg(&key).arg("-out").arg(&cert);
    if !openssl.output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: openssl makes no certificate here");
        return;
    }
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let server = Server::of(tables(), &["--pool", "1MiB", "--tls-cert", cert, "--tls-key", key]);
    let Some((entered, said)) = login(&server, "ada", "", "require", "SELECT count(*) FROM lineitem") else { return };
    assert!(entered, "{said}");
    let (entered, said) = login(&server, "ada", "", "disable", "SELECT 1").unwrap();
    assert!(!entered && said.contains("over TLS only"), "{said}");
    let mut garbage = Client::open(server.port);
    garbage.raw(&[0x16, 3, 1, 0, 5, 1, 2, 3, 4, 5]);
    garbage.last_words();
    let status = login(&server, "ada", "", "require", "SELECT value FROM pagecast.status WHERE name = 'connections'");
    assert_eq!(status.unwrap().1.trim(), "1");
}
