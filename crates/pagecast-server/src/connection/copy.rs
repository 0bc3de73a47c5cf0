//! Rows of a COPY, as lines of text or CSV, or in the binary format.

use bytes::{BufMut, BytesMut};
use pagecast_sql::query::Query;
use pgwire::messages::PgWireBackendMessage as Reply;
use pgwire::messages::copy::{CopyData, CopyDone, CopyOutResponse};
use pgwire::messages::response::CommandComplete;
use tokio::io::AsyncWrite;

use super::Connection;
use crate::execution::{self, Standing};
use crate::problem::Problem;
use crate::rows;
use crate::statements::{Kind, Layout, Rows};
use crate::stop::Stop;

/// What rows in the binary format begin with: a mark, no flags, and no more of a header.
const MARK: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

impl<W: AsyncWrite + Unpin> Connection<W> {
    /// Sends all rows of a query.
    pub(super) async fn copy(&mut self, rows: &Rows, layout: &Layout, stop: &mut Stop) -> Result<(), Problem> {
        let (query, standing) = execution::begin(&self.client, rows, Vec::new(), stop).await?;
        let held = query.held().clone();
        held.counted(self.copied(query, standing, rows, layout, stop)).await
    }

    async fn copied(
        &mut self,
        mut query: Query,
        mut standing: Standing,
        rows: &Rows,
        layout: &Layout,
        stop: &mut Stop,
    ) -> Result<(), Problem> {
        let columns = i16::try_from(rows.names.len()).unwrap_or(i16::MAX);
        let (binary, mut next) = (layout.kind == Kind::Binary, BytesMut::new());
        let format = i16::from(binary);
        let formats = vec![format; rows.names.len()];
        self.put(Reply::CopyOutResponse(CopyOutResponse::new(format as i8, columns, formats)))?;
        if binary {
            next.put_slice(MARK);
        }
        if layout.header {
            let names: Vec<_> = rows.names.iter().map(|name| Some(name.as_str())).collect();
            self.put(Reply::CopyData(CopyData::new(line(&names, layout).freeze())))?;
        }
        let mut count = 0;
        while let Some(batch) = stop.of(standing.next(&mut query)).await? {
            let prepared = binary.then(|| rows::Rows::of(&rows.schema, &[1]).prepare(&batch)).transpose()?;
            let texts = if binary { &[] } else { batch.columns() };
            let texts = texts.iter().map(rows::texts).collect::<anyhow::Result<Vec<_>>>()?;
            for row in 0..batch.num_rows() {
                match &prepared {
                    Some(prepared) => prepared.values(row, &mut next)?,
                    None => {
                        let values: Vec<_> = texts.iter().map(|texts| rows::text_at(texts, row)).collect();
                        next = line(&values, layout);
                    }
                }
                self.put(Reply::CopyData(CopyData::new(next.split().freeze())))?;
                if self.writer.is_full() {
                    execution::flush(&mut standing, &self.client, &mut self.writer, stop).await?;
                }
            }
            count += batch.num_rows();
            self.client.entry.sent(batch.num_rows());
        }
        if binary {
            next.put_i16(-1);
            self.put(Reply::CopyData(CopyData::new(next.freeze())))?;
        }
        self.put(Reply::CopyDone(CopyDone::new()))?;
        self.put(Reply::CommandComplete(CommandComplete::new(format!("COPY {count}"))))
    }
}

/// One line, with its end.
fn line(values: &[Option<&str>], layout: &Layout) -> BytesMut {
    let mut line = BytesMut::new();
    let mut bytes = [0; 4];
    for (column, value) in values.iter().enumerate() {
        if column > 0 {
            line.put_slice(layout.delimiter.encode_utf8(&mut bytes).as_bytes());
        }
        match value {
            None => line.put_slice(layout.null.as_bytes()),
            Some(text) if layout.kind == Kind::Csv => csv(text, layout, values.len() == 1, &mut line),
            Some(text) => escaped(text, layout.delimiter, &mut line),
        }
    }
    line.put_u8(b'\n');
    line
}

fn csv(text: &str, layout: &Layout, alone: bool, line: &mut BytesMut) {
    let special = |c: char| c == layout.delimiter || c == layout.quote || c == '\n' || c == '\r';
    // A line of these two characters would end the rows.
    let ends = alone && text == "\\.";
    if text != layout.null && !text.contains(special) && !ends {
        return line.put_slice(text.as_bytes());
    }
    let mut bytes = [0; 4];
    let mut put = |character: char| line.put_slice(character.encode_utf8(&mut bytes).as_bytes());
    put(layout.quote);
    for character in text.chars() {
        if character == layout.quote || character == layout.escape {
            put(layout.escape);
        }
        put(character);
    }
    put(layout.quote);
}

fn escaped(text: &str, delimiter: char, line: &mut BytesMut) {
    let mut bytes = [0; 4];
    for character in text.chars() {
        let letter = match character {
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            '\u{b}' => 'v',
            special if special == '\\' || special == delimiter => special,
            plain => {
                line.put_slice(plain.encode_utf8(&mut bytes).as_bytes());
                continue;
            }
        };
        line.put_u8(b'\\');
        line.put_slice(letter.encode_utf8(&mut bytes).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(values: &[Option<&str>], layout: &Layout) -> String {
        String::from_utf8_lossy(&line(values, layout)).into_owned()
    }

    #[test]
    fn lines_are_those_of_postgresql() {
        let text = Layout {
            kind: Kind::Text,
            delimiter: '\t',
            null: "\\N".to_owned(),
            header: false,
            quote: '"',
            escape: '"',
        };
        assert_eq!(shown(&[Some("a\tb"), None, Some("\\")], &text), "a\\tb\t\\N\t\\\\\n");
        let csv = Layout { kind: Kind::Csv, delimiter: ',', null: String::new(), ..text };
        assert_eq!(shown(&[Some("a,b"), None, Some(""), Some("\"q\"")], &csv), "\"a,b\",,\"\",\"\"\"q\"\"\"\n");
        assert_eq!(shown(&[Some("\\.")], &csv), "\"\\.\"\n");
    }
}
