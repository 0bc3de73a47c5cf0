//! What a closed loop runs: streams of queries over tables, made by rule and seed.

use super::table::Table;
use crate::generate::call::Call;
use pagecast_core::random::Random;
use pagecast_core::{PageId, RelationId, Tick};
use std::ops::Range;

/// A scan of some columns of a stretch of rows.
#[derive(Clone, PartialEq, Debug)]
pub struct ScanProgram {
    /// The table's number in [`Workload::tables`].
    pub table: usize,
    /// The numbers of its columns, in their order.
    pub columns: Vec<usize>,
    /// A second table that is joined along the way, and the numbers of its columns. Equal rows of
    /// both tables have equal keys: rows are counted on one axis.
    pub joined: Option<(usize, Vec<usize>)>,
    /// The rows.
    pub rows: Range<u64>,
    /// What the processor needs for a row, in nanoseconds.
    pub row_cost: f64,
    /// Whether the query needs the rows in their order, whatever the delivery is.
    pub in_order: bool,
    /// Whether its user leaves it in the middle.
    pub stop: Option<Stop>,
}

/// A user who leaves a query in the middle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stop {
    /// Rows that the scan reads before.
    pub rows: u64,
    /// How long nobody takes rows from there on; `None` if the query is cancelled.
    pub pause: Option<Tick>,
}

/// Scans that one query makes one after the other.
#[derive(Clone, PartialEq, Debug)]
pub struct Query {
    /// Its type's number in [`Workload::types`].
    pub kind: usize,
    /// How long the stream waits before it.
    pub after: Tick,
    /// Its scans.
    pub scans: Vec<ScanProgram>,
}

/// Streams of queries. Each runs its queries one after the other.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// The text that makes it, as it was given.
    pub name: String,
    /// The same with all parameters.
    pub full: String,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// The tables. Each has a relation of its own.
    pub tables: Vec<Table>,
    /// The names of the types of queries.
    pub types: Vec<String>,
    /// By stream, its queries.
    pub streams: Vec<Vec<Query>>,
    /// What is in the pool at the beginning; the first was used longest ago.
    pub resident: Vec<PageId>,
}

/// A workload that there is.
struct Entry {
    name: &'static str,
    about: &'static str,
    make: fn(&mut Call, &mut Random) -> Result<Workload, String>,
}

static WORKLOADS: &[Entry] = &[
    Entry {
        name: "speeds",
        about: "One table; fast queries (F) and slow ones (S) over a random part of it; Świtakowski 2011, 6.2 to 6.5. \
                streams=16, queries=4, speeds=FS, sizes=1+10+50+100 (per cent of the table), ordered=0% (queries that \
                need their rows in order), tables=1 (each query reads one of so many), units=240 (of each)",
        make: speeds,
    },
    Entry {
        name: "columns",
        about: "One table of six columns, A to F; queries over some of them and a random 40 % of the rows; 6.6. \
                streams=16, queries=4, sets=ABC (some, as ABC+BCD), share=40%, units=200",
        make: columns,
    },
    Entry {
        name: "joins",
        about: "Two tables in the order of their key; joins of both (CMJ1, CMJ2) and scans of one (L1, O1) over a random \
                stretch of keys; 6.7. streams=16, queries=4, mix=CMJ1+CMJ2, sizes=1+10+50+100, units=240, \
                by=merge (hash: each join scans one table after the other)",
        make: joins,
    },
    Entry {
        name: "mixed",
        about: "A day's mix: the queries of `speeds` over some tables, in streams that come and go, beside streams of \
                queries of one row. streams=16, queries=4, points=4 (streams, of fifty times as many queries), tables=3, \
                units=80, ordered=20%, think=10 (seconds before a query, at most), stops=10% (queries whose user takes \
                no rows for a while from a random place on), pause=300 (seconds), cancels=10%",
        make: mixed,
    },
];

/// The workloads by name, with what each imitates and takes.
pub fn workloads() -> impl Iterator<Item = (&'static str, &'static str)> {
    WORKLOADS.iter().map(|workload| (workload.name, workload.about))
}

