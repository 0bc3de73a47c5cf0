//! Pools, their files and what they counted.

use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use pagecast::{PolicySpec, Pool, PoolOptions, Relation};

use crate::pointers::{borrow, give, output, take, text};
use crate::status::{Failure, Status, answer};

/// A buffer pool.
pub struct PoolHandle(pub(crate) Pool);

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
    /// Bytes of a page: a multiple of 4096, at most 4 MiB.
    pub page_size: u32,
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
    /// How many pages the pool holds.
    pub frames: u32,
    /// How many frames are pinned now.
    pub pinned: u32,
}

/// 256 MiB in pages of 64 KiB, policy pbm.
#[unsafe(no_mangle)]
pub extern "C" fn pagecast_default_options() -> Options {
    let options = PoolOptions::default();
    Options { memory: options.memory, seed: options.seed, policy: std::ptr::null(), page_size: options.page_size }
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
        let mut wanted = PoolOptions::default();
        if let Some(given) = given {
            wanted.memory = given.memory;
            wanted.page_size = given.page_size;
            wanted.seed = given.seed;
            if !given.policy.is_null() {
                // SAFETY: (C3).
                let name = unsafe { text(given.policy, "policy") }?.to_string_lossy();
                wanted.policy = PolicySpec::parse(&name).map_err(|error| Failure::argument(error.to_string()))?;
            }
        }
        out.set(give(PoolHandle(Pool::new(wanted)?)));
        Ok(())
    })
}

/// Closes a pool. Refused with PAGECAST_STATUS_IN_USE, and then nothing happens, while a page of it is pinned. Its
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
        drop(unsafe { take(pool, "pool") }?);
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
