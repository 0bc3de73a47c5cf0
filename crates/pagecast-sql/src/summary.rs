//! `SUMMARIZE table` and `SUMMARIZE query`: a row for each column, of one pass over the rows for
//! some hundreds of them.
//!
//! DataFusion has no such statement. The columns are those that DuckDB shows. Distinct values and
//! quartiles are estimates.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::util::display::array_value_to_string;
use datafusion::common::{Column, DataFusionError, Result, ScalarValue, plan_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::functions_aggregate::expr_fn::{approx_distinct, approx_percentile_cont, avg, count, max, min, stddev};
use datafusion::logical_expr::{Expr, cast as cast_to, lit};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, Statement as Parsed};
use datafusion::sql::sqlparser::ast::Statement;

use crate::semantics::{self, dialect};

/// The word that makes a statement a summary.
const WORD: &str = "SUMMARIZE";

/// What an aggregate says of a column, in the order in which they are asked for.
const PARTS: [&str; 8] = ["min", "max", "distinct", "avg", "std", "q25", "q50", "q75"];

/// Columns of one pass. The planner's time grows with the square of the aggregates, nine a column.
const AT_ONCE: usize = 400;

/// A summary as a statement that DataFusion has, with the same words at the same places: `DESCRIBE`
/// of a table, `EXPLAIN` of a query. `None` for other statements.
pub fn described(sql: &str) -> Option<String> {
    let mut rest = sql;
    // Comments may come before the word.
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n')?.1;
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/")?.1;
        } else {
            break;
        }
    }
    let word = rest.get(..WORD.len()).filter(|word| word.eq_ignore_ascii_case(WORD))?;
    let after = &rest[word.len()..];
    if after.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let before = &sql[..sql.len() - rest.len()];
    let first = after.trim_start().split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let is_query = ["SELECT", "WITH", "VALUES", "FROM"].iter().any(|word| word.eq_ignore_ascii_case(first));
    Some(format!("{before}{}{after}", if is_query { "EXPLAIN  " } else { "DESCRIBE " }))
}

/// The query whose rows are summed up.
fn query(ctx: &SessionContext, described: &str) -> Result<String> {
    let parsed = DFParser::parse_sql_with_dialect(described, dialect(ctx).as_ref())?.pop_front();
    match parsed {
        Some(Parsed::Statement(statement)) => match *statement {
            Statement::ExplainTable { table_name, .. } => Ok(format!("SELECT * FROM {table_name}")),
            Statement::Explain { statement, .. } => Ok(statement.to_string()),
            other => plan_err!("{WORD} takes a table or a query, not {other}"),
        },
        Some(Parsed::Explain(explained)) => Ok(explained.statement.to_string()),
        _ => plan_err!("{WORD} takes a table or a query"),
    }
}

/// The summary of what `described` names.
pub(crate) async fn of(ctx: &SessionContext, described: &str) -> Result<SendableRecordBatchStream> {
    let rows = semantics::frame(ctx, &query(ctx, described)?).await?;
    let columns: Vec<(Column, DataType)> =
        rows.schema().iter().map(|(table, field)| (Column::from((table, field)), field.data_type().clone())).collect();
    let mut table = Vec::new();
    let none = columns.is_empty().then_some(&columns[..]);
    for columns in columns.chunks(AT_ONCE).chain(none) {
        let found = rows.clone().aggregate(vec![], asked_of(columns))?.collect().await?;
        let [found] = &found[..] else { return plan_err!("a summary is one row") };
        table.push(turned(columns, found)?);
    }
    let schema = table[0].schema();
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter(table.into_iter().map(Ok)))))
}

/// The aggregates of these columns.
fn asked_of(columns: &[(Column, DataType)]) -> Vec<Expr> {
    let mut asked = vec![count(lit(1)).alias("rows")];
    for (number, (column, kind)) in columns.iter().enumerate() {
        let column = Expr::Column(column.clone());
        asked.push(count(column.clone()).alias(format!("{number} count")));
        for part in PARTS {
            asked.extend(part_of(part, &column, kind).map(|expr| expr.alias(format!("{number} {part}"))));
        }
    }
    asked
}

