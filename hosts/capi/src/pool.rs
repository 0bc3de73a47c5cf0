//! Pools, their size and what they counted.

use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use pagecast::{Log, Lsn, PolicySpec, Pool, PoolOptions, PrefetchOptions, TupleOptions};

use crate::layout::CLayout;
use crate::pointers::{borrow, borrow_if_any, give, give_text, output, take, take_text, text};
use crate::status::{Failure, Status, answer, c_text};

/// A buffer pool.
pub struct PoolHandle {
    pub(crate) pool: Pool,
    log: Option<Arc<CLog>>,
    /// Sessions that are open, each of which borrows the pool.
    sessions: AtomicU32,
    /// Layouts in C.
    layouts: Mutex<Vec<Arc<CLayout>>>,
}

impl PoolHandle {
    /// Remembers functions that are not to be called after the pool's close.
    pub(crate) fn add_layout(&self, layout: Arc<CLayout>) {
        self.layouts.lock().unwrap_or_else(PoisonError::into_inner).push(layout);
    }

    /// Counts a session that is opened. Who closes it counts down.
    pub(crate) fn enter_session(&self) -> &AtomicU32 {
        // Relaxed: no call that opens one runs beside the pool's close (C1).
        self.sessions.fetch_add(1, Relaxed);
        &self.sessions
    }
}

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
    /// The share of the pages that may be brought before they are asked for, 0 to 0.5.
    pub prefetch_share: f64,
    /// Bytes of a page: a multiple of 4096, at most 4 MiB.
    pub page_size: u32,
    /// Other than 0: scans that are registered have their next pages brought as they report and
    /// read.
    pub read_ahead: u8,
    /// Other than 0: requests and hits are counted by relation, too, for pagecast_pool_snapshot.
    pub count_relations: u8,
    /// Other than 0: hot items go on when their page is evicted, of relations whose items are known
    /// (pagecast_tuples_open).
    pub tuples: u8,
}

/// Makes the log durable up to record `lsn`, writes to `durable` up to which record it is, and
/// returns 0; or returns another number, and the pages that wait for the record stay in the pool.
/// Called from pagecast's threads, several at once.
pub type FlushLog = Option<unsafe extern "C" fn(context: *mut c_void, lsn: u64, durable: *mut u64) -> c_int>;

/// A log in C.
struct CLog {
    flush: unsafe extern "C" fn(*mut c_void, u64, *mut u64) -> c_int,
    context: *mut c_void,
    /// Set when the pool is closed, after which C may have given up what the function needs. Held
    /// to be read while the function runs.
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
        // SAFETY: (C5): the pool is not closed before the call returns; `durable` lives until the
        // call returns.
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
    /// Pages that were brought before they were asked for.
    pub prefetched: u64,
    /// Pages of those that were there when they were asked for.
    pub prefetch_useful: u64,
    /// Pages of those that were still on their way.
    pub prefetch_late: u64,
    /// Pages of those that left without being asked for.
    pub prefetch_wasted: u64,
    /// Requests for an item that were answered without its page; none of the requests for a page.
    pub tuple_hits: u64,
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
        prefetch_share: options.prefetch.share,
        page_size: options.page_size,
        read_ahead: u8::from(options.prefetch.read_ahead),
        count_relations: u8::from(options.count_relations),
        tuples: u8::from(options.tuples.is_some()),
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
        let given = unsafe { borrow_if_any(options) };
        let (mut wanted, mut log) = (PoolOptions::default(), None);
        if let Some(given) = given {
            wanted.memory = given.memory;
            wanted.page_size = given.page_size;
            wanted.seed = given.seed;
            wanted.prefetch = PrefetchOptions::default().share(given.prefetch_share).read_ahead(given.read_ahead != 0);
            wanted.count_relations = given.count_relations != 0;
            wanted.tuples = (given.tuples != 0).then(TupleOptions::default);
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
        out.set(give(PoolHandle {
            pool: Pool::new(wanted)?,
            log,
            sessions: AtomicU32::new(0),
            layouts: Mutex::default(),
        }));
        Ok(())
    })
}

/// Closes a pool. What was changed and not flushed is left to the log. Refused with
/// PAGECAST_STATUS_IN_USE, and then nothing happens, while a page of it is pinned or a session
/// open. Its relations and scans are closed by their own calls, before or after.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_pool_close(pool: *mut PoolHandle) -> Status {
    answer(|| {
        // SAFETY: (C1); the borrow ends before the handle is taken.
        let open = unsafe { borrow(pool, "pool") }?;
        // Acquire: what a session did came before it was closed.
        let (pinned, sessions) = (open.pool.pinned(), open.sessions.load(Acquire));
        if pinned > 0 || sessions > 0 {
            let message =
                format!("{pinned} frames are still pinned and {sessions} sessions open; give them back first");
            return Err(Failure::new(Status::InUse, message));
        }
        // SAFETY: (C1); no pin or session is left that borrows the pool.
        let PoolHandle { pool, log, layouts, .. } = *unsafe { take(pool, "pool") }?;
        drop(pool);
        if let Some(log) = log {
            *log.closed.write().unwrap_or_else(PoisonError::into_inner) = true;
        }
        layouts.into_inner().unwrap_or_else(PoisonError::into_inner).iter().for_each(|layout| layout.close());
        Ok(())
    })
}

/// What a change of size has come to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Resized {
    /// How many pages the pool holds from now on.
    pub frames: u32,
    /// Pages beyond these that are pinned, on their way or unwritten now. Their memory is given
    /// back when they are done with and others are loaded, or by the next call.
    pub held: u32,
}

/// Gives the pool `memory` bytes in all from now on, at most what `max_memory` said. Readers go on
/// meanwhile.
///
/// # Safety
///
/// (C1), (C2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_pool_resize(pool: *const PoolHandle, memory: u64, resized: *mut Resized) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let pool = &unsafe { borrow(pool, "pool") }?.pool;
        // SAFETY: (C2).
        let out = unsafe { output(resized, "resized") }?;
        let pagecast::Resized { frames, held } = pool.resize(memory)?;
        out.set(Resized { frames, held });
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
        let pool = &unsafe { borrow(pool, "pool") }?.pool;
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
            prefetched: counted.prefetched,
            prefetch_useful: counted.prefetch_useful,
            prefetch_late: counted.prefetch_late,
            prefetch_wasted: counted.prefetch_wasted,
            tuple_hits: counted.tuple_hits,
            frames: pool.frames(),
            pinned: pool.pinned(),
        });
        Ok(())
    })
}

/// The pool as it is now, as text in the format that Prometheus scrapes: counts, frames by state,
/// memory, storage, open files. Looks at each frame and stops nobody. The text ends with a zero
/// byte and is given back by pagecast_text_free.
///
/// # Safety
///
/// (C1), (C2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_pool_snapshot(pool: *const PoolHandle, text: *mut *mut c_char) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let pool = &unsafe { borrow(pool, "pool") }?.pool;
        // SAFETY: (C2).
        let out = unsafe { output(text, "text") }?;
        out.set(give_text(c_text(pool.snapshot().prometheus().to_string())));
        Ok(())
    })
}

/// Gives a text back that was given by pagecast_pool_snapshot.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_text_free(text: *mut c_char) -> Status {
    answer(|| {
        // SAFETY: (C1), for a text as for a handle.
        drop(unsafe { take_text(text, "text") }?);
        Ok(())
    })
}
