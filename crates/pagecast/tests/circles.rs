//! No circles: of the modules that lie side by side, none uses another that, through whatever
//! others, uses it. A module and those inside it may know each other.
//!
//! Read from the sources by names alone, as `layers.rs` does. `cargo-modules` knows more of Rust,
//! but takes a module and those inside it for a circle, and ten minutes to be compiled.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use sources::without_tests;

/// A module: the names that lead to it from the root of its crate.
type Module = Vec<String>;

/// Crates with circles, and why they are left.
const LEFT: [(&str, &str); 1] = [("hosts/delta", "its log and its commits are to come from a library")];

/// The modules of a crate, and their code without comments and tests.
fn modules(source: &Path) -> BTreeMap<Module, String> {
    let mut found = BTreeMap::new();
    add_modules(source, &Module::new(), &mut found);
    found
}

fn add_modules(folder: &Path, within: &Module, found: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name.starts_with("exploration") || ["tests", "mistake", "bin"].contains(&name.as_str()) {
            continue;
        }
        let is_own = ["lib", "main", "mod"].contains(&name.as_str());
        let module = if is_own { within.clone() } else { [&within[..], &[name]].concat() };
        if path.is_dir() {
            add_modules(&path, &module, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = without_tests(&text).into_iter().map(|line| line.split("//").next().unwrap());
            found.entry(module).or_default().push_str(&code.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// Names, `::`, and all other signs one by one.
fn tokens(code: &str) -> Vec<&str> {
    let (mut tokens, mut rest) = (Vec::new(), code);
    while let Some(first) = rest.chars().next() {
        let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
        let length = match rest.find(|c: char| !is_of_name(c)).unwrap_or(rest.len()) {
            0 if rest.starts_with("::") => 2,
            0 => first.len_utf8(),
            name => name,
        };
        let (token, after) = rest.split_at(length);
        if !token.trim().is_empty() {
            tokens.push(token);
        }
        rest = after;
    }
    tokens
}

/// What some code names: the paths that it uses, and those that it hands on by `pub use`.
#[derive(Default)]
struct Named {
    used: Vec<Module>,
    handed_on: Vec<Module>,
}

fn named(code: &str) -> Named {
    let (tokens, mut named, mut at) = (tokens(code), Named::default(), 0);
    let token = |at: usize| tokens.get(at).copied().unwrap_or("");
    while at < tokens.len() {
        let is_name = token(at).starts_with(|c: char| c.is_alphabetic() || c == '_');
        if token(at) == "use" {
            let is_public = at > 0 && ["pub", ")"].contains(&token(at - 1));
            let end = (at..tokens.len()).find(|&end| token(end) == ";").unwrap_or(tokens.len());
            let into = if is_public { &mut named.handed_on } else { &mut named.used };
            flatten(&tokens[at + 1..end], &[], into);
            at = end;
        } else if token(at) == "in" && at > 0 && token(at - 1) == "(" {
            // Of a visibility.
            at += tokens[at..].iter().position(|&token| token == ")").unwrap_or(0);
        } else if is_name && token(at + 1) == "::" && (at == 0 || token(at - 1) != "::") {
            let mut path = vec![token(at).to_owned()];
            while token(at + 1) == "::" && token(at + 2).starts_with(|c: char| c.is_alphabetic() || c == '_') {
                path.push(token(at + 2).to_owned());
                at += 2;
            }
            named.used.push(path);
        }
        at += 1;
    }
    named
}

/// The paths of a tree behind `use`.
fn flatten(tree: &[&str], before: &[String], into: &mut Vec<Module>) {
    let mut path = before.to_vec();
    for (at, &token) in tree.iter().enumerate() {
        match token {
            "::" => {}
            "as" => break,
            "{" => {
                // Of a word in a text there may be no end.
                let inside = tree.get(at + 1..tree.len() - 1).unwrap_or(&[]);
                let mut depth = 0;
                let parts = inside.split(|&token| {
                    depth += i32::from(token == "{") - i32::from(token == "}");
                    token == "," && depth == 0
                });
                return parts.filter(|part| !part.is_empty()).for_each(|part| flatten(part, &path, into));
            }
            name => path.push(name.to_owned()),
        }
    }
    into.push(path);
}

/// The module in which a path from `from` ends, if it is one of the crate's.
fn target(crates: &BTreeMap<Module, Named>, from: &Module, path: &[String], depth: usize) -> Option<Module> {
    let (mut module, mut rest) = match path.first()?.as_str() {
        "crate" => (Module::new(), &path[1..]),
        "self" => (from.clone(), &path[1..]),
        "super" => {
            let up = path.iter().take_while(|name| *name == "super").count();
            (from[..from.len().checked_sub(up)?].to_vec(), &path[up..])
        }
        first => (crates.contains_key(&[&from[..], &[first.to_owned()]].concat()).then(|| from.clone())?, path),
    };
    while let Some((name, after)) = rest.split_first() {
        let inner = [&module[..], std::slice::from_ref(name)].concat();
        if crates.contains_key(&inner) {
            (module, rest) = (inner, after);
            continue;
        }
        let handed_on = crates.get(&module)?.handed_on.iter().find(|path| path.last() == Some(name));
        let through = handed_on.filter(|_| depth < 8).and_then(|path| target(crates, &module, path, depth + 1));
        return Some(through.unwrap_or(module));
    }
    Some(module)
}

/// Who uses whom of the modules that lie side by side in one, by an example.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

fn uses(source: &Path) -> BTreeMap<Module, Uses> {
    let crates: BTreeMap<Module, Named> =
        modules(source).into_iter().map(|(module, code)| (module, named(&code))).collect();
    let mut all: BTreeMap<Module, Uses> = BTreeMap::new();
    for (from, named) in &crates {
        for path in &named.used {
            let Some(to) = target(&crates, from, path, 0) else { continue };
            let common = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
            if let (Some(user), Some(used)) = (from.get(common), to.get(common)) {
                let uses = all.entry(from[..common].to_vec()).or_default().entry(user.clone()).or_default();
                uses.entry(used.clone()).or_insert_with(|| format!("{} uses {}", from.join("::"), path.join("::")));
            }
        }
    }
    all
}

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
    for above in
        ["crates", "hosts", "crates/pagecast", "crates/pagecast-bench", "hosts/delta", "hosts/kv", "hosts/python"]
    {
        for entry in fs::read_dir(root.join(above)).unwrap() {
            let source = entry.unwrap().path().join("src");
            let name = source.parent().unwrap().strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            if !source.is_dir() || !source.parent().unwrap().join("Cargo.toml").exists() {
                continue;
            }
            crates += 1;
            let found = circles(&source);
            match LEFT.iter().find(|(left, _)| *left == name) {
                Some((left, why)) => assert!(!found.is_empty(), "{left} has no circle any more, and is listed: {why}"),
                None => wrong.extend(found.into_iter().map(|circle| format!("{name}: {circle}"))),
            }
        }
    }
    assert!(crates > 15, "{crates} crates were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_check_itself_sees_what_it_should() {
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
