//! How deep and how wide a statement is, told from its tokens.
//!
//! Whoever parses, plans, optimizes or drops a statement calls itself once for each level of it,
//! and a stack has an end. So a statement is measured before anybody does, and one that is deeper
//! than [`DEEPEST`] is refused. Threads that work on statements have stacks of [`STACK`] bytes,
//! which hold the deepest.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::fault::Fault;

/// Levels of a statement: operators that stand in one row, set operations, joins, and what is
/// nested in each other.
pub const DEEPEST: usize = 1000;

/// Columns that one SELECT may list.
pub const WIDEST: usize = 10_000;

/// Bytes of a stack on which the deepest statement fits. Memory is used as far as a statement needs
/// it.
pub const STACK: usize = 256 << 20;

const SET_OPERATIONS: [Keyword; 4] = [Keyword::UNION, Keyword::EXCEPT, Keyword::INTERSECT, Keyword::MINUS];

/// What a text measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shape {
    /// Levels of its deepest statement. Never too small.
    pub depth: usize,
    /// Columns of its longest SELECT list, without those that `*` stands for.
    pub columns: usize,
    /// Statements, empty ones included.
    pub statements: usize,
}

impl Shape {
    /// Fails if it is deeper or wider than anybody should work on.
    ///
    /// # Errors
    ///
    /// Says what was found and what is the limit, at the start of the text.
    pub fn check(self) -> Result<(), Fault> {
        let Self { depth, columns, .. } = self;
        let fault = |what| Err(Fault { line: 1, column: 1, what });
        if depth > DEEPEST {
            return fault(format!(
                "the statement is {depth} levels deep, and the limit is {DEEPEST}: \
                 write IN (...) for many OR, and less in one expression, UNION or WITH"
            ));
        }
        if columns > WIDEST {
            return fault(format!("a SELECT lists {columns} columns, and the limit is {WIDEST}"));
        }
        Ok(())
    }
}

/// Measures a text. What is no SQL is measured up to its fault.
pub fn of(sql: &str, dialect: &dyn Dialect) -> Shape {
    let mut tokens = Vec::new();
    _ = Tokenizer::new(dialect, sql).with_unescape(false).tokenize_with_location_into_buf(&mut tokens);
    let mut levels = vec![Level::default()];
    let mut shape = Shape::default();
    let mut before = Token::SemiColon;
    let tokens = tokens.into_iter().map(|token| token.token).filter(|token| !matches!(token, Token::Whitespace(_)));
    for token in tokens.chain([Token::SemiColon]) {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                // A place in an array stands in a row with others.
                levels.last_mut().into_iter().for_each(|level| level.steps += usize::from(token == Token::LBracket));
                levels.push(Level { is_named: is_word(&before, Keyword::AS), ..Level::default() });
            }
            Token::RParen | Token::RBracket | Token::RBrace if levels.len() > 1 => {
                let inner = levels.pop().unwrap_or_default();
                shape.columns = shape.columns.max(inner.columns);
                if let Some(outer) = levels.last_mut() {
                    outer.takes(&inner);
                }
            }
            Token::SemiColon => {
                // What is still open stands in each other.
                let open = levels.drain(..).rev().reduce(|inner, mut outer| {
                    shape.columns = shape.columns.max(inner.columns);
                    outer.takes(&inner);
                    outer
                });
                let statement = open.unwrap_or_default();
                shape.statements += 1;
                shape.depth = shape.depth.max(statement.depth());
                shape.columns = shape.columns.max(statement.columns);
                levels.push(Level::default());
            }
            _ => levels.last_mut().into_iter().for_each(|level| level.meets(&token, &before)),
        }
        before = token;
    }
    shape
}

fn is_word(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword)
}

/// What stands between two parentheses, and between them and what is inside.
#[derive(Default)]
struct Level {
    /// What is not left behind by a comma: set operations, joins, named queries.
    lasting: usize,
    /// Operators and words since the last comma, and the deepest of what is nested there.
    steps: usize,
    nested: usize,
    /// The most of these two together.
    most: usize,
    /// Columns of the longest SELECT list, and of that which is read.
    columns: usize,
    listed: Option<usize>,
    /// Commas join tables.
    is_from: bool,
    /// A query of a WITH, on which those behind it stand.
    is_named: bool,
}

impl Level {
    fn depth(&self) -> usize {
        self.lasting + self.most.max(self.steps + self.nested)
    }

    fn takes(&mut self, inner: &Self) {
        let depth = inner.depth() + 1;
        match inner.is_named {
            true => self.lasting += depth,
            false => self.nested = self.nested.max(depth),
        }
    }

