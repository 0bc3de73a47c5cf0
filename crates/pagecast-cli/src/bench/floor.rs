//! Belady's floor: the fewest bytes that any policy could have read for the page requests of a run.
//!
//! The pool records a request when it answers it, while the page is in its frame (see
//! [`Recorder`]). What the run loaded is therefore one way to serve the recorded list, and Belady's
//! is the best: it never lies above. Recorded when they were made, requests that wait for one load
//! would stand far apart, and a replay would load the page for each.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use pagecast::{Pool, Recorder};
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
    /// Bytes of the misses when the recorded requests are replayed through Belady with as many
    /// frames as `pool` has.
    ///
    /// Belady minimises misses; the pages being of one size, but for the last of each file, that is
    /// also the least of bytes. A pool that reads past itself serves such a page beside its frames;
    /// Belady gets one more to do the same.
    pub(super) fn belady_bytes(&self, pool: &Pool) -> anyhow::Result<u64> {
        self.replayed(pool.frames() + u32::from(pool.stats().bypassed_bytes > 0))
    }

    fn replayed(&self, frames: u32) -> anyhow::Result<u64> {
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
    use std::sync::Arc;

    use pagecast::PoolOptions;
    use pagecast::storage::{DeclaredModel, Device, MemoryFiles};
    use pagecast_core::RelationId;

    #[test]
    fn misses_weigh_their_bytes() {
        let requests = Requests::default();
        // Two frames, a cyclic scan of three pages: Belady misses 0, 1, 2 and one of each further
        // pair.
        for block in [0, 1, 2, 0, 1, 2] {
            requests.request(PageId::new(RelationId(1), block), if block == 2 { 10 } else { 100 });
        }
        assert_eq!(requests.replayed(3).unwrap(), 210);
        assert_eq!(requests.replayed(2).unwrap(), 210 + 100);
        assert!(requests.replayed(0).is_err());
    }

    #[tokio::test]
    async fn requests_that_wait_for_one_load_cost_one() {
        const PAGES: u64 = 64;
        let files = MemoryFiles::new();
        files.write("table", vec![7; PAGES as usize * 4096]);
        let latency = std::time::Duration::from_millis(1);
        let model = DeclaredModel { bandwidth: u64::MAX, latency, outstanding: DeclaredModel::OUTSTANDING };
        let requests = Arc::<Requests>::default();
        let pool = Pool::new(
            PoolOptions::default()
                .memory(128 << 10)
                .page_size(4096)
                .device(Device::new(files, Some(model)))
                .recorder(requests.clone()),
        );
        let pool = pool.unwrap();
        assert!(u64::from(pool.frames()) < PAGES / 2, "{} frames", pool.frames());
        let table = pool.open("table".as_ref()).unwrap();
        // Side by side each waits for what the other has begun to load, far behind the first pages
        // of its request.
        let whole = 0..PAGES * 4096;
        let scan = || table.read(std::slice::from_ref(&whole), None);
        let (one, other) = tokio::join!(scan(), scan());
        assert_eq!(one.unwrap().data, other.unwrap().data);
        let read = pool.stats().bytes_read;
        assert!(read < PAGES * 4096 * 2, "loads were shared");
        assert!(requests.belady_bytes(&pool).unwrap() <= read);
        assert_eq!(requests.0.lock().unwrap().len() as u64, PAGES * 2, "each request once");
    }
}
