//! CSV with a head line: which columns hold the page, the direction and the relation.

use super::error::{Place, TraceError, excerpt};
use super::lines::{Lines, direction, number, page_id};
use super::text::{in_relation, item};
use super::{Record, Source};
use pagecast_core::PageId;
use std::collections::HashMap;
use std::io::BufRead;

/// The names of the columns; without a name, the first column with one of the usual names is taken.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Columns {
    /// The page's id, or its block if there is a relation.
    pub page: Option<String>,
    /// `r`, `w`, `read`, `write`, `0`, `1`.
    pub write: Option<String>,
    /// A number, or a name: names are numbered in the order in which they come.
    pub relation: Option<String>,
    /// The item of the page; an empty field asks for the whole page.
    pub tuple: Option<String>,
}

const PAGE: &[&str] = &["page", "page_id", "block", "blockno", "lbn", "lba", "obj_id", "id", "key"];
const WRITE: &[&str] = &["write", "rw", "op", "operation", "direction"];
const TUPLE: &[&str] = &["tuple", "tuple_id", "item", "slot"];
const RELATION: &[&str] = &["relation", "rel", "relfilenode", "table", "file"];

/// Fields are separated by commas (semicolons or tabs if the head line has those and no comma) and
/// may stand in quotes, without commas inside them: page traces hold numbers and names.
pub(crate) struct Csv<R> {
    lines: Lines<R>,
    separator: u8,
    fields: usize,
    page: usize,
    write: Option<usize>,
    relation: Option<usize>,
    tuple: Option<usize>,
    names: HashMap<Vec<u8>, u64>,
}

impl<R: BufRead> Csv<R> {
    pub(crate) fn new(input: R, columns: &Columns) -> Result<Self, TraceError> {
        let mut lines = Lines::new(input);
        let Some(head) = lines.next()? else {
            return Err(TraceError::at(
                Place::Whole,
                "the file is empty: a CSV trace begins with a line of column names",
            ));
        };
        let separator = *b",;\t".iter().find(|&&c| head.contains(&c)).unwrap_or(&b',');
        let names: Vec<String> = fields(head, separator).map(|f| String::from_utf8_lossy(f).to_lowercase()).collect();
        let find = |asked: &Option<String>, usual: &[&str]| -> Result<Option<usize>, String> {
            match asked {
                Some(name) => match names.iter().position(|n| *n == name.to_lowercase()) {
                    Some(at) => Ok(Some(at)),
                    None => {
                        Err(format!("there is no column `{name}`; there are {}", excerpt(names.join(", ").as_bytes())))
                    }
                },
                None => Ok(usual.iter().find_map(|usual| names.iter().position(|name| name == usual))),
            }
        };
        let found = (|| {
            let page = find(&columns.page, PAGE)?.ok_or_else(|| {
                format!("no column is called {}; name it: --format 'csv(page=NAME)'", PAGE.join(", "))
            })?;
            let relation = find(&columns.relation, RELATION)?;
            Ok((page, find(&columns.write, WRITE)?, relation, find(&columns.tuple, TUPLE)?))
        })();
        let (page, write, relation, tuple) = found.map_err(|cause: String| lines.fault(cause))?;
        Ok(Self { lines, separator, fields: names.len(), page, write, relation, tuple, names: HashMap::new() })
    }

    fn parse(&mut self) -> Result<Record, String> {
        let line = self.lines.last();
        let field = |at: usize| fields(line, self.separator).nth(at).unwrap_or_default();
        let count = fields(line, self.separator).count();
        if count != self.fields {
            return Err(format!("{count} fields where the head line has {}", self.fields));
        }
        let word = field(self.page);
        let page = page_id(word).ok_or_else(|| format!("the page `{}` is no whole number", excerpt(word)))?;
        let write = match self.write.map(field) {
            None => false,
            Some(word) => direction(word).ok_or_else(|| format!("`{}` is neither r nor w", excerpt(word)))?,
        };
        let page = match self.relation.map(field) {
            None => PageId::from_raw(page),
            Some(word) => {
                let relation = number(word).unwrap_or_else(|| {
                    let next = self.names.len() as u64;
                    self.names.get(word).copied().unwrap_or_else(|| *self.names.entry(word.to_vec()).or_insert(next))
                });
                in_relation(Some(relation), page)
                    .ok_or_else(|| format!("block {page} of relation {relation}: both must be below 2^32"))?
            }
        };
        let tuple = self.tuple.map(field).filter(|word| !word.is_empty()).map(item).transpose()?;
        Ok(Record::of(page, tuple, write))
    }
}

fn fields(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    line.split(move |&byte| byte == separator).map(|field| {
        let field = field.trim_ascii();
        field.strip_prefix(b"\"").and_then(|field| field.strip_suffix(b"\"")).unwrap_or(field)
    })
}

impl<R: BufRead> Source for Csv<R> {
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            match self.lines.next()? {
                None => return Ok(None),
                Some([]) => {}
                Some(_) => return self.parse().map(Some).map_err(|cause| self.lines.fault(cause)),
            }
        }
    }
}
