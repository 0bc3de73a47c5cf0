//! `pagecast.Trace`: page requests, from arrays, files and generators.

use crate::array::Numbers;
use crate::records::{Arrays, Columns};
use crate::{arrow, errors, results, wait};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array, UInt64Array};
use pagecast_sim::charts;
use pagecast_sim::report::Page;
use pagecast_sim::study::load_watched;
use pagecast_sim::trace::{Format, Trace as Loaded, open};
use pagecast_sim::watch::Watch;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::path::PathBuf;
use std::sync::Arc;

/// Page requests in their order, held in memory: 4 bytes a request, beside its arrays.
///
/// `pages` has a 64-bit id per request: the block within a relation in its lower half, the relation
/// above. Any array of whole numbers will do that lends its memory (numpy, memoryview,
/// `array.array`); it is read once, in place. The others are optional, with an entry per request:
///
/// - `writes`: whether the page will be written.
/// - `streams`: who asks, from 0; what runs side by side when time is logical.
/// - `scans`: which scan asks; below 0 none. A scan registers at its first request, for the pages
///   of all its requests in their order, says where it is every `report` requests, and ends with
///   its last. Predictive policies (`pbm`) then know what it reads next.
///
/// >>> import array, pagecast
/// >>> trace = pagecast.Trace(array.array("Q", [1, 2, 3, 1, 4, 1, 2]), name="seven")
/// >>> len(trace), trace.unique
/// (7, 4)
/// >>> trace
/// <pagecast.Trace seven: 7 requests for 4 pages>
#[pyclass(frozen, module = "pagecast")]
pub(crate) struct Trace {
    pub(crate) loaded: Arc<Loaded>,
}