/// An aggregate of a column, if its type has it.
fn part_of(part: &str, column: &Expr, kind: &DataType) -> Option<Expr> {
    let (column, kind) = match kind {
        DataType::Dictionary(_, values) => (&cast_to(column.clone(), values.as_ref().clone()), values.as_ref()),
        kind => (column, kind),
    };
    let is_number = kind.is_numeric();
    let is_time = matches!(kind, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..));
    let is_ordered = is_number
        || is_time
        || matches!(kind, DataType::Boolean | DataType::Time32(_) | DataType::Time64(_))
        || matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let column = || column.clone();
    let quartile = |share: f64| {
        // Times are counted in their own unit.
        let number = if is_time { cast_to(column(), DataType::Int64) } else { column() };
        let number = cast_to(number, DataType::Float64);
        let found = approx_percentile_cont(number.sort(true, false), lit(share), None);
        if is_time { cast_to(cast_to(found, DataType::Int64), kind.clone()) } else { found }
    };
    match part {
        "min" if is_ordered => Some(min(column())),
        "max" if is_ordered => Some(max(column())),
        "distinct" if is_number || is_time => Some(approx_distinct(whole(column(), kind))),
        "distinct" if is_ordered => Some(approx_distinct(column())),
        "avg" if is_number => Some(avg(cast_to(column(), DataType::Float64))),
        "std" if is_number => Some(stddev(cast_to(column(), DataType::Float64))),
        "q25" if is_number || is_time => Some(quartile(0.25)),
        "q50" if is_number || is_time => Some(quartile(0.5)),
        "q75" if is_number || is_time => Some(quartile(0.75)),
        _ => None,
    }
}

/// A column whose distinct values DataFusion counts: of floats it does not.
fn whole(column: Expr, kind: &DataType) -> Expr {
    if kind.is_floating() { cast_to(column, DataType::Utf8) } else { column }
}

/// The one row of aggregates as a row for each column.
fn turned(columns: &[(Column, DataType)], found: &RecordBatch) -> Result<RecordBatch> {
    let rows = whole_number(found.column_by_name("rows"))?;
    let text = |number: usize, part: &str| -> Result<Option<String>> {
        let value = found.column_by_name(&format!("{number} {part}"));
        let value = value.filter(|value| !value.is_null(0));
        Ok(value.map(|value| array_value_to_string(value, 0)).transpose()?)
    };
    let texts = |part: &str| -> Result<ArrayRef> {
        let column: Result<Vec<_>> = (0..columns.len()).map(|number| text(number, part)).collect();
        Ok(Arc::new(StringArray::from(column?)))
    };
    let floats = |part: &str| -> Result<ArrayRef> { Ok(cast(&texts(part)?, &DataType::Float64)?) };
    let mut counts = Vec::new();
    for number in 0..columns.len() {
        counts.push(whole_number(found.column_by_name(&format!("{number} count")))?);
    }
    let share = |count: &i64| (rows > 0).then(|| (rows - count) as f64 * 100.0 / rows as f64);
    let nulls: Float64Array = counts.iter().map(share).collect();
    let names: StringArray = columns.iter().map(|(column, _)| Some(column.name.as_str())).collect();
    let kinds: StringArray = columns.iter().map(|(_, kind)| Some(kind.to_string())).collect();
    Ok(RecordBatch::try_from_iter_with_nullable([
        ("column_name", Arc::new(names) as ArrayRef, false),
        ("column_type", Arc::new(kinds), false),
        ("min", texts("min")?, true),
        ("max", texts("max")?, true),
        ("approx_unique", cast(&texts("distinct")?, &DataType::Int64)?, true),
        ("avg", floats("avg")?, true),
        ("std", floats("std")?, true),
        ("q25", texts("q25")?, true),
        ("q50", texts("q50")?, true),
        ("q75", texts("q75")?, true),
        ("count", Arc::new(Int64Array::from(counts)), false),
        ("null_percentage", Arc::new(nulls), true),
    ])?)
}

fn whole_number(column: Option<&ArrayRef>) -> Result<i64> {
    match column.map(|column| ScalarValue::try_from_array(column, 0)).transpose()? {
        Some(ScalarValue::Int64(Some(number))) => Ok(number),
        other => Err(DataFusionError::Internal(format!("a count is {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_stands_where_a_description_does() {
        assert_eq!(described("SUMMARIZE t").as_deref(), Some("DESCRIBE  t"));
        assert_eq!(described(" -- x\n summarize(SELECT 1)").as_deref(), Some(" -- x\n DESCRIBE (SELECT 1)"));
        assert_eq!(described("SUMMARIZE select 1").as_deref(), Some("EXPLAIN   select 1"));
        for other in ["SELECT 1", "summarized", "SUMMARIZE_", "-- SUMMARIZE t", "/* SUMMARIZE", "ä"] {
            assert_eq!(described(other), None, "{other}");
        }
    }
}
