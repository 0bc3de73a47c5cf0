//! What a policy may ask about the future.

use crate::{PageId, ScanId, Tick};

/// Knows, exactly or by estimate, when a page will be wanted next.
pub trait Oracle {
    /// Ticks from `now` until `page` is next accessed; `None` when nobody is known to want it.
    fn next_access(&self, page: PageId, now: Tick) -> Option<Tick>;

    /// As [`next_access`](Self::next_access), for who chooses among pages.
    ///
    /// Only an answer above `bound` matters: one that is not above it may be given too high, but not above `bound`. A search for the page that is
    /// wanted last gives the latest found so far. The page's last use was at `used`: it may have been the use that somebody is
    /// still expected to make of it. 0 if that is not known.
    fn next_access_after(&self, used: Tick, bound: Tick, page: PageId, now: Tick) -> Option<Tick> {
        let _ = (used, bound);
        self.next_access(page, now)
    }

    /// `scan` asks for `page`, which is not there: so far it has come. To be said before a victim is looked for; whoever knows of scans
    /// may take it for a report.
    fn missed(&self, scan: ScanId, page: PageId, now: Tick) {
        let _ = (scan, page, now);
    }

    /// A number that changes whenever a scan begins or ends: what was learned before may not hold any more.
    fn scan_changes(&self) -> u64 {
        0
    }
}

/// Knows of no scan: for pools and traces without registrations.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoScans;

impl Oracle for NoScans {
    fn next_access(&self, _page: PageId, _now: Tick) -> Option<Tick> {
        None
    }
}
