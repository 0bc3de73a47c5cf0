//! Registered scans.

use std::sync::Arc;

use pagecast_core::ScanId;

use crate::pool::Shared;

/// A scan that the pool knows of. It reports how far it is, and is forgotten when this is dropped, be it at its end, on an
/// error or on cancellation.
pub struct Scan {
    shared: Arc<Shared>,
    id: ScanId,
}

impl Scan {
    pub(crate) fn new(shared: Arc<Shared>, id: ScanId) -> Self {
        Self { shared, id }
    }

    /// What requests of the scan are marked with.
    pub fn id(&self) -> ScanId {
        self.id
    }

    /// All positions before `position` are done. Lock-free; several threads of one scan may report, and the furthest
    /// position counts.
    pub fn report(&self, position: u64) {
        self.shared.predictor.report(self.id, position, self.shared.now());
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        let now = self.shared.now();
        self.shared.registry.lock().finish(self.id, now);
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Scan").field(&self.id).finish()
    }
}
