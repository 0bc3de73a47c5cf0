//! One budget for a session: what its pool and its statements take together.
//!
//! The pool has all of it at first. The heap is looked at between batches, before a row group is
//! read, and before a function makes much: what it takes, the pool gives up, by the choice of its
//! policy, down to a floor. What statements leave, it takes back, once they have needed less for a
//! while. A statement that asks for more than is left beside the floor ends, unless it holds next
//! to nothing itself.
//!
//! It is the heap that counts, since DataFusion's account of what its operators keep has gaps:
//! texts in an `array_agg`, what a function makes, batches on their way, both copies while a join
//! makes one batch of its side. That account has a limit too, two fifths lower: operators that
//! reach it go to disk ([`Budget::of_operators`]).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use datafusion::common::{DataFusionError, Result};
use pagecast::Pool;
use parking_lot::Mutex;

use crate::heap_unsafe;
use crate::held::Held;

/// Most bytes that one call of a function makes, or one batch of a join, whatever the budget is.
pub(crate) const LARGEST: u64 = 1 << 30;

/// The part of the budget that is left for what is neither heap nor pages: stacks, tables, and
/// what the allocator keeps of what was freed.
const REST: u64 = 12;
/// How much a statement that is at work may take beyond what one that reads may.
const BESIDE: u64 = 16 << 20;
/// What statements may take at least, however small the budget is.
const LEAST: u64 = 64 << 20;

/// The pool's floor, and at least [`SMALLEST_POOL`].
const FLOOR: u64 = 8;
const SMALLEST_POOL: u64 = 1 << 20;

/// The part of the heap that is for row groups on their way to be decoded.
const READS: u64 = 4;

/// A statement that holds no more than this part of the memory is not ended for what others hold.
const SMALL: u64 = 128;
/// The part of the heap that one plan may take while it is made.
const PLANS: u64 = 2;

/// The pool's size changes by this part of the budget at least.
const STEP: u64 = 64;
/// Milliseconds in which the heap is taken to need a step less than it did, if it does.
const EASING: u64 = 50;

/// What the allocator may keep of what was freed, beside [`REST`].
const KEPT: u64 = 32 << 20;
/// Milliseconds between two looks at that.
const TRIMS: u64 = 100;

/// What a session may take; without a limit for all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    total: u64,
    pool: Pool,
    /// The pool's bytes at first, and now.
    most: u64,
    pool_bytes: AtomicU64,
    /// Held by who changes it: the fewest since the allocator gave back last.
    least: Mutex<u64>,
    /// The heap when the session began.
    before: u64,
    /// What the heap is taken to need, and when that was looked at last, in milliseconds.
    expected: AtomicU64,
    looked: AtomicU64,
    /// When it was looked at what the allocator keeps, and what was left then that it does not:
    /// a program's own, and results that it was handed.
    trimmed: AtomicU64,
    others: AtomicU64,
    started: Instant,
}

impl Budget {
    /// From now on `total` bytes, of which the pool has its size at first.
    pub(crate) fn new(total: u64, pool: Pool) -> Self {
        let most = pool.memory().total.min(total);
        heap_unsafe::keep_freed(total / REST / 2);
        Self(Some(Arc::new(Shared {
            total,
            pool,
            most,
            pool_bytes: AtomicU64::new(most),
            least: Mutex::new(most),
            before: heap_unsafe::in_use(),
            expected: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            trimmed: AtomicU64::new(0),
            others: AtomicU64::new(0),
            started: Instant::now(),
        })))
    }

    /// Most bytes that DataFusion's operators may account for.
    pub(crate) fn of_operators(total: u64) -> u64 {
        heap_of(total) / 5 * 3
    }

    /// Bytes that may be made at once.
    pub(crate) fn at_once(&self) -> u64 {
        self.heap().map_or(LARGEST, |most| most.min(LARGEST))
    }

    /// Most bytes of the heap.
    fn heap(&self) -> Option<u64> {
        self.0.as_ref().map(|shared| heap_of(shared.total))
    }

    /// Bytes of the heap that the session has taken; none without a limit.
    pub(crate) fn taken(&self) -> u64 {
        self.0.as_ref().map_or(0, |shared| shared.taken())
    }

    /// Whether the statement would still hold next to nothing with so many bytes more.
    pub(crate) fn is_small(&self, more: u64) -> bool {
        let own = Held::current().map_or(0, |held| held.bytes() as u64);
        self.heap().is_none_or(|most| own.saturating_add(more) <= most / SMALL)
    }

