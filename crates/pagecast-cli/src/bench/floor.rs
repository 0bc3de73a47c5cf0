//! Belady's floor: the fewest bytes that any policy could have read for the page requests of a run.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use pagecast::Recorder;
use pagecast_core::PageId;

/// Keeps every page request of a run, in order: 12 bytes each.
#[derive(Debug, Default)]
pub(super) struct Requests(Mutex<Vec<(PageId, u32)>>);

impl Recorder for Requests {
    fn request(&self, page: PageId, bytes: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((page, bytes));
    }
}

impl Requests {
    /// Bytes of the misses when the recorded requests are replayed through Belady with `frames` frames.
    ///
    /// A replay takes its requests one after the other, as the pool met them, and misses whole pages: what a run read
    /// past the pool or waited for at the same time is one miss or hit here too. Belady minimises misses; the pages being
    /// of one size, but for the last of each file, that is also the least of bytes.
    pub(super) fn belady_bytes(&self, frames: u32) -> anyhow::Result<u64> {
        let requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pages: Vec<PageId> = requests.iter().map(|&(page, _)| page).collect();
        let sizes: HashMap<PageId, u32> = requests.iter().copied().collect();
        let mut bytes = 0;
        pagecast_sim::replay::belady_misses(&pages, frames, |miss| bytes += u64::from(sizes[&miss.page]))
            .context("cannot replay the run through Belady")?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pagecast_core::RelationId;

    #[test]
    fn misses_weigh_their_bytes() {
        let requests = Requests::default();
        // Two frames, a cyclic scan of three pages: Belady misses 0, 1, 2 and one of each further pair.
        for block in [0, 1, 2, 0, 1, 2] {
            requests.request(PageId::new(RelationId(1), block), if block == 2 { 10 } else { 100 });
        }
        assert_eq!(requests.belady_bytes(3).unwrap(), 210);
        assert_eq!(requests.belady_bytes(2).unwrap(), 210 + 100);
        assert!(requests.belady_bytes(0).is_err());
    }
}
