//! Tables in which a fault can show: small ones, in files of a few row groups.

use pagecast_core::random::Random;

use crate::expr::{Expr, Operator};
use crate::faults::Fault;
use crate::tables::{Column, DataFile, FOLDER, Folder, Layout, Order, Statistics, Table, Writer};
use crate::types::{Container, Kind, Unit, Zone};

/// One of several.
pub(crate) fn one<T: Clone>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u32) as usize].clone()
}

impl Fault {
    /// The type of the key by which tables meet.
    pub(crate) fn key(self, random: &mut Random) -> Kind {
        let unit = one(random, &[Unit::Millis, Unit::Micros, Unit::Nanos]);
        match self {
            Self::SmallDictionaries => Kind::Text(Container::Small),
            Self::NotANumber | Self::NegativeZero => one(random, &[Kind::Float { bits: 64, odd: true }, Kind::Int(64)]),
            Self::Zones => Kind::Timestamp(unit, one(random, &[Zone::Tokyo, Zone::Berlin])),
            Self::GrownColumns => one(random, &[Kind::Int(64), Kind::Decimal { precision: 18, scale: 2 }]),
            Self::Times => Kind::Time(unit),
            Self::MarkedTexts => one(random, &[Kind::Uuid, Kind::Enum, Kind::Int(64)]),
            Self::SortedGroups => {
                one(random, &[Kind::Int(64), Kind::Int(32), Kind::Date, Kind::Text(Container::Plain)])
            }
            _ => Kind::Int(64),
        }
    }

    /// A table, by a key of this type.
    pub(crate) fn table(self, random: &mut Random, name: &str, key: &Kind) -> Table {
        let layout = self.layout(random, key);
        let most = one(random, &[20, 120, 400]);
        let rows = 4 + random.below(most);
        let id = Column {
            name: "id".to_owned(),
            kind: Kind::Int(64),
            low: 0,
            domain: 1,
            nulls: 0,
            order: Order::Row,
            some: Vec::new(),
        };
        let mut of_key = Column::any(random, "k".to_owned(), key.clone());
        of_key.low += i64::from(random.below(3));
        of_key.domain = of_key.domain.min(one(random, &[4, 30, 200]));
        of_key.nulls = one(random, &[0, 10]);
        let mut columns = vec![id, of_key];
        for at in 0..2 + random.below(3) {
            columns.push(self.column(random, &layout, format!("c{at}")));
        }
        if matches!(layout, Layout::Hive | Layout::DeclaredHive) {
            let kind = match self {
                Self::KeysOfTruth => Kind::Bool,
                Self::DeclaredKeys => Kind::Int(32),
                _ => Kind::Int(64),
            };
            columns.push(Column { low: 1, domain: 12, nulls: 0, ..Column::any(random, FOLDER.to_owned(), kind) });
        }
        if self == Self::MarkedTexts {
            // Who marks an ENUM forgets what a UUID is.
            let marks = [Kind::Uuid, Kind::Enum];
            let mark = if marks.contains(key) { key.clone() } else { one(random, &marks) };
            for column in columns.iter_mut().filter(|column| marks.contains(&column.kind)) {
                (column.kind, column.low, column.domain) = (mark.clone(), 0, column.domain.min(20));
            }
        }
        if self == Self::SmallDictionaries {
            // More values than codes, but in no file alone.
            for column in columns.iter_mut().skip(1) {
                (column.low, column.domain, column.order) = (0, 200, Order::Ascending);
            }
        }
        if self == Self::SortedGroups {
            (columns[1].order, columns[1].nulls) = (Order::InGroups, 0);
        }
        let mut table = Table { name: name.to_owned(), layout, rows, seed: random.next(), columns, files: Vec::new() };
        table.files = self.files(random, &table);
        table.look(random);
        table
    }

    fn layout(self, random: &mut Random, key: &Kind) -> Layout {
        match self {
            Self::DeclaredKeys => Layout::DeclaredHive,
            Self::KeysOfTruth | Self::KeysInFiles => Layout::Hive,
            Self::ThreeValues | Self::NotANumber if key.is_of_delta() && random.below(3) == 0 => {
                let deleted = if self == Self::ThreeValues { vec![chosen_by_nulls(random)] } else { Vec::new() };
                Layout::Delta { partitioned: false, deleted }
            }
            _ => Layout::Folder,
        }
    }

