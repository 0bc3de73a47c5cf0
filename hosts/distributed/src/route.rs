//! Which worker runs which task of a stage.
//!
//! Tasks are routed when the query starts, by the head of the stage's plan. The scans below it say
//! what each task reads. So each task votes with the bytes that it reads for the worker where they
//! are at home, and the most bytes are heard first. That holds for several scans in a stage, for
//! scans that the planner cut, and for workers that came or went since the scans were cut.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_distributed::{DistributedLeafExec, RouteTasksEvent, RouteTasksEventResponse};
use pagecast_cluster::affinity::{Load, Workers};
use pagecast_cluster::ranges::{cut, parquet_scan};
use url::Url;

/// Bytes, by task and worker.
type Votes = BTreeMap<(usize, usize), u64>;

/// A worker for each task of a stage that reads Parquet files; none for other stages.
pub(crate) fn route(
    event: &RouteTasksEvent<'_>,
    urls: &[Url],
    step: NonZeroU64,
) -> Option<Result<RouteTasksEventResponse>> {
    let workers = Workers::new(urls.iter().map(Url::as_str));
    let mut votes = Votes::new();
    let walked = event.plan.apply(|node| {
        if let Some(leaf) = node.downcast_ref::<DistributedLeafExec>()
            && leaf.variants().len() == event.task_count
        {
            vote(leaf, &workers, step, &mut votes);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    if let Err(error) = walked {
        return Some(Err(error));
    }
    if votes.is_empty() {
        return None;
    }
    let by_name = |worker: usize| urls.iter().find(|url| url.as_str() == workers.names()[worker]).cloned();
    let routed = elect(&votes, event.task_count, workers.len());
    let routed: Option<Vec<Url>> = routed.into_iter().map(by_name).collect();
    routed.map(|urls| Ok(RouteTasksEventResponse::new(urls)))
}

fn vote(leaf: &DistributedLeafExec, workers: &Workers, step: NonZeroU64, votes: &mut Votes) {
    let mut reads: Vec<(usize, Load)> = Vec::new();
    for (task, variant) in leaf.variants().iter().enumerate() {
        let Some(config) = parquet_scan(variant.as_ref()) else { return };
        reads.extend(cut(config, step).iter().map(|piece| (task, piece.load)));
    }
    let loads: Vec<Load> = reads.iter().map(|&(_, load)| load).collect();
    for ((task, load), home) in reads.iter().zip(workers.place(&loads)) {
        *votes.entry((*task, home)).or_default() += load.bytes.max(1);
    }
}

/// A worker for each task. None runs a second one before all have one.
fn elect(votes: &Votes, tasks: usize, workers: usize) -> Vec<usize> {
    let mut heard: Vec<(usize, usize)> = votes.keys().copied().collect();
    heard.sort_by_key(|of| (Reverse(votes[of]), *of));
    let (mut elected, mut runs) = (vec![None; tasks], vec![0usize; workers]);
    for (task, worker) in heard {
        if elected[task].is_none() && runs[worker] == 0 {
            (elected[task], runs[worker]) = (Some(worker), 1);
        }
    }
    let mut any = |elected: Option<usize>| {
        elected.or_else(|| {
            let idle = (0..workers).min_by_key(|&worker| runs[worker])?;
            runs[idle] += 1;
            Some(idle)
        })
    };
    elected.into_iter().filter_map(&mut any).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_bytes_are_heard_first() {
        let votes = Votes::from([((0, 2), 5), ((0, 1), 9), ((1, 1), 10), ((2, 1), 1)]);
        assert_eq!(elect(&votes, 3, 3), [2, 1, 0]);
    }

    #[test]
    fn more_tasks_than_workers_go_round() {
        let votes = Votes::from([((3, 1), 5)]);
        assert_eq!(elect(&votes, 5, 2), [0, 0, 1, 1, 0]);
        assert_eq!(elect(&Votes::new(), 4, 0), [0; 0]);
    }
}
