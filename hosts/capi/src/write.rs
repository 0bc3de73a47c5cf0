//! Pages that are changed, and how they reach the file.

use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;

use pagecast::{Format, Lsn, PageGuardMut, WriteOptions};

use crate::page::unpin;
use crate::pointers::{borrow, borrow_if_any, borrow_mut, give, output, text};
use crate::pool::PoolHandle;
use crate::relation::RelationHandle;
use crate::scan::ScanHandle;
use crate::status::{Status, answer};

/// What keeps a page in place for one who changes it. It does not outlive its pool, which cannot be
/// closed before.
pub struct PinMutHandle(PageGuardMut<'static>);

/// A page that is pinned by its holder alone.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PageMut {
    /// The page's bytes, which may be written until pagecast_unpin_written.
    pub data: *mut u8,
    /// How many: the page size. Of a sealed file the last 24 are pagecast's.
    pub length: usize,
    /// pagecast's own.
    pub pin: *mut PinMutHandle,
}

/// Opens a file to change its pages, alone. With `create` other than 0, makes it if there is none;
/// with `sealed` other than 0, each page ends with a checksum that is checked when it is read.
///
/// # Safety
///
/// (C1), (C2), (C3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_relation_open_to_write(
    pool: *const PoolHandle,
    path: *const c_char,
    create: u8,
    sealed: u8,
    relation: *mut *mut RelationHandle,
) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let pool = &unsafe { borrow(pool, "pool") }?.pool;
        // SAFETY: (C3).
        let path = unsafe { text(path, "path") }?;
        // SAFETY: (C2).
        let out = unsafe { output(relation, "relation") }?;
        let format = if sealed != 0 { Format::Sealed } else { Format::Raw };
        let options = WriteOptions::default().create(create != 0).format(format);
        let opened = pool.open_to_write(Path::new(OsStr::from_bytes(path.to_bytes())), &options)?;
        out.set(give(RelationHandle(opened)));
        Ok(())
    })
}

/// Adds `pages` pages of zeros at the end of the file and writes the first one's number to `first`.
///
/// # Safety
///
/// (C1), (C2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_relation_grow(
    pool: *const PoolHandle,
    relation: *const RelationHandle,
    pages: u32,
    first: *mut u32,
) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let pool = &unsafe { borrow(pool, "pool") }?.pool;
        // SAFETY: (C1).
        let relation = unsafe { borrow(relation, "relation") }?;
        // SAFETY: (C2).
        let out = unsafe { output(first, "first") }?;
        out.set(relation.of(pool)?.grow(pages)?);
        Ok(())
    })
}

/// Pins page `block` alone, to change it: waits until others have unpinned it, for ever if this
/// thread is one of them. `scan` may be null. On failure `page` is not written.
///
/// # Safety
///
/// (C1), (C2), (C4)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_pin_to_write(
    pool: *const PoolHandle,
    relation: *const RelationHandle,
    block: u32,
    scan: *const ScanHandle,
    page: *mut PageMut,
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
        let mut pin = relation.of(pool)?.pin_mut(block, scan.map(ScanHandle::id))?;
        let (data, length) = (pin.as_mut_ptr(), pin.len());
        out.set(PageMut { data, length, pin: give(PinMutHandle(pin)) });
        Ok(())
    })
}

/// The page was changed, and the change is record `lsn` of the log (0 without a log): it is written
/// some time after the log is durable to there. To be called after each change and before the page
/// is unpinned; without it the change is lost when the page leaves the pool.
///
/// # Safety
///
/// (C1), (C2), (C4)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_mark_dirty(page: *const PageMut, lsn: u64) -> Status {
    answer(|| {
        // SAFETY: (C2).
        let page = unsafe { borrow(page, "page") }?;
        // SAFETY: (C1), (C4).
        unsafe { borrow_mut(page.pin, "page->pin") }?.0.logged(Lsn(lsn));
        Ok(())
    })
}

/// Gives a page back that was pinned to be written, and clears `page`. A cleared page is refused.
///
/// # Safety
///
/// (C1), (C2), (C4)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_unpin_written(page: *mut PageMut) -> Status {
    // SAFETY: (C1), (C2), (C4): a page that pagecast_pin_to_write filled, or a cleared one.
    unsafe { unpin(page, |page| page.pin, PageMut { data: null_mut(), length: 0, pin: null_mut() }) }
}

/// Writes every page that is dirty now and makes it safe from a crash. Waits for those who have a
/// dirty page pinned to write it, for ever if this thread is one of them.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_flush(pool: *const PoolHandle) -> Status {
    answer(|| {
        // SAFETY: (C1).
        unsafe { borrow(pool, "pool") }?.pool.flush()?;
        Ok(())
    })
}

/// As pagecast_flush, for pages whose first unwritten change is before log record `lsn`: the log is
/// not needed before it any more. `lsn` is at most the end of the log at the call.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_checkpoint(pool: *const PoolHandle, lsn: u64) -> Status {
    answer(|| {
        // SAFETY: (C1).
        unsafe { borrow(pool, "pool") }?.pool.checkpoint(Lsn(lsn))?;
        Ok(())
    })
}
