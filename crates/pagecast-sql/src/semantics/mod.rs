//! What a statement means: the same in the shell, the wheel, the server and Flight SQL.
//!
//! It is what PostgreSQL means by it, where DataFusion reads it otherwise; or it is refused, with
//! what to write instead. Nobody plans a statement but by [`plan`].
//!
//! | module | is |
//! |---|---|
//! | `words` | what a statement may be written in |
//! | `statement`, `spelled`, `spans` | the statement in words that DataFusion has |
//! | `precedence` | what binds tighter than the parser takes it to |
//! | `left_out` | what DataFusion would leave out of it |
//! | `plans` | the rule that goes over a plan |
//! | `arithmetic`, `numerics`, `reals`, `sum` | numbers: their limits, and how they are rounded |
//! | `shifted_sums` | many sums of a column and constants |
//! | `texts`, `intervals`, `time`, `calendar` | values as texts, texts as values, and time |
//! | `multiples` | products of intervals and numbers, before DataFusion refuses them |
//! | `patterns`, `to_char`, `from_text` | `to_char`, `to_date`, `to_timestamp` |
//! | `twins` | columns of one name in one list |
//! | `types` | `pg_typeof` |
//! | `series` | `generate_series` of moments, as a table |
//! | `calculation` | a function in a plan |

mod arithmetic;
pub mod ast;
mod calculation;
mod calendar;
mod from_text;
mod intervals;
mod left_out;
mod multiples;
mod numerics;
mod patterns;
mod plans;
mod precedence;
mod reals;
mod series;
mod shifted_sums;
mod spans;
mod spelled;
mod statement;
mod sum;
mod texts;
mod time;
mod to_char;
pub mod twins;
mod types;
mod words;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion::sql::parser::{CopyToSource, DFParser, Statement};

use crate::Classed;
use crate::patient;
use crate::statements::with_all_columns;
pub use plans::meant;
pub use words::{Words, dialect};

/// The one statement of `sql`, as it runs.
///
/// # Errors
///
/// It is no statement, or has no meaning here.
pub async fn frame(ctx: &SessionContext, sql: &str) -> Result<DataFrame> {
    let plan = plan(ctx, parsed(ctx, sql)?).await?;
    patient::made(ctx, plan).await
}

/// The one statement of `sql`.
pub(crate) fn parsed(ctx: &SessionContext, sql: &str) -> Result<Statement> {
    let dialect = dialect(ctx);
    let completed = with_all_columns(sql, dialect.as_ref());
    let mut statements = DFParser::parse_sql_with_dialect(completed.as_deref().unwrap_or(sql), dialect.as_ref())?;
    match (statements.pop_front(), statements.len()) {
        (Some(statement), 0) => Ok(statement),
        (None, _) => Err(Classed::new("42601", "there is no statement").into()),
        (_, more) => Err(Classed::refused(format!("{} statements, where one is taken", more + 1)).into()),
    }
}

/// What a statement means, as a plan.
///
/// # Errors
///
/// It has no meaning here.
pub async fn plan(ctx: &SessionContext, mut statement: Statement) -> Result<LogicalPlan> {
    understood(ctx, &mut statement)?;
    let state = ctx.state();
    let plan = match state.statement_to_plan(statement.clone()).await {
        Err(error) if twins::are_refused(&error.to_string()) => {
            with_twins_apart(&mut statement);
            twins::unmarked(state.statement_to_plan(statement).await?)?
        }
        plan => plan?,
    };
    meant(plan)
}

fn with_twins_apart(statement: &mut Statement) {
    match statement {
        Statement::Statement(ast) => twins::tell_apart(ast),
        Statement::Explain(explained) => with_twins_apart(&mut explained.statement),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                twins::tell_apart_below(query);
            }
        }
        _ => {}
    }
}

