//! Results as text or as a file: one writer of rows for each format, none of which keeps them all.

mod grid;
mod json;
mod parquet;
mod records;
mod separated;

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::FormatOptions;
use datafusion::config::ConfigOptions;

use crate::output::harmless;

/// How the rows of a result are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Format {
    /// A grid with lines around its cells
    Table,
    /// A line for each column, for rows that are too wide
    Records,
    /// Comma-separated values: nothing between commas is NULL, "" is an empty text
    Csv,
    /// The same between tabulators
    Tsv,
    /// A table as Markdown has it
    Markdown,
    /// An array of objects
    Json,
    /// An object for each line
    #[value(alias = "jsonl", alias = "jsonlines")]
    Ndjson,
    /// A Parquet file of one result
    Parquet,
}

impl Format {
    /// What people read. Other formats are for programs, and get nothing but the rows.
    pub(super) fn is_for_people(self) -> bool {
        matches!(self, Self::Table | Self::Records | Self::Markdown)
    }
}

/// Takes the rows of one result.
pub(super) trait Rows {
    /// Writes the rows of `batch`, or keeps some of them until there are more.
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()>;

    /// Writes what is left, and the end.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// What a writer of rows is told.
pub(super) struct Style<'a> {
    pub(super) format: Format,
    /// The text of NULL, if not the format's own.
    pub(super) null: Option<&'a str>,
    pub(super) config: &'a ConfigOptions,
    /// Whether `out` is a terminal, which would obey what cells hold.
    pub(super) terminal: bool,
}

/// Writes rows of `schema` into `out`.
pub(super) fn rows<'a>(
    out: impl Write + Send + 'a,
    schema: &SchemaRef,
    style: &Style<'a>,
) -> anyhow::Result<Box<dyn Rows + 'a>> {
    let out: Out<'a> = if style.terminal { Box::new(Harmless(out)) } else { Box::new(out) };
    let own = if style.format.is_for_people() { "NULL" } else { "" };
    let null = match &style.config.format.null {
        _ if style.null.is_some() => style.null.unwrap_or_default(),
        set if set.is_empty() => own,
        set => set,
    };
    let cells = FormatOptions::try_from(&style.config.format)?.with_null(null);
    Ok(match style.format {
        Format::Table => Box::new(grid::Grid::new(out, schema, cells)),
        Format::Records => Box::new(records::Records::new(out, schema, cells)),
        Format::Csv => Box::new(separated::Separated::csv(out, schema, cells)?),
        Format::Tsv => Box::new(separated::Separated::tsv(out, schema, cells)?),
        Format::Markdown => Box::new(separated::Separated::markdown(out, schema, cells)?),
        Format::Json => Box::new(json::Json::array(out)),
        Format::Ndjson => Box::new(json::Json::lines(out)),
        Format::Parquet => Box::new(parquet::File::create(out, schema, style.config)?),
    })
}

/// Where rows go.
type Out<'a> = Box<dyn Write + Send + 'a>;

/// A terminal, which gets no text that it would obey. Each write must end where a character does.
struct Harmless<W>(W);

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(harmless(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// An error of Arrow's among those of files.
fn fault(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};

    use super::*;

    /// Two batches: NULL and the empty text, what formats must quote, and what terminals obey.
    fn batches() -> [RecordBatch; 2] {
        let batch = |numbers: Vec<Option<i64>>, texts: Vec<Option<&str>>| {
            let floats = Float64Array::from_iter_values(numbers.iter().map(|n| n.unwrap_or_default() as f64 / 4.0));
            let columns: [(&str, ArrayRef); 3] = [
                ("n", Arc::new(Int64Array::from(numbers))),
                ("a,b", Arc::new(StringArray::from(texts))),
                ("x", Arc::new(floats)),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        [
            batch(vec![Some(1), None, Some(-3)], vec![Some(""), None, Some("a \"b\", |c|")]),
            batch(vec![Some(4)], vec![Some("two\nlines\t\u{1b}[1m")]),
        ]
    }

    fn written(format: Format, null: Option<&str>, terminal: bool) -> Vec<u8> {
        let (batches, config) = (batches(), ConfigOptions::default());
        let mut out = Vec::new();
        let style = Style { format, null, config: &config, terminal };
        let mut rows = rows(&mut out, &batches[0].schema(), &style).unwrap();
        batches.iter().for_each(|batch| rows.write(batch).unwrap());
        rows.finish().unwrap();
        out
    }

    #[track_caller]
    fn check(format: Format, expected: &str) {
        assert_eq!(String::from_utf8(written(format, None, false)).unwrap(), expected);
    }

    #[test]
    fn separated_values_tell_null_from_an_empty_text() {
        let values =
            "n,\"a,b\",x\n1,\"\",0.25\n,,0.0\n-3,\"a \"\"b\"\", |c|\",-0.75\n4,\"two\nlines\t\u{1b}[1m\",1.0\n";
        check(Format::Csv, values);
        let values =
            "n\ta,b\tx\n1\t\"\"\t0.25\n\t\t0.0\n-3\t\"a \"\"b\"\", |c|\"\t-0.75\n4\t\"two\nlines\t\u{1b}[1m\"\t1.0\n";
        check(Format::Tsv, values);
        let named = String::from_utf8(written(Format::Csv, Some("\\N"), false)).unwrap();
        assert!(named.contains("1,\"\",0.25\n\\N,\\N,0.0\n"), "{named}");
    }

    #[test]
    fn markdown_is_a_table_again() {
        let table = "| n | a,b | x |\n| --- | --- | --- |\n| 1 |  | 0.25 |\n| NULL | NULL | 0.0 |\n\
                     | -3 | a \"b\", \\|c\\| | -0.75 |\n| 4 | two<br>lines\t\u{1b}[1m | 1.0 |\n";
        check(Format::Markdown, table);
    }

    #[test]
    fn json_has_every_column_of_every_row() {
        let lines = [
            r#"{"n":1,"a,b":"","x":0.25}"#,
            r#"{"n":null,"a,b":null,"x":0.0}"#,
            r#"{"n":-3,"a,b":"a \"b\", |c|","x":-0.75}"#,
            r#"{"n":4,"a,b":"two\nlines\t\u001b[1m","x":1.0}"#,
        ];
        check(Format::Ndjson, &format!("{}\n", lines.join("\n")));
        check(Format::Json, &format!("[{}]\n", lines.join(",\n")));
    }

    #[test]
    fn records_have_a_line_for_each_column() {
        let shown = "-[ 1 ]-\nn   | 1\na,b | \nx   | 0.25\n-[ 2 ]-\nn   | NULL\na,b | NULL\nx   | 0.0\n\
                     -[ 3 ]-\nn   | -3\na,b | a \"b\", |c|\nx   | -0.75\n\
                     -[ 4 ]-\nn   | 4\na,b | two\n    | lines\\t\\u{1b}[1m\nx   | 1.0\n";
        check(Format::Records, shown);
    }

    #[test]
    fn parquet_gives_the_rows_back() {
        use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&written(Format::Parquet, None, false)).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        let read: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
        let whole = arrow::compute::concat_batches(&batches()[0].schema(), &batches()).unwrap();
        assert_eq!(read, [whole]);
    }

    #[test]
    fn a_terminal_obeys_no_format() {
        for format in [Format::Csv, Format::Tsv, Format::Markdown, Format::Json, Format::Ndjson, Format::Table] {
            let text = String::from_utf8(written(format, None, true)).unwrap();
            assert!(!text.contains('\u{1b}') && text.contains("[1m"), "{text}");
        }
    }
}
