//! Where SQL is wrong.

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect};

use crate::tables;

/// How many statements `sql` has; or `line:column: message` of what is no SQL in it.
pub(crate) fn statements(sql: &str) -> Result<usize, String> {
    statements_of(sql, &GenericDialect {})
}

/// [`statements`] of another dialect.
pub(crate) fn statements_of(sql: &str, dialect: &dyn Dialect) -> Result<usize, String> {
    let parsed = DFParser::parse_sql_with_dialect(sql, dialect).map(|statements| statements.len());
    parsed.map_err(|error| {
        let message = tables::message(&error);
        match message.rsplit_once(" at Line: ") {
            Some((what, place)) => format!("{}: {what}", place.replace(", Column: ", ":")),
            // The parser names no place when it means the end.
            None => format!("{}: {message}", end_of(sql)),
        }
    })
}

/// Where `text` ends: what the parser means when it names no place.
fn end_of(text: &str) -> String {
    let text = text.trim_end();
    let last = text.lines().last().unwrap_or_default();
    format!("{}:{}", text.lines().count().max(1), last.chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::statements;

    #[test]
    fn a_fault_has_a_place() {
        let fault = |sql| statements(sql).err().unwrap_or_default();
        assert!(fault("SELECT 1\nFROM (").starts_with("2:7: "));
        assert!(fault("SELECT 1\nFROM x WHERE )\n").starts_with("2:14: "));
        assert!(fault("").is_empty() && fault("SELECT 1; SELECT 2;").is_empty());
        assert_eq!(statements("SELECT 1; SELECT 2;"), Ok(2));
    }
}
