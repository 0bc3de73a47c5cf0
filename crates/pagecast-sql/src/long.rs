//! Functions and operators over long values, which are given little of them at once.
//!
//! Nobody stops a function, and nobody counts what it makes before it is there. So whoever
//! evaluates one does so for some rows after the other, and a statement ends or gives way between
//! them. How much one row may make is told in [`results`](crate::results).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, CastExpr, Column, LikeExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowExpr};

/// Bytes of long values that a function is given at once: milliseconds of work for most.
const LONG_BYTES: u64 = 4 << 20;
/// The same where each value is compared with another, letter by letter.
const PAIRED_BYTES: u64 = 32 << 10;

/// Bytes of a constant that is long.
const LONG: usize = 256;
/// Columns that are so many that those of a whole batch are tens of megabytes.
const MANY: usize = 128;
/// Bytes of a value whose type does not say how many it has.
const OF_VALUE: usize = 32;

/// Functions that a scan answers from the file, and not from values.
const OF_FILES: [&str; 3] = ["get_field", "input_file_name", "file_row_index"];

/// Bytes of long values that a node should be given at once, and those that it makes beside them
/// for each row; none if it may be given all.
pub(crate) fn at_once_by(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<(u64, u64)>> {
    // What a join compares is no row of its inputs: it has its filter watched.
    let [input] = plan.children()[..] else { return Ok(None) };
    let aggregate = plan.downcast_ref::<AggregateExec>();
    // Arguments are evaluated where rows become states, and these are what comes in later.
    if aggregate.is_some_and(|aggregate| aggregate.mode().input_mode() == AggregateInputMode::Partial) {
        return Ok(None);
    }
    let (schema, roots) = (input.schema(), roots(plan)?);
    let beside = made_beside(&roots, &schema)?;
    let is_long = schema.fields().iter().any(|field| is_long(field.data_type()));
    let mut most = u64::MAX;
    // A window copies what it finds in other rows; what is written is in memory first.
    if beside > 0 || window_results(plan).is_some_and(|results| results > 0) || is_long && plan.is::<DataSinkExec>() {
        most = LONG_BYTES;
    }
    // Keys and what is gathered are copied.
    if aggregate.is_some() && roots.iter().any(|root| gives_long(root, &schema)) {
        most = LONG_BYTES;
    }
    if is_long {
        most = roots.iter().map(|root| at_once(root, &schema)).fold(most, u64::min);
    }
    Ok((most < u64::MAX).then_some((most, beside)))
}

/// What a node evaluates for its input.
fn roots(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    let mut roots = Vec::new();
    plan.apply_expressions(&mut |root| {
        roots.push(Arc::clone(root));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(roots)
}

/// Whether who evaluates these is to be given little at once.
pub(crate) fn are_given_little(roots: &[Arc<dyn PhysicalExpr>], schema: &Schema) -> Result<bool> {
    Ok(made_beside(roots, schema)? > 0 || roots.iter().any(|root| at_once(root, schema) < u64::MAX))
}

/// Bytes that are made for each row, however short that is: copies of long constants,
/// `repeat('x', 20000) || k`, and the values of very many columns.
fn made_beside(roots: &[Arc<dyn PhysicalExpr>], schema: &Schema) -> Result<u64> {
    let (mut constants, mut columns, mut values) = (0, 0, 0);
    for root in roots {
        if !root.is::<Column>() {
            columns += 1;
            values += root.data_type(schema)?.primitive_width().unwrap_or(OF_VALUE);
        }
        root.apply(|part| {
            let function = part.downcast_ref::<ScalarFunctionExpr>();
            let is_joined = |part: &BinaryExpr| *part.op() == Operator::StringConcat;
            if function.is_none() && !part.is::<CaseExpr>() && !part.downcast_ref().is_some_and(is_joined) {
                return Ok(TreeNodeRecursion::Continue);
            }
            // A pattern is made ready for each call, and is no part of the result.
            let has_pattern = function.is_some_and(|function| function.name().starts_with("regexp"));
            let copied = part.children().into_iter().enumerate().filter(|(at, _)| *at != 1 || !has_pattern);
            let sizes = copied.filter_map(|(_, given)| Some(given.downcast_ref::<Literal>()?.value().size()));
            constants += sizes.filter(|&size| size > LONG).sum::<usize>();
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok((constants + if columns > MANY { values } else { 0 }) as u64)
}

/// Columns of long values that a window adds to its rows, if the node is one.
fn window_results(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let bounded = plan.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::window_expr);
    let functions = bounded.or_else(|| plan.downcast_ref::<WindowAggExec>().map(WindowAggExec::window_expr))?;
    let is_long = |function: &&Arc<dyn WindowExpr>| function.field().is_ok_and(|field| is_long(field.data_type()));
    Some(functions.iter().filter(is_long).count())
}

/// How many columns of long values a node makes of all its rows at once.
pub(crate) fn made_of_all(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    if plan.is::<WindowAggExec>() { window_results(plan).unwrap_or(0) as u64 } else { 0 }
}

/// Bytes of long values that an expression should be given at once, of rows of this kind.
pub(crate) fn at_once(root: &Arc<dyn PhysicalExpr>, schema: &Schema) -> u64 {
    let mut most = u64::MAX;
    // It goes on to the end.
    _ = root.apply(|part| {
        most = most.min(at_once_by_itself(part.as_ref(), schema));
        Ok(TreeNodeRecursion::Continue)
    });
    most
}

fn at_once_by_itself(part: &dyn PhysicalExpr, schema: &Schema) -> u64 {
    let is_given_long = || part.children().into_iter().any(|given| !given.is::<Literal>() && gives_long(given, schema));
    if let Some(function) = part.downcast_ref::<ScalarFunctionExpr>() {
        return match function.name() {
            name if OF_FILES.contains(&name) || !is_given_long() => u64::MAX,
            // It takes the product of the lengths of two texts.
            name if name.contains("levenshtein") => PAIRED_BYTES,
            _ => LONG_BYTES,
        };
    }
    let is_long_work = part.is::<LikeExpr>()
        || part.is::<CastExpr>() && is_given_long()
        || part.downcast_ref::<BinaryExpr>().is_some_and(|part| is_of_texts(*part.op()));
    if is_long_work { LONG_BYTES } else { u64::MAX }
}

/// Whether an operator takes long for long texts, or makes one of them.
pub(crate) fn is_of_texts(op: Operator) -> bool {
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch, StringConcat};
    matches!(op, RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch | StringConcat)
}

fn gives_long(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    expr.data_type(schema).is_ok_and(|kind| is_long(&kind))
}

/// Whether values of this type may be long.
pub(crate) fn is_long(kind: &DataType) -> bool {
    kind.primitive_width().is_none() && !matches!(kind, DataType::Boolean | DataType::Null)
}

/// Rows of a batch that come at once, where `beside` bytes are copied for each.
fn rows_at_once(batch: &RecordBatch, most: u64, beside: u64) -> usize {
    let rows = batch.num_rows();
    if most == u64::MAX || rows <= 1 {
        return rows;
    }
    let bytes = long_bytes(batch).saturating_add(beside.saturating_mul(rows as u64));
    let parts = (bytes / most).saturating_add(1) as usize;
    rows.div_ceil(parts).max(1)
}

/// A batch in parts of about so many bytes of long values, and of what is copied beside each, but
/// for one row; whole if it is smaller.
#[derive(Debug)]
pub(crate) struct Parts {
    rest: Option<RecordBatch>,
    at_once: usize,
}

impl Parts {
    pub(crate) fn of(batch: RecordBatch, most: u64, beside: u64) -> Self {
        Self { at_once: rows_at_once(&batch, most, beside), rest: Some(batch) }
    }

    /// Those of a result: whoever writes it as something else copies all that it is given.
    pub(crate) fn of_result(batch: RecordBatch) -> Self {
        Self::of(batch, LONG_BYTES, 0)
    }
}

impl Iterator for Parts {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        let batch = self.rest.take()?;
        let rest = batch.num_rows().saturating_sub(self.at_once);
        if rest == 0 {
            return Some(batch);
        }
        self.rest = Some(batch.slice(self.at_once, rest));
        Some(batch.slice(0, self.at_once))
    }
}

/// Bytes of values of which each may be long.
pub(crate) fn long_bytes(batch: &RecordBatch) -> u64 {
    batch.columns().iter().filter(|column| is_long(column.data_type())).map(|column| bytes(column)).sum()
}

/// Bytes of values as whoever copies them has them: also of those that are there once for many
/// rows, and of none that an array keeps beside its own.
pub(crate) fn bytes(values: &dyn Array) -> u64 {
    let sum = |lengths: &mut dyn Iterator<Item = u32>| lengths.map(u64::from).sum();
    match values.data_type() {
        DataType::Utf8View => sum(&mut values.as_string_view().lengths()),
        DataType::BinaryView => sum(&mut values.as_binary_view().lengths()),
        DataType::List(_) => bytes(&inside(values.as_list::<i32>())),
        DataType::LargeList(_) => bytes(&inside(values.as_list::<i64>())),
        DataType::Map(..) => {
            let map = values.as_map();
            let (first, last) = (map.value_offsets()[0] as usize, map.value_offsets()[map.len()] as usize);
            bytes(&map.entries().slice(first, last - first))
        }
        DataType::FixedSizeList(..) => bytes(values.as_fixed_size_list().values()),
        DataType::Struct(_) => values.as_struct().columns().iter().map(|column| bytes(column)).sum(),
        DataType::Dictionary(..) => {
            let of_all = values.as_any_dictionary().values();
            // On average.
            bytes(of_all) / (of_all.len() as u64).max(1) * values.len() as u64
        }
        kind => match kind.primitive_width() {
            Some(width) => (width * values.len()) as u64,
            None => values.to_data().get_slice_memory_size().unwrap_or(0) as u64,
        },
    }
}

/// The values in lists.
pub(crate) fn inside<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> ArrayRef {
    let (first, last) = (lists.value_offsets()[0].as_usize(), lists.value_offsets()[lists.len()].as_usize());
    lists.values().slice(first, last - first)
}
