//! Which task reads which ranges.
//!
//! With as many tasks as workers that have some of a scan at home, or more, all is read at home.
//! With fewer, a scan goes to the workers that have most of it, and ranges of the others go to
//! their next choice among these.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::num::NonZeroU64;

use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};

use crate::affinity::{Load, Workers};
use crate::ranges::{Piece, cut, may_be_dealt_out};

/// On how many workers the ranges of a scan are at home; at least one.
pub fn homes(config: &FileScanConfig, workers: &Workers, step: NonZeroU64) -> usize {
    let loads: Vec<Load> = cut(config, step).iter().map(|piece| piece.load).collect();
    workers.place(&loads).into_iter().collect::<BTreeSet<_>>().len().max(1)
}

/// A scan for each of `tasks`. Together they read each piece once. `step` bytes are between two
/// borders of a file.
pub fn deal_out(config: &FileScanConfig, workers: &Workers, tasks: usize, step: NonZeroU64) -> Vec<FileScanConfig> {
    let pieces = cut(config, step);
    let loads: Vec<Load> = pieces.iter().map(|piece| piece.load).collect();
    let mut of_task: Vec<Vec<Piece>> = (0..tasks.max(1)).map(|_| Vec::new()).collect();
    for (piece, task) in pieces.into_iter().zip(tasks_of(&loads, workers, of_task.len())) {
        of_task[task].push(piece);
    }
    let partitions = config.file_groups.len().max(1);
    let variant = |pieces| {
        let mut variant = config.clone();
        variant.file_groups = groups(pieces, partitions);
        variant
    };
    of_task.into_iter().map(variant).collect()
}

/// The same scan in as many partitions, each of which reads what is at home on one worker. A worker
/// with more bytes gets more partitions. A scan that promises an order, or which partition has
/// which rows, stays as it is.
pub fn deal_within(config: &FileScanConfig, workers: &Workers, step: NonZeroU64) -> FileScanConfig {
    let mut dealt = config.clone();
    let pieces = cut(config, step);
    let is_bound = !may_be_dealt_out(config) || pieces.iter().any(|piece| piece.partition.is_some());
    let tasks = workers.len().min(config.file_groups.len());
    if tasks == 0 || is_bound {
        return dealt;
    }
    let loads: Vec<Load> = pieces.iter().map(|piece| piece.load).collect();
    let mut of_task: Vec<(u64, Vec<Piece>)> = vec![(0, Vec::new()); tasks];
    for (piece, task) in pieces.into_iter().zip(tasks_of(&loads, workers, tasks)) {
        of_task[task].0 += piece.load.bytes.max(1);
        of_task[task].1.push(piece);
    }
    let bytes: Vec<u64> = of_task.iter().map(|(bytes, _)| *bytes).collect();
    let shares = shares(&bytes, config.file_groups.len());
    let dealt_out = of_task.into_iter().zip(shares).flat_map(|((_, pieces), share)| groups(pieces, share));
    dealt.file_groups = dealt_out.collect();
    dealt
}

/// How many of `partitions` go to each task, by its bytes. No task is left without, as there are no
/// more tasks than partitions.
fn shares(bytes: &[u64], partitions: usize) -> Vec<usize> {
    let mut shares = vec![1; bytes.len()];
    for _ in bytes.len()..partitions {
        let each = |task: usize| u128::from(bytes[task]) * 1_000 / shares[task] as u128;
        let Some(fullest) = (0..bytes.len()).max_by_key(|&task| (each(task), Reverse(task))) else { break };
        shares[fullest] += 1;
    }
    shares
}

/// The task of each range.
fn tasks_of(loads: &[Load], workers: &Workers, tasks: usize) -> Vec<usize> {
    let homes = workers.place(loads);
    if homes.is_empty() {
        // No worker is known; the planner will say so. Until then nothing is lost.
        return (0..loads.len()).map(|range| range % tasks).collect();
    }
    let chosen = chosen(loads, &homes, workers.len(), tasks);
    let at_home: Option<Vec<usize>> = homes.iter().map(|home| chosen.binary_search(home).ok()).collect();
    if let Some(at_home) = at_home {
        return at_home;
    }
    let names = chosen.iter().map(|&worker| workers.names()[worker].as_str());
    Workers::new(names).place(loads)
}

/// The workers that run the tasks, sorted: those with most bytes at home.
fn chosen(loads: &[Load], homes: &[usize], workers: usize, tasks: usize) -> Vec<usize> {
    let mut bytes = vec![0u64; workers];
    for (load, &home) in loads.iter().zip(homes) {
        bytes[home] += load.bytes.max(1);
    }
    let mut chosen: Vec<usize> = (0..workers).collect();
    chosen.sort_by_key(|&worker| (Reverse(bytes[worker]), worker));
    chosen.truncate(tasks);
    chosen.sort_unstable();
    chosen
}

