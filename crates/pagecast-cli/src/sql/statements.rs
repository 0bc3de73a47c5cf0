//! Cuts lines of input into statements at the semicolons that stand outside quotes and comments.

/// Input that has been read and not yet run.
#[derive(Debug, Default)]
pub(super) struct Statements {
    pending: String,
    inside: Inside,
}

/// What the end of the input so far is inside of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Inside {
    #[default]
    Code,
    Quote(char),
    /// `/* */`, which nests in SQL.
    Comment(u32),
}

impl Statements {
    /// Takes one line, without its end; gives the statements that it completes, without their semicolons.
    pub(super) fn push(&mut self, line: &str) -> Vec<String> {
        let mut complete = Vec::new();
        let mut characters = line.chars().peekable();
        while let Some(c) = characters.next() {
            let next = characters.peek().copied();
            match (self.inside, c, next) {
                (Inside::Code, '-', Some('-')) => break,
                (Inside::Code, ';', _) => {
                    complete.extend(self.take());
                    continue;
                }
                (Inside::Code, '/', Some('*')) => {
                    self.inside = Inside::Comment(1);
                    characters.next();
                    continue;
                }
                (Inside::Code, '\'' | '"', _) => self.inside = Inside::Quote(c),
                // A doubled quote inside quotes closes and opens again, which comes to the same.
                (Inside::Quote(quote), _, _) if c == quote => self.inside = Inside::Code,
                (Inside::Comment(depth), '/', Some('*')) => {
                    self.inside = Inside::Comment(depth + 1);
                    characters.next();
                }
                (Inside::Comment(depth), '*', Some('/')) => {
                    self.inside = if depth == 1 { Inside::Code } else { Inside::Comment(depth - 1) };
                    characters.next();
                    self.pending.push(' ');
                    continue;
                }
                _ => {}
            }
            if !matches!(self.inside, Inside::Comment(_)) {
                self.pending.push(c);
            }
        }
        self.pending.push('\n');
        complete
    }

    /// Whether nothing but white space waits for its semicolon.
    pub(super) fn is_empty(&self) -> bool {
        self.inside == Inside::Code && self.pending.trim().is_empty()
    }

    /// What the input must not end inside of.
    pub(super) fn unclosed(&self) -> Option<&'static str> {
        match self.inside {
            Inside::Code => None,
            Inside::Quote(_) => Some("a quote"),
            Inside::Comment(_) => Some("a comment"),
        }
    }

    /// The last statement, which needs no semicolon.
    pub(super) fn rest(mut self) -> Option<String> {
        self.take()
    }

    fn take(&mut self) -> Option<String> {
        let statement = std::mem::take(&mut self.pending);
        (!statement.trim().is_empty()).then(|| statement.trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> (Vec<String>, Option<String>) {
        let mut statements = Statements::default();
        let complete = text.lines().flat_map(|line| statements.push(line)).map(|s| s.trim().to_owned()).collect();
        (complete, statements.rest().map(|s| s.trim().to_owned()))
    }

    #[test]
    fn semicolons_end_statements() {
        assert_eq!(
            split("SELECT 1; SELECT\n2 ;\n;SELECT 3"),
            (vec!["SELECT 1".into(), "SELECT\n2".into()], Some("SELECT 3".into()))
        );
        assert_eq!(split(" \n"), (vec![], None));
    }

    #[test]
    fn quotes_and_comments_hide_semicolons() {
        assert_eq!(split("SELECT ';''\"' AS \"a;b\"; -- c; d\n").0, ["SELECT ';''\"' AS \"a;b\""]);
        assert_eq!(split("SELECT /* ; /* ; */ ; */ 1;").0, ["SELECT    1"]);
        assert_eq!(split("SELECT 'two\nlines;';").0, ["SELECT 'two\nlines;'"]);
    }

    #[test]
    fn what_is_open_is_known() {
        let open = |text: &str| {
            let mut statements = Statements::default();
            text.lines().for_each(|line| drop(statements.push(line)));
            (statements.unclosed(), statements.is_empty())
        };
        assert_eq!(open("SELECT 'x"), (Some("a quote"), false));
        assert_eq!(open("/* "), (Some("a comment"), false));
        assert_eq!(open("SELECT 1;"), (None, true));
    }
}
