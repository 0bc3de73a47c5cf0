//! Items: rows, or whatever is read one at a time, kept by the pool when their pages go.

use std::ffi::c_void;
use std::sync::Arc;

use pagecast::{FixedRows, Lsn, Slotted, TupleId, Tuples};

use crate::layout::{CLayout, Layout, LayoutKind, Shared};
use crate::pointers::{array, borrow, borrow_mut, buffer, give, output, take};
use crate::pool::PoolHandle;
use crate::relation::RelationHandle;
use crate::session::SessionHandle;
use crate::status::{Failure, Status, answer};

/// A relation and where its pages keep their items.
pub struct TuplesHandle(Tuples);

/// Says where the pages of a relation keep their items. A relation has one layout for as long as it
/// is open. Items go on without their pages if the pool was opened with `tuples`.
///
/// # Safety
///
/// (C1), (C2), (C5)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_tuples_open(
    pool: *const PoolHandle,
    relation: *const RelationHandle,
    layout: *const Layout,
    tuples: *mut *mut TuplesHandle,
) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let pool = unsafe { borrow(pool, "pool") }?;
        // SAFETY: (C1).
        let relation = unsafe { borrow(relation, "relation") }?.of(&pool.pool)?;
        // SAFETY: (C2): a layout of C's, which this call only reads.
        let layout = unsafe { borrow(layout, "layout") }?;
        // SAFETY: (C2).
        let out = unsafe { output(tuples, "tuples") }?;
        let opened = match layout.kind {
            LayoutKind::FixedRows => pool.pool.tuples(relation, FixedRows { first: layout.first, row: layout.row }),
            LayoutKind::Slotted => pool.pool.tuples(relation, Slotted { header: layout.first }),
            LayoutKind::Functions => {
                let (Some(items), Some(locate)) = (layout.items, layout.locate) else {
                    return Err(Failure::argument("`layout` has no function for `items` or `locate`"));
                };
                let shared = Arc::new(CLayout::new(items, layout.name, locate, layout.context));
                pool.add_layout(shared.clone());
                pool.pool.tuples(relation, Shared(shared))
            }
        };
        out.set(give(TuplesHandle(opened?)));
        Ok(())
    })
}

/// Gives the handle back. The relation keeps its layout.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_tuples_close(tuples: *mut TuplesHandle) -> Status {
    answer(|| {
        // SAFETY: (C1).
        drop(unsafe { take(tuples, "tuples") }?);
        Ok(())
    })
}

/// Copies item `item` of page `block` into `bytes`, `capacity` bytes of it at most, and writes its
/// whole length to `length`; 0 if the page has no such item. On failure `bytes` may hold anything.
///
/// # Safety
///
/// (C1), (C2), (C4)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_tuples_read(
    session: *mut SessionHandle,
    tuples: *const TuplesHandle,
    block: u32,
    item: u32,
    bytes: *mut u8,
    capacity: usize,
    length: *mut usize,
) -> Status {
    answer(|| {
        // SAFETY: (C1), (C4).
        let session = unsafe { borrow_mut(session, "session") }?;
        // SAFETY: (C1).
        let tuples = unsafe { borrow(tuples, "tuples") }?;
        // SAFETY: (C2): as many bytes as the caller says.
        let into = unsafe { buffer(bytes, capacity, "bytes") }?;
        // SAFETY: (C2).
        let out = unsafe { output(length, "length") }?;
        let session = session.session_for(tuples.0.relation())?;
        out.set(session.read_tuple(&tuples.0, TupleId { block, item }, into.zeroed())?.unwrap_or(0));
        Ok(())
    })
}

/// Appends a change to the log and returns the record's number; 0 without a log.
pub type LogItem = Option<unsafe extern "C" fn(context: *mut c_void) -> u64>;

/// Changes item `item` of page `block` to other bytes of the same length. `log` is called once if
/// the item is there, in this thread, while nobody else can change the page; it may be null without
/// a log.
///
/// # Safety
///
/// (C1), (C3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_tuples_update(
    tuples: *const TuplesHandle,
    block: u32,
    item: u32,
    bytes: *const u8,
    length: usize,
    log: LogItem,
    context: *mut c_void,
) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let tuples = unsafe { borrow(tuples, "tuples") }?;
        // SAFETY: (C3).
        let bytes = unsafe { array(bytes, length, "bytes") }?;
        // SAFETY: a function of the caller's, called before this call returns.
        let logged = || log.map_or(Lsn::NONE, |log| Lsn(unsafe { (log)(context) }));
        Ok(tuples.0.update(TupleId { block, item }, bytes, logged)?)
    })
}
