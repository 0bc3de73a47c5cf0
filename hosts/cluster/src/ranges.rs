//! The files of a scan, cut into ranges on fixed borders.
//!
//! A plan can carry a range of a file's bytes, and no list of row groups: that is all that the wire
//! format of DataFusion's plans has. A reader of a range reads the row groups that begin in it. So
//! borders at fixed bytes are borders between row groups, the same ones for every query, and nobody
//! needs a footer to plan.

use std::num::NonZeroU64;

use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;

use crate::affinity::{Load, RangeId};

/// What a scan reads of a file between two borders.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The file, with the range of it that is read.
    pub file: PartitionedFile,
    /// Which range it is, and its bytes.
    pub load: Load,
    /// The partition that it belongs to. None if any may read it.
    pub partition: Option<usize>,
}

/// The scan of Parquet files that a plan node is.
pub fn parquet_scan(plan: &dyn ExecutionPlan) -> Option<&FileScanConfig> {
    let (config, _) = plan.downcast_ref::<DataSourceExec>()?.downcast_to_file_source::<ParquetSource>()?;
    Some(config)
}

/// Whether the rows of a scan may go to any task: it does not promise which partition has which.
pub fn may_be_dealt_out(config: &FileScanConfig) -> bool {
    config.output_partitioning.is_none()
}

/// The pieces of a scan. `step` bytes are between two borders.
pub fn cut(config: &FileScanConfig, step: NonZeroU64) -> Vec<Piece> {
    if config.output_ordering.is_empty() && !config.preserve_order {
        cut_on_borders(config, step)
    } else {
        as_listed(config, step)
    }
}

/// The files of a scan that promises an order, as the planner listed them. Some of the files of a
/// partition are in order as all of them are. Ranges of one file would not be: only whole files
/// have the statistics that show an order.
fn as_listed(config: &FileScanConfig, step: NonZeroU64) -> Vec<Piece> {
    let store = config.object_store_url.as_str();
    let of_group = |(partition, group): (usize, &FileGroup)| -> Vec<Piece> {
        let piece = |file: &PartitionedFile| {
            let (start, end) = bounds(file);
            let load = load(store, file, start / step, end.saturating_sub(start));
            Piece { file: file.clone(), load, partition: Some(partition) }
        };
        group.iter().map(piece).collect()
    };
    config.file_groups.iter().enumerate().flat_map(of_group).collect()
}

/// The pieces of a scan that promises no order, sorted by file and place. How the planner cut the
/// files for its partitions does not show.
fn cut_on_borders(config: &FileScanConfig, step: NonZeroU64) -> Vec<Piece> {
    let store = config.object_store_url.as_str();
    let files = config.file_groups.iter().flat_map(|group| group.iter());
    let mut pieces: Vec<(u64, Piece)> = files.flat_map(|file| cut_file(store, file, step)).collect();
    let place = |number: u64, file: &PartitionedFile| {
        let path = file.object_meta.location.as_ref().to_owned();
        (path, number, file.range.as_ref().map(|range| (range.start, range.end)))
    };
    pieces.sort_by_cached_key(|(number, piece)| place(*number, &piece.file));
    let mut joined: Vec<(u64, Piece)> = Vec::with_capacity(pieces.len());
    for (number, piece) in pieces {
        match joined.last_mut() {
            Some((last, before)) if *last == number && continues(&before.file, &piece.file) => {
                before.load.bytes += piece.load.bytes;
                before.file = between(&before.file, bounds(&before.file).0, bounds(&piece.file).1);
            }
            _ => joined.push((number, piece)),
        }
    }
    joined.into_iter().map(|(_, piece)| piece).collect()
}

/// What lies between each two borders of what is read of one file, with the number of the range.
fn cut_file(store: &str, file: &PartitionedFile, step: NonZeroU64) -> impl Iterator<Item = (u64, Piece)> {
    let (start, end) = bounds(file);
    let last = end.saturating_sub(1).max(start);
    let numbers = start / step..=last / step;
    numbers.map(move |number| {
        let from = start.max(number.saturating_mul(step.get()));
        let to = end.min((number + 1).saturating_mul(step.get()));
        let load = load(store, file, number, to.saturating_sub(from));
        (number, Piece { file: between(file, from, to), load, partition: None })
    })
}

fn load(store: &str, file: &PartitionedFile, number: u64, bytes: u64) -> Load {
    Load { id: RangeId::new(store, file.object_meta.location.as_ref(), number), bytes }
}

/// The file, read between two bytes.
fn between(file: &PartitionedFile, from: u64, to: u64) -> PartitionedFile {
    file.clone().with_range(from.cast_signed(), to.cast_signed())
}