impl Workload {
    /// The workload that `text` names, as `name` or `name(parameter=value,...)`.
    ///
    /// # Errors
    ///
    /// An unknown name or parameter, or a value out of its range, in one line that says which there
    /// are.
    pub fn make(text: &str, seed: u64) -> Result<Self, String> {
        let mut call = Call::parse(text)?;
        let entry = WORKLOADS.iter().find(|entry| entry.name == call.name()).ok_or_else(|| {
            let known: Vec<_> = workloads().map(|(name, _)| name).collect();
            format!("unknown workload `{}`; there are {}", call.name(), known.join(", "))
        })?;
        let workload = (entry.make)(&mut call, &mut Random::new(seed))?;
        let pages: u64 =
            workload.tables.iter().map(|table| u64::from(table.units) * u64::from(table.unit_blocks())).sum();
        if pages > MAX_PAGES {
            return Err(format!(
                "workload `{text}` would have {pages} pages; at most {MAX_PAGES}: ask for fewer units"
            ));
        }
        Ok(Self { name: text.trim().to_owned(), full: call.finish()?, ..workload })
    }

    /// Pages of all tables.
    pub fn pages(&self) -> u32 {
        self.tables.iter().map(Table::blocks).sum()
    }
}

/// No workload has more pages than this.
const MAX_PAGES: u64 = 1 << 26;

/// Full scans of a query of the two speeds take the processor so many seconds.
const SPEEDS: [(char, f64); 2] = [('F', 2.0), ('S', 6.0)];

/// Pages of lineitem's columns in a unit of a million rows: those of TPC-H's Q6, by the bits that a
/// compressed row takes (28, 13, 7, 5), and three more of Q1.
const LINEITEM: [u32; 7] = [7, 3, 2, 1, 1, 1, 1];
const OF_FAST: usize = 4;

const UNIT_ROWS: u64 = 1_000_000;

fn speeds(call: &mut Call, random: &mut Random) -> Result<Workload, String> {
    let (streams, queries) = streams(call)?;
    let speeds = list(call, "speeds", "FS", "letters F and S", |text| {
        text.chars().map(|letter| SPEEDS.iter().find(|speed| speed.0 == letter).copied()).collect()
    })?;
    let sizes = sizes(call)?;
    let ordered = call.number("ordered", 0.0, 0.0, 1.0)?;
    let tables = lineitems(call, 1, 240)?;
    let programs = in_streams(streams, queries, || speed(&speeds, &sizes, &tables, ordered, random));
    Ok(named(tables, programs))
}

/// The tables of `speeds` and `mixed`.
fn lineitems(call: &mut Call, count: u32, units: u32) -> Result<Vec<Table>, String> {
    let count = call.count("tables", count, 1, 1000)?;
    let units = call.count("units", units, 1, 100_000)?;
    Ok((0..count).map(|number| table(RelationId(number + 1), units, &LINEITEM)).collect())
}

/// A query of one of the speeds and sizes, and the name of its type.
fn speed(
    speeds: &[(char, f64)],
    sizes: &[u64],
    tables: &[Table],
    ordered: f64,
    random: &mut Random,
) -> (String, ScanProgram) {
    let rows = tables[0].all_rows();
    let (speed, seconds) = speeds[random.below(speeds.len() as u32) as usize];
    let size: u64 = sizes[random.below(sizes.len() as u32) as usize];
    let columns = if speed == 'F' { OF_FAST } else { LINEITEM.len() };
    let scan = ScanProgram {
        table: if tables.len() > 1 { random.below(tables.len() as u32) as usize } else { 0 },
        columns: (0..columns).collect(),
        joined: None,
        rows: somewhere(rows, size as f64 / 100.0, random),
        row_cost: seconds * 1e9 / rows as f64,
        in_order: ordered > 0.0 && random.unit() < ordered,
        stop: None,
    };
    (format!("{speed}-{size}"), scan)
}