    /// A column that can show it, or some other.
    fn column(self, random: &mut Random, layout: &Layout, name: String) -> Column {
        let of_other_writers = [Kind::Int(32), Kind::Int(64), Kind::Digits, Kind::Date, Kind::Text(Container::Plain)];
        let unit = one(random, &[Unit::Millis, Unit::Micros, Unit::Nanos]);
        let kind = match self {
            _ if matches!(layout, Layout::Delta { .. }) => Kind::of_delta(random),
            Self::DecimalLiterals => {
                let precision = one(random, &[12, 18, 30]);
                one(
                    random,
                    &[Kind::Decimal { precision, scale: 2 }, Kind::Decimal { precision, scale: 4 }, Kind::Int(32)],
                )
            }
            Self::NotANumber | Self::NegativeZero => {
                Kind::Float { bits: one(random, &[64, 64, 32]), odd: random.below(4) > 0 }
            }
            Self::Zones => Kind::Timestamp(unit, one(random, &[Zone::Tokyo, Zone::Berlin, Zone::Utc])),
            Self::FinerLiterals => Kind::Timestamp(unit, one(random, &[Zone::None, Zone::Utc])),
            Self::OldYears => one(random, &[Kind::Age, Kind::Timestamp(Unit::Micros, Zone::None)]),
            Self::BoundsOfCasts => one(
                random,
                &[
                    Kind::Digits,
                    Kind::Int(32),
                    Kind::Int(64),
                    Kind::UInt(16),
                    Kind::Date,
                    Kind::Timestamp(Unit::Micros, Zone::None),
                    Kind::Decimal { precision: 18, scale: 2 },
                    Kind::Bool,
                ],
            ),
            Self::GuardedDivisions => one(random, &[Kind::Int(32), Kind::Int(64), Kind::Int(16)]),
            Self::SmallDictionaries => Kind::Text(Container::Small),
            Self::GrownColumns => one(
                random,
                &[
                    Kind::Int(64),
                    Kind::Decimal { precision: 18, scale: 2 },
                    Kind::Timestamp(Unit::Micros, Zone::None),
                    Kind::Text(Container::Plain),
                    Kind::Timestamp(Unit::Micros, Zone::Utc),
                ],
            ),
            Self::Times => Kind::Time(unit),
            Self::Intervals => one(random, &[Kind::Interval, Kind::Interval, Kind::Int(64)]),
            Self::MarkedTexts => one(random, &[Kind::Uuid, Kind::Enum]),
            Self::OtherFiles => one(random, &[Kind::Int(64), Kind::Date, Kind::Enum]),
            Self::Writers => one(random, &of_other_writers),
            Self::DeclaredKeys => {
                one(random, &[Kind::Int(32), Kind::Int(64), Kind::Date, Kind::Text(Container::Plain)])
            }
            Self::ThreeValues => one(random, &[Kind::Int(64), Kind::Int(32), Kind::Text(Container::Plain), Kind::Bool]),
            Self::NullCounts => one(random, &[Kind::Int(64), Kind::Digits, Kind::Text(Container::Plain), Kind::Date]),
            _ => Kind::key(random),
        };
        let mut column = Column::any(random, name, kind);
        column.domain = column.domain.min(one(random, &[2, 5, 40, 3000]));
        match (self, &column.kind) {
            (Self::DecimalLiterals, Kind::Decimal { .. }) => {
                column.low = one(random, &[0, 100, 10_000_000, 120_000_000]);
                column.domain = one(random, &[20, 500]);
            }
            // Around NaN, and around -0.0.
            (Self::NotANumber, Kind::Float { odd: true, .. }) => {
                column.low = one(random, &[22, 23, 45]);
                column.domain = one(random, &[2, 2, 3, 40]);
            }
            (Self::NegativeZero, Kind::Float { odd: true, .. }) => {
                column.low = one(random, &[24, 24, 27, 47]);
                column.domain = one(random, &[1, 2, 4, 40]);
            }
            // What is cut is cut towards 1970.
            (Self::FinerLiterals, _) => column.low = one(random, &[-1000, 0, 700]),
            (Self::GuardedDivisions, _) => column.low = one(random, &[-1, 0, 0, -3]),
            (Self::OldYears, Kind::Age) => {
                column.low = one(random, &[-110, -40, 70, 2000]);
                column.domain = 100;
            }
            (Self::BoundsOfCasts, kind) => {
                // What a type does not have would be NULL.
                let least = if matches!(kind, Kind::UInt(_)) { 0 } else { -3 };
                column.low = one(random, &[-3, 0, 8, 95]).max(least);
            }
            _ => {}
        }
        // Of a column of NULLs alone CSV tells no type.
        let nulls = if self == Self::OtherFiles { [0; 4] } else { [0, 0, 20, 60] };
        column.nulls = if self == Self::NullCounts { one(random, &[5, 40, 100]) } else { one(random, &nulls) };
        column
    }

