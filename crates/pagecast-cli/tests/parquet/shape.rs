//! Statements that are as deep as they may be, and deeper: none ends the process.

use std::fmt::Write;
use std::process::Output;

use crate::sql::{sql, stdout};
use crate::{assert_fails, lineitem};

/// `first`, and `more` behind it as often as makes `levels`.
fn chain(first: &str, more: &str, levels: usize) -> String {
    format!("SELECT {first}{} AS v FROM (SELECT 1 AS a, true AS b, 'x' AS s) AS t", more.repeat(levels))
}

/// Statements with so many levels.
fn deep(levels: usize) -> Vec<String> {
    let mut named = "WITH t0 AS (SELECT 1 AS a)".to_owned();
    // A query and its name, FROM and what it selects.
    for at in 1..levels / 4 {
        write!(named, ", t{at} AS (SELECT a FROM t{})", at - 1).unwrap();
    }
    let last = (levels / 4).max(1) - 1;
    vec![
        chain("a", " + 1", levels),
        chain("b", " OR b", levels),
        chain("b", " AND b", levels),
        chain("s", " || 'y'", levels),
        chain("a", "::int", levels / 2),
        chain("b", " OR a = 2", levels / 2),
        format!("SELECT 1 AS v{}", " UNION ALL SELECT 2".repeat(levels)),
        format!("SELECT 1 AS v{}", " UNION SELECT 2".repeat(levels / 4)),
        format!("SELECT 1 AS v{}", " EXCEPT SELECT 2".repeat(levels / 4)),
        format!("{named} SELECT a FROM t{last}"),
    ]
}

/// Runs deep statements of many kinds.
fn run_deep(levels: usize, check: impl Fn(&str, &Output)) {
    let ((data, _), folder) = (lineitem(), tempfile::tempdir().unwrap());
    let script = folder.path().join("deep.sql");
    for statement in deep(levels) {
        std::fs::write(&script, &statement).unwrap();
        check(&statement, &sql(data.path(), &["--file", script.to_str().unwrap()]));
    }
}

#[test]
fn the_deepest_statements_run() {
    run_deep(900, |statement, output| {
        assert!(output.status.success(), "{statement:.90}: {output:?}");
        assert!(stdout(output).contains(" in "), "{statement:.90}");
    });
}

#[test]
fn deeper_statements_are_refused() {
    run_deep(9000, |_, output| assert_fails(output, 1, &["levels deep, and the limit is 1000"]));
}
