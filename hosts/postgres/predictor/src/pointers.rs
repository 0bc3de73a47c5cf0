//! The only unsafe code: C's pointers in and out.
//!
//! Promises of the caller, cited at each block: (P1) a memory is `words` aligned words that live as
//! long as the process and are only ever used through this library. (P2) any other pointer is null
//! or points to as many initialized values of its type as are said beside it, which nobody else
//! uses during the call.

use core::sync::atomic::AtomicU64;

use pagecast_core::forecast::{TEMPLATES, Template};

/// The predictor's memory: shared between processes, mapped at the same place in all of them.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Memory {
    at: *mut u64,
    words: usize,
}

impl Memory {
    /// The words; none where there is no memory.
    pub(crate) fn words(self) -> &'static [AtomicU64] {
        if self.at.is_null() {
            return &[];
        }
        // SAFETY: (P1); an atomic has the size and alignment of its word on every target that has
        // it.
        unsafe { core::slice::from_raw_parts(self.at.cast::<AtomicU64>(), self.words) }
    }
}

/// The places for statements that come back, in memory that is shared and that begins as zeros.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Templates {
    at: *mut Template,
    start: u64,
}

impl Templates {
    /// All of them, for who holds the lock; none where there is no memory.
    pub(crate) fn places(self) -> &'static mut [Template] {
        values_mut(self.at, TEMPLATES)
    }

    /// All of them, for who only looks, with others, under the shared lock.
    pub(crate) fn seen(self) -> &'static [Template] {
        values(self.at, TEMPLATES)
    }

    /// Seconds since the epoch at tick 0.
    pub(crate) fn start(self) -> u64 {
        self.start
    }
}

/// The values behind a pointer; none if it is null.
pub(crate) fn values<'a, T: Copy>(from: *const T, count: usize) -> &'a [T] {
    if from.is_null() {
        return &[];
    }
    // SAFETY: (P2)
    unsafe { core::slice::from_raw_parts(from, count) }
}

/// As [`values`], to be changed.
pub(crate) fn values_mut<'a, T: Copy>(from: *mut T, count: usize) -> &'a mut [T] {
    if from.is_null() {
        return &mut [];
    }
    // SAFETY: (P2)
    unsafe { core::slice::from_raw_parts_mut(from, count) }
}

/// Writes an output, unless nobody wants it.
pub(crate) fn put<T: Copy>(to: *mut T, value: T) {
    for place in values_mut(to, 1) {
        *place = value;
    }
}

unsafe extern "C" {
    safe fn abort() -> !;
}

/// No input leads here. Were one to, ending the server process is the only thing left that is safe.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    abort()
}
