//! Pools, their files and what they counted.

use std::ffi::{OsStr, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use pagecast::{Log, Lsn, PolicySpec, Pool, PoolOptions, Relation};

use crate::pointers::{borrow, give, output, take, text};
use crate::status::{Failure, Status, answer};

/// A buffer pool.
pub struct PoolHandle(pub(crate) Pool, Option<Arc<CLog>>);

/// An open file.
pub struct RelationHandle(pub(crate) Arc<Relation>);

/// How to make a pool. Start from pagecast_default_options().
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes for everything: pages and what is known of them.
    pub memory: u64,
    /// Seed of what the policy leaves to chance.
    pub seed: u64,
    /// Who leaves, by name: "pbm", "lru", "clock(max=3)". Null: pbm.
    pub policy: *const c_char,
    /// The most bytes that pagecast_pool_resize may give it later; 0 for no more than `memory`.
    pub max_memory: u64,
    /// The log that must be durable before a page is written; null for none.
    pub flush_log: FlushLog,
    /// Handed to `flush_log`.
    pub log_context: *mut c_void,
    /// Bytes of a page: a multiple of 4096, at most 4 MiB.
    pub page_size: u32,
}

/// Makes the log durable up to record `lsn`, writes to `durable` up to which record it is, and returns 0; or returns
/// another number, and the pages that wait for the record stay in the pool. Called from pagecast's threads, several at
/// once.
pub type FlushLog = Option<unsafe extern "C" fn(context: *mut c_void, lsn: u64, durable: *mut u64) -> c_int>;

/// A log in C.
struct CLog {
    flush: unsafe extern "C" fn(*mut c_void, u64, *mut u64) -> c_int,
    context: *mut c_void,
    /// Set when the pool is closed, after which C may have given up what the function needs. Held to be read while the
    /// function runs.
    closed: RwLock<bool>,
}

// SAFETY: (C5): the function may be called from any thread.
unsafe impl Send for CLog {}
// SAFETY: (C5): and by several at once.
unsafe impl Sync for CLog {}

impl Log for CLog {
    fn flush_to(&self, lsn: Lsn) -> io::Result<Lsn> {
        let closed = self.closed.read().unwrap_or_else(PoisonError::into_inner);
        if *closed {
            return Err(io::Error::other("the pool was closed"));
        }
        let mut durable = 0;
        // SAFETY: (C5): the pool is not closed before the call returns; `durable` lives until the call returns.
        match unsafe { (self.flush)(self.context, lsn.0, &raw mut durable) } {
            0 => Ok(Lsn(durable)),
            failure => Err(io::Error::other(format!("the log's own function returned {failure}"))),
        }
    }
}

/// What a pool has done since it was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// Requests for a page.
    pub requests: u64,
    /// Requests that found it resident.
    pub hits: u64,
    /// Requests that found it on its way.
    pub waits: u64,
    /// Bytes that pagecast_read was asked for.
    pub bytes_requested: u64,
    /// Bytes that came from storage.
    pub bytes_read: u64,
    /// Bytes of those that went past the pool, because no frame was free.
    pub bypassed_bytes: u64,
    /// Pages that were loaded.
    pub loads: u64,
    /// Loads that failed.
    pub failed_loads: u64,
    /// Pages that left their frame for another.
    pub evictions: u64,
    /// Dirty pages that were written.
    pub pages_written: u64,
    /// Writes that failed.
    pub failed_writes: u64,
    /// How many pages the pool holds.
    pub frames: u32,
    /// How many frames are pinned now.
    pub pinned: u32,
}

/// 256 MiB in pages of 64 KiB, policy pbm.
#[unsafe(no_mangle)]
pub extern "C" fn pagecast_default_options() -> Options {
    let options = PoolOptions::default();
    Options {
        memory: options.memory,
        seed: options.seed,
        policy: std::ptr::null(),
        max_memory: 0,
        flush_log: None,
        log_context: std::ptr::null_mut(),
        page_size: options.page_size,
    }
}

