//! Streams out of the capsules of the Arrow PyCapsule interface.
#![allow(unsafe_code)]

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
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
