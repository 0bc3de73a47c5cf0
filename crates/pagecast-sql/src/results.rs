//! Functions whose results are larger than what they are given.
//!
//! `lpad('x', 2000000000)` is four words that ask for 2 GB, for each row. DataFusion counts what
//! sorts, joins and aggregates keep, and nothing that a function makes. And an allocation that
//! fails ends the process. So the bytes of such a result are told from its arguments before the
//! function runs: one call makes at most [`LARGEST`](crate::budget::LARGEST) bytes, and less where
//! the session has less. The same goes for the steps that one row takes, where these are more than
//! it has bytes.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::Array;
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::config::ConfigOptions;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;

use crate::Classed;
use crate::budget::{Budget, over_alone};
use crate::held::Held;
use crate::long::bytes as of_array;
use crate::sizes::{Arguments, Bytes, KNOWN, Known, Makes, PATTERN, Takes};

/// Copies of a constant for which there is room.
const COPIES: u64 = 8;
/// Bytes that a call may make before it is done in parts.
const AT_ONCE: u64 = 16 << 20;

/// Puts the bound around the functions of a session.
pub(crate) fn bound(ctx: &SessionContext, budget: &Budget) -> Result<()> {
    let memory = Arc::clone(&ctx.runtime_env().memory_pool);
    let state = ctx.state_ref();
    let mut state = state.write();
    for known in &KNOWN {
        let Ok(inner) = state.udf(known.name) else { continue };
        let room = Room { memory: Arc::clone(&memory), budget: budget.clone() };
        let bound = Bound { inner, known: Sizes(known), room };
        state.register_udf(Arc::new(ScalarUDF::new_from_impl(bound)))?;
    }
    Ok(())
}

/// A function whose results have a bound.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bound {
    inner: Arc<ScalarUDF>,
    known: Sizes,
    room: Room,
}

