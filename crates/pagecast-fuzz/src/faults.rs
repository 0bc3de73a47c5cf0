//! Kinds of wrong rows that engines have given. A round looks for one of them, or for none that is
//! known; and a difference is counted under the kind that its statement and tables can show.

use anyhow::{Context, Result};
use pagecast_core::random::Random;
use serde::{Deserialize, Serialize};

use crate::expr::{Aggregate, Expr, Function, Is, Sign};
use crate::statements::{Around, Select, Set, Statement};
use crate::tables::{Layout, Statistics, Table, Writer};
use crate::types::{Container, Kind, Unit, Zone};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum Fault {
    /// Numbers with a point beside decimals.
    DecimalLiterals,
    /// Row groups that are sorted, each by itself.
    SortedGroups,
    /// IN and NOT IN beside NULL, copies that EXCEPT ALL leaves.
    ThreeValues,
    /// Windows over groups of which a limit shows some.
    WindowsOverGroups,
    /// Least and greatest of a cast.
    BoundsOfCasts,
    /// Footers that do not count NULLs, or know no bounds of texts.
    NullCounts,
    /// NaN, of which bounds know nothing.
    NotANumber,
    /// -0.0, also under Bloom filters.
    NegativeZero,
    /// Moments in zones.
    Zones,
    /// Moments that are finer than their column's unit.
    FinerLiterals,
    /// Folders `h=01` of a column that is declared to be a number.
    DeclaredKeys,
    /// Years before 1677 and after 2262, and moments of 96 bits.
    OldYears,
    /// Intervals of years and months.
    Intervals,
    /// Files beside folders of files.
    MixedFolders,
    /// Divisions behind a condition that leaves zeros out.
    GuardedDivisions,
    /// Dictionaries with codes of 8 bits.
    SmallDictionaries,
    /// Files of which columns grew.
    GrownColumns,
    /// Times beside literals of times.
    Times,
    /// What files know to be one of few texts, or a UUID.
    MarkedTexts,
    /// Feather, and CSV in gzip.
    OtherFiles,
    /// Folders of true and false.
    KeysOfTruth,
    /// A folder's key that is in its files as well.
    KeysInFiles,
    /// A column that stands twice, in an order of two sets.
    TwiceInSets,
    /// What other writers write.
    Writers,
}

impl Fault {
    pub(crate) const ALL: [Self; 24] = [
        Self::DecimalLiterals,
        Self::SortedGroups,
        Self::ThreeValues,
        Self::WindowsOverGroups,
        Self::BoundsOfCasts,
        Self::NullCounts,
        Self::NotANumber,
        Self::NegativeZero,
        Self::Zones,
        Self::FinerLiterals,
        Self::DeclaredKeys,
        Self::OldYears,
        Self::Intervals,
        Self::MixedFolders,
        Self::GuardedDivisions,
        Self::SmallDictionaries,
        Self::GrownColumns,
        Self::Times,
        Self::MarkedTexts,
        Self::OtherFiles,
        Self::KeysOfTruth,
        Self::KeysInFiles,
        Self::TwiceInSets,
        Self::Writers,
    ];

    pub(crate) fn any(random: &mut Random) -> Self {
        Self::ALL[random.below(Self::ALL.len() as u32) as usize]
    }

