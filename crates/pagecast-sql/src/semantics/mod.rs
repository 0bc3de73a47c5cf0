//! What a statement means: the same in the shell, the wheel, the server and Flight SQL.
//!
//! It is what PostgreSQL means by it, where DataFusion reads it otherwise; or it is refused, with
//! what to write instead. Nobody plans a statement but by [`plan`].
//!
//! | module | is |
//! |---|---|
//! | `words` | what a statement may be written in |
//! | `statement`, `spelled`, `spans` | the statement in words that DataFusion has |
//! | `left_out` | what DataFusion would leave out of it |
//! | `plans` | the rule that goes over a plan |
//! | `arithmetic`, `numerics`, `reals`, `sum` | numbers: their limits, and how they are rounded |
//! | `texts`, `intervals`, `time`, `calendar` | values as texts, texts as values, and time |
//! | `multiples` | products of intervals and numbers, before DataFusion refuses them |
//! | `patterns`, `to_char`, `from_text` | `to_char`, `to_date`, `to_timestamp` |
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
mod reals;
mod series;
mod spans;
mod spelled;
mod statement;
mod sum;
mod texts;
mod time;
mod to_char;
mod types;
mod words;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion::sql::parser::{CopyToSource, DFParser, Statement};

use crate::Classed;
pub use plans::meant;
pub use words::{Words, dialect};

/// The one statement of `sql`, as it runs.
///
/// # Errors
///
/// It is no statement, or has no meaning here.
pub async fn frame(ctx: &SessionContext, sql: &str) -> Result<DataFrame> {
    let plan = plan(ctx, parsed(ctx, sql)?).await?;
    ctx.execute_logical_plan(plan).await
}

/// The one statement of `sql`.
pub(crate) fn parsed(ctx: &SessionContext, sql: &str) -> Result<Statement> {
    let mut statements = DFParser::parse_sql_with_dialect(sql, dialect(ctx).as_ref())?;
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
    meant(ctx.state().statement_to_plan(statement).await?)
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

/// Options of a session in which statements mean that: a literal with a point is a decimal, not the
/// nearest double (<https://github.com/apache/datafusion/issues/12817>).
pub(crate) fn configured(config: SessionConfig) -> SessionConfig {
    config.set_bool("datafusion.sql_parser.parse_float_as_decimal", true)
}

/// Puts PostgreSQL's functions in the place of DataFusion's of the same names, and plans what
/// DataFusion does not.
pub(crate) fn install(ctx: &SessionContext) -> Result<()> {
    ctx.state_ref().write().register_expr_planner(Arc::new(multiples::Multiples))?;
    // Behind all of DataFusion's rules, of which some change the order of conditions.
    ctx.add_optimizer_rule(Arc::new(pagecast_corrections::Guards::new(calculation::may_fail)));
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
