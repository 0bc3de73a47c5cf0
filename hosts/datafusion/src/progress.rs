//! Where one execution of a scan stands on its axis, and its registration with the pool.
//!
//! The axis is rows in delivery order. A row group's pages all lie at the rows before its first
//! one, because its bytes are asked for together; pages that two row groups share lie at both. The
//! scan stands at the first row of the first row group whose bytes have not all been asked for:
//! what a read asks for and finds it takes at once, and what it does not find it does not need to
//! be kept for it. Were a row group's pages held until its read has ended, the row groups in flight
//! could fill a small pool with pages that nobody will look at again.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use pagecast::forecast::Query;
use pagecast::predictor::{Pages, Part, Run, ScanKind, ScanSpec};
use pagecast::{PageId, Relation, RelationId, Scan, ScanId, Share};
use parking_lot::Mutex;

use crate::Host;
use crate::read_plan::ReadPlan;
use crate::scan_place::ScanPlace;

/// All Parquet scans are of one kind: a position is a row.
const PARQUET_SCAN: ScanKind = ScanKind(0);

/// The progress of one execution, for all its partitions.
///
/// * (P1) `frontier` is the first row group that is not done; it only grows.
/// * (P2) `scan` is present only while a stream may still read and `frontier` is not at the end.
pub(crate) struct Progress {
    host: Arc<Host>,
    /// Per row group its relation and runs, at the position where it starts.
    expected: Vec<(RelationId, Vec<Run>)>,
    /// Per row group its file, to be named to who looks on.
    files: Vec<Relation>,
    /// Rows before each row group, and at the end all rows.
    starts: Vec<u64>,
    share: Option<Arc<Share>>,
    state: Mutex<State>,
}

struct State {
    done: Vec<bool>,
    frontier: usize,
    scan: Option<Scan>,
    /// What it is a run of, until the pool knows.
    query: Option<Query>,
    /// The predictor had no room; it is not asked again.
    refused: bool,
}

impl Progress {
    pub(crate) fn new(host: &Arc<Host>, plan: &ReadPlan) -> Self {
        let page_size = u64::from(host.pool.page_size());
        let (mut starts, mut expected, mut files) = (vec![0], Vec::new(), Vec::new());
        for (relation, row_group) in plan.row_groups() {
            let start = starts[starts.len() - 1];
            expected.push((relation.id(), runs(&row_group.bytes, page_size, start)));
            files.push(relation.clone());
            starts.push(start + row_group.rows);
        }
        let state =
            State { done: vec![false; files.len()], frontier: 0, scan: None, query: plan.query, refused: false };
        let (share, state) = (plan.share.clone(), Mutex::new(state));
        Self { host: Arc::clone(host), expected, files, starts, share, state }
    }

    /// Tells the pool what is still to be read, unless it knows already. A scan that finds no room
    /// in the predictor runs without being known; the host counts those.
    pub(crate) fn register(&self) {
        let mut state = self.state.lock();
        let known = state.scan.is_some() || state.refused || !self.host.options.register;
        if known || state.frontier == self.expected.len() {
            return;
        }
        let runs = by_relation(&self.expected[state.frontier..]);
        let parts: Vec<Part<'_>> =
            runs.iter().map(|(relation, runs)| Part { relation: *relation, pages: Pages::Runs(runs) }).collect();
        let length = self.starts[self.expected.len()];
        let spec = ScanSpec { kind: PARQUET_SCAN, length, parts: &parts };
        let registered = match &self.share {
            Some(share) => share.register(&spec),
            None => self.host.pool.register(&spec),
        };
        match registered {
            Ok(scan) => {
                state.query.take().into_iter().for_each(|query| scan.recurs(query));
                scan.report(self.starts[state.frontier]);
                state.scan = Some(scan);
            }
            Err(_) => {
                state.refused = true;
                self.host.unregistered.fetch_add(1, Relaxed);
            }
        }
    }

    /// Nobody reads any more.
    pub(crate) fn finish(&self) {
        let scan = self.state.lock().scan.take();
        drop(scan);
    }

