//! What a terminal shows: aligned tables, text that it does not obey.

use std::borrow::Cow;
use std::fmt;

/// `text` without what a terminal would obey: control characters other than line ends, and marks
/// that turn the direction of what follows, are shown by their codes.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, &['\n'])
}

/// [`printable`], but for tabulators, which stand between values.
pub fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, &['\n', '\t'])
}

/// `text` with every run of white space, line ends included, made one blank, and [`printable`].
pub fn one_line(text: &str) -> String {
    printable(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

fn escaped<'t>(text: &'t str, kept: &[char]) -> Cow<'t, str> {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let obeyed = |c: char| (c.is_control() && !kept.contains(&c)) || turns(c);
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')) || !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if obeyed(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// A text table: columns as wide as their widest cell, text to the left and figures to the right.
pub struct Table {
    rows: Vec<Vec<String>>,
    left: usize,
}

impl Table {
    /// A table with these column heads, of which the first `left` are text.
    pub fn new(heads: &[&str], left: usize) -> Self {
        Self { rows: vec![heads.iter().map(|&head| head.to_owned()).collect()], left }
    }

    /// Adds a row; it has as many cells as the heads.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.rows[0].len());
        self.rows.push(cells.iter().map(|cell| printable(cell).into_owned()).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows[0].len();
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                line += &if column < self.left { format!("{cell:<width$}  ") } else { format!("{cell:>width$}  ") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(one_line("a\n  b\tc\n"), "a b c");
        assert_eq!(one_line("no file \u{1b}[2J"), "no file \\u{1b}[2J");
    }

    #[test]
    fn columns_align() {
        let mut table = Table::new(&["policy", "read"], 1);
        table.row(vec!["pbm".into(), "1.5 MiB".into()]);
        table.row(vec!["random".into(), "900 B".into()]);
        assert_eq!(table.to_string(), "policy     read\npbm     1.5 MiB\nrandom    900 B\n");
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown_by_its_code() {
        assert_eq!(printable("a\u{1b}[31m\tb\r\u{9b}\u{202e}c\nä"), "a\\u{1b}[31m\\tb\\r\\u{9b}\\u{202e}c\nä");
        assert!(matches!(printable("plain →"), Cow::Borrowed(_)));
    }
}
