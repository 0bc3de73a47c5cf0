//! Where SQL is wrong.

use datafusion::sql::parser::DFParser;

/// How many statements `sql` has; or `line:column: message` of what is no SQL in it.
pub(crate) fn statements(sql: &str) -> Result<usize, String> {
    let parsed = DFParser::parse_sql(sql).map(|statements| statements.len());
    parsed.map_err(|error| {
        let message = error.strip_backtrace();
        format!("{}: {message}", place(&message).unwrap_or_else(|| end_of(sql)))
    })
}

/// `3:14` out of the parser's "... at Line: 3, Column: 14".
fn place(message: &str) -> Option<String> {
    let (line, column) = message.rsplit_once("Line: ")?.1.split_once(", Column: ")?;
    let number = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    Some(format!("{}:{}", number(line), number(column)))
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
