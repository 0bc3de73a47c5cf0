//! Whole numbers in the memory of a Python object: a numpy array, a memoryview, an `array.array`.
//!
//! Nothing is copied: the object lends its buffer as long as [`Numbers`] lives. Python code that
//! writes into the array meanwhile gets some mixture of old and new numbers, as everywhere in
//! numpy.
#![allow(unsafe_code)]

use pyo3::buffer::{Element, PyBuffer, PyUntypedBuffer};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Numbers of one of the types that page ids come in.
pub(crate) enum Numbers {
    U8(PyBuffer<u8>),
    U16(PyBuffer<u16>),
    U32(PyBuffer<u32>),
    U64(PyBuffer<u64>),
    I8(PyBuffer<i8>),
    I16(PyBuffer<i16>),
    I32(PyBuffer<i32>),
    I64(PyBuffer<i64>),
    Bool(PyUntypedBuffer),
}

impl Numbers {
    /// The numbers of `object`; `what` names them in errors.
    pub(crate) fn of(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        let untyped = PyUntypedBuffer::get(object).map_err(|_| {
            let kind = object.get_type();
            PyTypeError::new_err(format!("{what}: an array is wanted (numpy, memoryview, array.array), not {kind}"))
        })?;
        if untyped.dimensions() != 1 || !untyped.is_c_contiguous() {
            let cause = "the array is not one piece of one dimension; give numpy.ascontiguousarray(x).ravel()";
            return Err(PyValueError::new_err(format!("{what}: {cause}")));
        }
        let format = untyped.format().to_string_lossy().into_owned();
        if format == "?" {
            return Ok(Self::Bool(untyped));
        }
        fn typed<T: Element>(object: &Bound<'_, PyAny>, make: fn(PyBuffer<T>) -> Numbers) -> Option<Numbers> {
            PyBuffer::get(object).ok().map(make)
        }
        let kind = typed(object, Self::U64)
            .or_else(|| typed(object, Self::I64))
            .or_else(|| typed(object, Self::U32))
            .or_else(|| typed(object, Self::I32))
            .or_else(|| typed(object, Self::U16))
            .or_else(|| typed(object, Self::I16))
            .or_else(|| typed(object, Self::U8))
            .or_else(|| typed(object, Self::I8));
        kind.ok_or_else(|| {
            let cause = "whole numbers are wanted (uint64, int64, uint32 ...), not items of the buffer format";
            PyTypeError::new_err(format!("{what}: {cause} `{format}`"))
        })
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::U8(buffer) => buffer.item_count(),
            Self::U16(buffer) => buffer.item_count(),
            Self::U32(buffer) => buffer.item_count(),
            Self::U64(buffer) => buffer.item_count(),
            Self::I8(buffer) => buffer.item_count(),
            Self::I16(buffer) => buffer.item_count(),
            Self::I32(buffer) => buffer.item_count(),
            Self::I64(buffer) => buffer.item_count(),
            Self::Bool(buffer) => buffer.item_count(),
        }
    }

    /// Number `at`, signed ones extended to 64 bits; 0 behind the end.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> u64 {
        match self {
            Self::U8(buffer) => u64::from(item(buffer, at)),
            Self::U16(buffer) => u64::from(item(buffer, at)),
            Self::U32(buffer) => u64::from(item(buffer, at)),
            Self::U64(buffer) => item(buffer, at),
            Self::I8(buffer) => i64::from(item(buffer, at)) as u64,
            Self::I16(buffer) => i64::from(item(buffer, at)) as u64,
            Self::I32(buffer) => i64::from(item(buffer, at)) as u64,
            Self::I64(buffer) => item(buffer, at) as u64,
            Self::Bool(buffer) => u64::from(byte(buffer, at) != 0),
        }
    }

    /// Appends numbers `from` up to `until`, which is not behind the end.
    pub(crate) fn append<T>(&self, from: usize, until: usize, to: &mut Vec<T>, of: impl Fn(u64) -> T) {
        match self {
            Self::U64(buffer) => to.extend((from..until).map(|at| of(item(buffer, at)))),
            Self::I64(buffer) => to.extend((from..until).map(|at| of(item(buffer, at) as u64))),
            _ => to.extend((from..until).map(|at| of(self.get(at)))),
        }
    }
}

#[inline]
fn item<T: Element + Default>(buffer: &PyBuffer<T>, at: usize) -> T {
    let first = buffer.buf_ptr().cast::<T>();
    if at >= buffer.item_count() {
        return T::default();
    }
    // SAFETY: the buffer has one dimension and no gaps (`Numbers::of`), is as long as its count
    // says, and stays where it is until it is released. It may lie at any address, hence
    // `unaligned`; any bits are a number.
    unsafe { first.wrapping_add(at).read_unaligned() }
}

/// A bool as what it lies in memory as: who made the array may have put other bits there.
#[inline]
fn byte(buffer: &PyUntypedBuffer, at: usize) -> u8 {
    let first = buffer.buf_ptr().cast::<u8>();
    if at >= buffer.item_count() {
        return 0;
    }
    // SAFETY: as in `item`, of items that are a byte each.
    unsafe { first.wrapping_add(at).read() }
}
