//! What functions make of their arguments, and how long that takes.

use std::cell::OnceCell;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use crate::long::{bytes, inside};

/// How many bytes a call makes for one row of its arguments.
pub(crate) type Bytes = fn(&Arguments, usize) -> u64;

/// What is known of a function.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) makes: Makes,
    pub(crate) takes: Option<Takes>,
}

/// How large a result is.
#[derive(Clone, Copy)]
pub(crate) enum Makes {
    /// About as large as what it is made of, for which there is room by then.
    LikeOthers,
    Exactly(Bytes),
    /// And mostly far less.
    AtMost(Bytes),
}

/// Steps for one row.
#[derive(Clone, Copy)]
pub(crate) struct Takes {
    /// The most, or about that if it is no more than this.
    pub(crate) steps: fn(&Arguments, u64) -> u64,
    pub(crate) most: u64,
    /// What to give it.
    pub(crate) what: &'static str,
}

/// Steps of about a nanosecond: no row of a function takes more than a fraction of a second.
const MANY: u64 = 1 << 27;
/// Letters of a pattern, of which each may become kilobytes.
pub(crate) const PATTERN: u64 = 64 << 10;

/// Parts of a text that are counted, and not guessed.
const MANY_PARTS: u64 = 64 << 10;

const fn exactly(name: &'static str, bytes: Bytes) -> Known {
    Known { name, makes: Makes::Exactly(bytes), takes: None }
}

const fn at_most(name: &'static str, bytes: Bytes) -> Known {
    Known { name, makes: Makes::AtMost(bytes), takes: None }
}

/// One of which each part of its first argument meets each part of its second.
const fn pairs(name: &'static str, what: &'static str) -> Known {
    Known { name, makes: Makes::LikeOthers, takes: Some(Takes { steps: product, most: MANY, what }) }
}

const fn by_pattern(name: &'static str, makes: Makes) -> Known {
    let takes = Takes { steps: |of, _| of.widest(1), most: PATTERN, what: "a shorter pattern" };
    Known { name, makes, takes: Some(takes) }
}

/// The functions of which something is known. What others make is about as large as what they are
/// given.
pub(crate) const KNOWN: [Known; 33] = [
    exactly("lpad", padded),
    exactly("rpad", padded),
    exactly("repeat", |of, row| of.bytes(0, row).saturating_mul(of.number(1, row))),
    // It numbers the copies, and gathers those of lists twice.
    at_most("array_repeat", |of, row| {
        of.bytes(0, row).max(8).saturating_mul(of.number(1, row).saturating_add(1)).saturating_mul(2)
    }),
    exactly("array_resize", |of, row| {
        of.bytes(0, row).saturating_add(of.bytes(2, row).max(8).saturating_mul(of.number(1, row)))
    }),
    exactly("range", sequence),
    exactly("generate_series", sequence),
    at_most("replace", replaced),
    // A letter may become one of four bytes, and each is a text while it is looked for.
    at_most("translate", |of, row| of.bytes(0, row).saturating_mul(8)),
    at_most("array_to_string", |of, row| {
        let separators = of.count(0, row).saturating_mul(of.bytes(1, row).saturating_add(of.bytes(2, row)));
        // A number of eight bytes may have 24 letters.
        of.bytes(0, row).saturating_mul(3).saturating_add(separators)
    }),
    exactly("concat", all),
    exactly("concat_ws", |of, row| {
        all(of, row).saturating_add(of.bytes(0, row).saturating_mul(of.columns.len() as u64))
    }),
    exactly("overlay", all),
    at_most("string_to_array", split),
    at_most("to_char", |of, row| of.bytes(1, row).saturating_mul(9)),
    at_most("encode", |of, row| of.bytes(0, row).saturating_mul(2)),
    at_most("array_sort", |of, row| all(of, row).saturating_mul(3)),
    // These write each value into a row of bytes, and number the rows.
    at_most("array_distinct", |of, row| all(of, row).saturating_mul(4)),
    at_most("array_except", |of, row| all(of, row).saturating_mul(4)),
    at_most("array_intersect", |of, row| all(of, row).saturating_mul(4)),
    at_most("array_union", |of, row| all(of, row).saturating_mul(4)),
    at_most("make_array", all),
    by_pattern("regexp_count", Makes::LikeOthers),
    by_pattern("regexp_instr", Makes::LikeOthers),
    by_pattern("regexp_like", Makes::LikeOthers),
    by_pattern("regexp_match", Makes::LikeOthers),
    by_pattern("regexp_replace", Makes::AtMost(replaced_by_pattern)),
    pairs("levenshtein", "shorter texts, as left(x, 10000)"),
    pairs("array_has_all", "shorter lists"),
    pairs("array_has_any", "shorter lists"),
    pairs("btrim", "fewer characters to look for"),
    pairs("ltrim", "fewer characters to look for"),
    pairs("rtrim", "fewer characters to look for"),
];

