//! The real traces in `../shared/traces`, which are used in place.

use pagecast_core::PageId;
use pagecast_sim::trace::{self, Format, Trace};
use std::fs;
use std::path::{Path, PathBuf};

/// The traces, if they are there.
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    folder.join("REFERENCE.tsv").exists().then_some(folder)
}

/// How many requests a trace has.
pub(crate) fn requests_of(folder: &Path, trace: &str) -> u64 {
    let manifest = fs::read_to_string(folder.join("MANIFEST.tsv")).unwrap();
    let line = manifest.lines().find(|line| line.split('\t').next() == Some(trace)).unwrap();
    line.split('\t').nth(1).unwrap().parse().unwrap()
}

/// The pages of a trace, numbered in the order of their first request, and how many there are.
pub(crate) fn pages(folder: &Path, trace: &str) -> (Vec<PageId>, u32) {
    let name = |suffix| folder.join("open").join(format!("{trace}.{suffix}"));
    let path = [name("txt.gz"), name("rw.txt.gz")].into_iter().find(|path| path.exists()).unwrap();
    let trace = Trace::load(trace, &mut *trace::open(&path, &Format::Auto).unwrap()).unwrap();
    (trace.requests().iter().map(|&page| PageId::from_raw(page.into())).collect(), trace.unique())
}