    /// Whether `more` bytes fit in beside what others hold, and what they become.
    pub(crate) fn has_room(&self, more: u64) -> bool {
        let Some(shared) = &self.0 else { return true };
        let own = Held::current().map_or(0, |held| held.bytes() as u64);
        let (taken, most) = (shared.taken(), heap_of(shared.total));
        taken.saturating_sub(own).saturating_add(more) <= most - left_to_decode(most)
    }

    /// Whether `more` bytes leave room on the heap for what is read and decoded.
    pub(crate) fn is_free(&self, more: u64) -> bool {
        let Some(shared) = &self.0 else { return true };
        let most = heap_of(shared.total);
        shared.taken().saturating_add(more) <= most - BESIDE - left_to_decode(most)
    }

    /// Bytes that are left for what row groups become while they are decoded.
    pub(crate) fn left_to_decode(&self) -> u64 {
        self.heap().map_or(u64::MAX, left_to_decode)
    }

    /// Most bytes of row groups that are read and not decoded yet.
    pub(crate) fn of_reads(&self) -> u64 {
        self.heap().map_or(u64::MAX, |most| most / READS)
    }

    /// Fails if the plan of a statement takes more than its part, whatever others hold.
    pub(crate) fn check_plan(&self) -> Result<()> {
        let (own, most) = (Held::bytes_of_current(), self.heap().map_or(u64::MAX, |most| most / PLANS));
        match own > most {
            true => Err(over_alone(format!(
                "to plan the statement took {own} bytes, and with the memory there is (--memory) it may take {most}"
            ))),
            false => Ok(()),
        }
    }

    /// Fails if with `more` bytes the heap would be larger than it may.
    pub(crate) fn check(&self, more: u64, who: &str) -> Result<()> {
        let Some(shared) = &self.0 else { return Ok(()) };
        let taken = shared.taken();
        if Held::current().is_none() || !self.is_small(more) {
            shared.check(heap_of(shared.total), (taken, more), who)?;
        }
        shared.share_out(taken.saturating_add(more));
        Ok(())
    }

    /// The same for what is read: a part is left to who is at work already.
    pub(crate) fn check_read(&self, more: u64) -> Result<()> {
        let Some(shared) = &self.0 else { return Ok(()) };
        let taken = shared.taken();
        if !self.is_small(more) {
            shared.check(heap_of(shared.total) - BESIDE, (taken, more), "reading a row group")?;
        }
        shared.share_out(taken.saturating_add(more));
        Ok(())
    }

    /// Has the pool give way to operators that account for so many bytes: some are at work for long
    /// after the last batch has entered their plan.
    pub(crate) fn make_room(&self, accounted: u64) {
        if let Some(shared) = &self.0 {
            shared.share_out(shared.taken().max(accounted));
        }
    }
}

/// The pool's floor in a budget.
fn floor(total: u64) -> u64 {
    (total / FLOOR).max(SMALLEST_POOL).min(total)
}

/// What is left for row groups that are larger once they are decoded.
fn left_to_decode(most: u64) -> u64 {
    (most / 8).min(LEAST)
}

/// Most bytes of the heap in a budget.
fn heap_of(total: u64) -> u64 {
    (total - floor(total)).max(LEAST) + BESIDE
}

impl Shared {
    /// Bytes of the heap that the session has taken.
    fn taken(&self) -> u64 {
        heap_unsafe::in_use().saturating_sub(self.before)
    }

    /// Has the allocator give back what was freed if it keeps more than it may. Where many
    /// statements run, each leaves holes between the blocks of others.
    fn trim(self: &Arc<Self>) {
        let (now, before) = (self.started.elapsed().as_millis() as u64, self.trimmed.load(Relaxed));
        if now < before + TRIMS || self.trimmed.swap(now, Relaxed) != before {
            return;
        }
        let kept = self.kept();
        let others = self.others.fetch_min(kept, Relaxed).min(kept);
        if kept - others > self.total / REST + KEPT {
            let shared = Arc::clone(self);
            let trim = move || {
                heap_unsafe::give_back();
                shared.others.store(shared.kept(), Relaxed);
            };
            // Nobody has to wait for it. Without a thread it is done next time.
            let _ = std::thread::Builder::new().name("pagecast-trim".to_owned()).spawn(trim);
        }
    }

    /// Bytes of the process that are neither in use on the heap nor the pool's.
    fn kept(&self) -> u64 {
        heap_unsafe::resident().saturating_sub(heap_unsafe::in_use() + self.pool_bytes.load(Relaxed))
    }

