//! An allocator that counts, per thread, the bytes that are allocated and not freed. Unsafe because
//! allocators are.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
}

/// Bytes that this thread holds.
pub(crate) fn allocated() -> u64 {
    ALLOCATED.get()
}

// SAFETY: every call is handed on to the system's allocator unchanged, and the count is no memory
// that it hands out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get().wrapping_add(layout.size() as u64));
        // SAFETY: the caller keeps the contract of `alloc`, which is the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALLOCATED.set(ALLOCATED.get().wrapping_sub(layout.size() as u64));
        // SAFETY: `place` came from `alloc` above with this layout, so from the system's allocator.
        unsafe { System.dealloc(place, layout) }
    }
}