    fn meets(&mut self, token: &Token, before: &Token) {
        match token {
            Token::Comma => {
                self.begins_anew();
                self.lasting += usize::from(self.is_from);
                self.listed = self.listed.map(|listed| listed + 1);
                self.columns = self.columns.max(self.listed.unwrap_or(0));
            }
            Token::Word(word) => self.meets_word(word.keyword, before),
            Token::Number(..) | Token::SingleQuotedString(_) | Token::Period | Token::Placeholder(_) => {}
            // An operator, or what is like one.
            _ => self.steps += 1,
        }
    }

    /// What follows is not part of what stands before it.
    fn begins_anew(&mut self) {
        self.most = self.most.max(self.steps + self.nested);
        (self.steps, self.nested) = (0, 0);
    }

    fn meets_word(&mut self, keyword: Keyword, before: &Token) {
        match keyword {
            Keyword::NoKeyword => {}
            Keyword::JOIN => self.lasting += 1,
            _ if SET_OPERATIONS.contains(&keyword) => self.lasting += 1,
            Keyword::SELECT => {
                // Each of these words alone may be the name of a column.
                if SET_OPERATIONS.iter().chain([&Keyword::ALL, &Keyword::DISTINCT]).any(|&word| is_word(before, word)) {
                    self.begins_anew();
                }
                (self.listed, self.is_from) = (Some(1), false);
            }
            Keyword::FROM => (self.listed, self.is_from) = (None, true),
            Keyword::WHERE | Keyword::GROUP | Keyword::ORDER | Keyword::HAVING | Keyword::SET => {
                (self.listed, self.is_from) = (None, false);
            }
            Keyword::NULL | Keyword::TRUE | Keyword::FALSE => {}
            _ => self.steps += 1,
        }
    }
}

/// Runs `work` on a stack of [`STACK`] bytes.
///
/// # Errors
///
/// There is no memory for a thread.
pub fn with_stack<T: Send>(work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    fn measured(sql: &str) -> Shape {
        of(sql, &GenericDialect {})
    }

    #[test]
    fn what_is_deep_is_counted() {
        let chain = |first: &str, more: &str| format!("SELECT {first}{}", more.repeat(2000));
        let all = |more: &str| format!("SELECT a, b FROM t{}", more.repeat(2000));
        let named: String = (1..2000).map(|at| format!(", t{at} AS (SELECT * FROM t{})", at - 1)).collect();
        for deep in [
            chain("1", "+1"),
            chain("a", " OR a"),
            chain("a", " || 'x'"),
            chain("a", "::int"),
            chain("a", "[1]"),
            chain("a", " IS NULL"),
            chain("", "NOT "),
            chain("", "- "),
            chain("", "abs("),
            chain("", "(1+"),
            format!("SELECT {}", "CASE WHEN a THEN ".repeat(2000)),
            all(" UNION ALL SELECT a, b FROM t"),
            all(" JOIN t ON a = b"),
            all(", t"),
            format!("WITH t0 AS (SELECT 1){named} SELECT * FROM t1999"),
            // Columns may be called so.
            chain("union", " + union"),
            chain("select", " + all + select + union"),
        ] {
            assert!(measured(&deep).depth >= 1999, "{deep:.60} is {}", measured(&deep).depth);
        }
    }

    #[test]
    fn what_is_wide_is_not_deep() {
        let list = |item: &str| vec![item; 5000].join(", ");
        for (wide, columns) in [
            (format!("SELECT * FROM t WHERE a IN ({})", list("1")), 1),
            (format!("INSERT INTO t VALUES {}", list("(1, -2, 'x')")), 0),
            (format!("SELECT {} FROM t", list("a + b * 2 AS c")), 5000),
            (format!("SELECT a FROM (SELECT {} FROM t)", list("a AS b")), 5000),
            ("SELECT 1; ".repeat(5000), 1),
            (format!("SELECT 1{}", " UNION ALL SELECT a + 1 FROM t WHERE a IS NOT NULL".repeat(10)), 1),
        ] {
            let shape = measured(&wide);
            assert!(shape.depth < 20 && shape.columns.max(1) == columns.max(1), "{shape:?}: {wide:.60}");
        }
        assert!(measured(&format!("SELECT {}", list("1"))).check().is_ok());
        assert_eq!(measured("SELECT ';'; SELECT (2); SELECT 3").statements, 3);
        let fault = measured(&format!("SELECT 1{}", " + 1".repeat(1001))).check().map_err(|f| f.to_string());
        assert!(fault.is_err_and(|fault| fault.contains("levels deep, and the limit is 1000")));
    }
}
