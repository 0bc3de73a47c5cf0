//! Cuts lines of input into statements, where the SQL dialect's own tokenizer finds their
//! semicolons.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, TokenizerError};

use crate::fault::Fault;

/// What makes a query of a `FROM` alone.
pub const ALL_COLUMNS: &str = "SELECT * ";

/// `FROM t` as DuckDB means it: with [`ALL_COLUMNS`] before it. `None` for other statements.
pub fn with_all_columns(sql: &str, dialect: &dyn Dialect) -> Option<String> {
    let (tokens, _) = tokens(sql, dialect);
    let mut depth = 0;
    let keywords = tokens.iter().filter_map(|token| {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Word(word) if depth == 0 => return Some(word.keyword),
            _ => {}
        }
        None
    });
    let mut keywords = keywords.collect::<Vec<_>>().into_iter();
    let is_alone = keywords.next() == Some(Keyword::FROM) && !keywords.any(|word| word == Keyword::SELECT);
    is_alone.then(|| format!("{ALL_COLUMNS}{sql}"))
}

/// One statement, and where in its input it begins: line and column, from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// Without its semicolon.
    pub text: String,
    /// From 1.
    pub line: u64,
    /// From 1.
    pub column: u64,
}

/// Input that has been read and not yet run.
#[derive(Debug)]
pub struct Statements {
    pending: String,
    /// Where in the input it begins.
    line: u64,
    column: u64,
}

impl Default for Statements {
    fn default() -> Self {
        Self { pending: String::new(), line: 1, column: 1 }
    }
}

impl Statements {
    /// Takes one line, without its end; gives the statements that it completes, without their
    /// semicolons.
    pub fn push(&mut self, line: &str, dialect: &dyn Dialect) -> Vec<Statement> {
        self.pending += line;
        self.pending.push('\n');
        if !line.contains(';') {
            return Vec::new();
        }
        let (tokens, fault) = tokens(&self.pending, dialect);
        let mut complete = Vec::new();
        let (mut places, mut start, mut empty) = (Places::of(&self.pending), 0, true);
        for TokenWithSpan { token, span } in tokens {
            if token == Token::SemiColon {
                let end = places.byte(span.start);
                if !empty {
                    complete.push(self.statement(start, end));
                }
                (start, empty) = (end + 1, true);
            } else if !matches!(token, Token::Whitespace(_)) {
                empty = false;
            }
        }
        if fault.is_some_and(|fault| !is_open(&fault)) {
            // Nothing that follows makes it right. Whoever runs it says what is wrong.
            complete.push(self.statement(start, self.pending.len()));
            start = self.pending.len();
        }
        (self.line, self.column) = self.place(start);
        self.pending.drain(..start);
        complete
    }

    /// Leaves a line away that is no SQL.
    pub fn skip_line(&mut self) {
        (self.line, self.column) = (self.place(self.pending.len()).0 + 1, 1);
        self.pending.clear();
    }

    fn statement(&self, start: usize, end: usize) -> Statement {
        let text = &self.pending[start..end];
        let (line, column) = self.place(start + text.len() - text.trim_start().len());
        Statement { text: text.trim().to_owned(), line, column }
    }

    /// Where in the input a byte of what is pending stands.
    fn place(&self, byte: usize) -> (u64, u64) {
        let before = &self.pending[..byte];
        match before.rsplit_once('\n') {
            Some((lines, last)) => {
                (self.line + 1 + lines.matches('\n').count() as u64, last.chars().count() as u64 + 1)
            }
            None => (self.line, self.column + before.chars().count() as u64),
        }
    }

    /// Whether nothing but white space and comments waits for its semicolon.
    pub fn is_empty(&self, dialect: &dyn Dialect) -> bool {
        let (tokens, fault) = tokens(&self.pending, dialect);
        fault.is_none() && tokens.iter().all(|token| matches!(token.token, Token::Whitespace(_)))
    }

    /// The last statement, which needs no semicolon; or what the input must not end inside of.
    pub fn rest(self, dialect: &dyn Dialect) -> Result<Option<Statement>, Fault> {
        if let Some(TokenizerError { message, location }) = tokens(&self.pending, dialect).1.filter(is_open) {
            let fault = Fault { line: location.line, column: location.column, what: message };
            return Err(fault.within(self.line, self.column));
        }
        Ok((!self.is_empty(dialect)).then(|| self.statement(0, self.pending.len())))
    }
}

/// The tokens of `sql` up to its end or to what is none.
fn tokens(sql: &str, dialect: &dyn Dialect) -> (Vec<TokenWithSpan>, Option<TokenizerError>) {
    let mut tokens = Vec::new();
    // The text of tokens does not matter here, so that escapes may stay as they are.
    let tokenized = Tokenizer::new(dialect, sql).with_unescape(false).tokenize_with_location_into_buf(&mut tokens);
    (tokens, tokenized.err())
}

/// Whether more input may close what `fault` is about: a quote or a comment. The tokenizer has no
/// kinds of error.
fn is_open(fault: &TokenizerError) -> bool {
    ["Unterminated", "Unexpected EOF", "before EOF"].iter().any(|words| fault.message.contains(words))
}

/// Finds bytes by line and column, which must be asked for in order.
struct Places<'a> {
    characters: std::str::CharIndices<'a>,
    line: u64,
    column: u64,
}

