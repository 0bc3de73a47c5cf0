//! The public face of the pool, item by item, against the list in `public-api.txt`: a change of it
//! is seen in review.
//!
//! `PAGECAST_WRITE_API=1 cargo test -p pagecast --test public_api` writes the list anew. It is read
//! from the sources: what `lib.rs` and `storage/mod.rs` export, and each `pub` item with its
//! signature in the files that these come from.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

mod sources;

use std::fs;
use std::path::{Path, PathBuf};

use sources::without_tests;

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if name.starts_with("exploration") || name == "tests" {
            continue;
        }
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The public items of a file, each on a line: its signature, or the field's or variant's name and
/// type.
fn items(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = without_tests(text).into_iter();
    let mut owner = String::new();
    let mut is_listing = false;
    while let Some(line) = lines.next() {
        let (code, indent) = (line.trim(), line.len() - line.trim_start().len());
        if indent == 0 && code.starts_with("impl") {
            owner = code.trim_end_matches(" {").to_owned();
        } else if indent == 0 && (code.starts_with("pub enum") || code.starts_with("pub trait")) {
            is_listing = true;
            owner = code.split(['{', ':']).next().unwrap().trim().to_owned();
        } else if indent == 0 && code.starts_with('}') {
            owner.clear();
            is_listing = false;
        }
        if code.ends_with("setters! {") {
            let fields = lines.by_ref().map(str::trim).take_while(|line| *line != "}");
            let setters = fields.filter_map(|line| line.trim_end_matches(',').split_once(": "));
            found.extend(setters.map(|(name, of)| format!("{owner}: pub fn {name}(mut self, {name}: {of}) -> Self")));
            continue;
        }
        let is_member = is_listing && indent == 4 && !code.starts_with(['/', '#', '}', ')']);
        // A `$` is in the macro of the setters, not in what it makes.
        if !(code.starts_with("pub ") || is_member) || code.contains('$') {
            continue;
        }
        let mut item = code.to_owned();
        let is_export = code.starts_with("pub use");
        // To the end of the signature: a body, a semicolon, or the comma of a field.
        while !item.ends_with([';', '{', '}', ',']) || (is_export && !item.ends_with(';')) || open(&item) {
            let Some(next) = lines.next() else { break };
            item.push(' ');
            item.push_str(next.trim());
        }
        if !is_export {
            item = item.split(" {").next().unwrap().trim_end_matches([',', ';', '{', '}']).trim().to_owned();
        }
        let of = if indent > 0 && !owner.is_empty() { format!("{owner}: ") } else { String::new() };
        found.push(format!("{of}{item}"));
    }
    found
}

/// Whether a signature has parentheses that are not closed yet.
fn open(item: &str) -> bool {
    item.matches('(').count() > item.matches(')').count()
}

#[test]
fn the_public_face_is_the_one_that_is_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut listed = String::new();
    for file in files(&folder.join("src")) {
        let items = items(&fs::read_to_string(&file).unwrap());
        if !items.is_empty() {
            let name = file.strip_prefix(folder.join("src")).unwrap().display().to_string();
            listed.push_str(&format!("{name}\n"));
            items.iter().for_each(|item| listed.push_str(&format!("    {item}\n")));
        }
    }
    let list = folder.join("public-api.txt");
    if std::env::var_os("PAGECAST_WRITE_API").is_some() {
        fs::write(&list, &listed).unwrap();
    }
    let expected = fs::read_to_string(&list).unwrap();
    let differ: Vec<String> = listed
        .lines()
        .filter(|line| !expected.lines().any(|other| other == *line))
        .map(|line| format!("+ {line}"))
        .chain(
            expected.lines().filter(|line| !listed.lines().any(|other| other == *line)).map(|line| format!("- {line}")),
        )
        .collect();
    assert!(
        listed == expected,
        "the public face has changed; if it is meant to, PAGECAST_WRITE_API=1 writes the list:\n{}",
        differ.join("\n")
    );
}

#[test]
fn items_are_found_with_their_signatures() {
    let text = "\
pub struct A {\n    pub one: u32,\n    two: u32,\n}\nimpl A {\n    pub fn long(\n        &self,\n    ) -> u32 {\n        1\n    }\n\
    pub(crate) fn no() {}\n    crate::setters! {\n        one: u32,\n    }\n}\n#[cfg(test)]\n#[path = \"else.rs\"]\npub mod never;\n\
#[cfg(test)]\npub mod never {\n    pub fn never() {}\n}\npub enum B {\n    /// Words.\n    First,\n    Second { x: u32 },\n}\n\
#[cfg(test)]\npub fn never() {}\n";
    let expected = [
        "pub struct A",
        "pub one: u32",
        "impl A: pub fn long( &self, ) -> u32",
        "impl A: pub fn one(mut self, one: u32) -> Self",
        "pub enum B",
        "pub enum B: First",
        "pub enum B: Second",
    ];
    assert_eq!(items(text), expected);
}
