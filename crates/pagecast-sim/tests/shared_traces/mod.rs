//! The real traces in `../shared/traces`, which are used in place.

use pagecast_core::PageId;
use pagecast_sim::trace::{self, Format, Trace};
use std::fs;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};

/// The traces, if they are there. If not, `test` says that it is skipped, past the harness, which
/// keeps to itself what a test prints that passes.
pub(crate) fn folder(test: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let found = folder.join("REFERENCE.tsv").exists().then_some(folder);
    if found.is_none() {
        let _ = writeln!(stderr(), "skipped: {test}: ../shared/traces is not there");
    }
    found
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
