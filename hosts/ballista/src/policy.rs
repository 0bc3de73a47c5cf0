//! Which executor gets which partitions of a stage.
//!
//! A partition that reads files waits for the executor where they are at home; the others go to
//! whoever has most free. Whoever ends a task frees its executor for the next ones, so nobody waits
//! forever. What Ballista's own policies know of a stage is private there; [`is_one_task`] and
//! [`bind`] say it again.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::config::BallistaConfig;
use ballista_core::execution_plans::{RangeShuffleReaderExec, ShuffleReaderExec};
use ballista_core::serde::protobuf::executor_status::Status;
use ballista_core::serde::protobuf::{AvailableVcores, job_status};
use ballista_core::serde::scheduler::TaskKey;
use ballista_scheduler::cluster::{BoundTask, ClusterState, DistributionPolicy};
use ballista_scheduler::state::execution_graph::{TaskDescription, create_task_info};
use ballista_scheduler::state::execution_stage::RunningStage;
use ballista_scheduler::state::task_manager::JobInfoCache;
use datafusion::common::Result;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use pagecast_cluster::affinity::Workers;

use crate::homes::{Homes, dealt_out};

/// Sends partitions to the executors where their files are at home.
pub(crate) struct AtHome {
    cluster: Arc<dyn ClusterState>,
    step: NonZeroU64,
}

impl AtHome {
    pub(crate) fn new(cluster: Arc<dyn ClusterState>, step: NonZeroU64) -> Self {
        Self { cluster, step }
    }

    /// The executors that are there, the busy ones too.
    async fn executors(&self) -> Executors {
        let heard = self.cluster.executor_heartbeats();
        // One that polls for tasks has no status before its first heartbeat.
        let is_leaving = |id: &str| {
            let status = heard.get(id).and_then(|beat| beat.status.as_ref()?.status.as_ref());
            matches!(status, Some(Status::Terminating(_) | Status::Dead(_)))
        };
        let registered = self.cluster.registered_executor_metadata().await.into_iter();
        let ids: BTreeMap<String, String> = registered
            .filter(|executor| !is_leaving(&executor.id))
            .map(|executor| (format!("{}:{}", executor.host, executor.port), executor.id))
            .collect();
        let workers = Workers::new(ids.keys());
        // Both are sorted by name.
        Executors { workers, ids: ids.into_values().collect() }
    }
}

/// Executors by name, and the ids under which Ballista knows them since they started.
struct Executors {
    workers: Workers,
    ids: Vec<String>,
}

impl fmt::Debug for AtHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtHome").field("step", &self.step).finish_non_exhaustive()
    }
}

#[async_trait]
impl DistributionPolicy for AtHome {
    async fn bind_tasks(
        &self,
        mut budgets: Vec<&mut AvailableVcores>,
        running_jobs: Arc<HashMap<JobId, JobInfoCache>>,
    ) -> Result<Vec<BoundTask>> {
        let executors = self.executors().await;
        let mut bound = Vec::new();
        for (job, known) in running_jobs.iter() {
            if !matches!(known.status, Some(job_status::Status::Running(_))) {
                continue;
            }
            let mut graph = known.execution_graph.write().await;
            let session = graph.session_id().to_owned();
            let mut seen = Vec::new();
            while let Some(stage) = graph.fetch_running_stage(&seen) {
                seen.push(stage.stage_id);
                let tasks = choose(stage, &executors, self.step, &mut budgets)?;
                bound.extend(tasks.into_iter().map(|(executor, task)| bind(stage, job, &session, executor, task)));
            }
        }
        Ok(bound)
    }

    fn name(&self) -> &str {
        "pagecast: at home"
    }
}

/// The partitions of a task, and what it takes of its executor.
struct Task {
    partitions: Vec<usize>,
    vcores: u32,
}

