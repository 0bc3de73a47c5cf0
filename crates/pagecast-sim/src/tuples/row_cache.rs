//! `row(50%)`: a cache of rows in front of a page cache, each with its fixed part of the memory, as
//! key-value stores have it. A read looks for its row first. A row that is not there is read from
//! its page, and then both have it. A write changes both. The row used longest ago leaves. A row
//! takes 64 bytes beside its own: an entry of the index and the links of the list.

use super::recency::Recency;
use super::{Buffer, Request};
use pagecast_core::PageId;
use pagecast_core::oracle::Oracle;
use pagecast_core::tuples::{Counts, Model};

const ROW_BYTES: u64 = 64;

pub(super) struct RowCache {
    pages: Model,
    rows: Recency<(PageId, u32), u64>,
    bytes: u64,
    memory: u64,
    whole: u64,
    hits: u64,
}

impl RowCache {
    /// `rows` of the `whole` memory for rows, beside the page cache.
    pub(super) fn new(pages: Model, rows: u64, whole: u64) -> Self {
        Self { pages, rows: Recency::default(), bytes: 0, memory: rows, whole, hits: 0 }
    }
}

impl Buffer for RowCache {
    fn request(&mut self, request: &Request, oracle: &dyn Oracle) {
        let key = request.tuple.map(|tuple| (request.access.page, tuple.name));
        let found = key.is_some_and(|key| self.rows.touch(key).is_some());
        if found && !request.access.write {
            self.hits += 1;
            return;
        }
        self.pages.request(&request.access, None, oracle);
        if let (false, Some(key), Some(tuple)) = (found, key, request.tuple) {
            let bytes = u64::from(tuple.length) + ROW_BYTES;
            self.rows.insert(key, bytes);
            self.bytes += bytes;
            while self.bytes > self.memory {
                let Some((_, bytes)) = self.rows.pop_oldest() else { break };
                self.bytes -= bytes;
            }
        }
    }

    fn checkpoint(&mut self) {
        self.pages.checkpoint();
    }

    fn counts(&self) -> Counts {
        let counts = self.pages.counts();
        Counts { requests: counts.requests + self.hits, tuple_hits: self.hits, ..counts }
    }

    fn share(&self) -> f64 {
        self.memory as f64 / self.whole as f64
    }
}
