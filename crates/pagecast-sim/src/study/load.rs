//! Traces that are read until somebody has enough of it.

use super::StudyError;
use crate::simulation::SimulationError;
use crate::trace::{Place, Record, Source, Trace, TraceError};
use crate::watch::Watch;
use pagecast_core::PageId;
use std::path::Path;

/// The trace in `source`, which was read from `path` and is called so.
///
/// # Errors
///
/// What is wrong with it, in that file; [`SimulationError::Stopped`] if the watch was stopped.
pub fn load_watched(path: &Path, source: Box<dyn Source + Send>, watch: &Watch) -> Result<Trace, StudyError> {
    let loaded = Trace::load(path.display().to_string(), &mut Stoppable { source, watch });
    if watch.is_stopped() {
        return Err(SimulationError::Stopped.into());
    }
    Ok(loaded.map_err(|error| error.in_file(path))?)
}

struct Stoppable<'a> {
    source: Box<dyn Source + Send>,
    watch: &'a Watch,
}

impl Stoppable<'_> {
    fn go_on(&self) -> Result<(), TraceError> {
        match self.watch.is_stopped() {
            true => Err(TraceError::at(Place::Whole, "stopped")),
            false => Ok(()),
        }
    }
}

impl Source for Stoppable<'_> {
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        self.go_on()?;
        self.source.next()
    }

    fn reads(&mut self, pages: &mut Vec<PageId>) -> Result<(), TraceError> {
        self.go_on()?;
        self.source.reads(pages)
    }
}