    /// Where the scan stands, while it is registered.
    pub(crate) fn place(&self) -> Option<ScanPlace> {
        let state = self.state.lock();
        let scan = state.scan.as_ref()?.id();
        let (relation, (_, runs)) = self.files.get(state.frontier).zip(self.expected.get(state.frontier))?;
        let block = runs.first().map_or(0, |run| run.first);
        let offset = u64::from(block) * u64::from(self.host.pool.page_size());
        Some(ScanPlace { scan, path: relation.path().into(), offset, file_bytes: relation.len() })
    }

    pub(crate) fn scan(&self) -> Option<ScanId> {
        self.state.lock().scan.as_ref().map(Scan::id)
    }

    /// Visits the pages of the row groups from the frontier on, while the scan is registered.
    pub(crate) fn needs(&self, visit: &mut dyn FnMut(PageId)) {
        let state = self.state.lock();
        if state.scan.is_none() {
            return;
        }
        let row_groups = self.expected.iter().zip(&state.done).skip(state.frontier);
        for ((relation, runs), _) in row_groups.filter(|(_, done)| !**done) {
            for block in runs.iter().flat_map(|run| run.first..run.first + run.blocks) {
                visit(PageId::new(*relation, block));
            }
        }
    }

    /// The pages of the runs that are registered at the start.
    #[cfg(test)]
    pub(crate) fn registered_pages(&self) -> impl Iterator<Item = PageId> {
        let blocks = |run: Run| run.first..run.first + run.blocks;
        let page = |relation| move |block| PageId::new(relation, block);
        by_relation(&self.expected)
            .into_iter()
            .flat_map(move |(relation, runs)| runs.into_iter().flat_map(blocks).map(page(relation)))
    }

    pub(crate) fn done(&self, row_groups: Range<usize>) {
        let mut state = self.state.lock();
        state.done[row_groups].fill(true);
        let before = state.frontier;
        while state.done.get(state.frontier) == Some(&true) {
            state.frontier += 1;
        }
        if state.frontier == self.expected.len() {
            state.scan = None;
        } else if state.frontier > before
            && let Some(scan) = &state.scan
        {
            scan.report(self.starts[state.frontier]);
        }
    }
}

/// The blocks of some byte ranges, as runs that share no block, all at `position`.
fn runs(ranges: &[Range<u64>], page_size: u64, position: u64) -> Vec<Run> {
    let mut blocks: Vec<Range<u64>> = ranges
        .iter()
        .filter(|range| !range.is_empty())
        .map(|range| range.start / page_size..range.end.div_ceil(page_size))
        .collect();
    blocks.sort_unstable_by_key(|range| range.start);
    blocks.dedup_by(|next, last| {
        let joined = next.start <= last.end;
        if joined {
            last.end = last.end.max(next.end);
        }
        joined
    });
    let run = |b: Range<u64>| Run { first: b.start as u32, blocks: (b.end - b.start) as u32, position, span: 0 };
    blocks.into_iter().map(run).collect()
}

/// The runs of all row groups, gathered by relation and ordered as the predictor wants them.
///
/// Row groups that lie in their file one after the other, as writers make them, share at most the
/// block where they meet. In a file that interleaves them a run may lie inside another; it is
/// stretched to the other's end, so that everything that will be read stays registered.
fn by_relation(expected: &[(RelationId, Vec<Run>)]) -> Vec<(RelationId, Vec<Run>)> {
    let mut relations: Vec<(RelationId, Vec<Run>)> = Vec::new();
    // Chunks of a join name files by turns.
    let mut places = HashMap::new();
    for (relation, runs) in expected {
        let place = *places.entry(*relation).or_insert(relations.len());
        if place == relations.len() {
            relations.push((*relation, Vec::new()));
        }
        relations[place].1.extend(runs);
    }
    for (_, runs) in &mut relations {
        runs.sort_by_key(|run| (run.first, run.blocks));
        let mut end = 0;
        for run in runs {
            end = end.max(run.first + run.blocks);
            run.blocks = end - run.first;
        }
    }
    relations
}

#[cfg(test)]
mod tests;
