//! What a pool did, as a dictionary.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::open::Open;

/// Counts since the connection was opened. Amounts are bytes.
pub(crate) fn of<'py>(py: Python<'py>, open: &Open) -> PyResult<Bound<'py, PyDict>> {
    let engine = &open.engine;
    let stats = engine.pool.stats();
    let counts = PyDict::new(py);
    for (name, count) in [
        ("requests", stats.requests),
        ("hits", stats.hits),
        ("bytes_requested", stats.bytes_requested),
        ("bytes_read", stats.bytes_read),
        ("bypassed_bytes", stats.bypassed_bytes),
        ("gap_bytes", stats.gap_bytes),
        ("loads", stats.loads),
        ("failed_loads", stats.failed_loads),
        ("evictions", stats.evictions),
        ("prefetched", stats.prefetched),
        ("flash_hits", stats.flash_hits),
        ("flash_bytes_read", stats.flash_bytes_read),
        ("flash_bytes_written", stats.flash_bytes_written),
        ("footer_bytes_read", engine.host.footer_bytes_read()),
        ("out_of_order_scans", engine.host.out_of_order_scans()),
        ("back_in_order_scans", engine.host.back_in_order_scans()),
    ] {
        counts.set_item(name, count)?;
    }
    counts.set_item("hit_rate", stats.hit_rate())?;
    if let Some(store) = &engine.store {
        let asked = store.stats();
        for (name, count) in [
            ("store_gets", asked.requests.gets),
            ("store_heads", asked.requests.heads),
            ("store_lists", asked.requests.lists),
            ("store_bytes_read", asked.bytes_read),
        ] {
            counts.set_item(name, count)?;
        }
    }
    Ok(counts)
}
