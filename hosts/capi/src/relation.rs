//! Open files, and how much of the pool each may take.

use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pagecast::{Pool, Relation};

use crate::pointers::{borrow, borrow_if_any, give, output, take, text};
use crate::pool::PoolHandle;
use crate::status::{Failure, Status, answer};

/// An open file.
pub struct RelationHandle(pub(crate) Relation);

impl RelationHandle {
    /// The relation, if it is of `pool`: C hands over both.
    pub(crate) fn of(&self, pool: &Pool) -> Result<&Relation, Failure> {
        of(&self.0, pool)
    }
}

/// The relation, if it is of `pool`.
pub(crate) fn of<'r>(relation: &'r Relation, pool: &Pool) -> Result<&'r Relation, Failure> {
    match pool.owns(relation) {
        true => Ok(relation),
        false => {
            let path = relation.path().display();
            Err(Failure::argument(format!("{path}: was opened by another pool; open it in the one that reads it")))
        }
    }
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
        let pool = &unsafe { borrow(pool, "pool") }?.pool;
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

/// Bounds the pages of a relation that are resident to `frames`; 0 lifts the bound. When it has as
/// many, each further load takes the place of its oldest page that is not pinned. Pinned pages and
/// those on their way come on top. A file that is replaced is another relation, without a bound.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_relation_cap(
    pool: *const PoolHandle,
    relation: *const RelationHandle,
    frames: u32,
) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let pool = &unsafe { borrow(pool, "pool") }?.pool;
        // SAFETY: (C1).
        let relation = unsafe { borrow(relation, "relation") }?;
        Ok(relation.of(pool)?.cap((frames > 0).then_some(frames))?)
    })
}

/// Keeps up to `frames` pages of a relation: while no more of them are resident, evictions pass
/// over them as long as they find another; 0 ends that. To be set before the relation is read.
/// PAGECAST_STATUS_NO_ROOM if 16 others are kept.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_relation_reserve(
    pool: *const PoolHandle,
    relation: *const RelationHandle,
    frames: u32,
) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let pool = &unsafe { borrow(pool, "pool") }?.pool;
        // SAFETY: (C1).
        let relation = unsafe { borrow(relation, "relation") }?;
        Ok(relation.of(pool)?.reserve(frames)?)
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
    unsafe { borrow_if_any(relation) }.map_or(0, |relation| relation.0.len())
}

/// Pages of the file; 0 for null.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_relation_pages(relation: *const RelationHandle) -> u32 {
    // SAFETY: (C1).
    unsafe { borrow_if_any(relation) }.map_or(0, |relation| relation.0.pages())
}
