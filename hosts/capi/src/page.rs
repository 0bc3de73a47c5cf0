//! Pinned pages, and bytes copied out.

use std::ptr::{null, null_mut};

use pagecast::PageGuard;

use crate::pointers::{borrow, borrow_if_any, buffer, give, output, take};
use crate::pool::PoolHandle;
use crate::relation::RelationHandle;
use crate::scan::ScanHandle;
use crate::status::{Status, answer};

/// What keeps a page in place. It does not outlive its pool, which cannot be closed before.
pub struct PinHandle {
    _pin: PageGuard<'static>,
}

/// A pinned page. Its bytes stay where they are until pagecast_unpin.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// The page's bytes.
    pub data: *const u8,
    /// How many: the page size, less on the last page of a file.
    pub length: usize,
    /// pagecast's own.
    pub pin: *mut PinHandle,
}

/// Pins page `block` of the relation, and reads it first if it is not resident. `scan` may be null.
/// On failure `page` is not written.
///
/// # Safety
///
/// (C1), (C2), (C4)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_pin(
    pool: *const PoolHandle,
    relation: *const RelationHandle,
    block: u32,
    scan: *const ScanHandle,
    page: *mut Page,
) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let pool = &unsafe { borrow(pool, "pool") }?.pool;
        // SAFETY: (C1). The pin below borrows from the pool that the relation shares. Closing the
        // pool is refused while the pin exists, so that this outlives it, be the relation's handle
        // closed or not.
        let relation: &'static RelationHandle = unsafe { borrow(relation, "relation") }?;
        // SAFETY: (C1).
        let scan = unsafe { borrow_if_any(scan) };
        // SAFETY: (C2).
        let out = unsafe { output(page, "page") }?;
        let pin = relation.of(pool)?.pin(block, scan.map(ScanHandle::id))?;
        out.set(give_page(pin));
        Ok(())
    })
}

/// A pinned page as C has it.
pub(crate) fn give_page(pin: PageGuard<'static>) -> Page {
    let (data, length) = (pin.as_ptr(), pin.len());
    Page { data, length, pin: give(PinHandle { _pin: pin }) }
}

/// Gives a pinned page back and clears `page`: its bytes must not be read any more. A cleared page
/// is refused.
///
/// # Safety
///
/// (C1), (C2), (C4)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_unpin(page: *mut Page) -> Status {
    // SAFETY: (C1), (C2), (C4): a page that pagecast_pin or pagecast_session_pin filled, or a
    // cleared one.
    unsafe { unpin(page, |page| page.pin, Page { data: null(), length: 0, pin: null_mut() }) }
}

/// Takes back the handle in `page`, which unpins, and leaves `cleared`.
///
/// # Safety
///
/// `page` is null, or points to a value of C's whose handle is null, or was given and not been
/// taken.
pub(crate) unsafe fn unpin<P: Copy, H>(page: *mut P, handle: fn(P) -> *mut H, cleared: P) -> Status {
    answer(|| {
        // SAFETY: the caller's promise.
        let given = *unsafe { borrow(page, "page") }?;
        // SAFETY: the caller's promise.
        drop(unsafe { take(handle(given), "page->pin") }?);
        // SAFETY: the caller's promise; the borrow above has ended.
        unsafe { output(page, "page") }?.set(cleared);
        Ok(())
    })
}

/// Copies `length` bytes from `offset` of the relation into `bytes`, through the pool: pages that
/// are missing are read and, where there is a free frame, kept. Never fails for want of a frame.
/// `scan` may be null. On failure `bytes` may hold anything.
///
/// # Safety
///
/// (C1), (C2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_read(
    pool: *const PoolHandle,
    relation: *const RelationHandle,
    offset: u64,
    length: usize,
    scan: *const ScanHandle,
    bytes: *mut u8,
) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let pool = unsafe { borrow(pool, "pool") }?;
        // SAFETY: (C1).
        let relation = unsafe { borrow(relation, "relation") }?;
        // SAFETY: (C1).
        let scan = unsafe { borrow_if_any(scan) };
        // SAFETY: (C2): as many bytes as the caller says.
        let memory = unsafe { buffer(bytes, length, "bytes") }?.unwritten();
        relation.of(&pool.pool)?.read_into_blocking(offset, memory, scan.map(ScanHandle::id))?;
        Ok(())
    })
}
