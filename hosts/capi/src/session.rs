//! Sessions: what one thread or client keeps for itself while it uses a pool.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Release;

use pagecast::{Pool, Relation, Session};

use crate::page::{Page, give_page};
use crate::pointers::{borrow, borrow_if_any, borrow_mut, buffer, give, output, take};
use crate::pool::PoolHandle;
use crate::relation::{RelationHandle, of};
use crate::scan::ScanHandle;
use crate::status::{Failure, Status, answer};

/// One thread's or client's own way to a pool. It does not outlive the pool, which cannot be closed
/// before.
pub struct SessionHandle {
    session: Session<'static>,
    pool: &'static Pool,
    /// How many sessions the pool has.
    open: &'static AtomicU32,
}

impl SessionHandle {
    /// The session, if the relation is of its pool: C hands over both.
    pub(crate) fn session_for(&mut self, relation: &Relation) -> Result<&mut Session<'static>, Failure> {
        of(relation, self.pool)?;
        Ok(&mut self.session)
    }
}

/// Opens a session: a way to the pool on which a hit writes no memory that other threads write, but
/// the page's own pin. It takes about 3 KiB. It may go from thread to thread, and makes one call at
/// a time.
///
/// # Safety
///
/// (C1), (C2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_session_open(pool: *const PoolHandle, session: *mut *mut SessionHandle) -> Status {
    answer(|| {
        // SAFETY: (C1), and closing is refused while the session exists, so that the pool outlives
        // it.
        let pool: &'static PoolHandle = unsafe { borrow(pool, "pool") }?;
        // SAFETY: (C2).
        let out = unsafe { output(session, "session") }?;
        let session = pool.pool.session();
        out.set(give(SessionHandle { session, pool: &pool.pool, open: pool.enter_session() }));
        Ok(())
    })
}

/// Ends a session. Pages that were pinned through it stay pinned.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_session_close(session: *mut SessionHandle) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let SessionHandle { session, open, .. } = *unsafe { take(session, "session") }?;
        drop(session);
        // Last, and with what the session did: from here on the pool may be closed. Pairs with the
        // load in its close.
        open.fetch_sub(1, Release);
        Ok(())
    })
}

/// As pagecast_pin, through a session. The page is given back by pagecast_unpin, by any thread.
///
/// # Safety
///
/// (C1), (C2), (C4)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_session_pin(
    session: *mut SessionHandle,
    relation: *const RelationHandle,
    block: u32,
    scan: *const ScanHandle,
    page: *mut Page,
) -> Status {
    answer(|| {
        // SAFETY: (C1), (C4).
        let SessionHandle { session, pool, .. } = unsafe { borrow_mut(session, "session") }?;
        // SAFETY: (C1), and as in pagecast_pin: the pin is of the session's pool.
        let relation: &'static RelationHandle = unsafe { borrow(relation, "relation") }?;
        // SAFETY: (C1).
        let scan = unsafe { borrow_if_any(scan) };
        // SAFETY: (C2).
        let out = unsafe { output(page, "page") }?;
        out.set(give_page(session.pin(relation.of(pool)?, block, scan.map(ScanHandle::id))?));
        Ok(())
    })
}

/// Copies `length` bytes of page `block`, from byte `offset` of the page on, into `bytes`. Of a
/// page that is resident they are copied without pinning it, unless it is being changed or
/// `count_relations` is on; else it is pinned meanwhile, and read if need be. `scan` may be null.
/// On failure `bytes` may hold anything.
///
/// # Safety
///
/// (C1), (C2), (C4)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_session_copy(
    session: *mut SessionHandle,
    relation: *const RelationHandle,
    block: u32,
    offset: u32,
    length: usize,
    scan: *const ScanHandle,
    bytes: *mut u8,
) -> Status {
    answer(|| {
        // SAFETY: (C1), (C4).
        let SessionHandle { session, pool, .. } = unsafe { borrow_mut(session, "session") }?;
        // SAFETY: (C1).
        let relation = unsafe { borrow(relation, "relation") }?.of(pool)?;
        // SAFETY: (C1).
        let scan = unsafe { borrow_if_any(scan) }.map(ScanHandle::id);
        // SAFETY: (C2): as many bytes as the caller says.
        let into = unsafe { buffer(bytes, length, "bytes") }?;
        let start = offset as usize;
        let within = start..start.saturating_add(length);
        if within.end > relation.page_size() as usize {
            return Err(beyond(within.end, relation.page_size() as usize));
        }
        let into = into.zeroed();
        // Fewer than all are copied only at the end of a file's last page, which the pin then finds
        // out.
        if session.try_copy(relation, block, offset, into, scan) != Some(length) {
            let page = session.pin(relation, block, scan)?;
            into.copy_from_slice(page.get(within.clone()).ok_or_else(|| beyond(within.end, page.len()))?);
        }
        Ok(())
    })
}

fn beyond(end: usize, length: usize) -> Failure {
    Failure::new(Status::OutOfBounds, format!("`offset` + `length` is {end}, and the page has {length} bytes"))
}
