//! Values with something between them: CSV, TSV, Markdown.
//!
//! RFC 4180 does not know NULL. Here a NULL is nothing and an empty text is `""`, as PostgreSQL's
//! COPY and DuckDB write and read it.

use std::io::{self, Write};

use arrow::array::{Array, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::Schema;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::{Out, Rows, fault};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Quotes where they must be, and this between values.
    Quoted(char),
    Markdown,
}

/// Writes rows as lines of values.
pub(super) struct Separated<'a> {
    out: Out<'a>,
    options: FormatOptions<'a>,
    kind: Kind,
    /// The lines of one batch.
    text: String,
}

impl<'a> Separated<'a> {
    pub(super) fn csv(out: Out<'a>, schema: &Schema, options: FormatOptions<'a>) -> io::Result<Self> {
        Self::begin(out, schema, options, Kind::Quoted(','))
    }

    pub(super) fn tsv(out: Out<'a>, schema: &Schema, options: FormatOptions<'a>) -> io::Result<Self> {
        Self::begin(out, schema, options, Kind::Quoted('\t'))
    }

    pub(super) fn markdown(out: Out<'a>, schema: &Schema, options: FormatOptions<'a>) -> io::Result<Self> {
        Self::begin(out, schema, options, Kind::Markdown)
    }

    fn begin(out: Out<'a>, schema: &Schema, options: FormatOptions<'a>, kind: Kind) -> io::Result<Self> {
        let mut new = Self { out, options, kind, text: String::new() };
        new.line(schema.fields().iter().map(|field| Some(field.name().as_str())));
        if kind == Kind::Markdown {
            new.line(schema.fields().iter().map(|_| Some("---")));
        }
        new.flush_text()?;
        Ok(new)
    }

    /// Adds a line of values, of which `None` is NULL.
    fn line<'v>(&mut self, values: impl Iterator<Item = Option<&'v str>>) {
        for (column, value) in values.enumerate() {
            match self.kind {
                Kind::Quoted(between) => {
                    if column > 0 {
                        self.text.push(between);
                    }
                    match value {
                        Some(value) => self.quoted(value, between),
                        None => self.text += self.options.null(),
                    }
                }
                Kind::Markdown => {
                    self.text += if column > 0 { " | " } else { "| " };
                    let value = value.unwrap_or(self.options.null());
                    self.text += &value.replace('|', "\\|").replace("\r\n", "<br>").replace('\n', "<br>");
                }
            }
        }
        self.text += if self.kind == Kind::Markdown { " |\n" } else { "\n" };
    }

    /// Adds a value in quotes, if without them it would be another, or NULL.
    fn quoted(&mut self, value: &str, between: char) {
        let is_null = value == self.options.null();
        if !value.is_empty() && !is_null && !value.contains([between, '"', '\n', '\r']) {
            self.text += value;
            return;
        }
        self.text.push('"');
        self.text += &value.replace('"', "\"\"");
        self.text.push('"');
    }

    fn flush_text(&mut self) -> io::Result<()> {
        self.out.write_all(self.text.as_bytes())?;
        self.text.clear();
        Ok(())
    }
}

impl Rows for Separated<'_> {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &self.options));
        let columns: Vec<_> = columns.collect::<Result<_, _>>().map_err(fault)?;
        let nulls: Vec<Option<NullBuffer>> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
        let mut values = vec![String::new(); columns.len()];
        for row in 0..batch.num_rows() {
            for (value, column) in values.iter_mut().zip(&columns) {
                value.clear();
                column.value(row).write(value).map_err(fault)?;
            }
            let is_null = |nulls: &Option<NullBuffer>| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            self.line(values.iter().zip(&nulls).map(|(value, nulls)| (!is_null(nulls)).then_some(value.as_str())));
        }
        self.flush_text()
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.flush()
    }
}
