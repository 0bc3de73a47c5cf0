//! What rides on a file through DataFusion to its reader, and tells who handed the chunk out what
//! of it was asked for.

use std::ops::Range;
use std::sync::Arc;

use pagecast::ScanId;
use parking_lot::Mutex;

use crate::cooperative::{Asked, Taken};
use crate::progress::Progress;
use crate::read_plan::{PlannedRowGroup, total};

/// The place in its scan of a chunk: neighbouring row groups of a file that are opened together.
/// Rides on the file through DataFusion to the reader; when the last copy goes, the chunk has
/// ended or never will be read, and what was planned for it is released.
pub(crate) struct Ticket {
    place: Place,
    chunk: Mutex<Chunk>,
}

/// Who is told what of the chunk was asked for.
enum Place {
    /// The axis, on which the first row group of the chunk has this number.
    Axis(Arc<Progress>, usize),
    /// The chunk that was taken, and who tells it once all of it was asked for.
    Lease(Arc<Taken>, Mutex<Option<Arc<Asked>>>),
}

/// Where a chunk is. Its row groups come in their order, and some may be left out.
struct Chunk {
    /// What is planned of each.
    planned: Vec<Vec<Range<u64>>>,
    /// The one that is being asked for, and what of it was not asked for yet.
    at: usize,
    outstanding: u64,
}

impl Ticket {
    /// For these row groups, of which the first one is the scan's row group `first`.
    pub(crate) fn on_axis(progress: &Arc<Progress>, first: usize, row_groups: &[PlannedRowGroup]) -> Self {
        Self::new(Place::Axis(Arc::clone(progress), first), row_groups)
    }

    /// For row groups of a chunk that comes out of order.
    pub(crate) fn of_lease(asked: &Arc<Asked>, row_groups: &[PlannedRowGroup]) -> Self {
        let place = Place::Lease(Arc::clone(&asked.0), Mutex::new(Some(Arc::clone(asked))));
        Self::new(place, row_groups)
    }

    fn new(place: Place, row_groups: &[PlannedRowGroup]) -> Self {
        let planned: Vec<_> = row_groups.iter().map(|row_group| row_group.bytes.clone()).collect();
        let outstanding = planned.first().map_or(0, |bytes| total(bytes));
        Self { place, chunk: Mutex::new(Chunk { planned, at: 0, outstanding }) }
    }

    /// The scan that the row groups are part of, while it is registered.
    pub(crate) fn scan(&self) -> Option<ScanId> {
        match &self.place {
            Place::Axis(progress, _) => progress.scan(),
            Place::Lease(taken, _) => taken.scan(),
        }
    }

    /// What is planned, if that is of one row group, of which nothing was asked for yet.
    pub(crate) fn planned_whole(&self) -> Option<Vec<Range<u64>>> {
        let chunk = self.chunk.lock();
        let [planned] = &chunk.planned[..] else { return None };
        (chunk.outstanding == total(planned)).then(|| planned.clone())
    }

    /// These ranges of one row group are about to be read. With the last planned one the scan needs
    /// nothing to be kept of it, though its bytes are yet to come.
    pub(crate) fn asked(&self, ranges: &[Range<u64>]) {
        let Some(asked) = ranges.first() else { return };
        let mut chunk = self.chunk.lock();
        let holds = |planned: &Vec<Range<u64>>| planned.iter().any(|range| range.contains(&asked.start));
        if let Some(ahead) = chunk.planned[chunk.at..].iter().position(holds).filter(|&ahead| ahead > 0) {
            chunk.at += ahead;
            chunk.outstanding = total(&chunk.planned[chunk.at]);
        }
        chunk.outstanding = chunk.outstanding.saturating_sub(total(ranges));
        let ended = if chunk.outstanding == 0 { chunk.at + 1 } else { chunk.at };
        let all = ended == chunk.planned.len();
        drop(chunk);
        self.place.asked(ended, all);
    }
}

impl Place {
    /// The first `row_groups` of the chunk have been asked for, which may be `all`.
    fn asked(&self, row_groups: usize, all: bool) {
        match self {
            Self::Axis(progress, first) => progress.done(*first..*first + row_groups),
            Self::Lease(_, asked) if all => drop(asked.lock().take()),
            Self::Lease(..) => {}
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let row_groups = self.chunk.get_mut().planned.len();
        self.place.asked(row_groups, true);
    }
}