    fn files(self, random: &mut Random, table: &Table) -> Vec<DataFile> {
        let most = match table.layout {
            Layout::Hive | Layout::DeclaredHive => 5,
            // An order of several files is no order of the table.
            _ if self == Self::SortedGroups && random.below(2) == 0 => 1,
            _ if self == Self::OtherFiles => 2,
            _ => 3,
        };
        let files = 1
            + random.below(most)
            + u32::from(matches!(self, Self::GrownColumns | Self::MixedFolders | Self::SmallDictionaries));
        let share = table.rows.div_ceil(files);
        let writer = self.writer(random);
        (0..files)
            .map(|number| {
                let most = one(random, &[8, 60, 400]);
                let first = (number * share).min(table.rows);
                let folder = match self {
                    Self::KeysOfTruth => Folder::Of(i64::from(random.below(2))),
                    _ => Folder::Of(1 + i64::from(random.below(12))),
                };
                let is_hive = matches!(table.layout, Layout::Hive | Layout::DeclaredHive);
                DataFile {
                    name: self.name_of(random, number, writer),
                    writer,
                    first,
                    rows: share.min(table.rows - first),
                    row_group: 3 + random.below(most),
                    page: 3 + random.below(40),
                    version_2: random.below(4) == 0,
                    dictionary: random.below(2) == 0,
                    snappy: random.below(2) == 0,
                    statistics: self.statistics(random),
                    offset_index: random.below(4) > 0,
                    sorted: self == Self::SortedGroups,
                    bloom: self == Self::NegativeZero && random.below(4) > 0,
                    columns: self.columns_of(random, table, number),
                    folder: is_hive.then_some(folder),
                    with_folder: self == Self::KeysInFiles,
                }
            })
            .collect()
    }

    fn statistics(self, random: &mut Random) -> Statistics {
        match self {
            Self::NullCounts => {
                one(random, &[Statistics::WithoutNulls, Statistics::WithoutNulls, Statistics::NotOfTexts])
            }
            _ => one(random, &[Statistics::OfChunks, Statistics::OfPages]),
        }
    }

    fn writer(self, random: &mut Random) -> Writer {
        let writers = [Writer::PyArrow, Writer::DuckDb, Writer::Polars, Writer::FastParquet];
        match self {
            Self::OldYears => one(random, &[Writer::PyArrowOfOld, Writer::Own, Writer::DuckDb]),
            Self::MarkedTexts | Self::Intervals => Writer::DuckDb,
            Self::NegativeZero => one(random, &[Writer::Own, Writer::DuckDb]),
            Self::OtherFiles => one(random, &[Writer::Feather, Writer::Csv]),
            Self::Writers => one(random, &writers),
            Self::DecimalLiterals | Self::ThreeValues => one(random, &[Writer::Own, Writer::PyArrow, Writer::Polars]),
            _ => Writer::Own,
        }
    }

    fn name_of(self, random: &mut Random, number: u32, writer: Writer) -> String {
        let folder = match self {
            Self::MixedFolders if number > 0 => one(random, &["", "2024/", "2024/01/", "below/"]),
            Self::MixedFolders => one(random, &["", "2024/01/"]),
            _ => "",
        };
        let ending = match writer {
            Writer::Feather => "feather",
            Writer::Csv => "csv.gz",
            _ => "parquet",
        };
        format!("{folder}{number}.{ending}")
    }

    fn columns_of(self, random: &mut Random, table: &Table, number: u32) -> Vec<(String, Kind)> {
        let columns = table.columns.iter().filter(|column| column.name != FOLDER);
        let grows = self == Self::GrownColumns;
        // The last file has the types of the table, so that they are those of some file.
        let is_last = number == 0;
        let kind =
            |random: &mut Random, kind: &Kind| if grows && !is_last { kind.younger(random) } else { kind.clone() };
        columns.map(|column| (column.name.clone(), kind(random, &column.kind))).collect()
    }
}

/// Rows of a Delta table by a condition that NULL makes unknown for some.
fn chosen_by_nulls(random: &mut Random) -> Expr {
    let column =
        |side: &str, name: &str| Expr::Column { side: side.to_owned(), name: name.to_owned(), kind: Kind::Int(64) };
    let few = |side: &str| {
        let rest = Expr::whole(i64::from(random.clone().below(3)));
        column(side, "id").remainder(5).compare(Operator::Equal, rest)
    };
    let rows = crate::expr::Inner {
        table: "delta".to_owned(),
        value: Some(column("s", "k")),
        filters: vec![few("s")],
        pair: None,
    };
    let not_in = Expr::InRows { of: column("delta", "k").boxed(), not: true, rows: Box::new(rows) };
    let by_number = column("delta", "id").remainder(4).compare(Operator::Equal, Expr::whole(0));
    match random.below(3) {
        0 => not_in,
        1 => Expr::Either(not_in.boxed(), by_number.boxed()),
        _ => Expr::Is(not_in.boxed(), crate::expr::Is::Null),
    }
}
