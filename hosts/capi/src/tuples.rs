//! Items: rows, or whatever is read one at a time, kept by the pool when their pages go.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use pagecast::{FixedRows, Lsn, Slotted, TupleId, TupleLayout, Tuples};

use crate::pointers::{array, borrow, borrow_mut, buffer, give, output, take};
use crate::pool::PoolHandle;
use crate::relation::RelationHandle;
use crate::session::SessionHandle;
use crate::status::{Failure, Status, answer};

/// A relation and where its pages keep their items.
pub struct TuplesHandle(Tuples);

/// How pages keep their items.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LayoutKind {
    /// Rows of `row` bytes, one after the other, from byte `first` on. Item n is row n.
    FixedRows = 0,
    /// From byte `first` on the number of slots, then for each its offset in the page and its
    /// length, all as little-endian numbers of 16 bits. Item n is slot n; of length 0 it is none.
    Slotted = 1,
    /// What the functions say.
    Functions = 2,
}

/// How many items a page of `length` bytes has at most.
pub type CountItems = Option<unsafe extern "C" fn(context: *mut c_void, length: usize) -> u32>;

/// Writes the name of the item in place `place` of the page, from 0 to the number of items without
/// it, and returns other than 0; 0 if there is none.
pub type NameItem = Option<
    unsafe extern "C" fn(context: *mut c_void, page: *const u8, length: usize, place: u32, item: *mut u32) -> c_int,
>;

/// Writes where in the page item `item` begins and where it ends, and returns other than 0; 0 if
/// the page does not have it whole.
pub type LocateItem = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        page: *const u8,
        length: usize,
        item: u32,
        start: *mut u32,
        end: *mut u32,
    ) -> c_int,
>;

/// Where the pages of a relation keep their items. What the functions answer is not trusted: a
/// range outside the page is no item. They are pure and quick and call nothing of pagecast.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Which of the fields below count.
    pub kind: LayoutKind,
    /// Bytes of a page before its rows, or before the number of its slots.
    pub first: u32,
    /// Bytes of a row.
    pub row: u32,
    /// Of kind FUNCTIONS.
    pub items: CountItems,
    /// Of kind FUNCTIONS: null if items are named by their places, else say by a hash of a key.
    pub name: NameItem,
    /// Of kind FUNCTIONS.
    pub locate: LocateItem,
    /// Handed to the functions.
    pub context: *mut c_void,
}

/// A layout in C.
pub(crate) struct CLayout {
    items: unsafe extern "C" fn(*mut c_void, usize) -> u32,
    name: NameItem,
    locate: unsafe extern "C" fn(*mut c_void, *const u8, usize, u32, *mut u32, *mut u32) -> c_int,
    context: *mut c_void,
    /// Set when the pool is closed, after which C may have given up what the functions need. Held
    /// to be read while one runs.
    closed: RwLock<bool>,
}

// SAFETY: (C5): the functions may be called from any thread.
unsafe impl Send for CLayout {}
// SAFETY: (C5): and by several at once.
unsafe impl Sync for CLayout {}

impl CLayout {
    /// The functions are not called any more.
    pub(crate) fn close(&self) {
        *self.closed.write().unwrap_or_else(PoisonError::into_inner) = true;
    }

    fn number(&self, length: usize) -> u32 {
        // SAFETY: (C5).
        unsafe { (self.items)(self.context, length) }
    }

    fn name_of(&self, page: &[u8], place: u32) -> Option<u32> {
        let Some(name) = self.name else { return Some(place) };
        let mut item = 0;
        // SAFETY: (C5); the page and the output live until the call returns.
        let found = unsafe { (name)(self.context, page.as_ptr(), page.len(), place, &raw mut item) };
        (found != 0).then_some(item)
    }

    fn range_of(&self, page: &[u8], item: u32) -> Option<Range<u32>> {
        let (mut start, mut end) = (0, 0);
        // SAFETY: (C5); the page and the outputs live until the call returns.
        let found =
            unsafe { (self.locate)(self.context, page.as_ptr(), page.len(), item, &raw mut start, &raw mut end) };
        (found != 0).then_some(start..end)
    }

    /// Runs `work` while the pool is open.
    fn while_open<R>(&self, work: impl FnOnce() -> Option<R>) -> Option<R> {
        let closed = self.closed.read().unwrap_or_else(PoisonError::into_inner);
        if *closed { None } else { work() }
    }
}

/// The pool's share of a layout in C.
struct Shared(Arc<CLayout>);

impl TupleLayout for Shared {
    fn items(&self, page_bytes: u32) -> u32 {
        self.0.while_open(|| Some(self.0.number(page_bytes as usize))).unwrap_or(0)
    }

    fn locate(&self, page: &[u8], item: u32) -> Option<Range<u32>> {
        self.0.while_open(|| self.0.range_of(page, item))
    }

    fn each(&self, page: &[u8], found: &mut dyn FnMut(u32, Range<u32>)) {
        // As many as there are bytes at most, whatever C says.
        for place in 0..self.items(page.len() as u32).min(page.len() as u32) {
            let item = self.0.while_open(|| self.0.name_of(page, place));
            if let Some((item, range)) = item.and_then(|item| Some((item, self.locate(page, item)?))) {
                found(item, range);
            }
        }
    }
}

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
                let closed = RwLock::new(false);
                let shared = Arc::new(CLayout { items, name: layout.name, locate, context: layout.context, closed });
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
