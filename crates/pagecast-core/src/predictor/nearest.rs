//! Who comes to a page first: the search over all scans of its relation, and what its cell knows of
//! it.

use super::Predictor;
use super::cell::{self, Arrivals, Cell, Queue};
use super::pages::{Blocks, sooner};
use super::reader::Asked;
use super::records::bucket;
use crate::sync::atomic::{AtomicU64, Ordering::Acquire};
use crate::{PageId, Tick};

/// How many parts had arrived in a bucket when somebody looked (R4).
#[derive(Clone, Copy)]
struct Arrived {
    bucket: usize,
    count: u32,
}

impl<M: AsRef<[AtomicU64]>> Predictor<M> {
    /// Asks the scans in `queue`, first come first: the least estimate, and whether no other scan
    /// can be nearer or it is not beyond `bound`.
    #[inline]
    fn ask(&self, queue: &impl Arrivals, bound: Tick, asked: Asked) -> (Option<Tick>, bool) {
        let Asked { page, used, now } = asked;
        let mut nearest: Option<Tick> = None;
        for arrival in queue.arrivals() {
            if nearest.is_some_and(|nearest| nearest <= bound || queue.come_later(&arrival, nearest, now)) {
                return (nearest, true);
            }
            let part = self.layout().part(arrival.part);
            let estimate = part.and_then(|at| self.estimate(at, Blocks::of(page), used, now));
            nearest = sooner(nearest, estimate);
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
        self.follow(
            bucket,
            u32::MAX,
            || Queue::new(now),
            |queue, part, at| {
                if let Some(ticks) = self.estimate_at_least(at, blocks, now) {
                    queue.insert(part, ticks, now);
                }
            },
        )
    }

    /// Takes into `queue` the `count` parts that were the last to arrive at `arrived`; `None` if
    /// others have since (C1).
    fn catch_up(&self, (queue, count): (&Queue, u32), arrived: Arrived, page: PageId, now: Tick) -> Option<Queue> {
        let blocks = cell::blocks(page);
        let (queue, whole) = self.follow(
            arrived.bucket,
            count,
            || queue.clone(),
            |queue, part, at| {
                queue.remove(part);
                if let Some(ticks) = self.estimate_at_least(at, blocks, now) {
                    queue.insert(part, ticks, now);
                }
            },
        );
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
            Some((lying, 0)) => self.recall(&lying, bound, asked).filter(|_| lying.is_whole()),
            Some((lying, since)) => {
                let queue = lying.queue().and_then(|queue| self.catch_up((&queue, since), arrived, page, now));
                queue.and_then(|queue| {
                    cell.write(key, arrived.count, &queue);
                    self.recall(&queue, bound, asked)
                })
            }
            None => None,
        };
        known.unwrap_or_else(|| self.nearest_anew((cell, key), bound, asked, arrived))
    }

    /// What can be told from a `queue` that was built some time ago, if anything.
    #[inline]
    fn recall(&self, queue: &impl Arrivals, bound: Tick, asked: Asked) -> Option<Option<Tick>> {
        match self.ask(queue, bound, asked) {
            (Some(nearest), true) if nearest <= bound || queue.is_fresh(nearest, asked.now) => Some(Some(nearest)),
            // Only a new scan can want what none of all the scans wants any more.
            (None, true) => Some(None),
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
        match self.ask(&queue, bound, asked) {
            (nearest, true) => nearest,
            _ => self.nearest_of_all(arrived.bucket, bound, asked),
        }
    }

    /// The least estimate over all scans of the bucket.
    fn nearest_of_all(&self, bucket: usize, bound: Tick, Asked { page, used, now }: Asked) -> Option<Tick> {
        let visit = |nearest: &mut Option<Tick>, _, at| {
            if nearest.is_none_or(|nearest| nearest > bound) {
                *nearest = sooner(*nearest, self.estimate(at, Blocks::of(page), used, now));
            }
        };
        self.follow(bucket, u32::MAX, || None, visit).0
    }
}

impl<M> Predictor<M> {
    #[inline]
    fn arrival_check_left_out(&self) -> bool {
        #[cfg(pagecast_shuttle)]
        return crate::mistake::made(crate::mistake::Mistake::NoArrivalCheck);
        #[cfg(not(pagecast_shuttle))]
        false
    }
}
