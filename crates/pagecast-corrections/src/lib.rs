//! What DataFusion gets wrong, put right: a file for each fault.
//!
//! A file opens with the upstream issue, the versions that it is needed for, and what makes it go.
//! It holds the test that fails without it. Nothing here knows a pool, a host or a statement of
//! ours; whoever plans queries with DataFusion can install these corrections.
//!
//! | module | what is wrong without it |
//! |---|---|
//! | `settings` | options of which the default gives wrong rows |
//! | `date_bin` | it is NULL before 1678 and after 2261 |
//! | `floats` | NaN has a sign, and -0 is not in a set of literals |
//! | `instants` | literals of moments are cut, or raise, beside columns of another unit |
//! | `statistics`, `parquet_format`, `readers` | more is concluded from a footer than it promises |

mod date_bin;
pub mod floats;
mod instants;
mod parquet_format;
mod readers;
mod settings;
pub mod statistics;

pub use parquet_format::Believed;
pub use readers::BelievedReaders;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::floats::BothZeros;
use crate::instants::Instants;
use crate::parquet_format::BelievedFactory;

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
    state.register_file_format(Arc::new(BelievedFactory::default()), true)?;
    state.register_udf(Arc::new(date_bin::function()))?;
    state.register_function_rewrite(Arc::new(BothZeros))?;
    state.register_function_rewrite(Arc::new(Instants))
}
