//! Memory that clients hold while nothing runs for them: portals that are suspended, rows that are
//! not read, prepared statements, large messages on their way.
//!
//! All of it counts against the memory of all and of the user, and it has a part of that alone: all
//! clients may keep half, and one user a quarter. So what is left lying keeps nobody from running
//! statements. Without `--memory` there is no limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

use super::problem::Problem;

/// As long as all clients keep no more than this part of what they may, what they keep is counted
/// and never refused: a small statement goes on beside one that has taken all there is.
const LITTLE: usize = 8;

/// What may be kept of some memory.
#[derive(Debug)]
pub(super) struct Part {
    most: usize,
    kept: AtomicUsize,
}

impl Part {
    fn of(most: usize) -> Arc<Self> {
        Arc::new(Self { most, kept: AtomicUsize::new(0) })
    }

    /// Half of a memory, for all.
    pub(super) fn of_all(pool: &dyn MemoryPool) -> Arc<Self> {
        Self::of(limit(pool) / 2)
    }

    fn take(&self, bytes: usize) -> bool {
        let more = |kept: usize| kept.checked_add(bytes).filter(|kept| *kept <= self.most);
        self.kept.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.kept.fetch_sub(bytes, Relaxed);
    }
}

fn limit(pool: &dyn MemoryPool) -> usize {
    match pool.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes,
        MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
    }
}

/// Where what a user's clients keep is counted.
#[derive(Debug)]
pub(super) struct Keeper {
    own: Arc<Part>,
    all: Arc<Part>,
    pool: Arc<dyn MemoryPool>,
}

impl Keeper {
    /// Of a user with a memory of its own, perhaps, under what all may keep.
    pub(super) fn new(all: &Arc<Part>, pool: &Arc<dyn MemoryPool>) -> Self {
        let own = Part::of((all.most / 2).min(limit(pool.as_ref()) / 2));
        Self { own, all: Arc::clone(all), pool: Arc::clone(pool) }
    }

    /// Counts nothing yet.
    pub(super) fn nothing(self: &Arc<Self>) -> Kept {
        let reservation = MemoryConsumer::new("kept for a client").register(&self.pool);
        Kept { bytes: 0, keeper: Arc::clone(self), reservation }
    }

    /// Counts so many bytes of something, as long as that is held.
    pub(super) fn keep(self: &Arc<Self>, bytes: usize, what: &str) -> Result<Kept, Problem> {
        let mut kept = self.nothing();
        kept.grow(bytes, what)?;
        Ok(kept)
    }
}

/// Bytes that are counted.
#[derive(Debug)]
pub(super) struct Kept {
    bytes: usize,
    keeper: Arc<Keeper>,
    reservation: MemoryReservation,
}

impl Kept {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts more.
    pub(super) fn grow(&mut self, bytes: usize, what: &str) -> Result<(), Problem> {
        let Keeper { own, all, .. } = self.keeper.as_ref();
        let refused = |part: &Part, whose: &str| {
            let (kept, most) = (part.kept.load(Relaxed), part.most);
            let what = format!(
                "{what} would keep {bytes} bytes, and {kept} are kept for {whose} already; the limit is {most}, a part \
                 of --memory: read what is asked for, and close what is not read"
            );
            Problem::error("53200", what)
        };
        if !own.take(bytes) {
            return Err(refused(own, "this user"));
        }
        if !all.take(bytes) {
            own.give_back(bytes);
            return Err(refused(all, "all users"));
        }
        if all.kept.load(Relaxed) <= all.most / LITTLE {
            self.reservation.grow(bytes);
        } else if let Err(error) = self.reservation.try_grow(bytes) {
            own.give_back(bytes);
            all.give_back(bytes);
            return Err(Problem { message: format!("{what}: {}", Problem::of(&error).message), ..Problem::of(&error) });
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.keeper.own.give_back(self.bytes);
        self.keeper.all.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    #[test]
    fn a_user_keeps_a_quarter_and_all_keep_half() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
        let all = Part::of_all(pool.as_ref());
        let users: Vec<_> = (0..3).map(|_| Arc::new(Keeper::new(&all, &pool))).collect();
        let first = users[0].keep(250, "a portal").unwrap();
        let refused = users[0].keep(1, "a portal").unwrap_err();
        assert_eq!(refused.code, "53200");
        assert!(refused.message.contains("kept for this user"), "{}", refused.message);
        let second = users[1].keep(250, "a portal").unwrap();
        assert!(users[2].keep(1, "a portal").unwrap_err().message.contains("kept for all users"));
        assert_eq!(pool.reserved(), 500);
        drop((first, second));
        assert_eq!(pool.reserved(), 0);
        assert!(users[2].keep(250, "a portal").is_ok());
    }
}
