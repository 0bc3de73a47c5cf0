//! Random tables: what they say of themselves is all that their rows and files depend on.

use anyhow::{Context, Result};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use pagecast_core::random::Random;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::expr::{Expr, Operator};
use crate::naive::{Rows, World};
use crate::types::Kind;
use crate::value::rows;

/// Who writes a table that is no folder of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Format {
    /// deltalake's.
    Delta,
    /// pyiceberg's.
    Iceberg,
    /// DuckDB's.
    DuckLake,
}

impl Format {
    /// The format of this name.
    pub(crate) fn named(name: &str) -> Result<Self> {
        let all = [("delta", Self::Delta), ("iceberg", Self::Iceberg), ("ducklake", Self::DuckLake)];
        let found = all.iter().find(|(known, _)| *known == name);
        found.map(|(_, format)| *format).with_context(|| format!("{name} is none of delta, iceberg, ducklake"))
    }
}

/// A table, and its files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) layout: Layout,
    /// Rows of all files that it was made with: fewer files have the same rows as before.
    pub(crate) rows: u32,
    pub(crate) seed: u64,
    /// The first tells rows apart, the second is a key.
    pub(crate) columns: Vec<Column>,
    pub(crate) files: Vec<DataFile>,
}

/// How its files become a table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum Layout {
    /// With the types that somebody declared, and, if they are so, rows in the order of the key.
    Declared { ordered: bool },
    /// A folder whose files say what they hold.
    Folder,
    /// The same in folders of a column's values.
    Hive,
    /// The same where a statement says what types all columns have.
    DeclaredHive,
    /// A Delta table, of which rows are deleted for which these conditions hold, one after the
    /// other.
    Delta { partitioned: bool, deleted: Vec<Expr> },
    /// A table of another writer: the column that divides each file's rows, conditions of deletes
    /// behind so many files, and whether its metadata have bounds of columns.
    Written { format: Format, partitions: Vec<Option<String>>, deleted: Vec<(u32, Expr)>, bounds: bool },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) low: i64,
    pub(crate) domain: u32,
    /// How many of a hundred are NULL.
    pub(crate) nulls: u32,
    pub(crate) order: Order,
    /// Some of its numbers.
    pub(crate) some: Vec<i64>,
}

/// How values follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    Ascending,
    /// In each row group of its file anew.
    InGroups,
    Descending,
    /// Ascending, but for some rows.
    Nearly,
    Scattered,
    /// The row's own number.
    Row,
}

/// A file, and what its writer chose.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DataFile {
    pub(crate) name: String,
    pub(crate) writer: Writer,
    pub(crate) first: u32,
    pub(crate) rows: u32,
    pub(crate) row_group: u32,
    pub(crate) page: u32,
    pub(crate) version_2: bool,
    pub(crate) dictionary: bool,
    pub(crate) snappy: bool,
    pub(crate) statistics: Statistics,
    pub(crate) offset_index: bool,
    /// Whether it says that each row group is in the order of the key.
    pub(crate) sorted: bool,
    pub(crate) bloom: bool,
    /// The columns that it has, by name and in this order, and their types in it.
    pub(crate) columns: Vec<(String, Kind)>,
    /// In a hive.
    pub(crate) folder: Option<Folder>,
    /// Whether it has the column of its folder as well.
    pub(crate) with_folder: bool,
}

/// Whose program writes a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Writer {
    /// Arrow's for Rust.
    Own,
    PyArrow,
    /// With moments of 96 bits, and no word on types of Arrow.
    PyArrowOfOld,
    DuckDb,
    Polars,
    FastParquet,
    /// No Parquet: Arrow's own format, and texts.
    Feather,
    Csv,
}

/// What a folder of a hive says of its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Folder {
    Null,
    Of(i64),
}

impl Folder {
    pub(crate) fn number(self) -> Option<i64> {
        match self {
            Self::Null => None,
            Self::Of(number) => Some(number),
        }
    }
}

/// What a file says of its values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Statistics {
    None,
    OfChunks,
    OfPages,
    /// Of texts the first bytes alone.
    Truncated,
    /// In the fields that old writers filled.
    Old,
    /// Without the number of NULLs.
    WithoutNulls,
    /// None of texts.
    NotOfTexts,
}

/// The column of a hive's folders.
pub(crate) const FOLDER: &str = "h";

