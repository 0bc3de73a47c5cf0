//! Pinned pages, and bytes copied out.

use std::ptr::{null, null_mut};

use pagecast::Pin;

use crate::pointers::{borrow, borrow_if_any, buffer, give, output, take};
use crate::pool::{PoolHandle, RelationHandle};
use crate::scan::ScanHandle;
use crate::status::{Failure, Status, answer};

/// What keeps a page in place. It does not outlive its pool, which cannot be closed before.
pub struct PinHandle(Pin<'static>);

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

/// Pins page `block` of the relation, and reads it first if it is not resident. `scan` may be null. On failure `page` is
/// not written.
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
        // SAFETY: (C1), and closing is refused while the pin below exists, so that the pool outlives it.
        let pool: &'static PoolHandle = unsafe { borrow(pool, "pool") }?;
        // SAFETY: (C1).
        let relation = unsafe { borrow(relation, "relation") }?;
        // SAFETY: (C1).
        let scan = unsafe { borrow_if_any(scan) };
        // SAFETY: (C2).
        let out = unsafe { output(page, "page") }?;
        let pin = pool.0.pin(&relation.0, block, scan.map(|scan| scan.0.id()))?;
        let (data, length) = (pin.as_ptr(), pin.len());
        out.set(Page { data, length, pin: give(PinHandle(pin)) });
        Ok(())
    })
}

/// Gives a pinned page back and clears `page`: its bytes must not be read any more. A cleared page is refused.
///
/// # Safety
///
/// (C1), (C2), (C4)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_unpin(page: *mut Page) -> Status {
    answer(|| {
        // SAFETY: (C2): a page that pagecast_pin filled, or a cleared one.
        let given = *unsafe { borrow(page, "page") }?;
        // SAFETY: (C1): it comes from pagecast_pin and, not being cleared, was not given back.
        let handle = unsafe { take(given.pin, "page->pin") }?;
        drop(handle.0);
        // SAFETY: (C2); the borrow above has ended.
        unsafe { output(page, "page") }?.set(Page { data: null(), length: 0, pin: null_mut() });
        Ok(())
    })
}

/// Copies `length` bytes from `offset` of the relation into `bytes`, through the pool: pages that are missing are read
/// and, where there is a free frame, kept. Never fails for want of a frame. `scan` may be null.
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
        let out = unsafe { buffer(bytes, length, "bytes") }?;
        let end = offset.checked_add(length as u64);
        let end = end.ok_or_else(|| Failure::new(Status::OutOfBounds, "`offset` + `length` is no file offset"))?;
        let range = offset..end;
        let read = pool.0.read_blocking(&relation.0, std::slice::from_ref(&range), scan.map(|scan| scan.0.id()))?;
        if let Some(data) = read.data.first() {
            out.fill(data);
        }
        Ok(())
    })
}
