//! Objects of JSON, with NULL as `null`.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::{Out, Rows, fault};

/// Writes rows as objects.
pub(super) struct Json<'a> {
    out: Out<'a>,
    /// What goes before the next object, if they are an array's.
    between: Option<&'static str>,
}

impl<'a> Json<'a> {
    /// All rows in one array, a line for each.
    pub(super) fn array(out: Out<'a>) -> Self {
        Self { out, between: Some("[") }
    }

    /// A line for each row, and nothing between.
    pub(super) fn lines(out: Out<'a>) -> Self {
        Self { out, between: None }
    }
}

/// Fails if a time cannot be shown. Arrow's writer would write what is wrong with it as a value.
fn check(batch: &RecordBatch) -> Result<(), ArrowError> {
    let options = FormatOptions::new().with_display_error(false);
    let mut text = String::new();
    let times = batch.columns().iter().filter(|column| has_times(column.data_type()));
    for column in times {
        let values = ArrayFormatter::try_new(column.as_ref(), &options)?;
        for row in 0..batch.num_rows() {
            text.clear();
            values.value(row).write(&mut text)?;
        }
    }
    Ok(())
}

fn has_times(kind: &DataType) -> bool {
    match kind {
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) | DataType::Map(of, _) => {
            has_times(of.data_type())
        }
        DataType::Struct(of) => of.iter().any(|part| has_times(part.data_type())),
        kind => kind.is_temporal(),
    }
}

impl Rows for Json<'_> {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        check(batch).map_err(fault)?;
        let mut text = Vec::new();
        let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(&mut text);
        writer.write(batch).and_then(|()| writer.finish()).map_err(fault)?;
        drop(writer);
        let Some(mut between) = self.between else { return self.out.write_all(&text) };
        // No line ends inside of an object: JSON writes those of its texts as `\n`.
        for object in text.split(|&byte| byte == b'\n').filter(|object| !object.is_empty()) {
            self.out.write_all(between.as_bytes())?;
            self.out.write_all(object)?;
            between = ",\n";
        }
        self.between = Some(between);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        match self.between {
            Some("[") => self.out.write_all(b"[]\n")?,
            Some(_) => self.out.write_all(b"]\n")?,
            None => {}
        }
        self.out.flush()
    }
}