impl<'a> Places<'a> {
    fn of(text: &'a str) -> Self {
        Self { characters: text.char_indices(), line: 1, column: 1 }
    }

    /// Where in the text `location` is.
    fn byte(&mut self, location: Location) -> usize {
        while (self.line, self.column) < (location.line, location.column) {
            match self.characters.next() {
                Some((_, '\n')) => (self.line, self.column) = (self.line + 1, 1),
                Some(_) => self.column += 1,
                None => break,
            }
        }
        self.characters.offset()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::{GenericDialect, SQLiteDialect};

    use super::*;

    const OURS: &GenericDialect = &GenericDialect {};

    fn split(text: &str) -> (Vec<String>, Result<Option<String>, String>) {
        let mut statements = Statements::default();
        let complete = text.lines().flat_map(|line| texts(statements.push(line, OURS))).collect();
        let rest = statements.rest(OURS).map(|rest| rest.map(|statement| statement.text));
        (complete, rest.map_err(|fault| fault.to_string()))
    }

    fn texts(statements: Vec<Statement>) -> Vec<String> {
        statements.into_iter().map(|statement| statement.text).collect()
    }

    #[test]
    fn statements_know_where_they_begin() {
        let mut statements = Statements::default();
        let text = "SELECT 1; SELECT\n 2; -- end\n\n  SELECT 'ä'; /* c */ SELECT 4; SELECT";
        let pushed = text.lines().flat_map(|line| statements.push(line, OURS));
        let mut places: Vec<_> = pushed.map(|one| (one.line, one.column, one.text.lines().count())).collect();
        let rest = statements.rest(OURS).ok().flatten();
        places.extend(rest.map(|one| (one.line, one.column, 1)));
        assert_eq!(places, [(1, 1, 1), (1, 11, 2), (2, 5, 3), (4, 15, 1), (4, 33, 1)]);
        let mut statements = Statements::default();
        statements.skip_line();
        assert!(statements.push("SELECT 1; SELECT 'x", OURS)[0].line == 2);
        assert_eq!(statements.rest(OURS).map_err(|fault| (fault.line, fault.column)), Err((2, 18)));
    }

    #[test]
    fn semicolons_end_statements() {
        assert_eq!(
            split("SELECT 1; SELECT\n2 ;\n;SELECT 3"),
            (vec!["SELECT 1".into(), "SELECT\n2".into()], Ok(Some("SELECT 3".into())))
        );
        assert_eq!(split(" \n"), (vec![], Ok(None)));
        assert_eq!(split("-- only; a comment\n/* ; */;"), (vec![], Ok(None)));
        assert_eq!(split("SELECT 'ä→', \"é\"; SELECT '→'").0, ["SELECT 'ä→', \"é\""]);
    }

    #[test]
    fn quotes_and_comments_hide_semicolons() {
        for whole in [
            "SELECT ';''\"' AS \"a;b\"",
            "SELECT /* ; /* ; */ ; */ 1",
            "SELECT 'two\nlines;'",
            "SELECT $$a;b$$",
            "SELECT $tag$a;$$;b$tag$",
            "SELECT $$two;\nlines;$$",
            r"SELECT E'it\'s;x'",
            r"SELECT e'\\', 'a;b'",
            r"SELECT 'no escape\', 1",
            "SELECT 1 -- c; d\n+ 2",
            "SELECT `a;b`",
        ] {
            let both = format!("{whole}; SELECT 2;");
            assert_eq!(split(&both), (vec![whole.into(), "SELECT 2".into()], Ok(None)), "{both}");
        }
    }

    #[test]
    fn comments_nest_where_the_dialect_nests_them() {
        let nested = "SELECT /* ; /* ; */ 1; */ 2;";
        assert_eq!(texts(Statements::default().push(nested, OURS)), ["SELECT /* ; /* ; */ 1; */ 2"]);
        assert_eq!(texts(Statements::default().push(nested, &SQLiteDialect {})), ["SELECT /* ; /* ; */ 1", "*/ 2"]);
    }

    #[test]
    fn a_table_alone_has_all_its_columns() {
        let all = |sql| with_all_columns(sql, OURS);
        assert_eq!(all("FROM t WHERE a > 1 LIMIT 2").as_deref(), Some("SELECT * FROM t WHERE a > 1 LIMIT 2"));
        assert_eq!(all("-- x\nfrom (SELECT 1)").as_deref(), Some("SELECT * -- x\nfrom (SELECT 1)"));
        for other in ["FROM t SELECT a", "SELECT 1", "DELETE FROM t", "\"FROM\" t", "SHOW TABLES", "(FROM t)"] {
            assert_eq!(all(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_open_is_known() {
        for (text, place) in [("SELECT 'x", "1:8: "), ("\n/* ", ""), ("SELECT $$a;b", ""), ("SELECT \"a", "1:8: ")] {
            let (complete, rest) = split(text);
            assert!(complete.is_empty() && rest.as_ref().is_err_and(|fault| fault.starts_with(place)), "{rest:?}");
        }
        let mut statements = Statements::default();
        assert!(statements.is_empty(OURS));
        statements.push("SELECT 1; SELECT", OURS);
        assert!(!statements.is_empty(OURS));
        statements.push("; -- all is done", OURS);
        assert!(statements.is_empty(OURS));
    }
}