/// The pieces in `partitions` groups, each in its order: where they belong, or about as many bytes
/// in each.
fn groups(pieces: Vec<Piece>, partitions: usize) -> Vec<FileGroup> {
    let mut groups = vec![(0u64, Vec::new()); partitions];
    for piece in pieces {
        let group = match piece.partition {
            Some(partition) => groups.get_mut(partition),
            None => groups.iter_mut().min_by_key(|(bytes, _)| *bytes),
        };
        let Some((bytes, files)) = group else { continue };
        *bytes += piece.load.bytes.max(1);
        files.push(piece.file);
    }
    groups.into_iter().map(|(_, files)| FileGroup::new(files)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::datasource::listing::PartitionedFile;

    use super::*;
    use crate::affinity::RangeId;

    fn loads(count: u64) -> Vec<Load> {
        (0..count).map(|number| Load { id: RangeId::new("mem://", "t", number), bytes: 10 }).collect()
    }

    fn workers(count: usize) -> Workers {
        Workers::new((0..count).map(|worker| format!("http://{worker}")))
    }

    /// The worker that reads each range.
    fn readers(loads: &[Load], workers: &Workers, tasks: usize) -> Vec<usize> {
        let homes = workers.place(loads);
        let chosen = chosen(loads, &homes, workers.len(), tasks);
        tasks_of(loads, workers, tasks).into_iter().map(|task| chosen[task]).collect()
    }

    #[test]
    fn with_enough_tasks_all_is_read_at_home() {
        let (loads, workers) = (loads(40), workers(8));
        let homes = workers.place(&loads);
        let distinct = homes.iter().collect::<BTreeSet<_>>().len();
        for tasks in distinct..=8 {
            assert_eq!(readers(&loads, &workers, tasks), homes, "{tasks} tasks");
        }
    }

    #[test]
    fn with_fewer_tasks_what_is_at_home_mostly_stays() {
        let (loads, workers) = (loads(400), workers(8));
        let homes = workers.place(&loads);
        for tasks in 1..8 {
            let readers = readers(&loads, &workers, tasks);
            let chosen = chosen(&loads, &homes, 8, tasks);
            let at_home = homes.iter().filter(|home| chosen.contains(home)).count();
            let stayed = readers.iter().zip(&homes).filter(|(reader, home)| reader == home).count();
            assert!(stayed * 100 >= at_home * 90, "{tasks} tasks: {stayed} of {at_home}");
            assert!(readers.iter().all(|reader| chosen.contains(reader)));
        }
    }

    #[test]
    fn without_workers_nothing_is_lost() {
        assert_eq!(tasks_of(&loads(5), &Workers::default(), 2), [0, 1, 0, 1, 0]);
    }

    const STEP: NonZeroU64 = NonZeroU64::new(100).unwrap();

    /// What each partition of a scan reads, and at how many homes.
    fn partitions(config: &FileScanConfig, homes: &[(Load, usize)]) -> Vec<(Vec<Load>, usize)> {
        let of_group = |group: &FileGroup| {
            let mut alone = config.clone();
            alone.file_groups = vec![group.clone()];
            let loads: Vec<Load> = cut(&alone, STEP).iter().map(|piece| piece.load).collect();
            let at = |load: &Load| homes.iter().find(|(other, _)| other == load).map(|&(_, home)| home);
            let homes = loads.iter().map(at).collect::<BTreeSet<_>>().len();
            (loads, homes)
        };
        config.file_groups.iter().map(of_group).collect()
    }

    /// Paths and ranges, by partition.
    fn files(config: &FileScanConfig) -> Vec<Vec<String>> {
        let name = |file: &PartitionedFile| format!("{} {:?}", file.object_meta.location, file.range);
        config.file_groups.iter().map(|group| group.iter().map(name).collect()).collect()
    }

    #[test]
    fn each_partition_of_a_scan_reads_what_is_at_home_on_one_worker() {
        let config =
            crate::ranges::tests::scan(&[("a", 2_000, None), ("b", 700, None), ("c", 90, None), ("d", 5, None)]);
        let whole: Vec<Load> = cut(&config, STEP).iter().map(|piece| piece.load).collect();
        for count in [1, 2, 3, 9] {
            let workers = workers(count);
            let dealt = deal_within(&config, &workers, STEP);
            assert_eq!(dealt.file_groups.len(), 4, "{count} workers");
            let homes: Vec<(Load, usize)> = whole.iter().copied().zip(workers.place(&whole)).collect();
            let partitions = partitions(&dealt, &homes);
            let mut read: Vec<Load> = partitions.iter().flat_map(|(loads, _)| loads.clone()).collect();
            read.sort_by_key(|load| load.id);
            let mut expected = whole.clone();
            expected.sort_by_key(|load| load.id);
            assert_eq!(read, expected, "{count} workers: each range once");
            // Of nine workers five have no partition, and their ranges go to others.
            let mixed = partitions.iter().filter(|(_, homes)| *homes > 1).count();
            assert!(mixed == 0 || count == 9, "{count} workers: {mixed} partitions of several homes");
            assert_eq!(files(&deal_within(&dealt, &workers, STEP)), files(&dealt), "dealt out twice");
        }
        let mut ordered = config;
        ordered.preserve_order = true;
        assert_eq!(files(&deal_within(&ordered, &workers(3), STEP)), files(&ordered));
    }

    #[test]
    fn a_worker_with_more_bytes_gets_more_partitions() {
        assert_eq!(shares(&[10, 30, 0], 8), [2, 5, 1]);
        assert_eq!(shares(&[5, 5], 2), [1, 1]);
        assert_eq!(shares(&[0, 0], 3), [2, 1]);
    }
}