    /// Gives the pool what the heap leaves.
    fn share_out(self: &Arc<Self>, heap: u64) {
        self.trim();
        let floor = floor(self.total).min(self.most);
        let left = (self.total - self.total / REST).saturating_sub(self.expect(heap)).clamp(floor, self.most);
        let (now, step) = (self.pool_bytes.load(Relaxed), self.total / STEP);
        if (now..now + step).contains(&left) {
            return;
        }
        let Some(mut least) = self.least.try_lock() else { return };
        // A step less than that, so that the next batches find room.
        let bytes = if left < now { left.saturating_sub(step).max(floor) } else { left };
        if self.pool.resize(bytes).is_ok() {
            self.pool_bytes.store(bytes, Relaxed);
        }
        *least = bytes.min(*least);
        if bytes >= *least + 3 * step {
            *least = bytes;
            // The allocator keeps what statements have freed.
            heap_unsafe::give_back();
        }
    }

    /// What the heap is taken to need: what it has, or had of late. Races lose a step.
    fn expect(&self, heap: u64) -> u64 {
        let before = self.expected.fetch_max(heap, Relaxed);
        let (now, looked) = (self.started.elapsed().as_millis() as u64, self.looked.load(Relaxed));
        let steps = now.saturating_sub(looked) / EASING;
        if heap >= before || steps == 0 || self.looked.swap(now, Relaxed) != looked {
            return heap.max(before);
        }
        let eased = heap.max(before.saturating_sub(steps.saturating_mul(self.total / STEP)));
        self.expected.store(eased, Relaxed);
        eased
    }

    fn check(&self, most: u64, (taken, more): (u64, u64), who: &str) -> Result<()> {
        match taken.saturating_add(more) <= most {
            true => Ok(()),
            false => Err(self.exceeded(most, taken, more, who)),
        }
    }

    #[cold]
    fn exceeded(&self, most: u64, taken: u64, more: u64, who: &str) -> DataFusionError {
        let more = if more == 0 { String::new() } else { format!(", and {who} would make {more}") };
        over(format!("statements take {taken} bytes of memory{more}; of {} in all they may have {most}", self.total))
    }
}

/// A statement that takes too much. It is no `ResourcesExhausted` of DataFusion's, whose operators
/// would begin anew with less.
#[derive(Debug)]
pub struct OverBudget {
    what: String,
    /// Whether it may fit when others have ended.
    may_pass: bool,
}

impl OverBudget {
    fn may_pass(&self) -> bool {
        self.may_pass
    }
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resources exhausted: {}", self.what)
    }
}

impl std::error::Error for OverBudget {}

/// Whether a statement ended for want of memory that it may find another time, or with other nodes.
pub(crate) fn is_want_of_memory(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => true,
        DataFusionError::External(error) => error.downcast_ref().is_some_and(OverBudget::may_pass),
        _ => false,
    }
}

/// The error that ends such a statement.
pub(crate) fn over(what: String) -> DataFusionError {
    DataFusionError::External(Box::new(OverBudget { what, may_pass: true }))
}

/// The same of one that is over it by itself, whatever others hold.
pub(crate) fn over_alone(what: String) -> DataFusionError {
    DataFusionError::External(Box::new(OverBudget { what, may_pass: false }))
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pagecast::PoolOptions;

    /// A budget, and a small pool in it.
    pub(crate) fn budget(total: u64) -> Budget {
        Budget::new(total, Pool::new(PoolOptions::default().memory(total.min(64 << 20))).unwrap())
    }

    #[test]
    fn the_pool_gives_way_and_comes_back() {
        let pool = Pool::new(PoolOptions::default().memory(64 << 20)).unwrap();
        let (size, total) = (|| pool.memory().total, pool.memory().total);
        let Budget(Some(shared)) = Budget::new(total, pool.clone()) else { panic!("it has a limit") };
        shared.share_out(0);
        let first = size();
        assert!(first > total * 9 / 10 && first < total, "{first} of {total}");
        shared.share_out(total / 256);
        assert!(size() > total * 9 / 10, "a small change is none");
        shared.share_out(total / 2);
        assert!(size() <= total / 2 && size() > total / 3, "{} of {total}", size());
        shared.share_out(total);
        assert!(size() <= floor(total) && size() > floor(total) / 2, "{} of {total}", size());
        let begun = Instant::now();
        while size() < total / 2 {
            assert!(begun.elapsed().as_secs() < 60, "it does not come back");
            shared.share_out(0);
        }
        assert!(begun.elapsed().as_millis() as u64 >= EASING, "it came back at once");
    }
}
