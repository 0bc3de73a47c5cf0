//! Which joins of a plan become joins of chunks, and why the others stay.
//!
//! One becomes chunks where it would take much memory: a hash join for its table, a sort-merge
//! join for what it sorts. It does not save reads: in a pool of 40 % 16 streams of such joins read
//! 1.40 of what merge joins in order read, and hash joins over scans in any order 0.73.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::datasource::physical_plan::ParquetSource;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::{Partitioning, PhysicalExprRef};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::joins::{HashJoinExec, HashJoinExecBuilder, PartitionMode, SortMergeJoinExec};
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};

use super::cuts::{self, Alone, Both, Joint};
use super::key::Key;
use super::side::{Side, row_by_row, scan};
use super::{CooperativeMergeJoinExec, Parts};
use crate::join_kept::Kept;
use crate::needs::{Needs, Node, may_move_rows, node};
use crate::{Delivery, Host, is_local};

/// Pages of the pool that make a chunk of a join, both sides together.
const LEAST_PAGES: u64 = 16;
/// How often the size of chunks is doubled, so that cuts divide fewer row groups.
const DOUBLINGS: u32 = 4;

/// Replaces joins of `plan`, and says of the scans of those that stay why they do. `needs` tells
/// what is needed of a node of the plan.
pub(crate) fn choose(
    host: &Arc<Host>,
    mut plan: Arc<dyn ExecutionPlan>,
    needs: impl Fn(Node) -> Needs,
    config: &ConfigOptions,
) -> (Arc<dyn ExecutionPlan>, HashMap<Node, Kept>) {
    let (mut joins, mut kept) = (Vec::new(), HashMap::new());
    let Some(least) = host.options.join_memory else { return (plan, kept) };
    if host.options.delivery == Delivery::OutOfOrder {
        find_joins(&plan, &mut joins);
    }
    for join in joins {
        let Some(candidate) = Candidate::of(&join) else { continue };
        let chosen = candidate.chunks(host, least, needs(node(&join)), &join);
        match chosen.and_then(|chunks| in_place(&plan, &join, chunks, config)) {
            Ok(with_chunks) => plan = with_chunks,
            Err(why) => {
                let scans = candidate.chains.iter().map(|chain| node(scan(chain)));
                kept.extend(scans.map(|scan| (scan, why.clone())));
            }
        }
    }
    (plan, kept)
}

fn find_joins(plan: &Arc<dyn ExecutionPlan>, found: &mut Vec<Arc<dyn ExecutionPlan>>) {
    let is_join = plan.is::<HashJoinExec>() || plan.is::<SortMergeJoinExec>();
    if is_join && !found.iter().any(|join| node(join) == node(plan)) {
        found.push(Arc::clone(plan));
    }
    plan.children().into_iter().for_each(|child| find_joins(child, found));
}

/// A join of two scans of local Parquet files.
struct Candidate {
    /// From the join down to the scans, without what moves or sorts rows.
    chains: Both<Arc<dyn ExecutionPlan>>,
    on: Vec<(PhysicalExprRef, PhysicalExprRef)>,
    kind: JoinType,
    null_equality: NullEquality,
    /// Whether it is a hash join.
    is_hashed: bool,
}