#[pymethods]
impl Trace {
    #[new]
    #[pyo3(signature = (pages, *, writes=None, streams=None, scans=None, report=16, name="array"))]
    fn new(
        py: Python<'_>,
        pages: &Bound<'_, PyAny>,
        writes: Option<&Bound<'_, PyAny>>,
        streams: Option<&Bound<'_, PyAny>>,
        scans: Option<&Bound<'_, PyAny>>,
        report: u64,
        name: &str,
    ) -> PyResult<Self> {
        let pages = Numbers::of(pages, "pages")?;
        let requests = pages.len();
        let column = |object: Option<&Bound<'_, PyAny>>, what: &str| {
            let Some(object) = object else { return Ok(None) };
            let numbers = Numbers::of(object, what)?;
            if numbers.len() != requests {
                let of = numbers.len();
                return Err(PyValueError::new_err(format!("{what}: {of} entries for {requests} requests")));
            }
            Ok(Some(numbers))
        };
        let columns = Columns {
            pages,
            writes: column(writes, "writes")?,
            streams: column(streams, "streams")?,
            scans: column(scans, "scans")?,
        };
        let name = name.to_owned();
        let loaded = wait::made(py, &Arc::default(), move |watch| {
            let in_array = |error| errors::of_trace(&error);
            let mut source = Arrays::new(columns, report, Arc::clone(watch)).map_err(in_array)?;
            Loaded::load(name, &mut source).map_err(in_array)
        })?;
        Ok(Self { loaded: Arc::new(loaded) })
    }

    /// The trace in a file: text, csv, oracleGeneral, lis, lirs or pagecast's own, plain or
    /// compressed by gzip, zstd or xz. `format` as in `pagecast simulate --format`; "auto" tells it
    /// from content and name.
    #[staticmethod]
    #[pyo3(signature = (path, format="auto"))]
    fn open(py: Python<'_>, path: PathBuf, format: &str) -> PyResult<Self> {
        let format: Format = format.parse().map_err(PyValueError::new_err)?;
        let loaded = wait::made(py, &Arc::default(), move |watch| {
            let source = open(&path, &format).map_err(|error| errors::of_trace(&error))?;
            load_watched(&path, source, watch).map_err(|error| errors::of_study(&error))
        })?;
        Ok(Self { loaded: Arc::new(loaded) })
    }

    /// The requests for a part of the pages, chosen by a hash: `rate` of them, above 0 and up to 1.
    #[pyo3(signature = (rate, seed=1))]
    fn sample(&self, py: Python<'_>, rate: f64, seed: u64) -> PyResult<Self> {
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(PyValueError::new_err(format!("rate: {rate} is not above 0 and up to 1")));
        }
        let loaded = Arc::clone(&self.loaded);
        let sample = wait::made(py, &Arc::default(), move |_| Ok(loaded.sample(rate, seed)))?;
        if sample.requests().is_empty() {
            return Err(PyValueError::new_err(format!("{}: a sample of {rate} holds none of its pages", sample.name)));
        }
        Ok(Self { loaded: Arc::new(sample) })
    }

    /// What results call it.
    #[getter]
    fn name(&self) -> &str {
        &self.loaded.name
    }

    /// How many different pages there are.
    #[getter]
    fn unique(&self) -> u32 {
        self.loaded.unique()
    }

    /// How many requests write.
    #[getter]
    fn writes(&self) -> u64 {
        self.loaded.writes()
    }

    /// How many streams there are.
    #[getter]
    fn streams(&self) -> u32 {
        self.loaded.stream_count()
    }

    /// How many scans register.
    #[getter]
    fn scans(&self) -> usize {
        self.loaded.scan_count()
    }

    fn __len__(&self) -> usize {
        self.loaded.requests().len()
    }

    fn __repr__(&self) -> String {
        let scans = match self.loaded.scan_count() {
            0 => String::new(),
            scans => format!(", {scans} scans"),
        };
        let (requests, pages) = (self.loaded.requests().len(), self.loaded.unique());
        format!("<pagecast.Trace {}: {requests} requests for {pages} pages{scans}>", self.loaded.name)
    }

    /// Which pages are asked for over time, as one HTML page.
    fn to_html(&self, py: Python<'_>) -> PyResult<String> {
        let loaded = Arc::clone(&self.loaded);
        wait::made(py, &Arc::default(), move |_| {
            let mut page = Page::new("Page accesses", charts::ACCESSES);
            let note = format!("{} requests for {} different pages.", loaded.requests().len(), loaded.unique());
            page.chart(loaded.name.clone(), note, 420, charts::accesses(&loaded));
            Ok(page.to_string())
        })
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        Ok(results::framed(&self.to_html(py)?))
    }

    /// The requests as an Arrow table: page, write, stream, scan (null outside scans).
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let loaded = Arc::clone(&self.loaded);
        let batch = wait::made(py, &Arc::default(), move |_| table(&loaded))?;
        arrow::stream(py, &batch)
    }
}

fn table(trace: &Loaded) -> PyResult<RecordBatch> {
    let all = || 0..trace.requests().len();
    let pages = trace.requests().iter().map(|&number| trace.pages()[number as usize].raw());
    let columns: [(&str, ArrayRef, bool); 4] = [
        ("page", Arc::new(pages.collect::<UInt64Array>()), false),
        ("write", Arc::new(all().map(|at| Some(trace.is_write(at))).collect::<BooleanArray>()), false),
        ("stream", Arc::new(all().map(|at| trace.stream(at)).collect::<UInt32Array>()), false),
        ("scan", Arc::new(all().map(|at| trace.scan(at)).collect::<UInt32Array>()), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Makes the workload that `workload` names, as `name` or `name(parameter=value,...)`; see
/// `workloads()` for what there is. The same seed makes the same trace.
///
/// >>> import pagecast
/// >>> pagecast.generate("loop(pages=100,rounds=3)")
/// <pagecast.Trace loop(pages=100,rounds=3): 300 requests for 100 pages, 3 scans>
#[pyfunction]
#[pyo3(signature = (workload, seed=1))]
pub(crate) fn generate(py: Python<'_>, workload: String, seed: u64) -> PyResult<Trace> {
    let loaded = wait::made(py, &Arc::default(), move |watch: &Arc<Watch>| {
        let source = pagecast_sim::generate::generate(&workload, seed).map_err(PyValueError::new_err)?;
        load_watched(workload.as_ref(), Box::new(source), watch).map_err(|error| errors::of_study(&error))
    })?;
    Ok(Trace { loaded: Arc::new(loaded) })
}
