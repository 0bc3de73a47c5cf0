//! Where pages keep their items, as C says it.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use pagecast::TupleLayout;

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

/// [`CountItems`] that is there.
type Count = unsafe extern "C" fn(*mut c_void, usize) -> u32;
/// [`LocateItem`] that is there.
type Locate = unsafe extern "C" fn(*mut c_void, *const u8, usize, u32, *mut u32, *mut u32) -> c_int;

/// A layout in C.
pub(crate) struct CLayout {
    items: Count,
    name: NameItem,
    locate: Locate,
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
    pub(crate) fn new(items: Count, name: NameItem, locate: Locate, context: *mut c_void) -> Self {
        Self { items, name, locate, context, closed: RwLock::new(false) }
    }

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
pub(crate) struct Shared(pub(crate) Arc<CLayout>);

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
