//! WATT: the last eight uses of a page and its last four writes, in coarse time, give its rates.
//!
//! Source: Vöhringer, Leis, "Write-aware timestamp tracking: Effective and efficient page
//! replacement for modern hardware" (PVLDB 16(11), 2023). A history's value is the largest of min(i
//! / (age_i + 1), 1) over its i-th last entry, the first times 0.1; a page's is that of its uses
//! plus `write` (1) times that of its writes. Time advances by `epochs` (4) steps in a turnover of
//! the pool. The lowest of 8 samples leaves if its value is low enough, else the lowest of 64.
//!
//! Deviations: low enough is the value of the last victim that was the lowest of 64. Writes count
//! also on clean pages, as in the authors' simulator. Both histories are forgotten when a page
//! leaves.
//!
//! Suits mixes of points and scans, and dear writes; weak where working sets change. Cost: a
//! frame's first hit in an epoch is two writes, four if it writes; 56 bytes per frame, 32 without
//! writes. Concurrency: relaxed. A reader may see a use one rank too young; the claim decides.

use super::{claim_any, lowest};
use crate::policy::{Access, Claimed, ConcurrentPolicy, Frames, HitNeed};
use crate::random::RandomSource;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::{FrameId, PageId, oracle::Oracle};
use alloc::vec::Vec;

/// Uses and writes that are remembered of each page.
const USES: usize = 8;
const WRITES: usize = 4;
const FEW_SAMPLES: u32 = 8;
const MANY_SAMPLES: u32 = 64;
/// Rounds of sampling before any frame is taken.
const ROUNDS: u32 = 4;
/// The weight of a history's last entry when it stands alone.
const FIRST_ORDER: f32 = 0.1;

/// The epochs of the last `N` entries of a history; entry n is at place n modulo `N`. How many
/// there were is counted outside.
#[derive(Debug)]
struct History<const N: usize>([AtomicU32; N]);

impl<const N: usize> History<N> {
    fn new() -> Self {
        Self([const { AtomicU32::new(0) }; N])
    }

    fn place(&self, entry: u64) -> &AtomicU32 {
        &self.0[(entry % N as u64) as usize]
    }

    /// Enters `epoch`, unless it is the last entry already.
    #[inline]
    fn note(&self, count: &AtomicU64, epoch: u32) {
        let entries = count.load(Relaxed);
        let noted = entries > 0 && self.place(entries - 1).load(Relaxed) == epoch;
        if !noted && count.compare_exchange(entries, entries + 1, Relaxed, Relaxed).is_ok() {
            self.place(entries).store(epoch, Relaxed);
        }
    }

    /// The highest rate, in entries per epoch, over any number of the last entries.
    fn rate(&self, count: &AtomicU64, epoch: u32) -> f32 {
        let entries = count.load(Relaxed);
        let mut highest = 0f32;
        for order in 1..=entries.min(N as u64) {
            let age = epoch.saturating_sub(self.place(entries - order).load(Relaxed));
            let rate = (order as f32 / (age as f32 + 1.0)).min(1.0);
            highest = highest.max(if order == 1 { rate * FIRST_ORDER } else { rate });
        }
        highest
    }
}

/// What is known of the writes of the page in a frame.
#[derive(Debug)]
struct Writes {
    count: AtomicU64,
    history: History<WRITES>,
}

/// WATT.
#[derive(Debug)]
pub struct Watt {
    random: RandomSource,
    /// By frame; its word counts the uses.
    uses: Vec<History<USES>>,
    /// By frame; empty if writes weigh nothing.
    writes: Vec<Writes>,
    /// What a write costs, in reads.
    write_weight: f32,
    /// Pages that came in, and how many of them make an epoch.
    admitted: AtomicU64,
    epoch_length: AtomicU64,
    /// How many epochs pass while the contents turn over once.
    epochs: u32,
    epoch: AtomicU32,
    /// The bits of the value at which a page may leave without more samples.
    low_enough: AtomicU32,
}

/// Admissions that make an epoch.
fn epoch_length(frames: u32, epochs: u32) -> u64 {
    u64::from(frames / epochs.max(1)).max(1)
}

impl Watt {
    /// For a pool of `frames` frames; while its contents turn over once, `epochs` epochs pass, and
    /// a write costs as much as `write_weight` (0 or more) reads. Samples by `seed`.
    pub fn new(frames: u32, epochs: u32, write_weight: f64, seed: u64) -> Self {
        let tracked = if write_weight > 0.0 { frames } else { 0 };
        let unwritten = || Writes { count: AtomicU64::new(0), history: History::new() };
        Self {
            random: RandomSource::new(seed),
            uses: (0..frames).map(|_| History::new()).collect(),
            writes: (0..tracked).map(|_| unwritten()).collect(),
            write_weight: write_weight as f32,
            admitted: AtomicU64::new(0),
            epoch_length: AtomicU64::new(epoch_length(frames, epochs)),
            epochs,
            epoch: AtomicU32::new(0),
            low_enough: AtomicU32::new(0f32.to_bits()),
        }
    }

    /// Notes a use of the page in `frame`, and whether it writes.
    #[inline]
    fn note(&self, frames: &dyn Frames, frame: FrameId, write: bool) {
        let epoch = self.epoch.load(Relaxed);
        self.uses[frame.index()].note(frames.word(frame), epoch);
        if write && let Some(writes) = self.writes.get(frame.index()) {
            writes.history.note(&writes.count, epoch);
        }
    }

    fn value(&self, frames: &dyn Frames, frame: FrameId, epoch: u32) -> f32 {
        let uses = self.uses[frame.index()].rate(frames.word(frame), epoch);
        let writes = self.writes.get(frame.index());
        uses + writes.map_or(0.0, |writes| self.write_weight * writes.history.rate(&writes.count, epoch))
    }
}

impl ConcurrentPolicy for Watt {
    fn hit_need(&self) -> HitNeed {
        HitNeed::Word
    }

    #[inline]
    fn hit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.note(frames, frame, access.write);
    }

    #[inline]
    fn evict(&self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        let mut random = self.random.fork();
        let epoch = self.epoch.load(Relaxed);
        let value = |frame| self.value(frames, frame, epoch);
        for _ in 0..ROUNDS {
            let few = lowest(frames, &mut random, FEW_SAMPLES, value);
            let low_enough = f32::from_bits(self.low_enough.load(Relaxed));
            let found = match few {
                Some(found) if found.2 <= low_enough => Some(found),
                _ => {
                    let found = lowest(frames, &mut random, MANY_SAMPLES, value);
                    if let Some((_, _, value)) = found {
                        self.low_enough.store(value.to_bits(), Relaxed);
                    }
                    found
                }
            };
            if let Some((frame, page, _)) = found
                && let Ok(victim) = frames.claim(frame, page)
            {
                return Some(victim);
            }
        }
        claim_any(frames, &mut random)
    }

    #[inline]
    fn admit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        let admitted = self.admitted.fetch_add(1, Relaxed) + 1;
        if admitted.is_multiple_of(self.epoch_length.load(Relaxed)) {
            self.epoch.fetch_add(1, Relaxed);
        }
        frames.word(frame).store(0, Relaxed);
        if let Some(writes) = self.writes.get(frame.index()) {
            writes.count.store(0, Relaxed);
        }
        self.note(frames, frame, access.write);
    }

    fn forget(&self, _frames: &dyn Frames, _frame: FrameId, _page: PageId) {}

    fn resize(&self, frames: u32) {
        self.epoch_length.store(epoch_length(frames, self.epochs), Relaxed);
    }
}
