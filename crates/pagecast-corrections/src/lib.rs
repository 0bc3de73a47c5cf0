//! What DataFusion gets wrong, put right: a file for each fault.
//!
//! A file opens with the upstream issue, the versions that it is needed for, and what makes it go.
//! It holds the test that fails without it. Nothing here knows a pool, a host or a statement of
//! ours; whoever plans queries with DataFusion can install these corrections.
//!
//! | module | what is wrong without it |
//! |---|---|
//! | `settings` | options of which the default gives wrong rows |
//! | `footer` | columns whose Arrow types lose or hide values: small codes, ENUM, UUID, names twice |
//! | `parquet_format` | columns and bounds of Parquet files in folders, by such footers |
//! | `time_units` | a column of times beside a TIME literal is refused |
//! | `uuid` | UUIDs are bytes, and no text is one |
//! | `widening` | a folder of files whose columns grew is refused |

pub mod footer;
mod parquet_format;
mod settings;
mod time_units;
pub mod uuid;
pub mod widening;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::Operator;
use datafusion::prelude::{SessionConfig, SessionContext};

pub use parquet_format::CorrectedParquet;

/// The options of a session under which DataFusion gives right rows.
pub fn configured(config: SessionConfig) -> SessionConfig {
    settings::right(config)
}

/// Puts the corrections that are rules of the planner into a session, before its first statement.
///
/// # Errors
/// The session refuses a rule.
pub fn install(ctx: &SessionContext) -> Result<()> {
    let state = ctx.state_ref();
    let mut state = state.write();
    state.register_function_rewrite(Arc::new(time_units::OneUnit))?;
    state.register_function_rewrite(Arc::new(uuid::UsualForm))
}

/// Whether an operator compares values of one type.
fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}
