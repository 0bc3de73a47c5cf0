//! What happened when, sampled while a run is under way.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pagecast_core::ScanId;
use pagecast_datafusion::Host;

/// How long to wait for the next look at a run that has taken `elapsed`: a few hundred looks,
/// however short it turns out to be, and ten a second of a long one.
pub(super) fn pause(elapsed: Duration) -> Duration {
    (elapsed / 100).clamp(Duration::from_millis(1), Duration::from_millis(100))
}

/// A point of a line: seconds since the run began, and a value.
type Point = (f64, f64);

/// Samples of one run.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    bytes_read: Vec<Point>,
    /// By scan and file: where in the file it stood, 0 to 1.
    scans: HashMap<(ScanId, PathBuf), Vec<Point>>,
    /// Bytes that 1, 2, 3, 4, and 5 or more running scans still need.
    sharing: [Vec<Point>; 5],
}

impl Timeline {
    /// Notes the bytes that were read, and where the scans of `host` are if there is one.
    pub(super) fn sample(&mut self, started: Instant, bytes_read: u64, host: Option<&Host>) {
        let seconds = started.elapsed().as_secs_f64();
        self.bytes_read.push((seconds, bytes_read as f64));
        for scan in host.into_iter().flat_map(Host::scans) {
            let place = scan.offset as f64 / scan.file_bytes.max(1) as f64;
            self.scans.entry((scan.scan, scan.path)).or_default().push((seconds, place));
        }
        let needed = host.map(Host::sharing).unwrap_or_default();
        for (line, bytes) in self.sharing.iter_mut().zip(needed) {
            line.push((seconds, bytes as f64));
        }
    }

    /// Bytes read so far, over time.
    pub(super) fn bytes_read(&self) -> &[Point] {
        &self.bytes_read
    }

    /// Bytes that exactly 1, 2, 3, 4, and 5 or more running scans still need, over time.
    pub(super) fn sharing(&self) -> &[Vec<Point>; 5] {
        &self.sharing
    }

    /// For each scan its places over time, the earliest scan first.
    pub(super) fn scans(&self) -> Vec<&[Point]> {
        let mut scans: Vec<&[Point]> = self.scans.values().map(Vec::as_slice).collect();
        scans.sort_by(|a, b| a[0].0.total_cmp(&b[0].0).then(a[0].1.total_cmp(&b[0].1)));
        scans
    }
}