impl Candidate {
    fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let of = |left, right| Some([row_by_row(left)?, row_by_row(right)?]);
        let candidate = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            Self {
                chains: of(join.left(), join.right())?,
                on: join.on().to_vec(),
                kind: *join.join_type(),
                null_equality: join.null_equality(),
                is_hashed: true,
            }
        } else {
            let join = plan.downcast_ref::<SortMergeJoinExec>()?;
            Self {
                chains: of(join.left(), join.right())?,
                on: join.on().to_vec(),
                kind: join.join_type(),
                null_equality: join.null_equality(),
                is_hashed: false,
            }
        };
        let is_ours = |chain| {
            let source = scan(chain).downcast_ref::<DataSourceExec>();
            source
                .and_then(DataSourceExec::downcast_to_file_source::<ParquetSource>)
                .is_some_and(|(config, _)| is_local(&config.object_store_url))
        };
        candidate.chains.iter().all(is_ours).then_some(candidate)
    }

    /// The join in chunks, if as it is planned it takes `memory` bytes or more.
    fn chunks(
        &self,
        host: &Arc<Host>,
        memory: u64,
        needs: Needs,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Parts, Kept> {
        self.check(needs, plan).map_or(Ok(()), |why| Err(Kept::Because(why)))?;
        let alone = Alone::of(self.kind, self.null_equality);
        let (sides, joints) = self.cut(host, alone)?;
        let pieces = [&sides[0].pieces[..], &sides[1].pieces[..]];
        let least = host.options.least_chunks.max(2);
        if joints.len() < least {
            return Err(Kept::FewChunks { chunks: joints.len(), least });
        }
        let (read, once) = (cuts::bytes(&joints, pieces), named_bytes(&joints, pieces));
        if read > once + once / 4 {
            return Err(Kept::Divided { percent: (read - once) * 100 / once.max(1) });
        }
        let planned = self.memory(&sides);
        if planned < memory {
            return Err(Kept::Small { memory: planned >> 10 });
        }
        if cuts::largest_share(&joints, pieces[0], 0) * 4.0 > 1.0 {
            return Err(Kept::Because("a chunk would take more than a quarter of its memory"));
        }
        let join = self.join_of_chunk(plan).map_err(|_| Kept::Because("it refused other inputs"))?;
        let delivery = if needs.sequence || plan.fetch().is_some() { Delivery::InOrder } else { Delivery::OutOfOrder };
        Ok(Parts {
            host: Arc::clone(host),
            join: Arc::new(join),
            sides: Arc::new(sides),
            joints: joints.into(),
            alone,
            delivery,
            partitions: plan.output_partitioning().partition_count(),
        })
    }

    /// What stands against it, whatever the statistics say.
    fn check(&self, needs: Needs, plan: &Arc<dyn ExecutionPlan>) -> Option<&'static str> {
        let moves = |chain| {
            let source = scan(chain).downcast_ref::<DataSourceExec>()?.downcast_to_file_source::<ParquetSource>()?;
            Some(may_move_rows(source.0))
        };
        if needs.declared {
            Some("what is above it relies on its order")
        } else if needs.whole_files {
            Some("the session does not let files be divided among partitions")
        } else if needs.files {
            Some("the result shows in which order rows came")
        } else if plan.downcast_ref::<HashJoinExec>().is_some_and(|join| join.null_aware) {
            Some("a NULL of one side decides about all rows of the other")
        } else if plan.downcast_ref::<SortMergeJoinExec>().is_some_and(|join| join.filter().is_some()) {
            // DataFusion moves a projection below such a join, and leaves the places of the
            // filter's columns as they were.
            Some("a merge join with a filter may be wrong")
        } else if !self.chains.iter().all(|chain| moves(chain) == Some(true)) {
            Some("a scan keeps the order or the numbers of its rows")
        } else {
            None
        }
    }

    /// The sides, and the chunks by the column of the key that gives the most with the least
    /// reading.
    fn cut(&self, host: &Host, alone: Alone) -> Result<(Both<Side>, Vec<Joint<Key>>), Kept> {
        let mut best: Result<(Both<Side>, Vec<Joint<Key>>), Kept> = Err(Kept::Because("it has no key"));
        let mut least = u64::MAX;
        for (left, right) in &self.on {
            let side = |number: usize, key| Side::of(host, &self.chains[number], key).map_err(Kept::Because);
            match side(0, left).and_then(|of_left| Ok([of_left, side(1, right)?])) {
                Ok(sides) => {
                    let joints = joints(host, &sides, alone);
                    let read = cuts::bytes(&joints, [&sides[0].pieces, &sides[1].pieces]);
                    if read < least || best.is_err() {
                        (least, best) = (read, Ok((sides, joints)));
                    }
                }
                Err(why) if best.is_err() => best = Err(why),
                Err(_) => {}
            }
        }
        best
    }

    /// Bytes that it takes as it is planned, at most: the table of a hash join, or all that a merge
    /// join sorts.
    fn memory(&self, sides: &Both<Side>) -> u64 {
        let of_side = |number: usize| {
            let args = StatisticsArgs::new();
            let estimate = StatisticsContext::new().compute(self.chains[number].as_ref(), &args).ok();
            let estimate = estimate.and_then(|statistics| statistics.total_byte_size.get_value().copied());
            estimate.map_or(sides[number].memory, |bytes| sides[number].memory.min(bytes as u64))
        };
        if self.is_hashed { of_side(0) } else { of_side(0) + of_side(1) }
    }

    /// The hash join that a chunk is joined by.
    fn join_of_chunk(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<HashJoinExec> {
        let [left, right] = self.chains.clone();
        let join = match plan.downcast_ref::<HashJoinExec>() {
            Some(join) => join.builder().reset_state().with_new_children(vec![left, right])?,
            None => {
                HashJoinExecBuilder::new(left, right, self.on.clone(), self.kind).with_null_equality(self.null_equality)
            }
        };
        join.with_partition_mode(PartitionMode::CollectLeft).with_fetch(None).build()
    }
}