/// All that it is given.
fn all(of: &Arguments, row: usize) -> u64 {
    (0..of.columns.len()).fold(0, |sum: u64, at| sum.saturating_add(of.bytes(at, row)))
}

/// At most as often as what is replaced fits into the text, or between all of its characters.
fn replaced(of: &Arguments, row: usize) -> u64 {
    let text = of.bytes(0, row);
    let most = text.checked_div(of.bytes(1, row)).unwrap_or(text + 1);
    text.saturating_add(matches(of, row, most).saturating_mul(of.bytes(2, row)))
}

/// How often the second text stands in the first, if that may be often; else how often at most.
fn matches(of: &Arguments, row: usize, most: u64) -> u64 {
    match (of.text(0, row), of.text(1, row)) {
        (Some(text), Some(part)) if most > MANY_PARTS && !part.is_empty() => text.matches(part).count() as u64,
        _ => most,
    }
}

/// Characters of a text, of which none has more than four bytes.
fn padded(of: &Arguments, row: usize) -> u64 {
    let widest = if of.is_ascii() { 1 } else { 4 };
    of.number(1, row).saturating_mul(widest)
}

/// Values from one to another.
fn sequence(of: &Arguments, row: usize) -> u64 {
    let value = |at: usize| of.value(at, row);
    let (from, to, step) = match of.columns.len() {
        1 => (Some(0), value(0), Some(1)),
        2 => (value(0), value(1), Some(1)),
        _ => (value(0), value(1), value(2).or_else(|| of.ticks(row))),
    };
    let (Some(from), Some(to), Some(step)) = (from, to, step) else { return 0 };
    if step == 0 || (to > from) != (step > 0) {
        return 0;
    }
    to.abs_diff(from).checked_div(step.unsigned_abs()).unwrap_or(0).saturating_add(1).saturating_mul(8)
}

/// The text, and a view of 16 bytes for each part, of which there is one for each letter where
/// nothing separates them.
fn split(of: &Arguments, row: usize) -> u64 {
    const VIEW: u64 = 20;
    let (text, separator) = (of.bytes(0, row), of.bytes(1, row));
    let parts = matches(of, row, text.checked_div(separator).unwrap_or(text)).saturating_add(1);
    text.saturating_add(parts.saturating_mul(VIEW))
}

/// Each letter of the text may be replaced, or the first match alone, and parts of the text may
/// come again wherever the replacement names them.
fn replaced_by_pattern(of: &Arguments, row: usize) -> u64 {
    let (text, replacement) = (of.bytes(0, row), of.text(2, row).unwrap_or_default());
    let is_global = of.text(3, row).is_some_and(|flags| flags.contains('g'));
    let times = if is_global { text.saturating_add(1) } else { 1 };
    let named = replacement.bytes().filter(|byte| matches!(byte, b'$' | b'\\')).count() as u64;
    let again = text.saturating_mul(named.saturating_add(1));
    again.saturating_add(times.saturating_mul(replacement.len() as u64))
}

/// The product of what two arguments have: values of lists, bytes of texts.
fn product(of: &Arguments, most: u64) -> u64 {
    let coarse = of.widest(0).saturating_mul(of.widest(1));
    if coarse <= most {
        return coarse;
    }
    let parts = |at: usize, row: usize| if of.is_nested(at) { of.count(at, row) } else { of.bytes(at, row) };
    (0..of.rows).map(|row| parts(0, row).saturating_mul(parts(1, row))).max().unwrap_or(0)
}

/// What a function is called with.
pub(crate) struct Arguments {
    columns: Vec<Column>,
    pub(crate) rows: usize,
    /// Once it was asked for, of any row: all texts are looked through.
    is_ascii: OnceCell<bool>,
}

/// An argument: the same for all rows, or one for each.
struct Column {
    values: ArrayRef,
    /// As whole numbers, if it is some.
    numbers: Option<ArrayRef>,
    is_scalar: bool,
}

impl Arguments {
    pub(crate) fn of(args: &ScalarFunctionArgs) -> Result<Self> {
        let column = |value: &ColumnarValue| {
            let values = value.to_array(1)?;
            let numbers = is_number(values.data_type()).then(|| cast(&values, &DataType::Int64)).transpose()?;
            Ok(Column { values, numbers, is_scalar: matches!(value, ColumnarValue::Scalar(_)) })
        };
        let columns = args.args.iter().map(column).collect::<Result<Vec<_>>>()?;
        // Of scalars alone a function makes one.
        let rows = if columns.iter().all(|column| column.is_scalar) { 1 } else { args.number_rows };
        Ok(Self { columns, rows, is_ascii: OnceCell::new() })
    }

    /// Whether all of them are the same for all rows.
    pub(crate) fn are_constant(&self) -> bool {
        self.columns.iter().all(|column| column.is_scalar)
    }

