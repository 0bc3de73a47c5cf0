//! What PostgreSQL means by SQL that DataFusion reads, and reads otherwise.
//!
//! A statement that would get another answer here than in PostgreSQL gets PostgreSQL's, or a
//! refusal that says what to write instead.
//!
//! | module | is |
//! |---|---|
//! | `plans` | the rule that goes over a plan |
//! | `arithmetic`, `numerics`, `sum` | numbers: their limits, and how they are rounded |
//! | `texts`, `intervals`, `calendar` | values as texts, texts as values, and time |
//! | `multiples` | products of intervals and numbers, before DataFusion refuses them |
//! | `patterns`, `to_char`, `from_text` | `to_char`, `to_date`, `to_timestamp` |
//! | `types` | `pg_typeof` |
//! | `calculation` | a function in a plan |

mod arithmetic;
mod calculation;
mod calendar;
mod from_text;
mod intervals;
mod multiples;
mod numerics;
mod patterns;
mod plans;
mod sum;
mod texts;
mod to_char;
mod types;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::prelude::SessionContext;

pub(super) use plans::meant;

/// Puts PostgreSQL's functions in the place of DataFusion's of the same names, and plans what
/// DataFusion does not.
pub(super) fn install(ctx: &SessionContext) -> Result<()> {
    ctx.state_ref().write().register_expr_planner(Arc::new(multiples::Multiples))?;
    ctx.register_udaf(sum::function());
    for function in [
        intervals::age(),
        from_text::to_date(),
        from_text::to_timestamp(),
        // DataFusion's own has this name too, and would come back by it.
        to_char::to_char().with_aliases(["date_format"]),
        texts::array_or_empty(),
        types::pg_typeof(),
        types::nothing("pg_advisory_unlock_all"),
    ] {
        ctx.register_udf(function);
    }
    Ok(())
}
