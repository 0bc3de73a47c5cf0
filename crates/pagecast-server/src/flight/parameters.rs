//! Parameters of prepared statements: `?` in their text, and values that come as Arrow rows.

use std::borrow::Cow;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use crate::problem::Problem;

/// A statement whose parameters are `?`, as JDBC writes them, with `$1`, `$2` and so on in their
/// places. One that numbers its parameters by itself stays as it is.
pub(super) fn numbered(sql: &str) -> Cow<'_, str> {
    let (mut text, mut count, mut rest) = (String::with_capacity(sql.len()), 0, sql);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' => after(rest, 1, "'", follows_escape(&text)),
            '"' => after(rest, 1, "\"", false),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => comment(rest),
            '$' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) && !in_word(&text) => return Cow::Borrowed(sql),
            '$' if !in_word(&text) => dollars(rest),
            '?' => {
                count += 1;
                text += &format!("${count}");
                rest = &rest[1..];
                continue;
            }
            other => other.len_utf8(),
        };
        text += &rest[..length];
        rest = &rest[length..];
    }
    if count == 0 { Cow::Borrowed(sql) } else { Cow::Owned(text) }
}

/// The bytes up to behind the quote that closes. A quote twice closes and opens at once.
fn after(text: &str, from: usize, quote: &str, escapes: bool) -> usize {
    let mut at = from;
    while let Some(character) = text[at..].chars().next() {
        at += character.len_utf8();
        if escapes && character == '\\' {
            at += text[at..].chars().next().map_or(0, char::len_utf8);
        } else if quote.starts_with(character) {
            return at;
        }
    }
    at
}

/// Whether a text is E'...', which knows backslashes.
fn follows_escape(before: &str) -> bool {
    let Some(before) = before.strip_suffix(['e', 'E']) else { return false };
    !in_word(before)
}

/// Whether a name or a number ends here.
fn in_word(before: &str) -> bool {
    before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$')
}

/// The bytes of a comment, with those in it.
fn comment(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if rest.starts_with("*/") {
            (at, depth) = (at + 2, depth - 1);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// The bytes of $tag$...$tag$, or of the sign alone.
fn dollars(text: &str) -> usize {
    let Some(end) = text[1..].find('$').map(|at| at + 2) else { return 1 };
    let tag = &text[..end];
    if !tag[1..end - 1].chars().all(|c| c.is_alphanumeric() || c == '_') {
        return 1;
    }
    text[end..].find(tag).map_or(text.len(), |at| end + at + end)
}

/// Fails unless so many values came as the statement has parameters.
pub(super) fn check_count(given: usize, wanted: usize) -> Result<(), Problem> {
    match given == wanted {
        true => Ok(()),
        false => Err(Problem::error("08P01", format!("{given} parameters came for a statement of {wanted}"))),
    }
}

/// The values of the one row that binds parameters of these types.
pub(super) fn bound(rows: &RecordBatch, parameters: &[(u32, DataType)]) -> Result<Vec<ScalarValue>, Problem> {
    check_count(rows.num_columns(), parameters.len())?;
    let value = |(number, (_, kind)): (usize, &(u32, DataType))| {
        let value = ScalarValue::try_from_array(rows.column(number), 0).and_then(|value| value.cast_to(kind));
        value.map_err(|error| {
            Problem::error("22P02", format!("parameter ${}: {}", number + 1, Problem::of(&error).message))
        })
    };
    parameters.iter().enumerate().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_marks_are_numbered() {
        for (sql, numbers) in [
            ("SELECT ? + ?", "SELECT $1 + $2"),
            ("SELECT '?', \"?\" -- ?\n, 'ä' || ?, /* ? */ ?", "SELECT '?', \"?\" -- ?\n, 'ä' || $1, /* ? */ $2"),
            ("SELECT $1, a ? b", "SELECT $1, a ? b"),
            ("SELECT 'open ?", "SELECT 'open ?"),
            ("SELECT a>? AND b=? LIMIT ?", "SELECT a>$1 AND b=$2 LIMIT $3"),
            ("SELECT -?, ?::int, a IN (?,?)", "SELECT -$1, $2::int, a IN ($3,$4)"),
            (
                "SELECT E'\\'?', $$?$$, $a$ ? $b$ ? $a$, /* /* ? */ ? */ ?",
                "SELECT E'\\'?', $$?$$, $a$ ? $b$ ? $a$, /* /* ? */ ? */ $1",
            ),
            ("SELECT 'it''s ?', a$1 > ?", "SELECT 'it''s ?', a$1 > $1"),
            ("SELECT 1", "SELECT 1"),
        ] {
            assert_eq!(numbered(sql), numbers);
        }
    }
}