    /// An argument as a whole number, none if it is NULL or none.
    fn value(&self, at: usize, row: usize) -> Option<i64> {
        let column = self.columns.get(at)?;
        let (row, numbers) = (if column.is_scalar { 0 } else { row }, column.numbers.as_ref()?);
        numbers.is_valid(row).then(|| numbers.as_primitive::<Int64Type>().value(row))
    }

    /// How often something is made.
    fn number(&self, at: usize, row: usize) -> u64 {
        self.value(at, row).and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
    }

    /// A step of time in what the first argument counts in, and not too long.
    fn ticks(&self, row: usize) -> Option<i64> {
        const DAY: i64 = 24 * 3600;
        let (first, step) = (self.columns.first()?, self.columns.get(2)?);
        let row = if step.is_scalar { 0 } else { row };
        let step = step.values.as_primitive_opt::<IntervalMonthDayNanoType>()?;
        if step.is_null(row) {
            return None;
        }
        let step = step.value(row);
        // A month has 28 days at least, and a day may have 23 hours.
        let days = i64::from(step.months).saturating_mul(28).saturating_add(step.days.into());
        let seconds = days.saturating_mul(DAY / 24 * 23);
        Some(match first.values.data_type() {
            DataType::Date32 => days.saturating_add(step.nanoseconds / 1_000_000_000 / DAY),
            DataType::Timestamp(TimeUnit::Second, _) => seconds.saturating_add(step.nanoseconds / 1_000_000_000),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                seconds.saturating_mul(1_000).saturating_add(step.nanoseconds / 1_000_000)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                seconds.saturating_mul(1_000_000).saturating_add(step.nanoseconds / 1_000)
            }
            _ => seconds.saturating_mul(1_000_000_000).saturating_add(step.nanoseconds),
        })
    }

    fn is_nested(&self, at: usize) -> bool {
        self.columns.get(at).is_some_and(|column| column.values.data_type().is_nested())
    }

    /// Bytes of the longest text of an argument, or values of the longest list and those before it.
    fn widest(&self, at: usize) -> u64 {
        let Some(column) = self.columns.get(at) else { return 0 };
        let rows = column.values.len();
        match column.values.data_type() {
            kind if kind.is_nested() => leaves(&column.values),
            DataType::Utf8View => column.values.as_string_view().lengths().max().unwrap_or(0).into(),
            _ => (0..rows).map(|row| self.bytes(at, row)).max().unwrap_or(0),
        }
    }

    /// An argument as a text.
    fn text(&self, at: usize, row: usize) -> Option<&str> {
        let column = self.columns.get(at)?;
        let row = if column.is_scalar { 0 } else { row };
        if column.values.is_null(row) {
            return None;
        }
        Some(match column.values.data_type() {
            DataType::Utf8 => column.values.as_string::<i32>().value(row),
            DataType::LargeUtf8 => column.values.as_string::<i64>().value(row),
            DataType::Utf8View => column.values.as_string_view().value(row),
            _ => return None,
        })
    }

    /// Bytes of an argument.
    fn bytes(&self, at: usize, row: usize) -> u64 {
        let Some(column) = self.columns.get(at) else { return 0 };
        let row = if column.is_scalar { 0 } else { row };
        match column.values.data_type() {
            DataType::Utf8 => column.values.as_string::<i32>().value(row).len() as u64,
            DataType::LargeUtf8 => column.values.as_string::<i64>().value(row).len() as u64,
            DataType::Utf8View => column.values.as_string_view().value(row).len() as u64,
            kind => match kind.primitive_width() {
                Some(width) => width as u64,
                None => bytes(&column.values.slice(row, 1)),
            },
        }
    }

    /// How many values a list has, and all lists in it.
    fn count(&self, at: usize, row: usize) -> u64 {
        self.columns.get(at).map_or(0, |column| leaves(&column.values.slice(if column.is_scalar { 0 } else { row }, 1)))
    }

    /// Whether all characters of all texts have one byte.
    fn is_ascii(&self) -> bool {
        let is_ascii = |column: &Column| match column.values.data_type() {
            DataType::Utf8 => column.values.as_string::<i32>().is_ascii(),
            DataType::LargeUtf8 => column.values.as_string::<i64>().is_ascii(),
            DataType::Utf8View => column.values.as_string_view().is_ascii(),
            _ => true,
        };
        *self.is_ascii.get_or_init(|| self.columns.iter().all(is_ascii))
    }
}

fn is_number(kind: &DataType) -> bool {
    kind.is_integer() || matches!(kind, DataType::Date32 | DataType::Timestamp(..))
}

/// The values in lists, and in the lists in these.
fn leaves(values: &ArrayRef) -> u64 {
    match values.data_type() {
        DataType::List(_) => leaves(&inside(values.as_list::<i32>())),
        DataType::LargeList(_) => leaves(&inside(values.as_list::<i64>())),
        DataType::FixedSizeList(..) => leaves(values.as_fixed_size_list().values()),
        _ => values.len() as u64,
    }
}
