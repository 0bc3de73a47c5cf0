//! Who comes to a page first: the search over all scans of its relation, and what its cell knows of
//! it.

use super::Predictor;
use super::cell::{self, Arrival, Arrivals, Cell, Queue};
use super::pages::{self, Blocks, sooner};
use super::reader::Asked;
use super::records::{PART_WORDS, RUNS, bucket, part};
use super::scan::Scan;
use super::way::Way;
use super::words::split;
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use crate::{PageId, RelationId, ScanId, Tick};

/// How many parts had arrived in a bucket when somebody looked (R4).
#[derive(Clone, Copy)]
struct Arrived {
    bucket: usize,
    count: u32,
}

impl<M: AsRef<[AtomicU64]>> Predictor<M> {
    /// What [`estimate`](Self::estimate) says of the part that arrives, without a search if its way
    /// through the cell is known. The way counts while `arrived` parts have (C3).
    #[inline]
    fn estimate_by_way(&self, arrival: &Arrival, asked: Asked, arrived: Arrived) -> Option<Tick> {
        let at = self.layout().part(arrival.part)?;
        let Asked { page, used, now, visits } = asked;
        if arrival.way == Way::Unknown {
            return self.estimate(at, Blocks::of(page), used, now, visits);
        }
        let (scan, relation) = self.owner(at)?;
        if self.arrived(arrived.bucket) != arrived.count && !self.way_check_left_out() {
            return self.estimate(at, Blocks::of(page), used, now, visits);
        }
        let position = scan.position();
        let target = match arrival.way {
            Way::Runs { highest, .. } if highest < position => None,
            Way::Runs { at, count, .. } => pages::find_in_last_runs(self.words(), (at, count), page.block(), position),
            way => way.position_of(cell::place(page)).filter(|&target| target >= position),
        }?;
        let ticks = scan.ticks_until(target, now);
        let wanted = ticks > 0 || !scan.has_used(target, used, now);
        (wanted && relation == page.relation() && scan.unchanged()).then_some(ticks)
    }

    /// The scan of the part at `at`, and the relation that the part is of while the scan is
    /// unchanged.
    #[inline]
    fn owner(&self, at: usize) -> Option<(Scan<'_>, RelationId)> {
        let record = self.words().record::<PART_WORDS>(at)?;
        let (slot, generation) = split(record[part::OWNER].load(Relaxed));
        let scan = self.open(ScanId { slot, generation })?;
        let (relation, _) = split(record[part::RELATION_FORM].load(Relaxed));
        Some((scan, RelationId(relation)))
    }

    /// How the scan of `part` goes through `cell`. Of a scan that reads bits or only roughly in
    /// order, only a search tells.
    fn way(&self, part: u32, cell: Blocks) -> Option<Way> {
        let at = self.layout().part(part)?;
        let (scan, _) = self.owner(at)?;
        let place = self.place(at, cell).filter(|place| place.form == RUNS)?;
        let way = pages::way_in_runs(self.words(), place.stretch, place.origin, cell);
        scan.unchanged().then_some(way)
    }

    /// Asks the scans in `queue`, first come first: the least estimate, and whether no other scan
    /// can be nearer or it is not beyond `bound`.
    #[inline]
    fn ask(&self, queue: &impl Arrivals, bound: Tick, asked: Asked, arrived: Arrived) -> (Option<Tick>, bool) {
        let mut nearest: Option<Tick> = None;
        for arrival in queue.arrivals() {
            if nearest.is_some_and(|nearest| nearest <= bound || queue.come_later(&arrival, nearest, asked.now)) {
                return (nearest, true);
            }
            nearest = sooner(nearest, self.estimate_by_way(&arrival, asked, arrived));
        }
        (nearest, !queue.leaves_out() || nearest.is_some_and(|nearest| nearest <= bound))
    }

    /// How many parts have arrived in the bucket (R4).
    #[inline]
    fn arrived(&self, bucket: usize) -> u32 {
        // Acquire: pairs with the registry's Release; all scans that were counted as live are seen
        // to be.
        self.words().load(bucket + bucket::ARRIVED, Acquire) as u32
    }

    /// The queue of the cell of `page`, from all scans of the bucket; whether none was missed.
    fn gather(&self, bucket: usize, page: PageId, now: Tick) -> (Queue, bool) {
        let blocks = cell::blocks(page);
        let (mut queue, whole) = self.follow(
            bucket,
            u32::MAX,
            || Queue::new(now),
            |queue, part, at| {
                if let Some(ticks) = self.estimate(at, blocks, 0, now, None) {
                    queue.insert(part, ticks, now);
                }
            },
        );
        queue.find_ways(|part| self.way(part, blocks).unwrap_or(Way::Unknown));
        (queue, whole)
    }

