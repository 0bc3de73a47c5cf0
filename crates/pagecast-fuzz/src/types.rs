//! Types of columns: what Parquet and Arrow share, the values of each, and what they look like in
//! SQL.
//!
//! A value comes of a number, and larger numbers make larger values. So tables of different types
//! have keys that meet, and a file whose type is narrower than the table's has the same values.

use std::sync::Arc;

use anyhow::{Result, bail};
use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray, Float64Array, Int64Array,
    ListArray, MapArray, StringArray, StructArray, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use pagecast_core::random::Random;
use serde::{Deserialize, Serialize};

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
    Text(Container),
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
    fn arrow(self) -> TimeUnit {
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
}

/// How Arrow keeps texts and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Container {
    Plain,
    Large,
    View,
    Dictionary,
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

/// Days and seconds are spread, so that keys are neither all of one day nor of one second.
const SECONDS: i64 = 977;
const FIXED: usize = 6;

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
            Self::Map(_) | Self::Struct(_) | Self::Float { bits: 16, .. } => false,
            Self::Decimal { precision, .. } => *precision <= 38,
            Self::Timestamp(unit, zone) => (*unit, *zone) == (Unit::Micros, Zone::Utc),
            Self::Text(container) => *container == Container::Plain,
            Self::List(many, of) => *many == Many::Plain && of.is_of_delta(),
            Self::Bool | Self::Int(_) | Self::Float { .. } | Self::Date => true,
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
            Self::Text(Container::Plain | Container::Fixed) => DataType::Utf8,
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
            Self::Int(8) => (-50, 100),
            Self::UInt(8) => (0, 200),
            // Coarse in 16 and 32 bits; a decimal of nine digits has scale 4 at most.
            Self::UInt(_) | Self::Time(_) => (0, 3000),
            Self::List(_, of) | Self::Map(of) => of.domain(),
            Self::Struct(of) => of.iter().map(Self::domain).min_by_key(|domain| domain.1).unwrap_or((0, 100)),
            _ => (-1000, 3000),
        }
    }

    /// The values of these numbers.
    pub(crate) fn array(&self, numbers: &[Option<i64>]) -> Result<ArrayRef> {
        let to = self.arrow();
        let ints = |of: &dyn Fn(i64) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter(numbers.iter().map(|number| number.map(of))))
        };
        Ok(match self {
            Self::Bool => Arc::new(BooleanArray::from_iter(numbers.iter().map(|number| number.map(|n| n & 1 == 1)))),
            Self::Int(_) | Self::UInt(_) => cast(&ints(&|n| n), &to)?,
            Self::Float { odd, .. } => {
                let values = numbers.iter().map(|number| number.map(|n| float(n, *odd)));
                cast(&(Arc::new(Float64Array::from_iter(values)) as ArrayRef), &to)?
            }
            // Hundredths, where there are any.
            &Self::Decimal { scale: 0, .. } => cast(&ints(&|n| n), &to)?,
            Self::Decimal { .. } => {
                let whole = cast(&ints(&|n| n), &DataType::Decimal128(30, 0))?;
                cast(&as_hundredths(&whole)?, &to)?
            }
            Self::Date => cast(&cast(&ints(&|n| n), &DataType::Int32)?, &to)?,
            Self::DateTime => cast(&ints(&|n| n * 86_400_000), &to)?,
            Self::Time(_) => {
                let seconds = cast(&ints(&|n| n.rem_euclid(86_400)), &DataType::Int32)?;
                cast(&cast(&seconds, &DataType::Time32(TimeUnit::Second))?, &to)?
            }
            Self::Timestamp(unit, _) => {
                let millis = cast(&ints(&|n| n * SECONDS), &DataType::Timestamp(TimeUnit::Second, None))?;
                let in_unit = cast(&millis, &DataType::Timestamp(unit.arrow(), None))?;
                // The zone says how it is shown, and not what it is.
                cast(&cast(&in_unit, &DataType::Int64)?, &to)?
            }
            Self::Text(_) => {
                let texts = numbers.iter().map(|number| number.map(text));
                cast(&(Arc::new(StringArray::from_iter(texts)) as ArrayRef), &to)?
            }
            Self::Bytes(Container::Fixed) => {
                let values = numbers.iter().map(|number| number.map(bytes));
                Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, FIXED as i32)?)
            }
            Self::Bytes(_) => {
                let values: Vec<Option<Vec<u8>>> = numbers.iter().map(|number| number.map(bytes)).collect();
                let values = BinaryArray::from_iter(values.iter().map(Option::as_deref));
                cast(&(Arc::new(values) as ArrayRef), &to)?
            }
            Self::Duration(_) => cast(&ints(&|n| n * SECONDS), &to)?,
            Self::List(Many::Two, of) => {
                let inner: Vec<Option<i64>> = numbers.iter().flat_map(|&number| [number, None]).collect();
                let valid = NullBuffer::from_iter(numbers.iter().map(Option::is_some));
                let item = Arc::new(Field::new_list_field(of.arrow(), true));
                Arc::new(FixedSizeListArray::try_new(item, 2, of.array(&inner)?, Some(valid))?)
            }
            Self::List(_, of) => cast(&list(of, numbers)?, &to)?,
            Self::Map(of) => map(of, numbers)?,
            Self::Struct(of) => {
                let columns = of.iter().map(|kind| kind.array(numbers)).collect::<Result<Vec<_>>>()?;
                let valid = NullBuffer::from_iter(numbers.iter().map(Option::is_some));
                Arc::new(StructArray::try_new(fields(of), columns, Some(valid))?)
            }
        })
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
            Self::Timestamp(_, zone) => {
                let seconds = number * SECONDS;
                let moment = format!("{} {}", day(seconds.div_euclid(86_400)), clock(seconds.rem_euclid(86_400)));
                match zone {
                    Zone::None => cast_to(moment, "TIMESTAMP"),
                    _ => format!("TIMESTAMPTZ '{moment}+00:00'"),
                }
            }
            Self::Text(_) => format!("'{}'", text(number)),
            Self::Bytes(_) => {
                let hex: String = bytes(number).iter().map(|byte| format!("{byte:02x}")).collect();
                format!("X'{hex}'")
            }
            Self::Duration(_) | Self::List(..) | Self::Map(_) | Self::Struct(_) => "NULL".to_owned(),
        }
    }

    /// Whether values have an order in SQL, by which they are compared.
    pub(crate) fn is_compared(&self) -> bool {
        !matches!(self, Self::Duration(_) | Self::List(..) | Self::Map(_) | Self::Struct(_))
    }

    /// Whether it is bytes, whose literals DataFusion compares with some Arrow types of them only.
    pub(crate) fn is_bytes(&self) -> bool {
        matches!(self, Self::Bytes(_))
    }

    /// Whether DuckDB has the type and means the same by it.
    pub(crate) fn is_portable(&self) -> bool {
        !matches!(
            self,
            Self::Float { odd: true, .. }
                | Self::Decimal { precision: 39.., .. }
                | Self::Duration(_)
                | Self::Map(_)
                | Self::DateTime
                | Self::Time(_)
                | Self::Timestamp(_, Zone::Utc | Zone::Berlin)
                // Parquet has no seconds, and DuckDB does not read Arrow's note of them.
                | Self::Timestamp(Unit::Seconds, _)
                | Self::Bytes(_)
                | Self::List(..)
                | Self::Struct(_)
        )
    }

    /// Whether one of its values is the smallest: DataFusion's `min` and `max` take NaN or leave
    /// it, by the order in which rows come.
    pub(crate) fn has_bounds(&self) -> bool {
        self.is_compared() && !matches!(self, Self::Bool | Self::Float { odd: true, .. })
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
            Self::Timestamp(_, Zone::None) => "timestamp",
            Self::Timestamp(..) => "moment",
            Self::Text(_) => "text",
            _ => "none",
        }
    }
}

