//! Rows that come and go by the Arrow PyCapsule interface.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, RecordBatchReader, make_array};
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use pagecast_sql::HandedOver;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors;

/// All rows of a stream, which is empty afterwards.
pub(crate) fn collect(capsule: &Bound<'_, PyCapsule>) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds a stream of Arrow's C interface, so the interface says,
    // and the interpreter's lock keeps others from it. What is left in its place is a stream that
    // has been released, which the capsule's own destructor knows.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    let reader = ArrowArrayStreamReader::try_new(stream)
        .map_err(|error| PyValueError::new_err(format!("the stream cannot be read: {error}")))?;
    capsule.py().detach(|| {
        let schema = reader.schema();
        Ok((schema, reader.collect::<Result<_, _>>().map_err(|error| errors::of_arrow(&error))?))
    })
}

/// The same rows, which count as the consumer's from now on: what a program keeps of results is no
/// part of a connection's memory.
pub(crate) fn hand_over(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().iter().map(handed_over).collect();
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

/// The column with an owner of its first buffer that counts all of it.
fn handed_over(column: &ArrayRef) -> ArrayRef {
    let data = column.to_data();
    let mut buffers = data.buffers().to_vec();
    let Some(first) = buffers.first_mut() else { return Arc::clone(column) };
    let Some(start) = NonNull::new(first.as_ptr().cast_mut()) else { return Arc::clone(column) };
    let handed = HandedOver::new(data.get_slice_memory_size().unwrap_or(0));
    let (len, owner) = (first.len(), Arc::new((first.clone(), handed)));
    // SAFETY: the owner keeps the buffer, which nobody writes to, for as long as there is the new
    // one over the same bytes.
    *first = unsafe { Buffer::from_custom_allocation(start, len, owner) };
    // SAFETY: all buffers have the bytes and the places that they had in an array that is right.
    make_array(unsafe { data.into_builder().buffers(buffers).build_unchecked() })
}
