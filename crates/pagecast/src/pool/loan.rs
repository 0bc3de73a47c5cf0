//! Memory of a pool that its host has for something else: columns that were decoded, say.
//!
//! A loan takes frames out of use and gives their memory to the system, as
//! [`Pool::resize`] does, and puts them into use again when it is paid back. So what a pool and its
//! borrowers have together never is more than the pool was given.

use std::fmt;
use std::sync::Arc;

use super::Pool;
use crate::engine::{Engine, Memory};

/// So much of a pool's frames is never lent: one part in these.
const KEPT: u64 = 4;

/// Memory that is lent; what is left of it goes back when this is dropped.
///
/// ```
/// # use pagecast::{Pool, PoolOptions};
/// let pool = Pool::new(PoolOptions::default().memory(64 << 20))?;
/// let before = pool.frames();
/// let mut loan = pool.lend();
/// assert!(loan.resize(16 << 20));
/// assert_eq!(pool.frames(), before - 256); // of 64 KiB
/// assert!(!loan.resize(60 << 20), "a pool keeps a quarter");
/// drop(loan);
/// assert_eq!(pool.frames(), before);
/// # Ok::<(), pagecast::PoolError>(())
/// ```
pub struct Loan {
    engine: Arc<Engine>,
    bytes: u64,
}

impl Pool {
    /// A loan of nothing yet.
    pub fn lend(&self) -> Loan {
        Loan { engine: Arc::clone(&self.0), bytes: 0 }
    }
}

impl Loan {
    /// Bytes that are lent.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes it a loan of so many bytes. The pages of frames that go out of use are given up,
    /// whichever they are. `false`, and nothing changes, if the pool has to keep them.
    pub fn resize(&mut self, bytes: u64) -> bool {
        let mut memory = self.engine.resizing.lock();
        let Memory { given, lent } = *memory;
        let after = lent - self.bytes + bytes;
        if bytes > self.bytes && after > given - given / KEPT {
            return false;
        }
        let Ok(frames) = self.engine.plan.frames_within(given - after) else { return false };
        memory.lent = after;
        self.engine.use_frames(frames);
        self.bytes = bytes;
        true
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        // The pool holds more with less lent.
        self.resize(0);
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