fn fields(of: &[Kind]) -> Fields {
    of.iter().zip(["x", "y", "z"]).map(|(kind, name)| Field::new(name, kind.arrow(), true)).collect()
}

/// 1234 as 12.34.
fn as_hundredths(whole: &ArrayRef) -> Result<ArrayRef> {
    let data = whole.to_data().into_builder().data_type(DataType::Decimal128(30, 2)).build()?;
    Ok(arrow::array::make_array(data))
}

/// Lists of up to three values; some are empty, and some values in them are NULL.
fn list(of: &Kind, numbers: &[Option<i64>]) -> Result<ArrayRef> {
    let length = |number: &Option<i64>| number.map_or(0, |n| n.rem_euclid(4) as usize);
    let inner: Vec<Option<i64>> = numbers
        .iter()
        .flat_map(|number| (0..length(number)).map(|at| number.filter(|n| (n + at as i64) % 7 != 0)))
        .collect();
    let values = if inner.is_empty() { new_null_array(&of.arrow(), 0) } else { of.array(&inner)? };
    let offsets = OffsetBuffer::from_lengths(numbers.iter().map(length));
    let valid = NullBuffer::from_iter(numbers.iter().map(Option::is_some));
    let field = Arc::new(Field::new_list_field(of.arrow(), true));
    Ok(Arc::new(ListArray::try_new(field, offsets, values, Some(valid))?))
}

