//! Tables of other formats, which their own writers write: appends, of which later ones have more
//! columns, wider ones and other partitions, and deletes between them.

use std::path::Path;

use anyhow::{Result, ensure};
use arrow::array::RecordBatch;
use pagecast_core::random::Random;

use crate::expr::{Expr, Is, Operator};
use crate::faulty::one;
use crate::peers::{Peers, Step};
use crate::tables::{Column, DataFile, Format, Layout, Order, Statistics, Table, Writer};
use crate::types::{Container, Kind, Unit, Zone};
use crate::value::{surplus, texts};

/// A table of this format.
pub(crate) fn table(format: Format, random: &mut Random, name: &str) -> Table {
    let rows = 20 + random.below(300);
    let id = Column {
        name: "id".to_owned(),
        kind: Kind::Int(64),
        low: 0,
        domain: 1,
        nulls: 0,
        order: Order::Row,
        some: Vec::new(),
    };
    let mut key = Column::any(random, "k".to_owned(), Kind::Int(64));
    key.domain = key.domain.min(40);
    key.nulls = one(random, &[0, 10]);
    let mut columns = vec![id, key];
    for at in 0..2 + random.below(4) {
        let kind = one(
            random,
            &[
                Kind::Int(64),
                Kind::Int(32),
                Kind::Float { bits: 64, odd: true },
                Kind::Decimal { precision: 18, scale: 2 },
                Kind::Date,
                Kind::Timestamp(Unit::Micros, Zone::Utc),
                Kind::Text(Container::Plain),
                Kind::Bool,
            ],
        );
        let mut column = Column::any(random, format!("c{at}"), kind);
        column.domain = column.domain.min(one(random, &[3, 30, 3000]));
        column.nulls = one(random, &[0, 20, 100]);
        columns.push(column);
    }
    let count = 2 + random.below(4);
    let partitions = columns.iter().enumerate().skip(1).filter(|(at, column)| is_early(*at) && divides(column));
    let partitions: Vec<String> = partitions.map(|(_, by)| by.name.clone()).collect();
    let by = one(random, &partitions);
    let changes = format != Format::Delta && random.below(2) == 0;
    let files = (0..count).map(|number| {
        let share = rows.div_ceil(count);
        let first = (number * share).min(rows);
        DataFile { first, rows: share.min(rows - first), ..plain_file(number, &columns, format, count) }
    });
    let files: Vec<DataFile> = files.collect();
    let deleted = (0..random.below(3)).map(|_| (1 + random.below(count), condition(random, rows))).collect();
    let partitions = match random.below(3) {
        0 => Vec::new(),
        _ if changes => (0..count).map(|number| (number >= count / 2).then(|| by.clone())).collect(),
        _ => vec![Some(by); count as usize],
    };
    let layout = Layout::Written { format, partitions, deleted, bounds: random.below(3) > 0 };
    let mut table = Table { name: name.to_owned(), layout, rows, seed: random.next(), columns, files };
    table.look(random);
    table
}

/// Whether writers make partitions of it: few values, and no text that is empty.
fn divides(column: &Column) -> bool {
    column.domain <= 40 && matches!(column.kind, Kind::Int(_) | Kind::Date | Kind::Bool)
}

/// Whether the column of this place is in all appends.
fn is_early(at: usize) -> bool {
    at < 3 || at.is_multiple_of(2)
}

/// An append. Later ones have more columns, and wider ones.
fn plain_file(number: u32, columns: &[Column], format: Format, count: u32) -> DataFile {
    let is_late = number >= count / 2;
    let is_there = |at: usize| is_early(at) || is_late;
    let kind = |kind: &Kind| match kind {
        Kind::Int(64) if !is_late && format != Format::Delta => Kind::Int(32),
        other => other.clone(),
    };
    let columns = columns.iter().enumerate().filter(|(at, _)| is_there(*at));
    let columns = columns.map(|(at, column)| {
        let kind = if at < 2 { column.kind.clone() } else { kind(&column.kind) };
        (column.name.clone(), kind)
    });
    DataFile {
        name: number.to_string(),
        writer: Writer::Own,
        first: 0,
        rows: 0,
        row_group: 1000,
        page: 1000,
        version_2: false,
        dictionary: false,
        snappy: false,
        statistics: Statistics::OfChunks,
        offset_index: false,
        sorted: false,
        bloom: false,
        columns: columns.collect(),
        folder: None,
        with_folder: false,
    }
}

/// A condition that the filters of all three can say.
fn condition(random: &mut Random, rows: u32) -> Expr {
    let column = |name: &str| Expr::Column { side: "delta".to_owned(), name: name.to_owned(), kind: Kind::Int(64) };
    let number = |random: &mut Random| Expr::whole(i64::from(random.below(rows)));
    match random.below(4) {
        0 => Expr::Is(column("k").boxed(), Is::Null),
        1 => {
            let list = (0..1 + random.below(6)).map(|_| number(random)).collect();
            Expr::In { of: column("id").boxed(), not: false, list }
        }
        2 => column("k").compare(one(random, &[Operator::Less, Operator::AtLeast]), Expr::whole(-990)),
        _ => {
            let first = random.below(rows);
            let last = Expr::whole(i64::from(first + random.below(30)));
            let after = column("id").compare(Operator::AtLeast, Expr::whole(i64::from(first)));
            Expr::Both(after.boxed(), column("id").compare(Operator::Less, last).boxed())
        }
    }
}

/// Lets its writer write a table, whose own reader must find the rows that it should have.
pub(crate) fn write(table: &Table, path: &Path, peers: &Peers) -> Result<()> {
    let Layout::Written { format, partitions, deleted, bounds } = &table.layout else { return Ok(()) };
    let mut steps = Vec::new();
    for (at, file) in table.files.iter().enumerate() {
        steps.push(Step::Append(table.written(file)?, partitions.get(at).cloned().flatten()));
        let then = deleted.iter().filter(|(after, _)| table.is_after(*after, at));
        steps.extend(then.map(|(_, condition)| Step::Delete(condition.sql().replace("delta.", ""))));
    }
    let found = peers.make(*format, path, &steps, *bounds)?;
    let names = table.columns.iter().map(|column| column.name.as_str());
    let in_order = |batch: &RecordBatch| -> Result<RecordBatch> {
        let places = names.clone().map(|name| batch.schema().index_of(name));
        Ok(batch.project(&places.collect::<Result<Vec<_>, _>>()?)?)
    };
    let found = texts(&found.iter().map(in_order).collect::<Result<Vec<_>>>()?)?;
    let wanted = texts(&table.all_rows()?)?;
    let (missing, extra) = (surplus(&wanted, &found), surplus(&found, &wanted));
    ensure!(
        missing.is_empty() && extra.is_empty(),
        "{format:?}'s own reader misses {} rows and has {} others: {:?} {:?}",
        missing.len(),
        extra.len(),
        missing.keys().next(),
        extra.keys().next()
    );
    Ok(())
}