/// Makes a pool over the local file system. Null options are the default ones.
///
/// # Safety
///
/// (C2), (C3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_pool_open(options: *const Options, pool: *mut *mut PoolHandle) -> Status {
    answer(|| {
        // SAFETY: (C2).
        let out = unsafe { output(pool, "pool") }?;
        // SAFETY: (C2): null or options of C's, which this call only reads.
        let given = unsafe { crate::pointers::borrow_if_any(options) };
        let (mut wanted, mut log) = (PoolOptions::default(), None);
        if let Some(given) = given {
            wanted.memory = given.memory;
            wanted.page_size = given.page_size;
            wanted.seed = given.seed;
            wanted.max_memory = (given.max_memory > 0).then_some(given.max_memory);
            let closed = RwLock::new(false);
            log = given.flush_log.map(|flush| Arc::new(CLog { flush, context: given.log_context, closed }));
            wanted.log = log.clone().map(|log| log as Arc<dyn Log>);
            if !given.policy.is_null() {
                // SAFETY: (C3).
                let name = unsafe { text(given.policy, "policy") }?.to_string_lossy();
                wanted.policy = PolicySpec::parse(&name).map_err(|error| Failure::argument(error.to_string()))?;
            }
        }
        out.set(give(PoolHandle(Pool::new(wanted)?, log)));
        Ok(())
    })
}

/// Closes a pool. What was changed and not flushed is left to the log. Refused with PAGECAST_STATUS_IN_USE, and then nothing happens, while a page of it is pinned. Its
/// relations and scans are closed by their own calls, before or after.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_pool_close(pool: *mut PoolHandle) -> Status {
    answer(|| {
        // SAFETY: (C1); the borrow ends with this statement.
        let pinned = unsafe { borrow(pool, "pool") }?.0.pinned();
        if pinned > 0 {
            return Err(Failure::new(Status::InUse, format!("{pinned} frames are still pinned; unpin them first")));
        }
        // SAFETY: (C1); no pin is left that borrows the pool.
        let PoolHandle(pool, log) = *unsafe { take(pool, "pool") }?;
        drop(pool);
        if let Some(log) = log {
            *log.closed.write().unwrap_or_else(PoisonError::into_inner) = true;
        }
        Ok(())
    })
}

/// Gives the pool `memory` bytes in all from now on, at most what `max_memory` said, and writes to `frames` how many pages
/// that is. Readers go on meanwhile.
///
/// # Safety
///
/// (C1), (C2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_pool_resize(pool: *const PoolHandle, memory: u64, frames: *mut u32) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let pool = &unsafe { borrow(pool, "pool") }?.0;
        // SAFETY: (C2).
        let out = unsafe { output(frames, "frames") }?;
        out.set(pool.resize(memory)?.frames);
        Ok(())
    })
}

/// What the pool has done so far.
///
/// # Safety
///
/// (C1), (C2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_pool_stats(pool: *const PoolHandle, stats: *mut Stats) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let pool = &unsafe { borrow(pool, "pool") }?.0;
        // SAFETY: (C2).
        let out = unsafe { output(stats, "stats") }?;
        let counted = pool.stats();
        out.set(Stats {
            requests: counted.requests,
            hits: counted.hits,
            waits: counted.waits,
            bytes_requested: counted.bytes_requested,
            bytes_read: counted.bytes_read,
            bypassed_bytes: counted.bypassed_bytes,
            loads: counted.loads,
            failed_loads: counted.failed_loads,
            evictions: counted.evictions,
            pages_written: counted.pages_written,
            failed_writes: counted.failed_writes,
            frames: pool.frames(),
            pinned: pool.pinned(),
        });
        Ok(())
    })
}

/// Opens a file as it is now. If it changes later, reads fail with PAGECAST_STATUS_CHANGED.
///
/// # Safety
///
/// (C1), (C2), (C3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_relation_open(
    pool: *const PoolHandle,
    path: *const c_char,
    relation: *mut *mut RelationHandle,
) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let pool = &unsafe { borrow(pool, "pool") }?.0;
        // SAFETY: (C3).
        let path = unsafe { text(path, "path") }?;
        // SAFETY: (C2).
        let out = unsafe { output(relation, "relation") }?;
        let opened = pool.open(Path::new(OsStr::from_bytes(path.to_bytes())))?;
        out.set(give(RelationHandle(opened)));
        Ok(())
    })
}

/// Gives the handle of a file back. Its pages stay in the pool.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_relation_close(relation: *mut RelationHandle) -> Status {
    answer(|| {
        // SAFETY: (C1).
        drop(unsafe { take(relation, "relation") }?);
        Ok(())
    })
}

/// Bytes of the file; 0 for null.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_relation_length(relation: *const RelationHandle) -> u64 {
    // SAFETY: (C1).
    unsafe { crate::pointers::borrow_if_any(relation) }.map_or(0, |relation| relation.0.len())
}

/// Pages of the file; 0 for null.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_relation_pages(relation: *const RelationHandle) -> u32 {
    // SAFETY: (C1).
    unsafe { crate::pointers::borrow_if_any(relation) }.map_or(0, |relation| relation.0.pages())
}