/// One entry each, or none.
fn map(of: &Kind, numbers: &[Option<i64>]) -> Result<ArrayRef> {
    let with_entry = |number: &Option<i64>| number.is_some_and(|n| n % 5 != 0);
    let inner: Vec<Option<i64>> = numbers.iter().copied().filter(with_entry).collect();
    let keys = StringArray::from_iter_values(inner.iter().map(|number| text(number.unwrap_or(0))));
    let DataType::Struct(parts) = entries(of).data_type().clone() else { bail!("a map of no entries") };
    let entries_array = StructArray::try_new(parts, vec![Arc::new(keys), of.array(&inner)?], None)?;
    let offsets = OffsetBuffer::from_lengths(numbers.iter().map(|number| usize::from(with_entry(number))));
    let valid = NullBuffer::from_iter(numbers.iter().map(Option::is_some));
    Ok(Arc::new(MapArray::try_new(entries(of), offsets, entries_array, Some(valid), false)?))
}

fn entries(of: &Kind) -> Arc<Field> {
    let parts = vec![Field::new("key", DataType::Utf8, false), Field::new("value", of.arrow(), true)];
    Arc::new(Field::new("entries", DataType::Struct(parts.into()), false))
}

/// Quarters, so that sums are exact in any order; or what floats have beside numbers.
fn float(number: i64, odd: bool) -> f64 {
    match number.rem_euclid(23) {
        0 if odd => f64::NAN,
        1 if odd => -0.0,
        2 if odd => f64::INFINITY,
        3 if odd => f64::NEG_INFINITY,
        4 if odd => 0.0,
        _ => number as f64 / 4.0,
    }
}

fn hundredths(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", number.abs() / 100, number.abs() % 100)
}

/// Texts whose order is that of the numbers. Statistics may have their beginning alone, and some
/// are empty or not ASCII.
fn text(number: i64) -> String {
    match number {
        ..=-990 => String::new(),
        1900.. => format!("ключ {number:05}"),
        _ => format!("name of a thing {:05}", number + 10_000),
    }
}

/// Six bytes, of which the first is beyond 127 for half of them.
fn bytes(number: i64) -> Vec<u8> {
    let from_0 = (number + 0x0800_0000) as u64;
    (from_0 << 20).to_be_bytes()[8 - FIXED..].to_vec()
}

/// The day so many days after 1970 began.
fn day(days: i64) -> String {
    let days = Int64Array::from(vec![days]);
    let text = cast(&days, &DataType::Int32)
        .and_then(|days| cast(&days, &DataType::Date32))
        .and_then(|days| arrow::util::display::array_value_to_string(&days, 0));
    text.unwrap_or_default()
}

fn clock(seconds: i64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