/// The chunks of two sides: as small as is worth an opening, or larger where small ones would
/// divide many row groups.
fn joints(host: &Host, sides: &Both<Side>, alone: Alone) -> Vec<Joint<Key>> {
    let pieces = [&sides[0].pieces[..], &sides[1].pieces[..]];
    let largest = pieces.iter().flat_map(|pieces| pieces.iter()).map(|piece| piece.bytes).max().unwrap_or(0);
    let least = largest.max(LEAST_PAGES * u64::from(host.pool.page_size()));
    let mut best = cuts::cut(pieces, least, alone);
    for doubling in 1..=DOUBLINGS {
        let (read, once) = (cuts::bytes(&best, pieces), named_bytes(&best, pieces));
        // A tenth more is little against what fewer chunks cost, and much of it is in memory.
        if read <= once + once / 10 || best.len() < 4 * host.options.least_chunks.max(2) {
            break;
        }
        best = cuts::cut(pieces, least << doubling, alone);
    }
    best
}

/// Bytes of the pieces that chunks name, each counted once.
fn named_bytes(joints: &[Joint<Key>], pieces: Both<&[cuts::Piece<Key>]>) -> u64 {
    let named = |side: usize| {
        let mut numbers: Vec<usize> = joints.iter().flat_map(|joint| joint.pieces[side].iter().copied()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.iter().map(|&number| pieces[side][number].bytes).sum::<u64>()
    };
    named(0) + named(1)
}

/// The plan with the chunks in the place of `join`, if what is above it can do with the partitions
/// that they have, or with these dealt out again.
fn in_place(
    plan: &Arc<dyn ExecutionPlan>,
    join: &Arc<dyn ExecutionPlan>,
    chunks: Parts,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>, Kept> {
    let mut chunks: Arc<dyn ExecutionPlan> = Arc::new(CooperativeMergeJoinExec::new(chunks));
    if let Some(fetch) = join.fetch() {
        chunks = Arc::new(LocalLimitExec::new(chunks, fetch));
    }
    let sound = |with: &Arc<dyn ExecutionPlan>| {
        let replaced = replaced(plan, node(join), with)?;
        SanityCheckPlan::new().optimize(replaced, config)
    };
    let dealt_out = || {
        let partitioning @ Partitioning::Hash(..) = join.output_partitioning() else { return None };
        let dealt_out = RepartitionExec::try_new(Arc::clone(&chunks), partitioning.clone()).ok()?;
        sound(&(Arc::new(dealt_out) as _)).ok()
    };
    let sound_plan = sound(&chunks).ok().or_else(dealt_out);
    sound_plan.ok_or(Kept::Because("what is above it relies on its order or its partitions"))
}

fn replaced(plan: &Arc<dyn ExecutionPlan>, old: Node, new: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if node(plan) == old {
        return Ok(Arc::clone(new));
    }
    let children = plan.children().into_iter().map(|child| replaced(child, old, new)).collect::<Result<Vec<_>>>()?;
    if plan.children().into_iter().zip(&children).all(|(old, new)| Arc::ptr_eq(old, new)) {
        return Ok(Arc::clone(plan));
    }
    Arc::clone(plan).replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}
