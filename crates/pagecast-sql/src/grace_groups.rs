//! Groups that go to disk in parts where they are many.
//!
//! DataFusion sorts the groups that do not fit, writes them, and merges them in the end. Where
//! nearly each row is a group of its own that is a sort of all rows, in memory that two partitions
//! take from each other. Here they are cut by their keys and grouped [part by part](crate::grace),
//! and nothing is sorted.
//!
//! It suits keys that are mostly different ones and come in any order. Where each comes again much
//! later than the first rows show, all is written for nothing; where many come that were not
//! expected, what is in memory is sorted and merged as before.
//!
//! It goes when a released DataFusion does the same in place of sorting, which came with
//! <https://github.com/apache/datafusion/pull/7400>.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateOutputMode};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use datafusion::prelude::SessionContext;

use crate::expected_memory::limit;
use crate::grace::{GraceExec, Seen, Separable, plan_last};

/// What a group takes beside its values.
const OF_GROUP: usize = 50;

/// Has a session plan such groups where memory has a limit. It comes behind all other rules.
pub(crate) fn install(ctx: &SessionContext) {
    if limit(&ctx.runtime_env()).is_some() {
        plan_last(ctx, Arc::new(ToDisk));
    }
}

#[derive(Debug)]
struct ToDisk;

impl PhysicalOptimizerRule for ToDisk {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let to_disk = |node: Arc<dyn ExecutionPlan>| {
            Ok(match node.downcast_ref::<AggregateExec>() {
                Some(groups) if can_be_cut(groups) => {
                    let keys = groups.group_expr().input_exprs();
                    let operators = vec![Arc::clone(&node)];
                    let groups = Separable { name: "GraceGroupsExec", operators, keys, takes };
                    Transformed::yes(Arc::new(GraceExec::new(groups)) as _)
                }
                _ => Transformed::no(node),
            })
        };
        plan.transform_up(to_disk).map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        "groups_to_disk"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether an aggregate gives all groups of its rows at once, each of one row at least, and in no
/// order.
fn can_be_cut(groups: &AggregateExec) -> bool {
    groups.mode().output_mode() == AggregateOutputMode::Final
        && groups.group_expr().is_single()
        && !groups.group_expr().is_true_no_grouping()
        && *groups.input_order_mode() == InputOrderMode::Linear
        && groups.limit_options().is_none()
}

/// A table of groups has a row of each key. Where half of all keys come again, it is worth its
/// memory.
fn takes(Seen { rows, bytes, keys, .. }: Seen) -> Option<usize> {
    (keys >= rows / 2).then(|| keys * (bytes / rows.max(1) + OF_GROUP))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::grace::tests::{ran, session};

    /// The rows of a statement under a limit, and how often something was written.
    async fn rows(sql: &str, bytes: usize, partitions: usize) -> (String, usize) {
        let ctx = session(bytes, partitions, 100 << 10);
        install(&ctx);
        let ran = ran(&ctx, sql).await;
        assert!(ran.plan.contains("GraceGroupsExec"), "nothing of it can be cut: {sql}");
        (ran.rows, ran.written)
    }

    /// Groups of 300,000 rows: nearly all are of their own, with NULLs, or few.
    fn grouped(keys: &str, values: &str) -> String {
        let of_values = "count(*) AS n, sum(v) AS s, min(v) AS l, max(t) AS h";
        format!(
            "SELECT count(*), sum(n), sum(s), min(l), max(h), count(k) FROM (SELECT {keys}, {of_values} FROM \
             (SELECT {values} AS k, value * 31 % 1009 AS v, 'text ' || (value % 77)::text AS t FROM range(300000)) GROUP BY k)"
        )
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn many_groups_go_to_disk_and_few_do_not() {
        for (values, are_many) in [
            ("value * 7 % 300007", true),
            ("'a long text of a key ' || (value * 7 % 299993)::text", true),
            ("CASE WHEN value % 3 = 0 THEN NULL ELSE value * 7 END", true),
            ("value % 1000", false),
        ] {
            let sql = grouped("k", values);
            let (right, written) = rows(&sql, 1 << 30, 2).await;
            assert_eq!(written, 0, "{values}");
            for (partitions, megabytes) in [(1, 6), (1, 3), (2, 6), (5, 6)] {
                let (little, written) = rows(&sql, megabytes << 20, partitions).await;
                assert_eq!(little, right, "{values} in {partitions}");
                // Each once, but for those of a part that found no room when its turn came.
                let most = if are_many { 1..600_000 } else { 0..1 };
                assert!(most.contains(&written), "{values} in {partitions}: {written} rows");
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn groups_of_several_sets_come_once() {
        let sql = "SELECT count(*), sum(n), sum(a), sum(b) FROM (SELECT a, b, count(*) AS n FROM \
                   (SELECT value * 7 % 200003 AS a, value % 7 AS b FROM range(200000)) GROUP BY ROLLUP (a, b))";
        assert_eq!(rows(sql, 12 << 20, 3).await.0, rows(sql, 1 << 30, 3).await.0);
    }
}
