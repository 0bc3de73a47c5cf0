//! Cuts lines of input into statements, where the SQL dialect's own tokenizer finds their
//! semicolons.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, TokenizerError};

/// Input that has been read and not yet run.
#[derive(Debug, Default)]
pub(super) struct Statements {
    pending: String,
}

impl Statements {
    /// Takes one line, without its end; gives the statements that it completes, without their
    /// semicolons.
    pub(super) fn push(&mut self, line: &str, dialect: &dyn Dialect) -> Vec<String> {
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
                    complete.push(self.pending[start..end].trim().to_owned());
                }
                (start, empty) = (end + 1, true);
            } else if !matches!(token, Token::Whitespace(_)) {
                empty = false;
            }
        }
        if fault.is_some_and(|fault| !is_open(&fault)) {
            // Nothing that follows makes it right. Whoever runs it says what is wrong.
            complete.push(self.pending[start..].trim().to_owned());
            start = self.pending.len();
        }
        self.pending.drain(..start);
        complete
    }

    /// Whether nothing but white space and comments waits for its semicolon.
    pub(super) fn is_empty(&self, dialect: &dyn Dialect) -> bool {
        let (tokens, fault) = tokens(&self.pending, dialect);
        fault.is_none() && tokens.iter().all(|token| matches!(token.token, Token::Whitespace(_)))
    }

    /// The last statement, which needs no semicolon; or what the input must not end inside of.
    pub(super) fn rest(self, dialect: &dyn Dialect) -> Result<Option<String>, String> {
        if let Some(fault) = tokens(&self.pending, dialect).1.filter(is_open) {
            return Err(format!("{}:{}: {}", fault.location.line, fault.location.column, fault.message));
        }
        Ok((!self.is_empty(dialect)).then(|| self.pending.trim().to_owned()))
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

    const GENERIC: &GenericDialect = &GenericDialect {};

    fn split(text: &str) -> (Vec<String>, Result<Option<String>, String>) {
        let mut statements = Statements::default();
        let complete = text.lines().flat_map(|line| statements.push(line, GENERIC)).collect();
        (complete, statements.rest(GENERIC))
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
        assert_eq!(Statements::default().push(nested, GENERIC), ["SELECT /* ; /* ; */ 1; */ 2"]);
        assert_eq!(Statements::default().push(nested, &SQLiteDialect {}), ["SELECT /* ; /* ; */ 1", "*/ 2"]);
    }

    #[test]
    fn what_is_open_is_known() {
        for (text, place) in [("SELECT 'x", "1:8: "), ("\n/* ", ""), ("SELECT $$a;b", ""), ("SELECT \"a", "1:8: ")] {
            let (complete, rest) = split(text);
            assert!(complete.is_empty() && rest.as_ref().is_err_and(|fault| fault.starts_with(place)), "{rest:?}");
        }
        let mut statements = Statements::default();
        assert!(statements.is_empty(GENERIC));
        statements.push("SELECT 1; SELECT", GENERIC);
        assert!(!statements.is_empty(GENERIC));
        statements.push("; -- all is done", GENERIC);
        assert!(statements.is_empty(GENERIC));
    }
}
