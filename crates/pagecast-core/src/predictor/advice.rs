//! Advice to hosts: when a scan had better wait, and who may read ahead. Off until a host asks; core never waits itself.
//!
//! Source: Świtakowski 2011, section 8.2.3 (short queries first) and 8.2.4 (throttling by `next_consumption_evict`), which
//! are sketches of future work there. What is open in them is decided here:
//! * `next_consumption_evict` is the running mean, over about the last 16 victims that anybody wanted, of the time until
//!   they would have been read: the *horizon*. Pages that are wanted later than that are likely to be evicted first. A
//!   victim that nobody wanted says that there is room for more, and moves the horizon out by a 16th.
//! * A scan waits when the page that it has just read will be read again beyond the horizon, and the pauses that its bound
//!   leaves are enough to bring the scan behind it inside. Where they are not, it would wait for nothing.
//! * The bound is a share of the time that the scan has run: with 0.2, it loses at most a fifth.
//! * Reading ahead is shared out in inverse proportion to the time that each scan still needs.
//!
//! Suits many scans at different places of a relation that is larger than the pool. Cost: O(1) per victim and one estimate
//! per pause; O(scans) per share. One word in all, and one per scan.

use super::layout::header;
use super::reader::Predictor;
use super::scan::Scan;
use crate::oracle::{Oracle, Question};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::{PageId, ScanId, Tick};

/// How much of the horizon a victim moves: a 16th.
const MOVE: u64 = 16;

/// How far a host lets its scans be slowed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Throttle {
    /// The share of its running time that a scan may wait in all, from 0 (never) to 1.
    pub share: f64,
    /// The longest single pause, in ticks.
    pub longest: Tick,
}

impl<M: AsRef<[AtomicU64]>> Predictor<M> {
    /// Says that a page was evicted that some scan would have read in `wanted_in` ticks, or none.
    ///
    /// One load and one store; of two at the same time one may be lost, which a mean can bear.
    pub fn evicted(&self, wanted_in: Option<Tick>) {
        let old = self.words().load(header::HORIZON, Relaxed);
        let new = match wanted_in {
            // The first one counts as a whole.
            Some(ticks) if old == 0 => ticks,
            Some(ticks) => (old - old / MOVE).saturating_add(ticks / MOVE),
            None => old.saturating_add(old / MOVE),
        };
        self.words().store(header::HORIZON, new, Relaxed);
    }

    /// How far ahead, in ticks, a page may be wanted and still be there then, judged by recent victims; `None` before the
    /// first.
    pub fn horizon(&self) -> Option<Tick> {
        Some(self.words().load(header::HORIZON, Relaxed)).filter(|&ticks| ticks > 0)
    }

    /// How many ticks `scan`, which is done with `page`, had better wait at `now`, so that the scan behind it finds the page.
    /// 0 if it gains nothing, if its bound is used up, or if nothing is known. The pause counts as taken.
    pub fn pause(&self, scan: ScanId, page: PageId, now: Tick, throttle: &Throttle) -> Tick {
        let Some(record) = self.open(scan) else { return 0 };
        let (Some(behind), Some(horizon)) = (self.next_access(Question::new(page, now)), self.horizon()) else {
            return 0;
        };
        let too_far = behind.saturating_sub(horizon);
        let elapsed = now.saturating_sub(record.started()) as f64;
        let left = ((elapsed * throttle.share.clamp(0.0, 1.0)) as Tick).saturating_sub(record.paused());
        if too_far == 0 || too_far > left {
            return 0;
        }
        let pause = too_far.min(throttle.longest);
        record.add_pause(pause);
        pause
    }

    /// The share of `budget` (requests, bytes) that `scan` may have outstanding ahead of its position: the less time it
    /// still needs, the more. 0 for a scan that has finished; all of it for one that runs alone.
    pub fn read_ahead(&self, scan: ScanId, budget: u64) -> u64 {
        let mut sum = 0.0;
        self.each(|record| sum += urgency(&record));
        let own = self.open(scan).map_or(0.0, |record| urgency(&record));
        if sum > 0.0 { (budget as f64 * (own / sum).min(1.0)) as u64 } else { 0 }
    }
}

/// The inverse of the ticks that a scan still needs; 0 at its end.
fn urgency(scan: &Scan<'_>) -> f64 {
    let left = scan.length().saturating_sub(scan.position()) as f64 * scan.pace();
    if left > 0.0 { 1.0 / left.max(1.0) } else { 0.0 }
}
