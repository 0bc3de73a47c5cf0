//! Who may know whom: the layers inside the pool and the predictor, and the "never" column of
//! ARCHITECTURE.md.
//!
//! It reads sources and manifests, with no more grammar than it needs: code is what is left of a
//! file without comments and without what follows its first `#[cfg(test)]`.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Rust files under a folder, sorted.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// A file without comments and tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let lines =
        text.lines().take_while(|line| !line.starts_with("#[cfg(test)]") && !line.starts_with("#[cfg(all(test"));
    lines.map(|line| line.find("//").map_or(line, |comment| &line[..comment])).fold(String::new(), |mut code, line| {
        code.push_str(line);
        code.push('\n');
        code
    })
}

/// The words of code: names and keywords.
fn words(code: &str) -> BTreeSet<&str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect()
}

/// The first names of all paths that begin with `root::` (`crate::`, `super::`), those in braces
/// too.
fn first_names(code: &str, root: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(root) {
        let rest = &code[at + root.len()..];
        let word = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("").to_owned();
        let Some(list) = rest.strip_prefix('{') else {
            names.push(word(rest));
            continue;
        };
        let mut depth = 0;
        let mut begins = true;
        for (i, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                c if begins && depth == 0 && c.is_alphanumeric() => {
                    names.push(word(&list[i..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    names
}

/// What a root module re-exports, by the module it is of.
fn re_exported(root: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for line in root.split(';').filter_map(|statement| statement.split_once("pub use ").map(|(_, path)| path)) {
        let Some((module, rest)) = line.split_once("::") else { continue };
        for name in words(rest) {
            names.insert(name.to_owned(), module.trim().to_owned());
        }
    }
    names
}

/// Fails if a module under `folder` uses one that comes after it in `order`; `root` leads from a
/// module to its siblings.
fn check_layers(folder: &Path, root_file: &str, order: &[&str], root: &str) {
    let rank = |module: &str| order.iter().position(|&other| other == module);
    let exported = re_exported(&code(&folder.join(root_file)));
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for file in sources(folder) {
        let within = file.strip_prefix(folder).unwrap();
        let first = within.iter().next().unwrap().to_str().unwrap();
        let module = first.trim_end_matches(".rs");
        let is_test = within.iter().any(|part| {
            let part = part.to_str().unwrap();
            part.starts_with("exploration") || part.trim_end_matches(".rs") == "tests"
        });
        if first == root_file || is_test || ["tests", "mistake"].contains(&module) {
            continue;
        }
        let own = rank(module).unwrap_or_else(|| panic!("{}: not in the order of layers", file.display()));
        seen.insert(module.to_owned());
        for name in first_names(&code(&file), root) {
            let used = exported.get(&name).map_or(name.as_str(), String::as_str);
            if rank(used).is_some_and(|used| used > own) {
                wrong.push(format!("{}: `{module}` uses `{used}` ({name}), which comes later", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(seen.len(), order.len(), "a layer without a file: {order:?}");
}

/// The order is that of the table in lib.rs.
#[test]
fn modules_of_the_pool_use_only_those_below_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let table = fs::read_to_string(folder.join("lib.rs")).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("//! | ")?.split(" |").next());
    let order: Vec<&str> =
        rows.skip(1).flat_map(|names| names.split(['`', '[', ']', ',', ' '])).filter(|name| !name.is_empty()).collect();
    assert!(order.len() > 20, "{order:?}");
    check_layers(&folder, "lib.rs", &order, "crate::");
}

/// The order is that of the list in predictor/mod.rs.
#[test]
fn modules_of_the_predictor_use_only_those_below_them() {
    let folder = workspace().join("crates/pagecast-core/src/predictor");
    let root = fs::read_to_string(folder.join("mod.rs")).unwrap();
    let (_, list) = root.split_once("// From the bottom up: ").unwrap();
    let (list, _) = list.split_once('.').unwrap();
    let order: Vec<&str> = list.split(&[',', ' ', '\n', '/'][..]).filter(|name| !name.is_empty()).collect();
    check_layers(&folder, "mod.rs", &order, "super::");
}

/// The names of the dependencies that a manifest lists, development and build apart.
fn dependencies(manifest: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(manifest).unwrap();
    let mut names = BTreeSet::new();
    let mut is_list = false;
    for line in text.lines() {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            is_list = table == "dependencies" || table.ends_with(".dependencies") && table.starts_with("target");
        } else if is_list && let Some((name, _)) = line.split_once('=') {
            names.insert(name.trim().trim_end_matches(".workspace").to_owned());
        }
    }
    names
}

/// Fails where code under `folder` has one of the words.
fn never(folder: &str, forbidden: &[&str]) {
    for file in sources(&workspace().join(folder)) {
        let code = code(&file);
        let words = words(&code);
        for word in forbidden {
            assert!(!words.contains(word), "{}: {folder} never has `{word}` (ARCHITECTURE.md)", file.display());
        }
    }
}

/// ARCHITECTURE.md, "Parts and who may know whom": each row of the table that a machine can check.
#[test]
fn parts_never_do_what_architecture_says() {
    let of = |part: &str| dependencies(&workspace().join(part).join("Cargo.toml"));
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    // Does I/O, reads a clock, spawns, knows a host; no unsafe.
    never(
        "crates/pagecast-core/src",
        &["unsafe", "Instant", "SystemTime", "File", "TcpStream", "println", "spawn", "process"],
    );
    assert!(
        of("crates/pagecast-core").is_subset(&names(&["shuttle", "foldhash", "hashbrown"])),
        "the core's dependencies"
    );
    // Knows Parquet, SQL or PostgreSQL.
    never("crates/pagecast/src", &["parquet", "arrow", "datafusion", "sqlparser", "pg_pagecast", "libpq"]);
    let pool = of("crates/pagecast");
    assert!(
        pool.contains("pagecast-core")
            && !pool.iter().any(|name| name.starts_with("pagecast-") && name != "pagecast-core")
    );
    // Knows the pool or a host.
    never("crates/pagecast-sim/src", &["pagecast_datafusion", "pagecast_capi"]);
    assert!(!of("crates/pagecast-sim").contains("pagecast"), "then its code cannot know the pool either");
    // Is depended on.
    for part in ["crates/pagecast-core", "crates/pagecast", "crates/pagecast-sim", "hosts/datafusion", "hosts/capi"] {
        assert!(!of(part).contains("pagecast-cli") && !of(part).contains("pagecast-bench"), "{part}");
    }
    // Holds policy or prediction logic.
    for host in ["hosts/datafusion/src", "hosts/capi/src", "hosts/postgres/predictor/src"] {
        never(host, &["ConcurrentPolicy", "SequentialPolicy", "Frames", "NextUses"]);
    }
    let predictor = dependencies(&workspace().join("hosts/postgres/predictor/Cargo.toml"));
    assert_eq!(predictor, names(&["pagecast-core"]), "the extension knows the core alone");
}

#[test]
fn the_check_itself_sees_what_it_should() {
    let code = "use crate::{a::{b, c}, d};\nlet x = crate::e::f();\n";
    assert_eq!(first_names(code, "crate::"), ["a", "d", "e"]);
    let root = "mod x;\npub use x::{One, Two};\npub use y::Three;\n";
    let found = re_exported(root);
    assert_eq!([&found["One"], &found["Two"], &found["Three"]], ["x", "x", "y"]);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lib.rs"), "pub use high::High;").unwrap();
    fs::write(folder.path().join("low.rs"), "use crate::High;").unwrap();
    fs::write(folder.path().join("high.rs"), "use crate::low::Low;").unwrap();
    check_layers(folder.path(), "lib.rs", &["high", "low"], "crate::nothing::");
    let upward = std::panic::catch_unwind(|| check_layers(folder.path(), "lib.rs", &["low", "high"], "crate::"));
    assert!(upward.unwrap_err().downcast_ref::<String>().unwrap().contains("`low` uses `high` (High)"));
}