/// Puts a statement into DataFusion's words, and refuses one of which it would leave out a part.
///
/// # Errors
///
/// It is refused.
pub fn understood(ctx: &SessionContext, statement: &mut Statement) -> Result<(), Classed> {
    match statement {
        Statement::Statement(ast) => {
            statement::in_datafusion(ast.as_mut())?;
            left_out::check(ast.as_ref(), ctx)
        }
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => {
                statement::in_datafusion(query.as_mut())?;
                left_out::check(query.as_ref(), ctx)
            }
            CopyToSource::Relation(_) => Ok(()),
        },
        Statement::Explain(explained) => understood(ctx, &mut explained.statement),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => Ok(()),
    }
}

/// A condition on the rows of a query.
///
/// # Errors
///
/// It is none, or has no meaning here.
pub fn condition(frame: &DataFrame, sql: &str) -> Result<Expr> {
    plans::meant_over(frame.parse_sql_expr(sql)?, frame.logical_plan())
}

/// Options of a session in which statements mean that, and give right rows: a literal with a point
/// is a decimal, not the nearest double (<https://github.com/apache/datafusion/issues/12817>), and
/// the session has a zone.
pub fn configured(config: SessionConfig) -> SessionConfig {
    let config = pagecast_corrections::configured(config);
    let config = config.set_bool("datafusion.sql_parser.parse_float_as_decimal", true);
    config.set_str("datafusion.execution.time_zone", "+00:00")
}

