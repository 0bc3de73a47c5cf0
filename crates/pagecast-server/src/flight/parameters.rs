//! Parameters of prepared statements: `?` in their text, and values that come as Arrow rows.

use std::borrow::Cow;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};

use crate::problem::Problem;

/// A statement whose parameters are `?`, as JDBC writes them, with `$1`, `$2` and so on in their
/// places. One that numbers its parameters by itself stays as it is.
pub(super) fn numbered(sql: &str) -> Cow<'_, str> {
    let dialect = PostgreSqlDialect {};
    // Whoever parses it says what is wrong with it.
    let Ok(tokens) = Tokenizer::new(&dialect, sql).tokenize_with_location() else { return Cow::Borrowed(sql) };
    let marks: Vec<Location> =
        tokens.iter().filter(|found| found.token == Token::Question).map(|found| found.span.start).collect();
    if marks.is_empty() || tokens.iter().any(|found| matches!(found.token, Token::Placeholder(_))) {
        return Cow::Borrowed(sql);
    }
    let (mut text, mut next) = (String::with_capacity(sql.len() + marks.len()), 0);
    let mut here = Location { line: 1, column: 1 };
    for character in sql.chars() {
        if marks.get(next) == Some(&here) {
            next += 1;
            text += &format!("${next}");
        } else {
            text.push(character);
        }
        here = match character {
            '\n' => Location { line: here.line + 1, column: 1 },
            _ => Location { line: here.line, column: here.column + 1 },
        };
    }
    Cow::Owned(text)
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
            ("SELECT 1", "SELECT 1"),
        ] {
            assert_eq!(numbered(sql), numbers);
        }
    }
}
