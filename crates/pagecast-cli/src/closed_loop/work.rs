//! All runs of one command, on all cores.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};
use pagecast_sim::closed::{Figures, Pictures, Settings, Workload, base_times, run};

use super::Plan;
use super::rows::{Results, Row};
use crate::failure::usage;
use crate::interrupt::on_threads;
use crate::units::Size;

/// One run, and what the row needs to know of its workload.
struct Done {
    row: Row,
    figures: Figures,
    pictures: Option<Pictures>,
}

struct Work {
    plan: Arc<Plan>,
    /// The next run that nobody has taken.
    next: AtomicUsize,
    done: Mutex<Vec<Option<anyhow::Result<Done>>>>,
    bar: ProgressBar,
}

/// All rows in the order of the command line: workload, size, delivery, policy. After Ctrl-C those
/// whose seeds are all done.
pub(super) fn run_all(plan: &Arc<Plan>, jobs: usize) -> anyhow::Result<Results> {
    let seeds = plan.seeds as usize;
    let all = plan.workloads.len() * plan.sizes.len() * plan.deliveries.len() * plan.policies.len() * seeds;
    let work = Arc::new(Work {
        plan: Arc::clone(plan),
        next: AtomicUsize::new(0),
        done: Mutex::new((0..all).map(|_| None).collect()),
        bar: ProgressBar::new(all as u64),
    });
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left {wide_msg}");
    work.bar.set_style(style.expect("the template is well-formed"));
    let complete = work.perform_all(jobs.min(all))?;
    work.bar.finish_and_clear();
    let mut done = work.done.lock().unwrap_or_else(PoisonError::into_inner);
    let mut rows = Vec::new();
    for runs in done.chunks_mut(seeds) {
        let runs: Vec<_> = runs.iter_mut().filter_map(Option::take).collect::<Result<_, _>>()?;
        if runs.len() < seeds {
            continue;
        }
        let mut row: Option<Row> = None;
        for run in runs {
            let row = row.get_or_insert(run.row);
            row.runs.push(run.figures);
            row.pictures = row.pictures.take().or(run.pictures);
        }
        rows.extend(row);
    }
    Ok(Results { partial: !complete, rows })
}

impl Work {
    /// Whether all was done by `threads` threads. After Ctrl-C they take nothing new, and nobody
    /// waits for them.
    fn perform_all(self: &Arc<Self>, threads: usize) -> anyhow::Result<bool> {
        let complete = on_threads(self, threads, Self::run)?;
        if !complete {
            self.next.store(usize::MAX / 2, Relaxed);
        }
        Ok(complete)
    }

    /// What each thread does.
    fn run(&self) {
        let all = self.done.lock().unwrap_or_else(PoisonError::into_inner).len();
        loop {
            let number = self.next.fetch_add(1, Relaxed);
            if number >= all {
                return;
            }
            let done = self.perform(number);
            self.done.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(done);
            self.bar.inc(1);
        }
    }

    fn perform(&self, number: usize) -> anyhow::Result<Done> {
        let plan = &*self.plan;
        let (row, seed) = (number / plan.seeds as usize, plan.seed + (number % plan.seeds as usize) as u64);
        let (row, policy) = (row / plan.policies.len(), &plan.policies[row % plan.policies.len()]);
        let (row, delivery) = (row / plan.deliveries.len(), &plan.deliveries[row % plan.deliveries.len()]);
        let (which, size) = (row / plan.sizes.len(), row % plan.sizes.len());
        let workload = Workload::make(&plan.workloads[which], seed).map_err(usage)?;
        let frames = pages(plan.sizes[size], &workload);
        // Of one size only: pictures of all would be a page that nobody looks at.
        let record = plan.pictures && size == 0 && seed == plan.seed;
        let settings = Settings { machine: plan.machine, delivery, policy, frames, seed, record };
        let mut outcome = run(&workload, settings)?;
        let base = base_times(&workload, plan.machine)?;
        Ok(Done {
            figures: Figures::of(&workload, &outcome, &base),
            pictures: outcome.pictures.take(),
            row: Row {
                delivery: delivery.name.clone(),
                policy: policy.name().to_owned(),
                params: policy.params(),
                size_pages: frames,
                page_bytes: workload.page_bytes,
                table_pages: workload.pages(),
                workload: workload.name,
                full_workload: workload.full,
                full_delivery: delivery.full.clone(),
                runs: Vec::new(),
                pictures: None,
            },
        })
    }
}

/// How many pages a size means for a workload; at least 1.
fn pages(size: Size, workload: &Workload) -> u32 {
    let pages = match size {
        Size::Plain(pages) => pages,
        Size::Bytes(bytes) => bytes / u64::from(workload.page_bytes),
        // A share is rounded down; the small addition undoes that 30 % is a little less than 3/10
        // in binary.
        Size::Share(share) => (share * f64::from(workload.pages()) + 1e-6) as u64,
    };
    u32::try_from(pages.max(1)).unwrap_or(u32::MAX)
}
