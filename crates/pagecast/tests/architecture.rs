//! ARCHITECTURE.md leads a newcomer through the code: every function that it names is where it
//! says.
#![allow(clippy::unwrap_used)]

use std::path::Path;

/// A row of the walk: `Type::function` or `function`, and the file.
struct Step<'a> {
    part: &'a str,
    function: &'a str,
    file: &'a str,
}

/// The rows of the tables between the walk's heading and the next.
fn steps(document: &str) -> Vec<Step<'_>> {
    let walk = document.split("\n## ").find(|section| section.starts_with("A newcomer's walk")).unwrap();
    let mut steps = Vec::new();
    for section in walk.split("\n### ").skip(1) {
        let (part, rows) = section.split_once('\n').unwrap();
        for row in rows.lines().filter(|row| row.starts_with('|') && row.contains('`')) {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
            let [_, function, file] = cells[..] else { panic!("a row has a step, a function and a file: {row}") };
            steps.push(Step { part, function, file });
        }
    }
    steps
}

/// Whether `source` has the function, in an `impl` or a trait of its type if one is named.
fn has(source: &str, function: &str) -> bool {
    let (owner, name) = function.rsplit_once("::").map_or((None, function), |(owner, name)| (Some(owner), name));
    let mut around = "";
    source.lines().any(|line| {
        if line.starts_with("impl") || line.starts_with("pub trait") {
            around = line;
        }
        let words = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect();
        let (here, outside): (Vec<String>, Vec<String>) = (words(line), words(around));
        let is_defined = here.windows(2).any(|pair| pair[0] == "fn" && pair[1] == name);
        is_defined && owner.is_none_or(|owner| outside.iter().any(|word| word == owner))
    })
}

#[test]
fn every_step_of_the_walk_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let steps = steps(&document);
    for part in ["A hit", "A miss", "An eviction"] {
        assert!(steps.iter().filter(|step| step.part == part).count() >= 4, "{part} is a walk of a few steps");
    }
    let mut missing = Vec::new();
    for Step { part, function, file } in steps {
        let source = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        if !has(&source, function) {
            missing.push(format!("{part}: there is no {function} in {file}"));
        }
    }
    assert!(missing.is_empty(), "ARCHITECTURE.md leads astray:\n{}", missing.join("\n"));
}

#[test]
fn a_function_that_is_gone_or_moved_is_noticed() {
    let source = "impl Table {\n    pub(super) fn find(&self) {}\n}\n\nfn free() {}\n\nimpl<T> Policy for Clock<T> {\n    fn evict(&self) {}\n}\n";
    for there in ["Table::find", "find", "free", "Clock::evict", "Policy::evict"] {
        assert!(has(source, there), "{there}");
    }
    for gone in ["Table::found", "Clock::find", "fin", "Table::evict"] {
        assert!(!has(source, gone), "{gone}");
    }
}
