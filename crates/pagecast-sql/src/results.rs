//! Functions whose results are larger than what they are given.
//!
//! `lpad('x', 2000000000)` is four words that ask for 2 GB, for each row. DataFusion counts what
//! sorts, joins and aggregates keep, and nothing that a function makes. And an allocation that
//! fails ends the process. So the bytes of such a result are told from its arguments before the
//! function runs: one call makes at most [`LARGEST`](crate::budget::LARGEST) bytes, and less where
//! the session has less.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;

use crate::budget::{Budget, over};
use crate::long::{bytes, inside};

/// Copies of a constant for which there is room.
const COPIES: u64 = 8;

/// How many bytes a call makes at most, for one row of its arguments.
type Bytes = fn(&Arguments, usize) -> u64;

/// The functions, and how large their results are.
const GROWING: [(&str, Bytes); 13] = [
    ("lpad", padded),
    ("rpad", padded),
    ("repeat", |of, row| of.bytes(0, row).saturating_mul(of.number(1, row))),
    ("array_repeat", |of, row| of.bytes(0, row).saturating_mul(of.number(1, row))),
    ("array_resize", |of, row| {
        of.bytes(0, row).saturating_add(of.bytes(2, row).max(8).saturating_mul(of.number(1, row)))
    }),
    ("range", sequence),
    ("generate_series", sequence),
    ("replace", replaced),
    // A letter may become one of four bytes, and each is a text while it is looked for.
    ("translate", |of, row| of.bytes(0, row).saturating_mul(8)),
    ("array_to_string", |of, row| of.bytes(0, row).saturating_add(of.count(0, row).saturating_mul(of.bytes(1, row)))),
    ("concat", all),
    ("concat_ws", |of, row| all(of, row).saturating_add(of.bytes(0, row).saturating_mul(of.columns.len() as u64))),
    ("overlay", all),
];

/// All that it is given.
fn all(of: &Arguments, row: usize) -> u64 {
    (0..of.columns.len()).fold(0, |sum: u64, at| sum.saturating_add(of.bytes(at, row)))
}

/// At most as often as what is replaced fits into the text, or between all of its characters.
fn replaced(of: &Arguments, row: usize) -> u64 {
    let text = of.bytes(0, row);
    let times = text.checked_div(of.bytes(1, row)).unwrap_or(text + 1);
    text.saturating_add(times.saturating_mul(of.bytes(2, row)))
}

/// Characters of a text, of which none has more than four bytes.
fn padded(of: &Arguments, row: usize) -> u64 {
    let widest = if of.is_ascii() { 1 } else { 4 };
    of.number(1, row).saturating_mul(widest)
}

/// Whole numbers from one to another. Of times, whose steps have no fixed length, nothing is known.
fn sequence(of: &Arguments, row: usize) -> u64 {
    let value = |at: usize| of.value(at, row);
    let (from, to, step) = match of.columns.len() {
        1 => (Some(0), value(0), Some(1)),
        2 => (value(0), value(1), Some(1)),
        _ => (value(0), value(1), value(2)),
    };
    let (Some(from), Some(to), Some(step)) = (from, to, step) else { return 0 };
    if step == 0 || (to > from) != (step > 0) {
        return 0;
    }
    to.abs_diff(from).checked_div(step.unsigned_abs()).unwrap_or(0).saturating_add(1).saturating_mul(8)
}

/// Puts the bound around the functions of a session.
pub(crate) fn bound(ctx: &SessionContext, budget: &Budget) -> Result<()> {
    let memory = Arc::clone(&ctx.runtime_env().memory_pool);
    let state = ctx.state_ref();
    let mut state = state.write();
    for (name, bytes) in GROWING {
        let Ok(inner) = state.udf(name) else { continue };
        let room = Room { memory: Arc::clone(&memory), budget: budget.clone() };
        let bound = Bound { inner, bytes: Sizes(bytes), room };
        state.register_udf(Arc::new(ScalarUDF::new_from_impl(bound)))?;
    }
    Ok(())
}

/// A function whose results have a bound.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bound {
    inner: Arc<ScalarUDF>,
    bytes: Sizes,
    room: Room,
}

/// Which is known by the function's name.
#[derive(Clone, Copy)]
struct Sizes(Bytes);

/// The session's.
#[derive(Clone, Debug)]
struct Room {
    memory: Arc<dyn MemoryPool>,
    budget: Budget,
}

macro_rules! equal_for_one_function {
    ($($kind:ty),*) => {$(
        impl PartialEq for $kind {
            fn eq(&self, _: &Self) -> bool {
                true
            }
        }
        impl Eq for $kind {}
        impl std::hash::Hash for $kind {
            fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
        }
    )*};
}
equal_for_one_function!(Sizes, Room);

impl std::fmt::Debug for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sizes")
    }
}

