//! WATT, the read part: the last eight uses of a page, in coarse time, give its rate at every scale.
//!
//! Vöhringer, Leis, "Write-aware timestamp tracking: Effective and efficient page replacement for modern hardware"
//! (PVLDB 16(11), 2023). Time advances by `epochs` (4) steps while the pool's contents turn over once. A page's value is
//! the largest of min(i / (age_i + 1), 1) over its i-th last use, the first times 0.1, so that one use alone counts
//! little. The lowest of 8 samples leaves if its value is low enough, else the lowest of 64.
//!
//! Deviations: the write part is left out (4 timestamps of writes, and their value times the cost of a write): a write is
//! a use like any other, and the pool writes dirty pages ahead. What is "low enough" is ours: no higher than the value of
//! the last victim that was the lowest of 64. Uses are forgotten when a page leaves. A sample
//! that is lost to a race is drawn anew up to 4 times; then any frame is taken that can be had.
//!
//! Suits mixes of point accesses and scans, and popularity that lasts. A page that was used once ranks behind one that was
//! used twice some twenty epochs ago, so working sets that change are its weakness (lirs-sprite in 707 frames: 30,433
//! misses where LRU has 18,121).
//!
//! Cost: the first hit of a frame in an epoch is two atomic writes, further ones only read. An eviction looks at 8
//! frames, sometimes at 72. 32 bytes per frame beside its word.
//!
//! Concurrency: the word counts a page's uses and says which of the eight places is next; who raises it writes the place.
//! A reader may see the new count and the place's old use, one rank too young for a moment. Values only rank candidates,
//! so all accesses are relaxed, and the claim decides.

use super::{claim_any, lowest};
use crate::policy::{Access, Claim, ConcurrentPolicy, Frames, HitNeed};
use crate::random::RandomSource;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::{FrameId, PageId, oracle::Oracle};
use alloc::vec::Vec;

/// Uses that are remembered of each page.
const USES: u64 = 8;
const FEW_SAMPLES: u32 = 8;
const MANY_SAMPLES: u32 = 64;
/// Rounds of sampling before any frame is taken.
const ROUNDS: u32 = 4;
/// The weight of a page's last use when it stands alone.
const FIRST_ORDER: f32 = 0.1;

/// WATT, read part.
#[derive(Debug)]
pub struct Watt {
    random: RandomSource,
    /// By frame, the epochs of its last uses; use n is at place n modulo [`USES`].
    uses: Vec<[AtomicU32; USES as usize]>,
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
    /// For a pool of `frames` frames; while its contents turn over once, `epochs` epochs pass. Samples by `seed`.
    pub fn new(frames: u32, epochs: u32, seed: u64) -> Self {
        Self {
            random: RandomSource::new(seed),
            uses: (0..frames).map(|_| [const { AtomicU32::new(0) }; USES as usize]).collect(),
            admitted: AtomicU64::new(0),
            epoch_length: AtomicU64::new(epoch_length(frames, epochs)),
            epochs,
            epoch: AtomicU32::new(0),
            low_enough: AtomicU32::new(0f32.to_bits()),
        }
    }

    /// Notes a use of the page in `frame`, whose word counts them, unless one of this epoch is noted already.
    #[inline]
    fn note(&self, frames: &dyn Frames, frame: FrameId) {
        let epoch = self.epoch.load(Relaxed);
        let (word, uses) = (frames.word(frame), &self.uses[frame.index()]);
        let count = word.load(Relaxed);
        let noted = count > 0 && uses[((count - 1) % USES) as usize].load(Relaxed) == epoch;
        if !noted && word.compare_exchange(count, count + 1, Relaxed, Relaxed).is_ok() {
            uses[(count % USES) as usize].store(epoch, Relaxed);
        }
    }

    /// The highest rate, in uses per epoch, over any number of the page's last uses.
    fn value(&self, frames: &dyn Frames, frame: FrameId, epoch: u32) -> f32 {
        let count = frames.word(frame).load(Relaxed);
        let uses = &self.uses[frame.index()];
        let mut value = 0f32;
        for order in 1..=count.min(USES) {
            let age = epoch.saturating_sub(uses[((count - order) % USES) as usize].load(Relaxed));
            let rate = (order as f32 / (age as f32 + 1.0)).min(1.0);
            value = value.max(if order == 1 { rate * FIRST_ORDER } else { rate });
        }
        value
    }
}

impl ConcurrentPolicy for Watt {
    fn hit_need(&self) -> HitNeed {
        HitNeed::Word
    }

    #[inline]
    fn hit(&self, frames: &dyn Frames, frame: FrameId, _access: &Access) {
        self.note(frames, frame);
    }

    #[inline]
    fn evict(&self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<FrameId> {
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
                && frames.claim(frame, page) == Claim::Taken
            {
                return Some(frame);
            }
        }
        claim_any(frames, &mut random)
    }

    #[inline]
    fn admit(&self, frames: &dyn Frames, frame: FrameId, _access: &Access) {
        let admitted = self.admitted.fetch_add(1, Relaxed) + 1;
        if admitted.is_multiple_of(self.epoch_length.load(Relaxed)) {
            self.epoch.fetch_add(1, Relaxed);
        }
        frames.word(frame).store(0, Relaxed);
        self.note(frames, frame);
    }

    fn forget(&self, _frames: &dyn Frames, _frame: FrameId, _page: PageId) {}

    fn resize(&self, frames: u32) {
        self.epoch_length.store(epoch_length(frames, self.epochs), Relaxed);
    }
}