    /// Takes into `queue` the `count` parts that were the last to arrive at `arrived`; `None` if
    /// others have since (C1).
    fn catch_up(&self, (queue, count): (&Queue, u32), arrived: Arrived, page: PageId, now: Tick) -> Option<Queue> {
        let blocks = cell::blocks(page);
        let (mut queue, whole) = self.follow(
            arrived.bucket,
            count,
            || queue.clone(),
            |queue, part, at| {
                queue.remove(part);
                if let Some(ticks) = self.estimate(at, blocks, 0, now, None) {
                    queue.insert(part, ticks, now);
                }
            },
        );
        queue.find_ways(|part| self.way(part, blocks).unwrap_or(Way::Unknown));
        // A part that was linked meanwhile has put another one off the first `count` (R4).
        (whole && (self.arrived(arrived.bucket) == arrived.count || self.arrival_check_left_out())).then_some(queue)
    }

    /// The least estimate over the scans that have registered `page`.
    #[inline]
    pub(super) fn nearest(&self, bound: Tick, asked: Asked) -> Option<Tick> {
        let Asked { page, now, .. } = asked;
        let bucket = self.layout().bucket(page.relation());
        let key = cell::key(page);
        let Some(at) = self.layout().cell(key) else { return self.nearest_of_all(bucket, bound, asked) };
        let cell = Cell { words: self.words(), at };
        let arrived = Arrived { bucket, count: self.arrived(bucket) };
        let known = match cell.read(key, arrived.count) {
            Some((lying, 0)) => self.recall(&lying, bound, asked, arrived).filter(|_| lying.is_whole()),
            Some((lying, since)) => {
                let queue = lying.queue().and_then(|queue| self.catch_up((&queue, since), arrived, page, now));
                queue.and_then(|queue| {
                    cell.write(key, arrived.count, &queue);
                    self.recall(&queue, bound, asked, arrived)
                })
            }
            None => None,
        };
        known.unwrap_or_else(|| self.nearest_anew((cell, key), bound, asked, arrived))
    }

    /// What can be told from a `queue` that was built some time ago, if anything.
    #[inline]
    fn recall(&self, queue: &impl Arrivals, bound: Tick, asked: Asked, arrived: Arrived) -> Option<Option<Tick>> {
        match self.ask(queue, bound, asked, arrived) {
            (Some(nearest), true) if nearest <= bound || queue.is_fresh(nearest, asked.now) => Some(Some(nearest)),
            // Only a new scan can want what none of all the scans wants any more.
            (None, true) => Some(None),
            // Windows begin long before the visits that matter, so that many scans may be first.
            _ if asked.visits.is_some() && queue.is_fresh(bound, asked.now) => {
                Some(self.nearest_of_all(arrived.bucket, bound, asked))
            }
            _ => None,
        }
    }

    /// As [`nearest`](Self::nearest), from all scans of the bucket; who comes first is left in the
    /// cell.
    fn nearest_anew(&self, (cell, key): (Cell<'_>, u64), bound: Tick, asked: Asked, arrived: Arrived) -> Option<Tick> {
        let (queue, whole) = self.gather(arrived.bucket, asked.page, asked.now);
        if whole {
            cell.write(key, arrived.count, &queue);
        }
        match self.ask(&queue, bound, asked, arrived) {
            (nearest, true) => nearest,
            _ => self.nearest_of_all(arrived.bucket, bound, asked),
        }
    }

    /// The least estimate over all scans of the bucket.
    fn nearest_of_all(&self, bucket: usize, bound: Tick, Asked { page, used, now, visits }: Asked) -> Option<Tick> {
        let visit = |nearest: &mut Option<Tick>, _, at| {
            if nearest.is_none_or(|nearest| nearest > bound) {
                *nearest = sooner(*nearest, self.estimate(at, Blocks::of(page), used, now, visits));
            }
        };
        self.follow(bucket, u32::MAX, || None, visit).0
    }
}

impl<M> Predictor<M> {
    #[inline]
    fn arrival_check_left_out(&self) -> bool {
        #[cfg(pagecast_shuttle)]
        return super::mistake::made(super::mistake::Mistake::NoArrivalCheck);
        #[cfg(not(pagecast_shuttle))]
        false
    }

    #[inline]
    fn way_check_left_out(&self) -> bool {
        #[cfg(pagecast_shuttle)]
        return super::mistake::made(super::mistake::Mistake::StaleWay);
        #[cfg(not(pagecast_shuttle))]
        false
    }
}
