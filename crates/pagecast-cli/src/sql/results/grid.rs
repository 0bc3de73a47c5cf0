//! Rows as a grid of cells, written as they come: columns are as wide as the first rows want them,
//! and a later cell that is wider sticks out.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::{Out, Rows, fault};
use crate::output::printable;

/// Rows that decide the width of the columns.
const MEASURED_ROWS: usize = 1000;
/// As many bytes of cells do so, too.
const MEASURED_BYTES: usize = 4 << 20;

/// Writes rows as a grid.
pub(super) struct Grid<'a> {
    out: Out<'a>,
    options: FormatOptions<'a>,
    heads: Vec<String>,
    /// None until the first rows have been measured; they wait in `waiting`.
    widths: Option<Vec<usize>>,
    waiting: Vec<Vec<String>>,
    waiting_bytes: usize,
}

impl<'a> Grid<'a> {
    pub(super) fn new(out: Out<'a>, schema: &Schema, options: FormatOptions<'a>) -> Self {
        let heads = schema.fields().iter().map(|field| printable(field.name()).into_owned()).collect();
        Self { out, options, heads, widths: None, waiting: Vec::new(), waiting_bytes: 0 }
    }

    /// Measures the rows that wait, and writes them under the heads.
    fn begin(&mut self) -> io::Result<()> {
        if self.widths.is_some() {
            return Ok(());
        }
        let rows = || std::iter::once(&self.heads).chain(&self.waiting);
        let width = |column: usize| rows().flat_map(|row| row[column].lines()).map(width).max().unwrap_or(0);
        let widths: Vec<_> = (0..self.heads.len()).map(width).collect();
        write_line(&mut self.out, &widths)?;
        write_row(&mut self.out, &widths, &self.heads)?;
        write_line(&mut self.out, &widths)?;
        for row in std::mem::take(&mut self.waiting) {
            write_row(&mut self.out, &widths, &row)?;
        }
        self.widths = Some(widths);
        Ok(())
    }
}

impl Rows for Grid<'_> {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &self.options));
        let columns: Vec<_> = columns.collect::<Result<_, _>>().map_err(fault)?;
        for row in 0..batch.num_rows() {
            let cell = |column: &ArrayFormatter<'_>| {
                column.value(row).try_to_string().map(|text| printable(&text).into_owned())
            };
            let cells: Vec<String> = columns.iter().map(cell).collect::<Result<_, _>>().map_err(fault)?;
            match &self.widths {
                Some(widths) => write_row(&mut self.out, widths, &cells)?,
                None => {
                    self.waiting_bytes += cells.iter().map(String::len).sum::<usize>();
                    self.waiting.push(cells);
                    if self.waiting.len() >= MEASURED_ROWS || self.waiting_bytes >= MEASURED_BYTES {
                        self.begin()?;
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.begin()?;
        let widths = self.widths.take().unwrap_or_default();
        write_line(&mut self.out, &widths)?;
        self.out.flush()
    }
}

/// How many places `text` takes on a screen.
pub(super) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { console::measure_text_width(text) }
}

fn write_line(out: &mut impl Write, widths: &[usize]) -> io::Result<()> {
    let line: String = widths.iter().map(|width| format!("+{}", "-".repeat(width + 2))).collect();
    writeln!(out, "{line}+")
}

/// Writes a row, whose cells may have several lines.
fn write_row(out: &mut impl Write, widths: &[usize], cells: &[String]) -> io::Result<()> {
    let mut cells: Vec<_> = cells.iter().map(|cell| cell.lines()).collect();
    let mut line: Vec<Option<&str>> = cells.iter_mut().map(Iterator::next).collect();
    loop {
        for (part, columns) in line.iter().zip(widths) {
            let part = part.unwrap_or_default();
            // A format's own width ends at 65,535, which a plan with its metrics is beyond.
            write!(out, "| {part}{} ", " ".repeat(columns.saturating_sub(width(part))))?;
        }
        writeln!(out, "|")?;
        line = cells.iter_mut().map(Iterator::next).collect();
        if line.iter().all(Option::is_none) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn batch(numbers: Vec<Option<i64>>, texts: Vec<Option<&str>>) -> RecordBatch {
        let columns: [(&str, ArrayRef); 2] =
            [("n", Arc::new(Int64Array::from(numbers))), ("text", Arc::new(StringArray::from(texts)))];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn grid(batches: &[RecordBatch]) -> String {
        let mut out = Vec::new();
        let options = FormatOptions::default().with_null("NULL");
        let mut grid = Box::new(Grid::new(Box::new(&mut out), &batches[0].schema(), options));
        batches.iter().for_each(|batch| grid.write(batch).unwrap());
        grid.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn cells_are_told_apart() {
        let rows = batch(vec![Some(1), None, Some(3)], vec![Some(""), None, Some("\u{1b}[31mred")]);
        let shown = "\
+------+---------------+
| n    | text          |
+------+---------------+
| 1    |               |
| NULL | NULL          |
| 3    | \\u{1b}[31mred |
+------+---------------+
";
        assert_eq!(grid(&[rows]), shown);
    }

    #[test]
    fn lines_and_wide_characters_stay_in_their_column() {
        let shown = "\
+---+------+
| n | text |
+---+------+
| 1 | a    |
|   | 日本 |
| 2 | c    |
+---+------+
";
        assert_eq!(grid(&[batch(vec![Some(1), Some(2)], vec![Some("a\n日本"), Some("c")])]), shown);
        assert_eq!(grid(&[batch(vec![], vec![])]), "+---+------+\n| n | text |\n+---+------+\n+---+------+\n");
    }

    #[test]
    fn a_cell_of_any_width_is_shown() {
        let wide = "x".repeat(70_000);
        let shown = grid(&[batch(vec![Some(1), Some(2)], vec![Some(&wide), Some("a")])]);
        assert!(shown.contains(&wide) && shown.lines().all(|line| line.len() == 70_000 + 8), "{}", shown.len());
    }

    #[test]
    fn only_the_first_rows_wait() {
        let few = batch(vec![Some(1); 999], vec![Some("a"); 999]);
        let mut out = Vec::new();
        let mut grid = Box::new(Grid::new(Box::new(&mut out), &few.schema(), FormatOptions::default()));
        grid.write(&few).unwrap();
        assert!(grid.widths.is_none() && grid.waiting.len() == 999);
        for _ in 0..100 {
            grid.write(&few).unwrap();
            assert!(grid.waiting.is_empty());
        }
        grid.write(&batch(vec![Some(1)], vec![Some("wider")])).unwrap();
        grid.finish().unwrap();
        let shown = String::from_utf8(out).unwrap();
        assert_eq!(shown.lines().count(), 4 + 101 * 999 + 1);
        assert!(shown.ends_with("| 1 | a    |\n| 1 | wider |\n+---+------+\n"));
    }
}