impl Table {
    /// A table of one kind or another, by a key of this type; large and in the key's order if it is
    /// `for_joins`.
    pub(crate) fn any(random: &mut Random, name: &str, key: &Kind, for_joins: bool) -> Self {
        let layout = match random.below(12) {
            0..=4 | 8.. if for_joins => Layout::Declared { ordered: random.below(2) == 0 },
            0..=4 => Layout::Declared { ordered: random.below(2) == 0 },
            5..=7 => Layout::Folder,
            8..=10 if key.is_of_delta() => {
                Layout::Delta { partitioned: random.below(2) == 0, deleted: deletions(random) }
            }
            _ => Layout::Hive,
        };
        // So many that joins are worth chunks, but for keys that would meet too often.
        let most = if key.domain().1 < 1000 { 1500 } else { 12_000 };
        let rows = if for_joins { most } else { most.min([40, 1500, 12_000][random.below(3) as usize]) };
        let rows = rows + random.below(40);
        let columns = columns(random, &layout, key, for_joins);
        let mut table = Self { name: name.to_owned(), layout, rows, seed: random.next(), columns, files: Vec::new() };
        table.files = table.cut(random, for_joins);
        let is_missing = |column: &&Column| column.name != FOLDER && !table.files.iter().any(|file| file.has(column));
        let missing: Vec<_> =
            table.columns.iter().filter(is_missing).map(|of| (of.name.clone(), of.kind.clone())).collect();
        table.files[0].columns.extend(missing);
        table.look(random);
        table
    }

    /// Keeps some values of each column in mind, so that statements name them.
    pub(crate) fn look(&mut self, random: &mut Random) {
        let columns = self.columns.iter().map(|column| {
            let numbers = (0..4).filter_map(|_| {
                let file = &self.files[random.below(self.files.len() as u32) as usize];
                match file.folder {
                    Some(folder) if column.name == FOLDER => folder.number(),
                    _ if file.rows == 0 => None,
                    _ => self.numbers(column, file)[random.below(file.rows) as usize],
                }
            });
            Column { some: numbers.collect(), ..column.clone() }
        });
        self.columns = columns.collect();
    }

    fn cut(&self, random: &mut Random, for_joins: bool) -> Vec<DataFile> {
        let files = 1 + random.below(4);
        let share = self.rows.div_ceil(files);
        // Large, so that joins have several chunks.
        let plain = for_joins || random.below(2) == 0;
        let folder = |random: &mut Random| match random.below(4) {
            0 => Folder::Null,
            _ => Folder::Of(i64::from(random.below(5)) - 1),
        };
        (0..files)
            .map(|number| {
                let first = number * share;
                let page = 10 + random.below(90);
                let all = [Statistics::OfChunks, Statistics::OfPages, Statistics::OfPages];
                let odd = [Statistics::None, Statistics::Truncated, Statistics::Old];
                let statistics = if random.below(8) > 0 { all } else { odd };
                DataFile {
                    name: format!("{number}.parquet"),
                    writer: Writer::Own,
                    first,
                    rows: share.min(self.rows - first.min(self.rows)),
                    row_group: 20 + random.below(400),
                    page,
                    version_2: !plain && random.below(2) == 0,
                    dictionary: !plain && random.below(2) == 0,
                    snappy: !plain && random.below(2) == 0,
                    statistics: statistics[random.below(statistics.len() as u32) as usize],
                    offset_index: random.below(4) > 0,
                    sorted: false,
                    bloom: random.below(8) == 0,
                    with_folder: false,
                    columns: self.columns_of_file(random, number),
                    folder: (self.layout == Layout::Hive)
                        .then(|| if number == 0 { Folder::Of(0) } else { folder(random) }),
                }
            })
            .collect()
    }

    /// Columns in another order, some in another type, and some not at all.
    fn columns_of_file(&self, random: &mut Random, number: u32) -> Vec<(String, Kind)> {
        let mut columns = Vec::new();
        for (at, column) in self.columns.iter().enumerate().filter(|(_, column)| column.name != FOLDER) {
            let is_missing = at > 1 && !(number as usize + at).is_multiple_of(3) && random.below(6) == 0;
            if is_missing && !matches!(self.layout, Layout::Delta { .. }) {
                continue;
            }
            let kind = match self.layout {
                Layout::Declared { .. } => column.kind.of_file(random),
                _ => column.kind.clone(),
            };
            let place = random.below(columns.len() as u32 + 1) as usize;
            let is_shuffled = random.below(4) == 0;
            columns.insert(if is_shuffled { place } else { columns.len() }, (column.name.clone(), kind));
        }
        columns
    }

    /// The types that the table has.
    pub(crate) fn schema(&self) -> SchemaRef {
        let is_everywhere = |column: &Column| self.files.iter().all(|file| file.has(column));
        let field = |column: &Column| {
            let nullable = match column.name == FOLDER {
                true => self.files.iter().any(|file| file.folder == Some(Folder::Null)),
                false => column.nulls > 0 || !is_everywhere(column),
            };
            Field::new(&column.name, column.kind.arrow(), nullable)
        };
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }

