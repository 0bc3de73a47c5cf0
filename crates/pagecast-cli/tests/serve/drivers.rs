//! Drivers of PostgreSQL in other languages: connecting, parameters, rows in pieces, all types,
//! errors, cancelling, metadata. What a machine does not have is `skipped`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Server;
use crate::tpch::tables;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/drivers")
}

/// What a variable names, or a word on what is missing.
fn named(variable: &str, what: &str) -> Option<OsString> {
    let named = std::env::var_os(variable);
    if named.is_none() {
        eprintln!("skipped: {variable} names no {what} (make test-serve)");
    }
    named
}

/// Runs a program with the port of a server of its own, which has nothing left of it in the end.
fn drives(mut program: Command) {
    let server = Server::of(tables(), &["--pool", "1MiB"]);
    let output = program.arg(server.port.to_string()).output().unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{wrong}");
    server.assert_idle();
}

fn in_python(script: &str) {
    by_python("PAGECAST_PYTHON", script);
}

fn by_python(variable: &str, script: &str) {
    let Some(python) = named(variable, "Python with drivers of PostgreSQL") else { return };
    let mut program = Command::new(python);
    program.arg(folder().join(script));
    drives(program);
}

#[test]
fn asyncpg_works() {
    in_python("with_asyncpg.py");
}

#[test]
fn pg8000_works() {
    in_python("with_pg8000.py");
}

#[test]
fn psycopg2_works() {
    in_python("with_psycopg2.py");
}

#[test]
fn adbc_of_postgresql_works() {
    in_python("with_adbc.py");
}

#[test]
fn npgsql_works() {
    by_python("PAGECAST_NPGSQL", "with_npgsql.py");
}

#[test]
fn node_postgres_works() {
    let Some(modules) = named("PAGECAST_NODE", "modules of Node.js with node-postgres") else { return };
    let mut program = Command::new("node");
    program.env("NODE_PATH", modules).arg(folder().join("node.js"));
    drives(program);
}

#[test]
fn drivers_of_go_work() {
    let Some(program) = named("PAGECAST_GO", "program of Go with its drivers") else { return };
    drives(Command::new(program));
}
