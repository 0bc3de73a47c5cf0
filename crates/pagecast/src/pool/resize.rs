//! The pool's size, and the effort of its policy, while it is in use.
//!
//! A pool has address space, headers and a policy for as many frames as [`PoolOptions::max_memory`]
//! allows. Growing puts more of them into use. Shrinking takes free frames out of use, then those
//! of the pages that the policy gives up, and gives their memory to the system. The policy is told
//! the new size, so that what is a share of the pool follows.
//!
//! [`PoolOptions::max_memory`]: crate::PoolOptions::max_memory

use super::Pool;
use crate::PoolError;

/// What a change of size has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resized {
    /// Frames in use from now on.
    pub frames: u32,
    /// Frames that are in use beyond these, since pages are pinned, being filled or dirty at this
    /// moment. As many pages leave when their holders are done or they are written, and misses come
    /// by, or by the next [`Pool::resize`].
    pub held: u32,
}

impl Pool {
    /// Gives the pool `memory` bytes in all from now on, as
    /// [`PoolOptions::memory`](crate::PoolOptions::memory) counts them. Readers go on meanwhile.
    /// Shrinking costs a choice of the policy and a call of the system for each frame that goes out
    /// of use, growing a few instructions for each that comes in.
    ///
    /// # Errors
    ///
    /// Fewer bytes than one frame and what is known of the others take ([`PoolError::TooSmall`]),
    /// or more than [`PoolOptions::max_memory`](crate::PoolOptions::max_memory)
    /// ([`PoolError::AboveMaximum`]). The size stays.
    ///
    /// ```
    /// # use pagecast::{Pool, PoolOptions};
    /// let pool = Pool::new(PoolOptions::default().memory(4 << 20).max_memory(64 << 20))?;
    /// let before = pool.frames();
    /// pool.resize(32 << 20)?;
    /// assert!(pool.frames() > 7 * before && pool.memory().total <= 32 << 20);
    /// # Ok::<(), pagecast::PoolError>(())
    /// ```
    pub fn resize(&self, memory: u64) -> Result<Resized, PoolError> {
        let engine = &self.0;
        let maximum = engine.max_memory();
        if memory > maximum {
            return Err(PoolError::AboveMaximum { given: memory, maximum });
        }
        let frames = engine.plan.frames_within(memory)?;
        let _one_at_a_time = engine.resizing.lock();
        if frames < self.frames() {
            // Where changes are held, a slab cannot be taken away.
            let _ = engine.bring_changes(None);
        }
        engine.prefetch.resize(frames);
        let held = engine.cache.resize(frames, engine.now(), &engine.predictor);
        Ok(Resized { frames, held })
    }

    /// Gives memory that holds no page back to the system, and says how many bytes of frames that
    /// was: after a relation was replaced, say, or before a quiet night. The pool keeps its size
    /// and takes the memory again as pages come in.
    pub fn give_back_idle(&self) -> u64 {
        u64::from(self.0.cache.give_back()) * u64::from(self.page_size())
    }

    /// From now on a choice of victims looks at `samples` pages, from 1 to
    /// [`MAX_SAMPLES`](crate::policy::MAX_SAMPLES), what is outside being taken as the nearest
    /// inside: more for fewer misses, fewer for less work. Nobody waits for it. False, and nothing
    /// changes, if the policy cannot do so.
    ///
    /// ```
    /// # use pagecast::{Pool, PoolOptions, PolicySpec};
    /// let policy = PolicySpec::parse("pbm(samples=10,history=off)")?;
    /// let pool = Pool::new(PoolOptions::default().memory(4 << 20).policy(policy))?;
    /// assert!(pool.set_samples(40));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_samples(&self, samples: u32) -> bool {
        self.0.cache.set_samples(samples)
    }
}