fn mixed(call: &mut Call, random: &mut Random) -> Result<Workload, String> {
    let (streams, queries) = streams(call)?;
    let points = call.count("points", 4, 0, 1024)?;
    let tables = lineitems(call, 3, 80)?;
    let ordered = call.number("ordered", 0.2, 0.0, 1.0)?;
    let think = call.number("think", 10.0, 0.0, 1e6)?;
    let (stops, pause) = (call.number("stops", 0.1, 0.0, 1.0)?, call.number("pause", 300.0, 0.0, 1e6)?);
    let cancels = call.number("cancels", 0.1, 0.0, 1.0)?;
    let sizes = [1, 10, 50, 100];
    let mut programs = in_streams(streams, queries, || {
        let (name, scan) = speed(&SPEEDS, &sizes, &tables, ordered, random);
        let rows = (random.unit() * (scan.rows.end - scan.rows.start) as f64) as u64;
        let pause = (pause * 1e9) as Tick;
        let leaves = random.unit();
        let (name, stop) = match leaves {
            _ if leaves < stops => ("stopped".to_owned(), Some(Stop { rows, pause: Some(pause) })),
            _ if leaves < stops + cancels => ("cancelled".to_owned(), Some(Stop { rows, pause: None })),
            _ => (name, None),
        };
        (name, ScanProgram { stop, ..scan })
    });
    programs.extend(in_streams(points, queries * 50, || {
        let (_, scan) = speed(&SPEEDS, &sizes, &tables, 0.0, random);
        let row = scan.rows.start..scan.rows.start + 1;
        ("one row".to_owned(), ScanProgram { rows: row, in_order: true, ..scan })
    }));
    let mut workload = named(tables, programs);
    for query in workload.streams.iter_mut().take(streams as usize).flatten() {
        query.after = (random.unit() * think * 1e9) as Tick;
    }
    Ok(workload)
}

fn columns(call: &mut Call, random: &mut Random) -> Result<Workload, String> {
    let (streams, queries) = streams(call)?;
    let expected = "letters from A to F, with + between sets";
    let sets = list(call, "sets", "ABC", expected, |text| {
        let column = |letter: char| "ABCDEF".find(letter);
        text.split('+').map(|set| set.chars().map(column).collect::<Option<Vec<_>>>()).collect()
    })?;
    if sets.iter().any(|set| set.is_empty() || !set.is_sorted_by(|a, b| a < b)) {
        return Err(format!("workload `columns`: `sets` must be {expected}, each in the order of the letters"));
    }
    let share = call.number("share", 0.4, 0.0, 1.0)?;
    // Eight bytes a row.
    let table = table(RelationId(1), call.count("units", 200, 1, 100_000)?, &[16; 6]);
    let name = |set: &[usize]| set.iter().map(|&column| char::from(b'A' + column as u8)).collect::<String>();
    let programs = in_streams(streams, queries, || {
        let set = &sets[random.below(sets.len() as u32) as usize];
        let rows = somewhere(table.all_rows(), share, random);
        let row_cost = SPEEDS[0].1 * 1e9 / table.all_rows() as f64;
        let columns = set.clone();
        (name(set), ScanProgram { table: 0, columns, joined: None, rows, row_cost, in_order: false, stop: None })
    });
    Ok(named(vec![table], programs))
}

/// Pages of lineitem's and of orders' columns in a unit of a million rows of lineitem: together the
/// 1.5 GB that the joins of the thesis read, and the 2.5 GB of all four queries.
const CHILD: [u32; 8] = [1, 2, 2, 3, 1, 1, 3, 3];
const PARENT: [u32; 4] = [1, 1, 1, 2];

/// A query's name, its columns of lineitem and of orders, and the seconds that a full one takes the
/// processor.
type JoinQuery = (&'static str, &'static [usize], &'static [usize], f64);

/// The queries of 6.7.
const JOINS: [JoinQuery; 4] = [
    ("CMJ1", &[0, 1, 2, 3], &[0, 1], 6.0),
    ("CMJ2", &[0, 2, 4, 5], &[0, 1, 2], 6.0),
    ("L1", &[3, 6, 7], &[], 2.0),
    ("O1", &[], &[2, 3], 1.0),
];

fn joins(call: &mut Call, random: &mut Random) -> Result<Workload, String> {
    let (streams, queries) = streams(call)?;
    let mix = list(call, "mix", "CMJ1+CMJ2", "CMJ1, CMJ2, L1 and O1, with + between them", |text| {
        text.split('+').map(|name| JOINS.iter().find(|join| join.0 == name)).collect()
    })?;
    let sizes = sizes(call)?;
    let units = call.count("units", 240, 1, 100_000)?;
    let expected = "merge or hash";
    let parse = |text: &str| ["merge", "hash"].into_iter().find(|way| *way == text);
    let by = call.value("by", "merge", parse, expected, |way| (*way).to_owned())?;
    // Without columns that the mix does not read: the pool's size is a share of what is read.
    let read = |of: fn(&JoinQuery) -> &'static [usize], pages: &[u32]| -> Vec<u32> {
        let is_read = |column: usize| mix.iter().any(|query| of(query).contains(&column));
        pages.iter().enumerate().map(|(column, &pages)| if is_read(column) { pages } else { 0 }).collect()
    };
    let (child, parent) = (read(|query| query.1, &CHILD), read(|query| query.2, &PARENT));
    let tables = vec![table(RelationId(1), units, &child), table(RelationId(2), units, &parent)];
    let rows = tables[0].all_rows();
    let programs = in_streams(streams, queries, || {
        let &(name, child, parent, seconds) = mix[random.below(mix.len() as u32) as usize];
        let size = sizes[random.below(sizes.len() as u32) as usize];
        let (table, columns) = if child.is_empty() { (1, parent) } else { (0, child) };
        let is_join = !child.is_empty() && !parent.is_empty();
        let scan = ScanProgram {
            table,
            columns: columns.to_vec(),
            joined: is_join.then(|| (1, parent.to_vec())),
            rows: somewhere(rows, size as f64 / 100.0, random),
            row_cost: seconds * 1e9 / rows as f64,
            in_order: false,
            stop: None,
        };
        (format!("{name}-{size}"), scan)
    });
    let mut workload = named(tables, programs);
    if by == "hash" {
        for query in workload.streams.iter_mut().flatten() {
            query.scans = query.scans.drain(..).flat_map(apart).collect();
        }
    }
    Ok(workload)
}