/// Takes partitions of a stage that can run now, with the ids of their executors. The others stay
/// pending.
fn choose(
    stage: &mut RunningStage,
    executors: &Executors,
    step: NonZeroU64,
    budgets: &mut [&mut AvailableVcores],
) -> Result<Vec<(String, Task)>> {
    if budgets.iter().all(|budget| budget.vcores == 0) {
        return Ok(Vec::new());
    }
    // Once a task is bound, its partitions stand for what they read.
    if stage.task_infos.is_empty()
        && let Some(plan) = dealt_out(&stage.plan, &executors.workers, step)?
    {
        stage.plan = plan;
    }
    let homes = Homes::new(&stage.plan, &executors.workers, step)?;
    let pending = stage.pending.next_slice(usize::MAX);
    let groups: Vec<Vec<usize>> = match is_one_task(&stage.plan) {
        true => vec![pending],
        false => pending.into_iter().map(|partition| vec![partition]).collect(),
    };
    let mut taken: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut waiting = Vec::new();
    for group in groups.into_iter().filter(|group| !group.is_empty()) {
        let home = homes.of(&group)?.map(|home| executors.ids[home].as_str());
        let free = (0..budgets.len()).filter(|&at| budgets[at].vcores > 0);
        let free = free.filter(|&at| home.is_none_or(|home| budgets[at].executor_id == home));
        match free.max_by_key(|&at| budgets[at].vcores) {
            Some(at) => {
                // A task that packs all partitions has one thread, however many they are.
                budgets[at].vcores -= 1;
                taken.entry(at).or_default().extend(group);
            }
            None => waiting.extend(group),
        }
    }
    stage.pending.reschedule(waiting);
    let most = most_partitions(stage);
    let one_task = is_one_task(&stage.plan);
    let mut tasks = Vec::new();
    for (at, partitions) in taken {
        let most = if one_task { partitions.len() } else { most };
        for partitions in partitions.chunks(most) {
            let vcores = if one_task { 1 } else { u32::try_from(partitions.len()).unwrap_or(u32::MAX) };
            tasks.push((budgets[at].executor_id.clone(), Task { partitions: partitions.to_vec(), vcores }));
        }
    }
    Ok(tasks)
}

/// How many partitions a task may have, by the job's session.
fn most_partitions(stage: &RunningStage) -> usize {
    let config = stage.session_config.options().extensions.get::<BallistaConfig>();
    config.map(BallistaConfig::max_partitions_per_task).filter(|&most| most > 0).unwrap_or(usize::MAX)
}

/// Whether all partitions of a stage have to go into one task: below its root, something makes one
/// partition of many, and would do so in each task.
fn is_one_task(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut at = Arc::clone(plan);
    while let [below] = at.children().as_slice() {
        let below = Arc::clone(below);
        if below.is::<ShuffleReaderExec>() || below.is::<RangeShuffleReaderExec>() {
            return false;
        }
        if below.output_partitioning().partition_count() == 1 {
            return true;
        }
        at = below;
    }
    false
}

/// Notes in the stage that the task runs, and describes it for its executor.
fn bind(stage: &mut RunningStage, job: &JobId, session: &str, executor: String, task: Task) -> BoundTask {
    let task_id = stage.task_infos.len();
    let failures = task.partitions.iter().filter_map(|&partition| stage.task_failure_numbers.get(partition));
    let task_attempt = failures.max().copied().unwrap_or(0);
    let mut info = create_task_info(executor.clone(), task_id);
    info.global_input_partition_ids = task.partitions.clone();
    info.vcores_consumed = task.vcores;
    stage.task_infos.push(info);
    let description = TaskDescription {
        session_id: session.to_owned(),
        key: TaskKey { job_id: job.clone(), stage_id: stage.stage_id, task_id },
        stage_attempt_num: stage.stage_attempt_num,
        task_attempt,
        global_input_partition_ids: task.partitions,
        vcores_consumed: task.vcores,
        plan: Arc::clone(&stage.plan),
        session_config: Arc::clone(&stage.session_config),
    };
    (executor, description)
}
