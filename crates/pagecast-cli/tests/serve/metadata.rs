//! What tools ask of a server by themselves: the statements of their public sources, one file for
//! each tool. After a line `-- empty` comes a statement that has no rows here; others have some.

use std::fs;
use std::path::Path;

use crate::Server;
use crate::tpch::tables;
use crate::wire::{Client, fields};

/// What fails, by tool and number, and why.
const KNOWN: &[(&str, usize, &str)] = &[];

/// A statement, and whether it has no rows.
fn statements(text: &str) -> Vec<(String, bool)> {
    let mut statements = Vec::new();
    for part in text.split(";\n").filter(|part| !part.trim().is_empty()) {
        let lines = part.lines().filter(|line| !line.starts_with("--"));
        let sql = lines.collect::<Vec<_>>().join("\n");
        statements.push((sql, part.lines().any(|line| line == "-- empty")));
    }
    statements
}

/// What is wrong with the answer to a statement, if anything is.
fn fault(client: &mut Client, sql: &str, is_empty: bool) -> Option<String> {
    client.query(sql);
    let messages = client.until_ready();
    if let Some((_, body)) = messages.iter().find(|(kind, _)| *kind == b'E') {
        return Some(fields(body));
    }
    let count = |wanted: u8| messages.iter().filter(|(kind, _)| *kind == wanted).count();
    match (count(b'T') > 0, count(b'D')) {
        (true, 0) if !is_empty => Some("no rows".to_owned()),
        (true, rows) if is_empty && rows > 0 => Some(format!("{rows} rows")),
        _ => None,
    }
}

#[test]
fn tools_find_what_they_ask_for() {
    let server = Server::of(tables(), &["--pool", "1MiB"]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/metadata");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut unexpected = Vec::new();
    for file in files {
        let tool = file.file_stem().unwrap().to_str().unwrap();
        let mut client = Client::connect(server.port, tool);
        let (all, mut passed) = (statements(&fs::read_to_string(&file).unwrap()), 0);
        for (number, (sql, is_empty)) in (1..).zip(&all) {
            let fault = fault(&mut client, sql, *is_empty);
            passed += usize::from(fault.is_none());
            let known = KNOWN.iter().any(|(name, at, _)| (*name, *at) == (tool, number));
            if fault.is_some() != known {
                let beginning: String = sql.chars().take(100).collect();
                unexpected.push(format!("{tool} {number}: {fault:?}: {beginning}"));
            }
        }
        println!("{tool:<10} {passed:>2} of {:>2}", all.len());
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
    server.assert_idle();
}