impl ScalarUDFImpl for Bound {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(given)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.inner.return_type(given)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = Arc::new(self.inner.inner().with_updated_config(config)?);
        Some(ScalarUDF::new_from_impl(Self { inner, bytes: self.bytes, room: self.room.clone() }))
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arguments = Arguments::of(&args)?;
        let bytes = (0..arguments.rows).fold(0, |sum: u64, row| sum.saturating_add((self.bytes.0)(&arguments, row)));
        // The optimizer copies constants as often as it likes.
        let is_constant = arguments.columns.iter().all(|column| column.is_scalar);
        let limit = self.room.budget.at_once() / if is_constant { COPIES } else { 1 };
        if bytes > limit {
            let (name, rows) = (self.name(), arguments.rows);
            return Err(over(format!("{name} would make {bytes} bytes of {rows} rows, and the limit is {limit}")));
        }
        self.room.budget.check(bytes, self.name())?;
        let counted = MemoryConsumer::new(self.name()).register(&self.room.memory);
        counted
            .try_grow(bytes as usize)
            .map_err(|error| over(format!("{} would make {bytes} bytes: {}", self.name(), error.strip_backtrace())))?;
        self.inner.invoke_with_args(args)
    }
}

/// What a function is called with.
struct Arguments {
    columns: Vec<Column>,
    rows: usize,
}

/// An argument: the same for all rows, or one for each.
struct Column {
    values: ArrayRef,
    /// As whole numbers, if it is some.
    numbers: Option<ArrayRef>,
    is_scalar: bool,
}

impl Arguments {
    fn of(args: &ScalarFunctionArgs) -> Result<Self> {
        let column = |value: &ColumnarValue| {
            let values = value.to_array(1)?;
            let numbers = values.data_type().is_integer().then(|| cast(&values, &DataType::Int64)).transpose()?;
            Ok(Column { values, numbers, is_scalar: matches!(value, ColumnarValue::Scalar(_)) })
        };
        let columns = args.args.iter().map(column).collect::<Result<Vec<_>>>()?;
        // Of scalars alone a function makes one.
        let rows = if columns.iter().all(|column| column.is_scalar) { 1 } else { args.number_rows };
        Ok(Self { columns, rows })
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
        self.columns.iter().all(|column| match column.values.data_type() {
            DataType::Utf8 => column.values.as_string::<i32>().is_ascii(),
            DataType::LargeUtf8 => column.values.as_string::<i64>().is_ascii(),
            DataType::Utf8View => column.values.as_string_view().is_ascii(),
            _ => true,
        })
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::prelude::SessionConfig;

    use super::*;
    use crate::budget::tests::budget;

    async fn run(memory: usize, sql: &str) -> Result<usize> {
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(memory, 1.0).build_arc().unwrap();
        let ctx = SessionContext::new_with_config_rt(SessionConfig::new(), runtime);
        bound(&ctx, &budget(memory as u64)).unwrap();
        let found = ctx.sql(sql).await?.collect().await?;
        Ok(found.iter().map(|batch| batch.get_array_memory_size()).sum())
    }

    #[tokio::test]
    async fn results_that_are_too_large_are_not_begun() {
        for value in [
            "lpad('x', 2000000000)",
            "rpad('é', 2000000000, 'ü')",
            "repeat('0123456789', 475000000)",
            "array_repeat('x', 2000000000)",
            "array_repeat(7, 2000000000)",
            "array_resize([1], 2000000000, 2)",
            "range(0, 1000000000)",
            "generate_series(1, 1000000000, 2)",
            "list_repeat('x', 2000000000)",
            "replace(repeat('a', 1000000), 'a', repeat('b', 100000))",
            "replace(repeat('a', 1000000), '', repeat('b', 100000))",
            "array_to_string(range(0, 1000000), repeat('x', 100000))",
            "array_to_string([range(0, 1000000)], repeat('x', 100000))",
        ] {
            let error = run(500 << 20, &format!("SELECT {value}")).await.unwrap_err().to_string();
            assert!(error.contains(" would make ") && error.contains(" bytes"), "{value}: {error}");
        }
        // Of many rows, and of more than the session has.
        let rows = "SELECT sum(length(lpad(a::text, 100000, 'x'))) FROM unnest(range(1, 8000)) AS t(a)";
        let error = run(500 << 20, rows).await.unwrap_err().to_string();
        assert!(error.contains("lpad would make"), "{error}");
    }

    #[tokio::test]
    async fn results_that_are_usual_are_as_before() {
        for value in [
            "lpad('x', 100)",
            "lpad('x', -1)",
            "rpad(NULL, 7)",
            "repeat('ab', 1000)",
            "repeat('ab', -5)",
            "array_repeat([1, 2], 3)",
            "array_resize([1], 5)",
            "range(5)",
            "range(10, 0, -2)",
            "generate_series(DATE '2024-01-01', DATE '2024-02-01', INTERVAL '1 day')",
            "list_repeat('x', 3)",
            "replace('banana', 'an', 'ü')",
            "replace('ab', '', '-')",
            "translate('banana', 'an', 'ü')",
            "array_to_string([1, NULL, 3], ', ', '?')",
            "array_to_string([[1], [2, 3]], '-')",
            "concat('a', NULL, 7)",
            "concat_ws(', ', 'a', NULL, 'b')",
            "overlay('Txxxxas' PLACING 'hom' FROM 2 FOR 4)",
        ] {
            let sql = format!("SELECT {value}::text AS v, a FROM unnest([1, 2]) AS t(a) ORDER BY a");
            let plain = SessionContext::new().sql(&sql).await.unwrap().collect().await.unwrap();
            let ctx = SessionContext::new();
            bound(&ctx, &Budget::default()).unwrap();
            assert_eq!(ctx.sql(&sql).await.unwrap().collect().await.unwrap(), plain, "{value}");
        }
    }
}