    /// The rows of a file as the table has them.
    pub(crate) fn rows_of(&self, file: &DataFile) -> Result<RecordBatch> {
        let numbers = |column: &Column| match file.folder {
            Some(folder) if column.name == FOLDER => vec![folder.number(); file.rows as usize],
            _ if !file.has(column) => vec![None; file.rows as usize],
            _ => self.numbers(column, file),
        };
        let columns = self.columns.iter().map(|column| column.kind.array(&numbers(column)));
        batch(self.schema(), columns.collect::<Result<_>>()?, file.rows)
    }

    /// The rows of a file as they lie in it.
    pub(crate) fn written(&self, file: &DataFile) -> Result<RecordBatch> {
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (name, kind) in &file.columns {
            let Some(column) = self.columns.iter().find(|column| column.name == *name) else { continue };
            fields.push(Field::new(name, kind.arrow(), column.nulls > 0));
            columns.push(kind.array(&self.numbers(column, file))?);
        }
        let of_folder = self.columns.iter().find(|column| file.with_folder && column.name == FOLDER);
        if let Some((column, folder)) = of_folder.zip(file.folder) {
            fields.push(Field::new(FOLDER, column.kind.arrow(), true));
            columns.push(column.kind.array(&vec![folder.number(); file.rows as usize])?);
        }
        batch(Arc::new(Schema::new(fields)), columns, file.rows)
    }

    /// All rows that are not deleted.
    pub(crate) fn all_rows(&self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        for (at, file) in self.files.iter().enumerate() {
            batches.push(self.rows_of(file)?);
            match &self.layout {
                Layout::Written { deleted, .. } => {
                    let then = deleted.iter().filter(|(after, _)| self.is_after(*after, at));
                    then.map(|(_, condition)| condition)
                        .try_for_each(|condition| self.delete(&mut batches, condition))?;
                }
                Layout::Delta { deleted, .. } if at + 1 == self.files.len() => {
                    deleted.iter().try_for_each(|condition| self.delete(&mut batches, condition))?;
                }
                _ => {}
            }
        }
        Ok(batches)
    }

    /// Whether what comes after so many files comes after this one.
    pub(crate) fn is_after(&self, files: u32, at: usize) -> bool {
        (files as usize).min(self.files.len()) == at + 1
    }

    /// Its name, and the rows that it has.
    pub(crate) fn known(&self) -> Result<(String, Rows)> {
        let names = self.columns.iter().map(|column| column.name.clone()).collect();
        Ok((self.name.clone(), Rows { names, rows: rows(&self.all_rows()?)? }))
    }

    /// Leaves out the rows for which a condition holds.
    fn delete(&self, batches: &mut [RecordBatch], condition: &Expr) -> Result<()> {
        let names = self.columns.iter().map(|column| column.name.clone()).collect();
        let all = Rows { names, rows: rows(batches)? };
        let mut left = World::chosen("delta", &all, condition)?.into_iter().map(|is_chosen| Some(!is_chosen));
        for batch in batches {
            let left = left.by_ref().take(batch.num_rows()).collect();
            *batch = arrow::compute::filter_record_batch(batch, &left)?;
        }
        Ok(())
    }

    /// Tables that lack a file, half of its rows, or a column that `sql` does not name, and files
    /// that are written in a simpler way.
    pub(crate) fn smaller(&self, sql: &str) -> Vec<Self> {
        let mut smaller = Vec::new();
        let mut with = |change: &dyn Fn(&mut Self)| {
            let mut other = self.clone();
            change(&mut other);
            smaller.push(other);
        };
        for at in 0..self.files.len() {
            if self.files.len() > 1 {
                with(&|other| drop(other.files.remove(at)));
            }
            let half = self.files[at].rows / 2;
            if half > 0 {
                with(&|other| other.files[at].rows = half);
                with(&|other| {
                    other.files[at].first += half;
                    other.files[at].rows -= half;
                });
            }
            if self.files[at].statistics != Statistics::OfChunks {
                with(&|other| other.files[at].statistics = Statistics::OfChunks);
            }
            if self.files[at].bloom {
                with(&|other| other.files[at].bloom = false);
            }
            if self.files[at].sorted {
                with(&|other| other.files[at].sorted = false);
            }
            if self.files[at].dictionary {
                with(&|other| other.files[at].dictionary = false);
            }
        }
        for (at, column) in self.columns.iter().enumerate().skip(2) {
            if !sql.contains(&format!(".{}", column.name)) && column.name != FOLDER {
                with(&|other| {
                    other.columns.remove(at);
                    other.files.iter_mut().for_each(|file| file.columns.retain(|(name, _)| *name != column.name));
                });
            }
        }
        if let Layout::Delta { partitioned: true, deleted } = &self.layout {
            with(&|other| other.layout = Layout::Delta { partitioned: false, deleted: deleted.clone() });
        }
        smaller
    }