/// Which is known by the function's name.
#[derive(Clone, Copy)]
struct Sizes(&'static Known);

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
        Some(ScalarUDF::new_from_impl(Self { inner, known: self.known, room: self.room.clone() }))
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // As an operator it would have no bound: a long pattern stays where it is.
        let is_short =
            |arg: Option<&Expr>| matches!(arg, Some(Expr::Literal(value, _)) if value.size() as u64 <= PATTERN);
        match self.known.0.takes.is_none() || is_short(args.get(1)) {
            true => self.inner.simplify(args, info),
            false => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.placement(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arguments = Arguments::of(&args)?;
        self.check_steps(&arguments)?;
        match self.known.0.makes {
            Makes::LikeOthers => self.inner.invoke_with_args(args),
            Makes::Exactly(bytes) => {
                let _counted = self.check(sum(&arguments, bytes), &arguments)?;
                self.inner.invoke_with_args(args)
            }
            Makes::AtMost(bytes) => {
                let most = sum(&arguments, bytes);
                if most <= AT_ONCE || arguments.rows == 1 {
                    let _counted = self.check(most, &arguments)?;
                    return self.inner.invoke_with_args(args);
                }
                self.in_parts(&args, &arguments, bytes)
            }
        }
    }
}

impl Bound {
    fn check_steps(&self, arguments: &Arguments) -> Result<()> {
        let Some(Takes { steps, most, what }) = &self.known.0.takes else { return Ok(()) };
        let steps = steps(arguments, *most);
        match steps > *most {
            true => Err(too_long(format!(
                "{} would take {steps} steps for one row, and the limit is {most}: give it {what}",
                self.name()
            ))),
            false => Ok(()),
        }
    }

    /// Most bytes of one call.
    fn limit(&self, arguments: &Arguments) -> u64 {
        // The optimizer copies constants as often as it likes.
        self.room.budget.at_once() / if arguments.are_constant() { COPIES } else { 1 }
    }

    /// Room for what it would make, for as long as that is not there.
    fn check(&self, bytes: u64, arguments: &Arguments) -> Result<MemoryReservation> {
        let limit = self.limit(arguments);
        if bytes > limit {
            let (name, rows) = (self.name(), arguments.rows);
            let what = format!("{name} would make {bytes} bytes of {rows} rows, and the limit is {limit}");
            return Err(over_alone(what));
        }
        self.room.budget.check(bytes, self.name())?;
        let counted = MemoryConsumer::new(self.name()).register(&self.room.memory);
        // There is room on the heap. The account may have none, where operators took all of it:
        // they go to disk when they want more.
        counted.grow(bytes as usize);
        Ok(counted)
    }

    /// Some rows after the other, where a result may be large and mostly is not: what was made
    /// counts, and for the next rows what they may make.
    fn in_parts(&self, args: &ScalarFunctionArgs, arguments: &Arguments, bytes: Bytes) -> Result<ColumnarValue> {
        let (mut parts, mut made, mut from) = (Vec::new(), 0, 0);
        while from < arguments.rows {
            let (mut to, mut most) = (from + 1, bytes(arguments, from));
            while to < arguments.rows && most.saturating_add(bytes(arguments, to)) <= AT_ONCE {
                most = most.saturating_add(bytes(arguments, to));
                to += 1;
            }
            Held::check_current()?;
            let _counted = self.check(most.saturating_add(made), arguments)?;
            let part = self.inner.invoke_with_args(rows_of(args, from..to))?.into_array(to - from)?;
            made += of_array(&part);
            parts.push(part);
            from = to;
        }
        let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
        Ok(ColumnarValue::Array(concat(&parts)?))
    }
}

fn sum(arguments: &Arguments, bytes: Bytes) -> u64 {
    (0..arguments.rows).fold(0, |sum: u64, row| sum.saturating_add(bytes(arguments, row)))
}

/// The call for some of its rows.
fn rows_of(args: &ScalarFunctionArgs, rows: Range<usize>) -> ScalarFunctionArgs {
    let of_value = |value: &ColumnarValue| match value {
        ColumnarValue::Array(values) => ColumnarValue::Array(values.slice(rows.start, rows.len())),
        ColumnarValue::Scalar(value) => ColumnarValue::Scalar(value.clone()),
    };
    let parts = args.args.iter().map(of_value).collect();
    ScalarFunctionArgs { args: parts, number_rows: rows.len(), ..args.clone() }
}

/// What one call takes too long for, whatever memory there is.
fn too_long(message: String) -> DataFusionError {
    Classed::new("54000", message).into()
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
            "string_to_array(repeat('a', 10000000), NULL)",
            "regexp_replace(repeat('a', 1000000), '', repeat('b', 100000), 'g')",
            "generate_series(TIMESTAMP '1900-01-01', TIMESTAMP '2200-01-01', INTERVAL '1 second')",
            "array_union(range(0, 3000000), [1])",
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
    async fn what_one_row_would_take_too_long_for_is_not_begun() {
        for value in [
            "levenshtein(repeat('a', 20000), repeat('b', 20000))",
            "array_has_all(range(0, 20000), range(20000, 40000))",
            "array_has_any(range(0, 20000), range(20000, 40000))",
            "btrim(repeat('a', 20000), repeat('b', 20000))",
            "regexp_like('a', repeat('b', 100000))",
        ] {
            let ran = run(500 << 20, &format!("SELECT {value}")).await;
            let Err(error) = ran else { panic!("{value} ran") };
            let class = Classed::of(&error).map(|error| error.code);
            assert!(class == Some("54000") && error.to_string().contains(" steps for one row"), "{value}: {error}");
        }
        assert!(run(500 << 20, "SELECT levenshtein(repeat('a', 3000), repeat('b', 3000))").await.is_ok());
    }

    #[tokio::test]
    async fn what_may_be_large_and_is_not_is_done_in_parts() {
        // Each row may become 2 MB, and all of them together more than there is. That is more than
        // the other tests of this program take, whose heap counts, too.
        let sql = "SELECT sum(length(replace(a::text || repeat('b', 20000), 'b' || (a % 7)::text, repeat('c', 200)))) \
                   FROM unnest(range(0, 1000)) AS t(a)";
        let ctx = SessionContext::new();
        bound(&ctx, &budget(1 << 30)).unwrap();
        let plain = SessionContext::new().sql(sql).await.unwrap().collect().await.unwrap();
        assert_eq!(ctx.sql(sql).await.unwrap().collect().await.unwrap(), plain);
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
            "string_to_array('a,b,,c', ',')",
            "string_to_array('abc', NULL)",
            "regexp_replace('banana', '(a)(n)', '\\2\\1', 'g')",
            "levenshtein('kitten', 'sitting')",
            "array_has_all([1, 2, 3], [3, 1])",
            "arrays_overlap(['a'], ['b'])",
            "array_union([1, 2], [2, 3])",
            "btrim('xxaxx', 'x')",
            "encode('ab', 'hex')",
        ] {
            let sql = format!("SELECT {value}::text AS v, a FROM unnest([1, 2]) AS t(a) ORDER BY a");
            let plain = SessionContext::new().sql(&sql).await.unwrap().collect().await.unwrap();
            let ctx = SessionContext::new();
            bound(&ctx, &Budget::default()).unwrap();
            assert_eq!(ctx.sql(&sql).await.unwrap().collect().await.unwrap(), plain, "{value}");
        }
    }
}
