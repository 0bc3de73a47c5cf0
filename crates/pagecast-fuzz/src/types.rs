//! Types of columns: what Parquet and Arrow share, the values of each, and what they look like in
//! SQL.
//!
//! A value comes of a number, and larger numbers make larger values. So tables of different types
//! have keys that meet, and a file whose type is narrower than the table's has the same values.

pub(crate) mod arrays;

use std::sync::Arc;

use anyhow::{Context, Result};
use arrow::datatypes::{DataType, Field, TimeUnit};
use pagecast_core::random::Random;
use serde::{Deserialize, Serialize};

use self::arrays::{FIXED, bytes, clock, day, entries, fields, float, hundredths, moment, text, uuid};
use crate::value::{Value, values};

/// The type of a column.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Kind {
    Bool,
    /// Of so many bits.
    Int(u8),
    UInt(u8),
    /// Of so many bits; with NaN, infinities and -0.0 if `odd`.
    Float {
        bits: u8,
        odd: bool,
    },
    Decimal {
        precision: u8,
        scale: i8,
    },
    Date,
    DateTime,
    Time(Unit),
    Timestamp(Unit, Zone),
    /// Midnights and others of the years 1530 to 9930.
    Age,
    Text(Container),
    /// Whole numbers as people write them, whose order is another.
    Digits,
    /// Texts that files know to be UUIDs.
    Uuid,
    /// Texts that files know to be of few.
    Enum,
    /// So many months and five days, which files know to be an interval.
    Interval,
    Bytes(Container),
    Duration(Unit),
    List(Many, Box<Kind>),
    /// Of texts to values.
    Map(Box<Kind>),
    Struct(Vec<Kind>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Unit {
    Seconds,
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    pub(crate) fn arrow(self) -> TimeUnit {
        match self {
            Self::Seconds => TimeUnit::Second,
            Self::Millis => TimeUnit::Millisecond,
            Self::Micros => TimeUnit::Microsecond,
            Self::Nanos => TimeUnit::Nanosecond,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Zone {
    None,
    Utc,
    Berlin,
    Tokyo,
}

/// How Arrow keeps texts and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Container {
    Plain,
    Large,
    View,
    Dictionary,
    /// With codes of 8 bits, which pandas writes.
    Small,
    /// Six bytes each; texts are plain then.
    Fixed,
}

/// How Arrow keeps lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Many {
    Plain,
    Large,
    /// Two values each.
    Two,
}

impl Kind {
    /// Any type, nested ones included.
    pub(crate) fn any(random: &mut Random) -> Self {
        match random.below(12) {
            0 => Self::Bool,
            1 => Self::Float { bits: 64, odd: true },
            2 => Self::Bytes(
                [Container::Plain, Container::Large, Container::View, Container::Fixed][random.below(4) as usize],
            ),
            3 => {
                let many = [Many::Plain, Many::Plain, Many::Large, Many::Two][random.below(4) as usize];
                Self::List(many, Box::new(Self::inner(random)))
            }
            4 => match random.below(4) {
                0 => Self::Map(Box::new(Self::inner(random))),
                1 => Self::Duration([Unit::Millis, Unit::Micros, Unit::Nanos][random.below(3) as usize]),
                2 => Self::Float { bits: 16, odd: true },
                _ => Self::Struct(vec![Self::inner(random), Self::inner(random)]),
            },
            _ => Self::key(random),
        }
    }

    /// A type of values in others. Views and dictionaries are left out: each list of them keeps all
    /// texts of its batch, so that DataFusion takes memory by the square of the rows.
    fn inner(random: &mut Random) -> Self {
        match Self::key(random) {
            Self::Text(Container::View | Container::Dictionary) => Self::Text(Container::Plain),
            other => other,
        }
    }

    /// A type that tables are joined by.
    pub(crate) fn key(random: &mut Random) -> Self {
        let of = |random: &mut Random, of: &[u8]| of[random.below(of.len() as u32) as usize];
        let unit = |random: &mut Random| [Unit::Millis, Unit::Micros, Unit::Nanos][random.below(3) as usize];
        match random.below(12) {
            0 | 1 => Self::Int(of(random, &[8, 16, 32, 64])),
            2 => Self::UInt(of(random, &[8, 16, 32, 64])),
            3 => Self::Float { bits: of(random, &[32, 64]), odd: false },
            4..=6 => {
                let precision = of(random, &[9, 18, 20, 38, 50]);
                Self::Decimal { precision, scale: of(random, &[0, 2, 4]) as i8 }
            }
            7 => [Self::Date, Self::DateTime][random.below(2) as usize].clone(),
            8 => Self::Time(unit(random)),
            9 | 10 => {
                let unit = if random.below(4) == 0 { Unit::Seconds } else { unit(random) };
                Self::Timestamp(unit, [Zone::None, Zone::None, Zone::Utc, Zone::Berlin][random.below(4) as usize])
            }
            _ => Self::Text(
                [Container::Plain, Container::Large, Container::View, Container::Dictionary][random.below(4) as usize],
            ),
        }
    }

    /// A type that Delta tables have.
    pub(crate) fn of_delta(random: &mut Random) -> Self {
        match random.below(9) {
            0 => Self::Bool,
            1 | 2 => Self::Int([8, 16, 32, 64][random.below(4) as usize]),
            3 => Self::Float { bits: 64, odd: random.below(2) == 0 },
            4 => Self::Decimal { precision: 20, scale: [0, 2, 4][random.below(3) as usize] },
            5 => Self::Date,
            6 => Self::Timestamp(Unit::Micros, Zone::Utc),
            7 => Self::List(Many::Plain, Box::new(Self::Int(64))),
            _ => Self::Text(Container::Plain),
        }
    }

    /// Whether Delta tables have it.
    pub(crate) fn is_of_delta(&self) -> bool {
        match self {
            Self::UInt(_) | Self::DateTime | Self::Time(_) | Self::Duration(_) | Self::Bytes(_) => false,
            Self::Map(_)
            | Self::Struct(_)
            | Self::Float { bits: 16, .. }
            | Self::Age
            | Self::Uuid
            | Self::Enum
            | Self::Interval => false,
            Self::Decimal { precision, .. } => *precision <= 38,
            Self::Timestamp(unit, zone) => (*unit, *zone) == (Unit::Micros, Zone::Utc),
            Self::Text(container) => *container == Container::Plain,
            Self::List(many, of) => *many == Many::Plain && of.is_of_delta(),
            Self::Bool | Self::Int(_) | Self::Float { .. } | Self::Date | Self::Digits => true,
        }
    }

    /// A type that a file may have where its table has this one: every value is the same in both.
    pub(crate) fn of_file(&self, random: &mut Random) -> Self {
        let other = match self {
            Self::Int(64) => [Self::Int(32), Self::Int(16)][random.below(2) as usize].clone(),
            Self::Int(32) => Self::Int(16),
            Self::Float { bits: 64, odd } => Self::Float { bits: 32, odd: *odd },
            &Self::Decimal { precision, scale } => {
                let scale = if scale > 2 { [2, 3][random.below(2) as usize] } else { scale };
                Self::Decimal { precision: [precision, 9.max(precision / 2)][random.below(2) as usize], scale }
            }
            Self::Timestamp(_, zone) => {
                Self::Timestamp([Unit::Millis, Unit::Micros, Unit::Nanos][random.below(3) as usize], *zone)
            }
            Self::Text(_) => Self::Text(
                [Container::Plain, Container::Large, Container::View, Container::Dictionary][random.below(4) as usize],
            ),
            Self::Bytes(Container::Plain) => Self::Bytes(Container::Large),
            other => other.clone(),
        };
        if random.below(2) == 0 { other } else { self.clone() }
    }

    /// A type that an older file of a table may have, which readers widen.
    pub(crate) fn younger(&self, random: &mut Random) -> Self {
        let unit = [Unit::Millis, Unit::Micros, Unit::Nanos][random.below(3) as usize];
        match self {
            Self::Int(64) => Self::Int([16, 32][random.below(2) as usize]),
            &Self::Decimal { precision: 18, scale } => Self::Decimal { precision: 9, scale },
            Self::Timestamp(_, zone) => Self::Timestamp(unit, if random.below(3) == 0 { Zone::None } else { *zone }),
            Self::Text(_) => Self::Text([Container::Plain, Container::Dictionary][random.below(2) as usize]),
            other => other.clone(),
        }
    }

    /// The same as Arrow says it.
    pub(crate) fn arrow(&self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int(8) => DataType::Int8,
            Self::Int(16) => DataType::Int16,
            Self::Int(32) => DataType::Int32,
            Self::Int(_) => DataType::Int64,
            Self::UInt(8) => DataType::UInt8,
            Self::UInt(16) => DataType::UInt16,
            Self::UInt(32) => DataType::UInt32,
            Self::UInt(_) => DataType::UInt64,
            Self::Float { bits: 16, .. } => DataType::Float16,
            Self::Float { bits: 32, .. } => DataType::Float32,
            Self::Float { .. } => DataType::Float64,
            &Self::Decimal { precision: precision @ 39.., scale } => DataType::Decimal256(precision, scale),
            &Self::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            Self::Date => DataType::Date32,
            Self::DateTime => DataType::Date64,
            Self::Time(unit @ (Unit::Seconds | Unit::Millis)) => DataType::Time32(unit.arrow()),
            Self::Time(unit) => DataType::Time64(unit.arrow()),
            Self::Timestamp(unit, Zone::None) => DataType::Timestamp(unit.arrow(), None),
            Self::Timestamp(unit, Zone::Utc) => DataType::Timestamp(unit.arrow(), Some("UTC".into())),
            Self::Timestamp(unit, Zone::Berlin) => DataType::Timestamp(unit.arrow(), Some("+01:00".into())),
            Self::Timestamp(unit, Zone::Tokyo) => DataType::Timestamp(unit.arrow(), Some("Asia/Tokyo".into())),
            Self::Age => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Text(Container::Plain | Container::Fixed)
            | Self::Digits
            | Self::Uuid
            | Self::Enum
            | Self::Interval => DataType::Utf8,
            Self::Text(Container::Small) => DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
            Self::Text(Container::Large) => DataType::LargeUtf8,
            Self::Text(Container::View) => DataType::Utf8View,
            Self::Text(Container::Dictionary) => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
            }
            Self::Bytes(Container::Large) => DataType::LargeBinary,
            Self::Bytes(Container::View) => DataType::BinaryView,
            Self::Bytes(Container::Fixed) => DataType::FixedSizeBinary(FIXED as i32),
            Self::Bytes(_) => DataType::Binary,
            Self::Duration(unit) => DataType::Duration(unit.arrow()),
            Self::List(many, of) => {
                let item = Arc::new(Field::new_list_field(of.arrow(), true));
                match many {
                    Many::Plain => DataType::List(item),
                    Many::Large => DataType::LargeList(item),
                    Many::Two => DataType::FixedSizeList(item, 2),
                }
            }
            Self::Map(of) => DataType::Map(entries(of), false),
            Self::Struct(of) => DataType::Struct(fields(of)),
        }
    }

    /// Numbers from this one on, and so many, make values that the type has.
    pub(crate) fn domain(&self) -> (i64, u32) {
        match self {
            Self::Bool => (0, 2),
            Self::Age => (-110, 2100),
            Self::Enum => (0, 20),
            Self::Interval => (0, 40),
            Self::Int(8) => (-50, 100),
            Self::UInt(8) => (0, 200),
            // Coarse in 16 and 32 bits; a decimal of nine digits has scale 4 at most.
            Self::UInt(_) | Self::Time(_) => (0, 3000),
            Self::List(_, of) | Self::Map(of) => of.domain(),
            Self::Struct(of) => of.iter().map(Self::domain).min_by_key(|domain| domain.1).unwrap_or((0, 100)),
            _ => (-1000, 3000),
        }
    }

    /// The value of a number in SQL.
    pub(crate) fn literal(&self, number: i64) -> String {
        let cast_to = |text: String, name: &str| format!("CAST('{text}' AS {name})");
        match self {
            Self::Bool => (number & 1 == 1).to_string(),
            Self::Int(_) | Self::UInt(_) => number.to_string(),
            Self::Float { odd, .. } => cast_to(float(number, *odd).to_string(), "DOUBLE"),
            &Self::Decimal { precision, scale } => {
                let digits = if scale == 0 { number.to_string() } else { hundredths(number) };
                cast_to(digits, &format!("DECIMAL({precision},{scale})"))
            }
            Self::Date => cast_to(day(number), "DATE"),
            Self::DateTime => format!("arrow_cast('{}', 'Date64')", day(number)),
            Self::Time(_) => format!("arrow_cast('{}', '{}')", clock(number.rem_euclid(86_400)), self.arrow()),
            Self::Timestamp(_, Zone::None) | Self::Age => cast_to(self.shown(number), "TIMESTAMP"),
            Self::Timestamp(..) => format!("TIMESTAMPTZ '{}+00:00'", self.shown(number)),
            Self::Text(_) | Self::Enum => format!("'{}'", text(number)),
            Self::Digits => format!("'{number}'"),
            Self::Uuid => format!("'{}'", uuid(number)),
            Self::Bytes(_) => {
                let hex: String = bytes(number).iter().map(|byte| format!("{byte:02x}")).collect();
                format!("X'{hex}'")
            }
            Self::Duration(_) | Self::Interval | Self::List(..) | Self::Map(_) | Self::Struct(_) => "NULL".to_owned(),
        }
    }

    /// A moment in SQL.
    pub(crate) fn shown(&self, number: i64) -> String {
        let seconds = moment(self, number);
        let shown = format!("{} {}", day(seconds.div_euclid(86_400)), clock(seconds.rem_euclid(86_400)));
        // SQL has no sign before years of five digits.
        shown.trim_start_matches('+').to_owned()
    }

    /// The value of a number.
    pub(crate) fn value(&self, number: i64) -> Result<Value> {
        values(&self.array(&[Some(number)])?)?.pop().context("no value")
    }

    /// Whether values have an order in SQL, by which they are compared.
    pub(crate) fn is_compared(&self) -> bool {
        !matches!(self, Self::Duration(_) | Self::Interval | Self::List(..) | Self::Map(_) | Self::Struct(_))
    }

    /// Whether it is bytes, whose literals DataFusion compares with some Arrow types of them only.
    pub(crate) fn is_bytes(&self) -> bool {
        matches!(self, Self::Bytes(_))
    }

    /// Whether DuckDB has the type and means the same by it.
    pub(crate) fn is_portable(&self) -> bool {
        !matches!(
            self,
            Self::Float { bits: 16, .. }
                | Self::Decimal { precision: 39.., .. }
                | Self::Duration(_)
                | Self::Interval
                | Self::Map(_)
                | Self::DateTime
                | Self::Time(_)
                | Self::Timestamp(_, Zone::Utc | Zone::Berlin | Zone::Tokyo)
                | Self::Timestamp(Unit::Nanos, _)
                // Parquet has no seconds, and DuckDB does not read Arrow's note of them.
                | Self::Timestamp(Unit::Seconds, _)
                | Self::Bytes(_)
                | Self::List(..)
                | Self::Struct(_)
        )
    }

    /// Whether it has `min` and `max`.
    pub(crate) fn has_bounds(&self) -> bool {
        self.is_compared() && *self != Self::Bool
    }

    /// Whether it is a text to SQL.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Digits | Self::Uuid | Self::Enum)
    }

    /// Whether the empty text may be among the values.
    pub(crate) fn has_empty(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    /// Whether NaN and -0.0 may be among the values.
    pub(crate) fn is_odd(&self) -> bool {
        matches!(self, Self::Float { odd: true, .. })
    }

    /// Whether values are added up, exactly and in any order.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::UInt(_) | Self::Float { odd: false, .. } | Self::Decimal { .. })
    }

    /// The name under which values of two tables are compared: of types with one name all values
    /// are compared exactly.
    pub(crate) fn family(&self) -> &'static str {
        match self {
            Self::Int(_) | Self::UInt(_) => "number",
            Self::Decimal { scale: 0, .. } => "number",
            Self::Decimal { .. } => "hundredths",
            Self::Float { .. } => "float",
            Self::Date => "date",
            Self::DateTime => "datetime",
            Self::Time(_) => "time",
            Self::Timestamp(_, Zone::None) | Self::Age => "timestamp",
            Self::Timestamp(..) => "moment",
            Self::Text(_) | Self::Enum => "text",
            Self::Digits => "digits",
            Self::Uuid => "uuid",
            _ => "none",
        }
    }
}