    fn numbers(&self, column: &Column, file: &DataFile) -> Vec<Option<i64>> {
        let salt = column.name.bytes().fold(self.seed, |salt, byte| salt.wrapping_mul(31).wrapping_add(byte.into()));
        let scaled =
            |row: u32| i64::from((u64::from(row) * u64::from(column.domain) / u64::from(self.rows.max(1))) as u32);
        let number = |row: u32| {
            let mut random = Random::new(salt ^ (u64::from(row) << 20));
            if random.below(100) < column.nulls {
                return None;
            }
            let place = match column.order {
                Order::Row => return Some(i64::from(row)),
                Order::Ascending => scaled(row),
                Order::InGroups => {
                    let of_group = (row - file.first) % file.row_group;
                    i64::from(of_group * column.domain / file.row_group)
                }
                Order::Descending => scaled(self.rows - 1 - row),
                Order::Nearly if random.below(20) > 0 => scaled(row),
                Order::Nearly | Order::Scattered => i64::from(random.below(column.domain)),
            };
            Some(column.low + place)
        };
        (file.first..file.first + file.rows).map(number).collect()
    }
}

impl DataFile {
    pub(crate) fn has(&self, column: &Column) -> bool {
        self.columns.iter().any(|(name, _)| *name == column.name)
    }
}

impl Column {
    pub(crate) fn any(random: &mut Random, name: String, kind: Kind) -> Self {
        let (low, most) = kind.domain();
        let domain = [most, most.min(100), most.min(7)][random.below(3) as usize];
        let orders = [Order::Ascending, Order::Descending, Order::Nearly, Order::Scattered];
        let nulls = [0, 0, 5, 40, 100][random.below(5) as usize];
        Self { name, kind, low, domain, nulls, order: orders[random.below(4) as usize], some: Vec::new() }
    }

    /// A number of one of its values, or of none that it has.
    pub(crate) fn number(&self, random: &mut Random) -> i64 {
        match self.some.len() as u32 {
            some @ 1.. if random.below(2) == 0 => self.some[random.below(some) as usize],
            _ => self.low + i64::from(random.below(self.domain + self.domain.div_ceil(8))),
        }
    }

    /// It, in the table of this alias.
    pub(crate) fn of(&self, side: &str) -> Expr {
        Expr::Column { side: side.to_owned(), name: self.name.clone(), kind: self.kind.clone() }
    }
}

fn columns(random: &mut Random, layout: &Layout, key: &Kind, for_joins: bool) -> Vec<Column> {
    let id = Kind::Int(64);
    let mut columns = vec![Column {
        name: "id".to_owned(),
        low: 0,
        domain: 1,
        nulls: 0,
        order: Order::Row,
        kind: id,
        some: vec![0, 7],
    }];
    let mut of_key = Column::any(random, "k".to_owned(), key.clone());
    of_key.domain = key.domain().1;
    of_key.nulls = [0, 0, 10][random.below(3) as usize];
    let orders = [Order::Ascending, Order::Ascending, Order::Descending, Order::Nearly];
    of_key.order = orders[random.below(if for_joins { 3 } else { 4 }) as usize];
    if *layout == (Layout::Declared { ordered: true }) {
        (of_key.order, of_key.nulls) = (Order::Ascending, 0);
    }
    columns.push(of_key);
    for number in 0..random.below(6) + if for_joins { 3 } else { 1 } {
        let kind = match layout {
            Layout::Delta { .. } => Kind::of_delta(random),
            _ => Kind::any(random),
        };
        columns.push(Column::any(random, format!("c{number}"), kind));
    }
    if *layout == Layout::Hive {
        let kind = if random.below(2) == 0 { Kind::Int(64) } else { Kind::Text(crate::types::Container::Plain) };
        let column = Column::any(random, FOLDER.to_owned(), kind);
        columns.push(Column { nulls: 1, low: -1, domain: 5, ..column });
    }
    columns
}

fn deletions(random: &mut Random) -> Vec<Expr> {
    let id = Expr::Column { side: "delta".to_owned(), name: "id".to_owned(), kind: Kind::Int(64) };
    let of_rest = |random: &mut Random, rest: u32| {
        id.clone().remainder(2 + i64::from(random.below(9))).compare(Operator::Equal, Expr::whole(i64::from(rest)))
    };
    (0..random.below(3)).map(|rest| of_rest(random, rest)).collect()
}

fn batch(schema: SchemaRef, columns: Vec<ArrayRef>, rows: u32) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}
