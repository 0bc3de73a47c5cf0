//! A line for each column of each row.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::grid::width;
use super::{Out, Rows, fault};
use crate::output::printable;

/// Writes rows as blocks of lines.
pub(super) struct Records<'a> {
    out: Out<'a>,
    options: FormatOptions<'a>,
    /// The names of the columns, all of the same width.
    heads: Vec<String>,
    rows: u64,
}

impl<'a> Records<'a> {
    pub(super) fn new(out: Out<'a>, schema: &Schema, options: FormatOptions<'a>) -> Self {
        let heads = schema.fields().iter().map(|field| printable(field.name()).replace('\n', " "));
        let mut heads: Vec<_> = heads.collect();
        let widest = heads.iter().map(|head| width(head)).max().unwrap_or(0);
        heads.iter_mut().for_each(|head| head.extend(std::iter::repeat_n(' ', widest - width(head))));
        Self { out, options, heads, rows: 0 }
    }
}

impl Rows for Records<'_> {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &self.options));
        let columns: Vec<_> = columns.collect::<Result<_, _>>().map_err(fault)?;
        for row in 0..batch.num_rows() {
            self.rows += 1;
            writeln!(self.out, "-[ {} ]-", self.rows)?;
            for (head, column) in self.heads.iter().zip(&columns) {
                let value = column.value(row).try_to_string().map_err(fault)?;
                let value = printable(&value);
                let mut lines = value.split('\n');
                writeln!(self.out, "{head} | {}", lines.next().unwrap_or_default())?;
                for line in lines {
                    writeln!(self.out, "{:1$} | {line}", "", width(head))?;
                }
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.flush()
    }
}