/// From where to where a file is read, in bytes. Plans are sent by others, so a place before the
/// file's begin counts as its begin.
fn bounds(file: &PartitionedFile) -> (u64, u64) {
    let at = |place: i64| place.max(0).unsigned_abs();
    file.range.as_ref().map_or((0, file.object_meta.size.min(at(i64::MAX))), |range| (at(range.start), at(range.end)))
}

/// Whether a piece goes on where another one of the same file ends. A file that is listed twice is
/// read twice.
fn continues(before: &PartitionedFile, piece: &PartitionedFile) -> bool {
    before.object_meta.location == piece.object_meta.location && bounds(before).1 == bounds(piece).0
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use super::*;

    const STEP: NonZeroU64 = NonZeroU64::new(100).unwrap();

    /// A file's path, its size, and the range of it that is read.
    pub(crate) type Listed<'a> = (&'a str, u64, Option<(i64, i64)>);

    /// A scan of files, in a group each.
    pub(crate) fn scan(files: &[Listed<'_>]) -> FileScanConfig {
        let files = files.iter().map(|&(path, size, range)| {
            let file = PartitionedFile::new(path, size);
            range.map_or(file.clone(), |(start, end)| file.with_range(start, end))
        });
        let groups = files.map(|file| vec![file].into()).collect();
        let source = ParquetSource::new(std::sync::Arc::new(datafusion::arrow::datatypes::Schema::empty()));
        let url = datafusion::execution::object_store::ObjectStoreUrl::parse("mem://lake").unwrap();
        datafusion::datasource::physical_plan::FileScanConfigBuilder::new(url, std::sync::Arc::new(source))
            .with_file_groups(groups)
            .build()
    }

    fn read(files: &[Listed<'_>]) -> Vec<(String, u64, u64, RangeId)> {
        let config = scan(files);
        let place = |piece: Piece| {
            let (start, end) = bounds(&piece.file);
            assert_eq!(piece.load.bytes, end - start);
            (piece.file.object_meta.location.to_string(), start, end, piece.load.id)
        };
        cut(&config, STEP).into_iter().map(place).collect()
    }

    fn id(path: &str, number: u64) -> RangeId {
        RangeId::new("mem://lake/", path, number)
    }

    #[test]
    fn a_file_is_cut_on_the_borders() {
        let whole = read(&[("a", 250, None)]);
        let borders = [(0, 100, 0), (100, 200, 1), (200, 250, 2)];
        let expected: Vec<_> = borders.iter().map(|&(from, to, n)| ("a".to_owned(), from, to, id("a", n))).collect();
        assert_eq!(whole, expected);
    }

    #[test]
    fn what_the_planner_cut_does_not_show() {
        let whole = read(&[("a", 250, None), ("b", 90, None)]);
        let cut = [("a", 250, Some((130, 250))), ("b", 90, Some((0, 90))), ("a", 250, Some((0, 130)))];
        assert_eq!(read(&cut), whole);
    }

    #[test]
    fn a_part_of_a_file_stays_a_part() {
        assert_eq!(read(&[("a", 250, Some((120, 180)))]), [("a".to_owned(), 120, 180, id("a", 1))]);
        let gap = read(&[("a", 250, Some((110, 120))), ("a", 250, Some((130, 140)))]);
        assert_eq!(gap.iter().map(|piece| (piece.1, piece.2)).collect::<Vec<_>>(), [(110, 120), (130, 140)]);
    }

    #[test]
    fn a_file_that_is_listed_twice_is_read_twice() {
        let twice = read(&[("a", 150, None), ("a", 150, None)]);
        let places: Vec<_> = twice.iter().map(|piece| (piece.1, piece.2)).collect();
        assert_eq!(places, [(0, 100), (0, 100), (100, 150), (100, 150)]);
    }

    #[test]
    fn files_in_order_stay_whole_and_where_they_are() {
        let mut config = scan(&[("b", 250, None), ("a", 90, None), ("a", 300, Some((150, 300)))]);
        config.preserve_order = true;
        let pieces: Vec<_> = cut(&config, STEP).into_iter().map(|piece| (piece.partition, piece.load)).collect();
        let load = |path, number, bytes| Load { id: id(path, number), bytes };
        let expected = [(Some(0), load("b", 0, 250)), (Some(1), load("a", 0, 90)), (Some(2), load("a", 1, 150))];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn an_empty_file_is_one_piece() {
        assert_eq!(read(&[("a", 0, None)]), [("a".to_owned(), 0, 0, id("a", 0))]);
    }
}
