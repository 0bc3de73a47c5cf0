//! No circles: of the modules that lie side by side, none uses another that, through whatever
//! others, uses it. A module and those inside it may know each other.
//!
//! `cargo-modules` knows more of Rust, but takes a module and those inside it for a circle, and ten
//! minutes to be compiled.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use sources::uses::{Uses, named, uses};

/// A circle that begins and ends with `start`.
fn circle(uses: &Uses, start: &str) -> Option<Vec<String>> {
    let (mut seen, mut ways) = (BTreeSet::new(), vec![vec![start.to_owned()]]);
    while let Some(way) = ways.pop() {
        for used in uses.get(way.last().unwrap()).into_iter().flat_map(BTreeMap::keys) {
            let longer = [&way[..], std::slice::from_ref(used)].concat();
            if used == start {
                return Some(longer);
            }
            if seen.insert(used.clone()) {
                ways.push(longer);
            }
        }
    }
    None
}

/// The circles of a crate: one for each folder of modules that has some, with an example each step.
fn circles(source: &Path) -> Vec<String> {
    let found = uses(source).into_iter().filter_map(|(folder, uses)| {
        let circle = uses.keys().find_map(|start| circle(&uses, start))?;
        let steps: Vec<_> = circle.windows(2).map(|step| uses[&step[0]][&step[1]].as_str()).collect();
        Some(format!("{}: {}\n    {}", folder.join("::"), circle.join(" -> "), steps.join("\n    ")))
    });
    found.collect()
}

#[test]
fn no_modules_use_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut crates = 0;
    let mut wrong = Vec::new();
    for above in [
        "crates",
        "hosts",
        "crates/pagecast",
        "crates/pagecast-lab",
        "hosts/delta",
        "hosts/kv",
        "hosts/postgres",
        "hosts/python",
    ] {
        for entry in fs::read_dir(root.join(above)).unwrap() {
            let source = entry.unwrap().path().join("src");
            let name = source.parent().unwrap().strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            if !source.is_dir() || !source.parent().unwrap().join("Cargo.toml").exists() {
                continue;
            }
            crates += 1;
            wrong.extend(circles(&source).into_iter().map(|circle| format!("{name}: {circle}")));
        }
    }
    assert!(crates > 15, "{crates} crates were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_check_itself_sees_what_it_should() {
    let joined = |paths: Vec<Vec<String>>| paths.iter().map(|path| path.join("::")).collect::<Vec<_>>();
    let found = named("use crate::{a::{b, c}, d};\nlet x = crate::e::f();\n");
    assert_eq!(joined(found.used), ["crate::a::b", "crate::a::c", "crate::d", "crate::e::f"]);
    let found = named("mod x;\npub use x::{One, Two};\npub use y::Three;\n");
    assert_eq!(joined(found.handed_on), ["x::One", "x::Two", "y::Three"]);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("lib.rs", "mod a;\nmod b;\nmod c;\npub use c::inner::Deep;\n");
    write("a.rs", "use crate::{b::{self, B}, other};\nfn f() -> B { b::f() }");
    write("b.rs", "pub struct B; // crate::a::f()\n#[cfg(test)]\nmod tests {\n    use crate::a::f;\n}\n");
    write("c/mod.rs", "mod inner;\nfn f() { inner::f(); crate::a::f() }");
    write("c/inner.rs", "pub(in crate::c) fn f() {}\npub struct Deep;\nuse super::f as g;");
    assert_eq!(circles(folder.path()), Vec::<String>::new());
    // By a name that the root hands on, far below.
    write("b.rs", "use crate::Deep;");
    let found = circles(folder.path());
    assert!(found.len() == 1 && found[0].contains("a -> b -> c -> a"), "{found:?}");
    assert!(found[0].contains("b uses crate::Deep"), "{found:?}");
    write("b.rs", "fn f() { super::a::f::<u8>() }");
    assert!(circles(folder.path())[0].contains("a -> b -> a"));
}
