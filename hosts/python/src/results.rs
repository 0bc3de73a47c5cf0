//! `pagecast.Result`: a table of what was simulated.

use crate::arrow;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use pagecast_sim::study::{Results, Row, Study, render, table, time_text};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use std::sync::Arc;

/// What `simulate` and `curve` give: a table, a row for each trace, policy and size.
///
/// polars and pyarrow take it by the Arrow stream interface, without a copy:
/// `polars.DataFrame(result)`, `pyarrow.table(result)`. `pandas.DataFrame.from_arrow(result)`
/// takes it, too, and copies numbers into blocks of its own. `rows()` needs none of them. In a
/// notebook it shows the page that `pagecast simulate --html` writes.
#[pyclass(frozen, module = "pagecast", name = "Result")]
pub(crate) struct Result {
    study: Study,
    results: Results,
    batch: RecordBatch,
}

/// A column's name, its values, and whether some may be missing.
type Column = (&'static str, ArrayRef, bool);

impl Result {
    pub(crate) fn of_rows(study: Study, results: Results) -> PyResult<Self> {
        let rows = &results.rows;
        let texts = |of: fn(&Row) -> &str| -> ArrayRef {
            Arc::new(rows.iter().map(|row| Some(of(row))).collect::<StringArray>())
        };
        let counts =
            |of: fn(&Row) -> Option<u64>| -> ArrayRef { Arc::new(rows.iter().map(of).collect::<UInt64Array>()) };
        let numbers = |of: fn(&Row) -> f64| -> ArrayRef {
            Arc::new(rows.iter().map(|row| Some(of(row))).collect::<Float64Array>())
        };
        let columns = vec![
            ("trace", texts(|row| &row.trace), false),
            ("policy", texts(|row| &row.policy), false),
            ("params", texts(|row| &row.params), false),
            ("size_pages", counts(|row| Some(row.size_pages)), false),
            ("share", numbers(|row| row.size_pages as f64 / f64::from(row.unique)), false),
            ("requests", counts(|row| Some(row.requests)), false),
            ("misses", counts(|row| Some(row.misses)), false),
            ("miss_ratio", numbers(|row| row.miss_ratio()), false),
            ("writes", counts(|row| Some(row.writes)), false),
            ("write_backs", counts(|row| Some(row.write_backs)), false),
            ("seconds", numbers(|row| row.seconds), false),
            ("ticks", counts(|row| row.ticks), true),
            ("opt_misses", counts(|row| row.opt_misses), true),
        ];
        Self::new(study, results, columns)
    }

    pub(crate) fn of_curves(study: Study, results: Results) -> PyResult<Self> {
        let points = || results.curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
        let columns: Vec<Column> = vec![
            ("trace", Arc::new(points().map(|(curve, _)| Some(&curve.trace)).collect::<StringArray>()), false),
            ("policy", Arc::new(points().map(|(curve, _)| Some(&curve.policy)).collect::<StringArray>()), false),
            ("size_pages", Arc::new(points().map(|(_, point)| u64::from(point.0)).collect::<UInt64Array>()), false),
            (
                "share",
                Arc::new(
                    points().map(|(of, point)| f64::from(point.0) / f64::from(of.unique)).collect::<Float64Array>(),
                ),
                false,
            ),
            ("miss_ratio", Arc::new(points().map(|(_, point)| point.1).collect::<Float64Array>()), false),
            ("sampled", Arc::new(points().map(|(curve, _)| curve.rate).collect::<Float64Array>()), false),
        ];
        Self::new(study, results, columns)
    }

    fn new(study: Study, results: Results, columns: Vec<Column>) -> PyResult<Self> {
        let batch = RecordBatch::try_from_iter_with_nullable(columns);
        let batch = batch.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        // The report needs no traces: they may go.
        let study = Study { inputs: Vec::new(), ..study };
        Ok(Self { study, results, batch })
    }
}

#[pymethods]
impl Result {
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// The table for people.
    fn __repr__(&self) -> String {
        let order = format!("seed {}, {}", self.study.seed, time_text(self.study.interleaving));
        if self.results.rows.is_empty() {
            let points = self.batch.num_rows();
            return format!("{} curves of {points} points, {order}", self.results.curves.len());
        }
        format!("{}{order}", table(&self.results.rows))
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The page that `pagecast simulate --html` writes: charts and all figures, complete in itself.
    fn to_html(&self) -> String {
        render(&self.study, &self.results)
    }

    fn _repr_html_(&self) -> String {
        framed(&self.to_html())
    }

    /// A dictionary for each row.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        for at in 0..self.batch.num_rows() {
            let row = PyDict::new(py);
            for (field, column) in self.batch.schema_ref().fields().iter().zip(self.batch.columns()) {
                row.set_item(field.name(), value(py, column, at)?)?;
            }
            rows.append(row)?;
        }
        Ok(rows)
    }

    /// The table by the Arrow PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        arrow::stream(py, &self.batch)
    }
}

/// Entry `at` of a column of one of the three kinds that there are here.
fn value(py: Python<'_>, column: &ArrayRef, at: usize) -> PyResult<Py<PyAny>> {
    use arrow_array::Array;
    let any = column.as_any();
    if column.is_null(at) {
        return Ok(py.None());
    }
    if let Some(texts) = any.downcast_ref::<StringArray>() {
        return Ok(texts.value(at).into_pyobject(py)?.into_any().unbind());
    }
    if let Some(counts) = any.downcast_ref::<UInt64Array>() {
        return Ok(counts.value(at).into_pyobject(py)?.into_any().unbind());
    }
    match any.downcast_ref::<Float64Array>() {
        Some(numbers) => Ok(numbers.value(at).into_pyobject(py)?.into_any().unbind()),
        None => Err(PyRuntimeError::new_err(format!("a column of {}", column.data_type()))),
    }
}

/// A page inside another, as a notebook's output: what it does stays in its frame, which is as high
/// as the page.
pub(crate) fn framed(page: &str) -> String {
    let inner = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<iframe srcdoc=\"{inner}\" style=\"width:100%;height:640px;border:0\" \
         onload=\"this.style.height=this.contentDocument.documentElement.scrollHeight+'px'\"></iframe>"
    )
}