/// Corrects what DataFusion gets wrong, puts PostgreSQL's functions in the place of DataFusion's of
/// the same names, and plans what DataFusion does not.
///
/// # Errors
///
/// The session refuses one.
pub fn install(ctx: &SessionContext) -> Result<()> {
    pagecast_corrections::install(ctx, calculation::may_fail)?;
    ctx.state_ref().write().register_expr_planner(Arc::new(multiples::Multiples))?;
    series::install(ctx)?;
    ctx.register_udaf(sum::function());
    for function in [
        intervals::age(),
        from_text::to_date(),
        from_text::to_timestamp(),
        // DataFusion's own has this name too, and would come back by it.
        to_char::to_char().with_aliases(["date_format"]),
        texts::array_or_empty(),
        types::pg_typeof(),
    ] {
        ctx.register_udf(function);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{Array, RecordBatch, StringArray};
    use arrow::util::pretty::pretty_format_batches;

    use super::*;
    use crate::values::texts;

    async fn rows(ctx: &SessionContext, sql: &str) -> String {
        let batches = frame(ctx, sql).await.unwrap().collect().await.unwrap();
        let mut rows = Vec::new();
        for batch in &batches {
            let columns: Vec<_> = batch.columns().iter().map(|column| texts(column).unwrap()).collect();
            let value = |column: &StringArray, row| match column.is_null(row) {
                true => "-".to_owned(),
                false => column.value(row).to_owned(),
            };
            let row = |row| columns.iter().map(|column| value(column, row)).collect::<Vec<_>>().join("|");
            rows.extend((0..batch.num_rows()).map(row));
        }
        rows.join(";")
    }

    #[tokio::test]
    async fn what_is_written_means_the_same() {
        let ctx = SessionContext::new_with_config(configured(SessionConfig::new()));
        install(&ctx).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t.csv");
        for sql in [
            "CREATE TABLE t (d DATE, x DOUBLE, p DECIMAL(9, 2), n INT) AS VALUES (date '2024-01-01', 1.5, 4.07, 3)",
            "INSERT INTO t SELECT date '2024-01-31' + interval '1 month', 0.1, 8.03, 2.5",
            "INSERT INTO t VALUES (date '2024-02-28' + 2, 0.1 + 0.2, 1.005, '7'), (NULL, NULL, NULL, 0)",
            "CREATE VIEW v AS SELECT d + interval '1 hour' AS h, x / nullif(n, 0) AS r FROM t",
            "DELETE FROM t WHERE p = 4.07 AND n <> 0",
            &format!(
                "COPY (SELECT to_char(d, 'YYYY-MM') AS m, 2.5::int AS i FROM t WHERE n = 7) TO '{}'",
                file.display()
            ),
        ] {
            rows(&ctx, sql).await;
        }
        let all = "2024-02-29|0.1|8.03|3;2024-03-01|0.3|1.01|7;-|-|-|0";
        assert_eq!(rows(&ctx, "SELECT * FROM t ORDER BY d").await, all);
        assert_eq!(
            rows(&ctx, "SELECT h FROM v WHERE r > 0.03 ORDER BY h").await,
            "2024-02-29 01:00:00;2024-03-01 01:00:00"
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "m,i\n2024-03,3\n");
        let plan =
            rows(&ctx, "EXPLAIN SELECT x FROM t WHERE x > 1.5 AND d < date '2024-01-01' + interval '1 day'").await;
        assert!(plan.contains("t.x > Float64(1.5)") && plan.contains("t.d < Date32(\"2024-01-02\")"), "{plan}");
    }

    /// A session that hands on rows as groups of their own, or none.
    async fn handing_on(is_handed_on: bool) -> SessionContext {
        let config = configured(SessionConfig::new()).with_target_partitions(2).with_batch_size(100);
        let ratio = if is_handed_on { "0.0" } else { "1.1" };
        let config = config
            .set_str("datafusion.execution.skip_partial_aggregation_probe_ratio_threshold", ratio)
            .set_usize("datafusion.execution.skip_partial_aggregation_probe_rows_threshold", 1);
        let ctx = SessionContext::new_with_config(config);
        install(&ctx).unwrap();
        let values =
            "CASE WHEN i % 7 = 0 THEN NULL WHEN i % 5 = 0 THEN 'inf' WHEN i % 11 = 0 THEN 'nan' ELSE i % 13 END";
        let t = format!(
            "CREATE TABLE t AS SELECT i * 31 % 1000 AS k, {values}::double AS x, i % 17 AS n, i % 3 = 0 AS b, \
             (i % 9)::text AS s, (i % 19)::numeric(9, 2) AS d, NULLIF(i % 4, 0) > 1 AS f \
             FROM (SELECT value::bigint AS i FROM range(3000))"
        );
        rows(&ctx, &t).await;
        ctx
    }

    /// But for the order in which reals were added.
    fn are_near(one: &str, other: &str) -> bool {
        let [Ok(one), Ok(other)] = [one, other].map(str::parse::<f64>) else { return false };
        (one - other).abs() <= 1e-9 * one.abs().max(1.0)
    }

    /// Some of these had another state in DataFusion, or panicked.
    #[tokio::test]
    async fn rows_that_are_handed_on_as_groups_count_the_same() {
        let [plain, handed_on] = [handing_on(false).await, handing_on(true).await];
        let mut names: Vec<_> = plain.state().aggregate_functions().keys().cloned().collect();
        names.sort();
        let in_any_order = ["array_agg", "string_agg", "first_value", "last_value", "nth_value", "any_value"];
        names.retain(|name| !in_any_order.contains(&name.as_str()));
        let (mut tried, mut forms) = (0, Vec::new());
        for name in &names {
            let of = |arguments: &str| format!("{name}({arguments})");
            forms.extend(["x", "n", "b", "s", "d", "x, n", "DISTINCT n", "x, 0.5"].map(of));
            forms.push(format!("{name}(0.5) WITHIN GROUP (ORDER BY x)"));
        }
        for form in forms {
            for filter in ["", " FILTER (WHERE n > 5)", " FILTER (WHERE f)"] {
                let sql = format!("SELECT k, {form}{filter} AS v FROM t GROUP BY k ORDER BY k");
                // Whatever has no such form is left out.
                if frame(&plain, &sql).await.is_err() {
                    continue;
                }
                let Ok(right) = frame(&plain, &sql).await.unwrap().collect().await else { continue };
                let rows = frame(&handed_on, &sql).await.unwrap().collect().await.unwrap();
                let text = |rows: &[RecordBatch]| pretty_format_batches(rows).unwrap().to_string();
                let (rows, right) = (text(&rows), text(&right));
                assert_eq!(rows.lines().count(), right.lines().count(), "{form}{filter}");
                for (row, right) in rows.split_whitespace().zip(right.split_whitespace()) {
                    assert!(
                        row == right || row.starts_with('+') || are_near(row, right),
                        "{form}{filter}: {row}, and not {right}"
                    );
                }
                tried += 1;
            }
        }
        assert!(tried > 250, "{tried} forms");
    }
}