    /// The kind of this name.
    pub(crate) fn named(name: &str) -> Result<Self> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|fault| fault.name() == name)
            .with_context(|| format!("{name} is none of {}", known()))
    }

    /// Without which writer its files cannot be written.
    pub(crate) fn needs(self) -> Option<Writer> {
        match self {
            Self::OtherFiles => Some(Writer::Feather),
            // Its library writes the footers of an ENUM, too.
            Self::MarkedTexts => Some(Writer::FastParquet),
            Self::Intervals => Some(Writer::DuckDb),
            _ => None,
        }
    }

    /// Whether statements show it over any files.
    pub(crate) fn is_of_statements(self) -> bool {
        matches!(
            self,
            Self::DecimalLiterals
                | Self::ThreeValues
                | Self::WindowsOverGroups
                | Self::BoundsOfCasts
                | Self::NotANumber
                | Self::NegativeZero
                | Self::Zones
                | Self::FinerLiterals
                | Self::GuardedDivisions
                | Self::TwiceInSets
        )
    }

    /// What it is called in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DecimalLiterals => "decimal literals",
            Self::SortedGroups => "sorted row groups",
            Self::ThreeValues => "three values",
            Self::WindowsOverGroups => "windows over groups",
            Self::BoundsOfCasts => "bounds of casts",
            Self::NullCounts => "NULLs that are not counted",
            Self::NotANumber => "NaN",
            Self::NegativeZero => "-0.0",
            Self::Zones => "zones",
            Self::FinerLiterals => "finer literals",
            Self::DeclaredKeys => "declared keys of folders",
            Self::OldYears => "old years",
            Self::Intervals => "intervals",
            Self::MixedFolders => "files beside folders",
            Self::GuardedDivisions => "guarded divisions",
            Self::SmallDictionaries => "small dictionaries",
            Self::GrownColumns => "grown columns",
            Self::Times => "times",
            Self::MarkedTexts => "ENUM and UUID",
            Self::OtherFiles => "Feather and CSV",
            Self::KeysOfTruth => "true and false as keys",
            Self::KeysInFiles => "keys in files",
            Self::TwiceInSets => "a column that stands twice",
            Self::Writers => "other writers",
        }
    }

    /// The kind of a difference, as far as it shows; `looked_for` if that is possible.
    pub(crate) fn of(looked_for: Option<Self>, statement: &Statement, tables: &[Table]) -> Option<Self> {
        let sql = statement.sql();
        let named: Vec<&Table> = tables.iter().filter(|table| sql.contains(&format!("{} ", table.name))).collect();
        looked_for.into_iter().chain(Self::ALL).find(|fault| fault.is_in(statement, &named))
    }

    fn is_in(self, statement: &Statement, tables: &[&Table]) -> bool {
        let file =
            |is_so: &dyn Fn(&crate::tables::DataFile) -> bool| tables.iter().any(|table| table.files.iter().any(is_so));
        // In a filter that is handed down, or in what is selected.
        let kind = |is_so: &dyn Fn(&Kind) -> bool| {
            statement.has(&|part| matches!(part, Expr::Column { kind, .. } if is_so(kind)))
        };
        let has = |is_so: &dyn Fn(&Expr) -> bool| statement.has(is_so);
        match self {
            Self::DecimalLiterals => has(&|part| matches!(part, Expr::Literal { sql, .. } if is_decimal(sql))),
            Self::SortedGroups => file(&|file| file.sorted),
            Self::ThreeValues => {
                let all = matches!(&statement.around, Some(Around::Set { all: true, operation, .. }) if *operation != Set::Union);
                all || has(&|part| match part {
                    Expr::InRows { .. } => true,
                    Expr::In { list, .. } => list.contains(&Expr::null()),
                    Expr::Is(of, is) => of.is_condition() && !matches!(is, Is::True),
                    _ => false,
                })
            }
            Self::WindowsOverGroups => {
                let is_of_groups = matches!(statement.select, Select::Groups { .. });
                is_of_groups && has(&|part| matches!(part, Expr::Window(_)))
            }
            Self::BoundsOfCasts => has(&|part| match part {
                Expr::Aggregate(Aggregate::Min | Aggregate::Max, Some(of)) => matches!(**of, Expr::Cast { .. }),
                _ => false,
            }),
            Self::NullCounts => {
                file(&|file| matches!(file.statistics, Statistics::WithoutNulls | Statistics::NotOfTexts))
            }
            Self::NotANumber => kind(&Kind::is_odd),
            Self::NegativeZero => kind(&Kind::is_odd),
            Self::Zones => kind(&|kind| matches!(kind, Kind::Timestamp(_, Zone::Utc | Zone::Berlin | Zone::Tokyo))),
            Self::FinerLiterals => {
                let is_finer = |part: &Expr| matches!(part, Expr::Literal { sql, .. } if sql.contains(".000"));
                has(&is_finer) && kind(&|kind| matches!(kind, Kind::Timestamp(..) | Kind::Time(_)))
            }
            Self::DeclaredKeys => tables.iter().any(|table| table.layout == Layout::DeclaredHive),
            Self::OldYears => {
                let is_of_old = file(&|file| file.writer == Writer::PyArrowOfOld);
                kind(&|kind| *kind == Kind::Age)
                    || is_of_old
                    || has(&|part| matches!(part, Expr::Call(Function::Bin, _)))
            }
            Self::Intervals => kind(&|kind| *kind == Kind::Interval),
            Self::MixedFolders => file(&|file| file.name.contains('/')),
            Self::GuardedDivisions => has(&|part| matches!(part, Expr::Arithmetic(_, Sign::Over, _))),
            Self::SmallDictionaries => kind(&|kind| *kind == Kind::Text(Container::Small)),
            Self::GrownColumns => tables.iter().any(|table| {
                let is_other = |(name, kind): &(String, Kind)| {
                    table.columns.iter().any(|column| column.name == *name && column.kind != *kind)
                };
                table.layout == Layout::Folder && table.files.iter().any(|file| file.columns.iter().any(is_other))
            }),
            Self::Times => kind(&|kind| matches!(kind, Kind::Time(Unit::Millis | Unit::Micros | Unit::Nanos))),
            Self::MarkedTexts => kind(&|kind| matches!(kind, Kind::Uuid | Kind::Enum)),
            Self::OtherFiles => file(&|file| matches!(file.writer, Writer::Feather | Writer::Csv)),
            Self::KeysOfTruth => tables.iter().any(|table| {
                let is_truth = table
                    .columns
                    .iter()
                    .any(|column| column.name == crate::tables::FOLDER && column.kind == Kind::Bool);
                table.layout == Layout::Hive && is_truth
            }),
            Self::KeysInFiles => file(&|file| file.with_folder),
            Self::TwiceInSets => {
                let items = statement.items();
                let stands_twice = (1..items.len()).any(|at| items[..at].contains(&items[at]));
                stands_twice && matches!(statement.around, Some(Around::Set { .. }))
            }
            Self::Writers => file(&|file| file.writer != Writer::Own),
        }
    }
}

/// Whether it is a number with a point.
fn is_decimal(sql: &str) -> bool {
    sql.contains('.') && sql.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b'-')
}