/// The scans of a hash join: of the table that it builds from, and of the other.
fn apart(mut join: ScanProgram) -> Vec<ScanProgram> {
    let Some((table, columns)) = join.joined.take() else { return vec![join] };
    // The work of both together stays the same.
    join.row_cost /= 2.0;
    vec![ScanProgram { table, columns, ..join.clone() }, join]
}

/// Parts of a table that queries read.
fn sizes(call: &mut Call) -> Result<Vec<u64>, String> {
    list(call, "sizes", "1+10+50+100", "per cent from 1 to 100, with + between them", |text| {
        text.split('+').map(|size| size.parse().ok().filter(|size| (1..=100).contains(size))).collect()
    })
}

fn streams(call: &mut Call) -> Result<(u32, u32), String> {
    Ok((call.count("streams", 16, 1, 1024)?, call.count("queries", 4, 1, 1024)?))
}

/// A parameter of some values, none of which is missing.
fn list<T>(
    call: &mut Call,
    name: &'static str,
    default: &str,
    expected: &str,
    parse: impl Fn(&str) -> Option<Vec<T>>,
) -> Result<Vec<T>, String> {
    let parse = |text: &str| parse(text).filter(|values| !values.is_empty()).map(|values| (text.to_owned(), values));
    let default = parse(default).ok_or_else(|| format!("`{name}` has a wrong default"))?;
    Ok(call.value(name, default, parse, expected, |(text, _)| text.clone())?.1)
}

fn table(relation: RelationId, units: u32, columns: &[u32]) -> Table {
    Table { relation, units, rows: UNIT_ROWS, columns: columns.to_vec() }
}

/// A random stretch of `share` of `rows` rows, one at least.
fn somewhere(rows: u64, share: f64, random: &mut Random) -> Range<u64> {
    let length = ((rows as f64 * share) as u64).clamp(1, rows);
    let start = (random.unit() * (rows - length + 1) as f64) as u64;
    start..start + length
}

/// Queries of one scan each, with the names of their types.
fn in_streams(
    streams: u32,
    queries: u32,
    mut query: impl FnMut() -> (String, ScanProgram),
) -> Vec<Vec<(String, ScanProgram)>> {
    (0..streams).map(|_| (0..queries).map(|_| query()).collect()).collect()
}

/// The workload of these streams; its types come in the order of their names, and of the sizes in
/// these.
fn named(tables: Vec<Table>, programs: Vec<Vec<(String, ScanProgram)>>) -> Workload {
    let mut types: Vec<String> = programs.iter().flatten().map(|program| program.0.clone()).collect();
    types.sort_by_cached_key(|name| {
        let (speed, size) = name.split_once('-').unwrap_or((name, ""));
        (speed.to_owned(), size.parse::<u64>().unwrap_or(0))
    });
    types.dedup();
    let query = |(name, scan): (String, ScanProgram)| Query {
        kind: types.iter().position(|known| *known == name).unwrap_or(0),
        after: 0,
        scans: vec![scan],
    };
    let streams = programs.into_iter().map(|stream| stream.into_iter().map(query).collect()).collect();
    Workload {
        name: String::new(),
        full: String::new(),
        page_bytes: 1 << 19,
        tables,
        types,
        streams,
        resident: Vec::new(),
    }
}
