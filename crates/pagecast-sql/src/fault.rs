//! What is wrong in a text of SQL, and where.

use std::fmt;

/// What is no SQL in a text, and where. Lines and columns are counted from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// From 1.
    pub line: u64,
    /// From 1.
    pub column: u64,
    /// What is wrong.
    pub what: String,
}

impl Fault {
    /// The same in a text in which the one that it was found in begins at this place.
    pub fn within(self, line: u64, column: u64) -> Self {
        let column = if self.line == 1 { self.column + column - 1 } else { self.column };
        Self { line: self.line + line - 1, column, what: self.what }
    }

    /// The same in a text without the `added` columns at its start.
    pub fn after(self, added: u64) -> Self {
        let added = if self.line == 1 { added.min(self.column - 1) } else { 0 };
        Self { column: self.column - added, ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)
    }
}

impl std::error::Error for Fault {}
