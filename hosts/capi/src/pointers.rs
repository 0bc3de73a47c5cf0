//! The way of C's pointers in and out. Null is refused; for the rest the header's promises (C1) to
//! (C5) are relied on.

use std::ffi::{CStr, CString, c_char};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::status::{Failure, Status};

/// What a pointer points to, if it is not null.
///
/// # Safety
///
/// It is null, or points to a `T` that lives and is not written for `'a`.
pub(crate) unsafe fn borrow<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// As [`borrow`], to change it.
///
/// # Safety
///
/// It is null, or points to a `T` that lives and that nobody else uses for `'a`.
pub(crate) unsafe fn borrow_mut<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

/// As [`borrow`], where null stands for "none".
///
/// # Safety
///
/// As [`borrow`].
pub(crate) unsafe fn borrow_if_any<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }
}

/// The place that an output goes to.
///
/// # Safety
///
/// It is null, or points to memory for a `T` that nobody else uses for `'a` and that holds a `T` or
/// is written before it is read.
pub(crate) unsafe fn output<'a, T>(pointer: *mut T, name: &str) -> Result<Output<'a, T>, Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    Ok(Output { pointer, life: PhantomData })
}

/// A place to write one value to; it may hold none yet.
pub(crate) struct Output<'a, T> {
    pointer: *mut T,
    life: PhantomData<&'a mut T>,
}

impl<T> Output<'_, T> {
    pub(crate) fn set(self, value: T) {
        // SAFETY: not null, and memory for a `T` by the promise to `output`. What it held is not
        // dropped: C's memory.
        unsafe { self.pointer.write(value) };
    }
}

/// An array, if the pointer is not null or the array is empty.
///
/// # Safety
///
/// It is null, or points to `count` elements that live and are not written for `'a`.
pub(crate) unsafe fn array<'a, T>(pointer: *const T, count: usize, name: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(null(name));
    }
    let bytes = count.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize);
    // Behind the end of the address space nobody has memory.
    if bytes.and_then(|bytes| pointer.addr().checked_add(bytes)).is_none() {
        return Err(Failure::new(Status::OutOfBounds, format!("`{name}` cannot have {count} elements")));
    }
    if !pointer.is_aligned() {
        return Err(Failure::argument(format!("`{name}` is not aligned")));
    }
    // SAFETY: the caller's promise; not null, aligned, and not more than a slice may have.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// An array of bytes to fill.
///
/// # Safety
///
/// It is null, or points to `count` bytes that nobody else uses for `'a`.
pub(crate) unsafe fn buffer<'a>(pointer: *mut u8, count: usize, name: &str) -> Result<Buffer<'a>, Failure> {
    if pointer.is_null() && count > 0 {
        return Err(null(name));
    }
    if count > isize::MAX as usize {
        return Err(Failure::new(Status::OutOfBounds, format!("`{name}` cannot have room for {count} bytes")));
    }
    Ok(Buffer { pointer, count, life: PhantomData })
}

/// Bytes of C's that may not have been written yet.
pub(crate) struct Buffer<'a> {
    pointer: *mut u8,
    count: usize,
    life: PhantomData<&'a mut [u8]>,
}

impl<'a> Buffer<'a> {
    /// The bytes as memory that nobody may have written yet.
    pub(crate) fn unwritten(self) -> &'a mut [MaybeUninit<u8>] {
        if self.count == 0 {
            return &mut [];
        }
        // SAFETY: not null, not more than a slice may have, and `count` bytes that are nobody
        // else's for `'a`, by the promise to `buffer`. `MaybeUninit` asks nothing of what they
        // hold.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.cast(), self.count) }
    }

    /// The bytes as such: zeros, because what C has there may never have been written.
    pub(crate) fn zeroed(self) -> &'a mut [u8] {
        let bytes = self.unwritten();
        bytes.fill(MaybeUninit::new(0));
        // SAFETY: they are written now.
        unsafe { bytes.assume_init_mut() }
    }
}

/// A text.
///
/// # Safety
///
/// It is null, or points to bytes that end with a zero and are not written for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a CStr, Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

/// Gives a value to C, which gives it back to [`take`].
pub(crate) fn give<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes back what [`give`] gave.
///
/// # Safety
///
/// It is null, or comes from [`give`] and was not taken before, and nobody uses it any more.
pub(crate) unsafe fn take<T>(pointer: *mut T, name: &str) -> Result<Box<T>, Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { Box::from_raw(pointer) })
}

/// Gives a text to C, which gives it back to [`take_text`].
pub(crate) fn give_text(text: CString) -> *mut c_char {
    text.into_raw()
}

/// Takes back what [`give_text`] gave.
///
/// # Safety
///
/// It is null, or comes from [`give_text`] and was not taken before, and its length is as it was.
pub(crate) unsafe fn take_text(pointer: *mut c_char, name: &str) -> Result<CString, Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CString::from_raw(pointer) })
}

fn null(name: &str) -> Failure {
    Failure::argument(format!("`{name}` is null"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn arrays_that_no_memory_has_are_refused() {
        let numbers = [1_u64, 2, 3];
        // SAFETY: what is not refused lives here.
        let of = |pointer: *const u64, count| unsafe { array(pointer, count, "numbers") };
        assert_eq!(of(numbers.as_ptr(), 3).map_err(drop).unwrap(), numbers);
        assert!(of(std::ptr::null(), 0).map_err(drop).unwrap().is_empty());
        for count in [usize::MAX, usize::MAX / 8, usize::MAX / 8 + 2, isize::MAX as usize / 8 + 1] {
            assert!(of(numbers.as_ptr(), count).is_err(), "{count}");
        }
        assert!(of(std::ptr::null(), 1).is_err());
        assert!(of(std::ptr::without_provenance(usize::MAX - 7), 2).is_err());
        assert!(of(numbers.as_ptr().wrapping_byte_add(1), 2).is_err());
    }
}
