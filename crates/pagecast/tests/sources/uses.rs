//! Which modules use which, read from the sources by names alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::without_tests;

/// A module: the names that lead to it from the root of its crate.
pub(crate) type Module = Vec<String>;

/// The modules of a crate, and their code without comments and tests.
pub(crate) fn modules(source: &Path) -> BTreeMap<Module, String> {
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
pub(crate) struct Named {
    pub(crate) used: Vec<Module>,
    pub(crate) handed_on: Vec<Module>,
}

pub(crate) fn named(code: &str) -> Named {
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
pub(crate) type Uses = BTreeMap<String, BTreeMap<String, String>>;

/// Who uses whom in a crate, by the module that they lie in.
pub(crate) fn uses(source: &Path) -> BTreeMap<Module, Uses> {
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
