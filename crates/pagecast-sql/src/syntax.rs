//! Where SQL is wrong.

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::dialect::Dialect;

use crate::fault::Fault;
use crate::semantics::Words;
use crate::{shape, tables, weight};

/// How many statements `sql` has; or what is no SQL in it, or too large to be planned.
pub fn statements(sql: &str) -> Result<usize, Fault> {
    statements_of(sql, &Words)
}

/// [`statements`] of another dialect.
pub fn statements_of(sql: &str, dialect: &dyn Dialect) -> Result<usize, Fault> {
    shape::of(sql, dialect).check()?;
    let parsed = DFParser::parse_sql_with_dialect(sql, dialect).map_err(|error| {
        let message = tables::message(&error);
        let place = |place: &str| {
            let (line, column) = place.split_once(", Column: ")?;
            Some((line.parse().ok()?, column.trim().parse().ok()?))
        };
        let placed = message.rsplit_once(" at Line: ").and_then(|(what, at)| Some((what, place(at)?)));
        // The parser names no place when it means the end.
        let (what, (line, column)) = placed.unwrap_or_else(|| (&message, end_of(sql)));
        Fault { line, column, what: what.to_owned() }
    })?;
    let weighed = parsed.iter().try_for_each(weight::check);
    weighed.map_err(|what| Fault { line: 1, column: 1, what })?;
    Ok(parsed.len())
}

/// Where `text` ends: what the parser means when it names no place.
fn end_of(text: &str) -> (u64, u64) {
    let text = text.trim_end();
    let last = text.lines().last().unwrap_or_default();
    (text.lines().count().max(1) as u64, last.chars().count() as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_a_place() {
        let fault = |sql| statements(sql).err().map(|fault| fault.to_string()).unwrap_or_default();
        assert!(fault("SELECT 1\nFROM (").starts_with("2:7: "));
        assert!(fault("SELECT 1\nFROM x WHERE )\n").starts_with("2:14: "));
        assert!(fault("").is_empty() && fault("SELECT 1; SELECT 2;").is_empty());
        assert_eq!(statements("SELECT 1; SELECT 2;"), Ok(2));
    }

    #[test]
    fn a_place_moves_with_its_text() {
        let fault = Fault { line: 1, column: 4, what: "x".into() };
        assert_eq!(fault.clone().within(3, 10).to_string(), "3:13: x");
        assert_eq!(Fault { line: 2, ..fault }.within(3, 10).to_string(), "4:4: x");
    }
}
