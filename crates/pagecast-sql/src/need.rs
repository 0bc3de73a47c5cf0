//! What a statement needs to be done in the memory that there is, and its plan then.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;

use crate::distinct_apart::{self, AGGREGATE};
use crate::expected_memory::has_join_beyond;
use crate::grace_join;
use crate::plain_texts;
use crate::whole_sorts::{self, TOP};

/// What a hash join is called where memory is counted.
const HASH_JOIN: &str = "HashJoinInput";

/// What a statement needs to be done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Need {
    /// The turn of large statements.
    pub(crate) turn: bool,
    /// Joins that go to disk.
    joins_on_disk: bool,
    /// Texts that keep no others.
    plain_texts: bool,
    /// All rows sorted where only the first ones are wanted.
    whole_sorts: bool,
    /// Aggregates of distinct values each by itself.
    distinct_apart: bool,
    /// One partition, of which nothing takes memory from another.
    one_partition: bool,
}

impl Need {
    /// What may help a statement of this plan that failed like this with what it had.
    pub(crate) fn after(self, error: &DataFusionError, plan: &LogicalPlan, are_others: bool) -> Option<Self> {
        let error = error.to_string();
        let [of_a_join, of_first_rows, of_groups] =
            [HASH_JOIN, TOP, AGGREGATE].map(|consumer| error.contains(consumer));
        let can_be_apart = || matches!(distinct_apart::apart(plan), Ok(Some(_)));
        Some(match self {
            Self { turn: false, .. } if are_others => Self { turn: true, ..self },
            Self { joins_on_disk: false, .. } if of_a_join => Self { turn: true, joins_on_disk: true, ..self },
            Self { whole_sorts: false, .. } if of_first_rows => Self { turn: true, whole_sorts: true, ..self },
            Self { distinct_apart: false, .. } if of_groups && can_be_apart() => {
                Self { turn: true, distinct_apart: true, ..self }
            }
            Self { one_partition: false, .. } => Self { turn: true, one_partition: true, plain_texts: true, ..self },
            Self { joins_on_disk: false, .. } => Self { joins_on_disk: true, ..self },
            _ => return None,
        })
    }
}

/// The plan of a statement, and what it needs then: a join that is expected not to fit is not
/// tried.
pub(crate) async fn planned_to_fit(
    state: &SessionState,
    logical: &LogicalPlan,
    need: Need,
) -> Result<(Arc<dyn ExecutionPlan>, Need)> {
    let plan = planned(state, logical, need).await?;
    if need.joins_on_disk || !has_join_beyond(&plan, state.runtime_env())? {
        return Ok((plan, need));
    }
    let need = Need { turn: true, joins_on_disk: true, ..need };
    Ok((planned(state, logical, need).await?, need))
}

/// The plan of a statement that needs this.
pub(crate) async fn planned(state: &SessionState, plan: &LogicalPlan, need: Need) -> Result<Arc<dyn ExecutionPlan>> {
    if need == Need::default() {
        return state.create_physical_plan(plan).await;
    }
    let mut state = state.clone();
    let mut config = state.config().clone();
    if need.joins_on_disk {
        config = grace_join::preferred(config);
    }
    if need.one_partition {
        config = config.with_target_partitions(1);
    }
    *state.config_mut() = config;
    let apart = if need.distinct_apart { distinct_apart::apart(plan)? } else { None };
    let logical = apart.as_ref().unwrap_or(plan);
    let mut plan = state.create_physical_plan(logical).await?;
    if need.whole_sorts {
        plan = whole_sorts::whole(plan)?;
    }
    if need.plain_texts { plain_texts::plain(plan, logical) } else { Ok(plan) }
}
