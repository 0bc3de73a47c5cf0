//! PBM-sampling with what section 4 of its paper adds, each part with a switch.
//!
//! Khalaji, Vanderkooy, Guo, Daudjee, "Sampling-based Predictive Database Buffer Management" (PVLDB 18(13), 2025):
//! * section 4.1, bulk eviction: of `samples` samples the `bulk` that are wanted last leave, one by one as frames are needed.
//! * section 4.2 and Algorithm 2, frequency statistics (`frequency`); see intervals.rs for the three definitions. A page
//!   with scans and statistics is expected at the sooner of the two times.
//! * section 4.3 (`fallback=lru`): of pages with neither, the least recently used goes first.
//! * section 4, block groups (`group`): neighbouring pages share an estimate. The authors' 1 MiB are 128 pages of 8 KiB.
//! * section 4.5, samples that change while the pool works: [`ConcurrentPolicy::set_samples`].
//!
//! With all switches off it chooses as [`super::PbmSampling`] does, victim by victim, and what that deviates in stands there.
//! Beyond it:
//! * `replacement=no` draws no frame twice; if the pool has no more frames than are to be drawn, all are looked at. The
//!   authors draw with replacement. In a bulk a frame that was drawn twice counts once, as with them.
//! * A bulk's victims stay where they are until their frames are needed; a page that is used meanwhile leaves all
//!   the same. The authors put them on PostgreSQL's free list.
//! * A group's time is that of its first or last page, whichever is wanted sooner: a scan that lies inside one group is
//!   not seen. Here groups save no memory (see docs/predictive-policies.md); they are for comparison.
//!
//! Suits scans with point reads among them. The statistics are of resident pages only, and scans leave traces in them too: on
//! scans alone they lose (docs/reproduction.md).
//!
//! Cost: a hit is nothing, or one write with `fallback`, two with `frequency`; an eviction `samples / bulk` estimates, and the
//! sort of a bulk. Without replacement each draw is compared with those before it. 8 bytes per frame with
//! `frequency`, else none; 16 for each place of a bulk.
//!
//! Concurrency: no lock. The word is the time of the page's last use and changes on its own; two uses at once
//! lose one interval. Claims decide.

use super::chosen::Chosen;
use super::intervals::{Frequency, Intervals};
use super::pbm::{FEW, MAX_SAMPLES};
use super::{DRAWS_PER_SAMPLE, claim_any};
use crate::policy::block_group::BlockGroup;
use crate::policy::{Access, Claim, ConcurrentPolicy, Frames, HitNeed};
use crate::random::{Random, RandomSource};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::{FrameId, PageId, Tick, oracle::Oracle};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// The most victims that may be chosen together.
pub const MAX_BULK: u32 = 128;

/// The switches of [`ExtendedSampling`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SamplingOptions {
    /// Frames that a choice looks at, from 1 to [`MAX_SAMPLES`].
    pub samples: u32,
    /// Victims that a choice gives, from 1 to [`MAX_BULK`].
    pub bulk: u32,
    /// Whether a frame may be drawn twice for one choice.
    pub replacement: bool,
    /// What statistics of earlier uses say.
    pub frequency: Frequency,
    /// Whether of pages of which nothing is known the least recently used goes first; else the first drawn.
    pub lru_fallback: bool,
    /// Pages that share an estimate, from 1.
    pub group: u32,
}

/// PBM-sampling with the extensions of section 4.
#[derive(Debug)]
pub struct ExtendedSampling {
    options: SamplingOptions,
    group: BlockGroup,
    samples: AtomicU32,
    random: RandomSource,
    /// By frame, packed; empty without statistics.
    intervals: Vec<AtomicU64>,
    chosen: Chosen,
}

/// A page that was drawn.
#[derive(Clone, Copy)]
struct Sample {
    frame: FrameId,
    page: PageId,
    /// Ticks until it is wanted; the greatest if nobody knows.
    wanted_in: Tick,
    /// Ticks since its last use; 0 if that does not count.
    idle: Tick,
}

const BLANK: Sample = Sample { frame: FrameId(0), page: PageId::from_raw(0), wanted_in: 0, idle: 0 };
const UNKNOWN: Tick = Tick::MAX;

impl ExtendedSampling {
    /// For a pool of `frames` frames; draws by `seed`.
    pub fn new(frames: u32, options: SamplingOptions, seed: u64) -> Self {
        let bulk = options.bulk.clamp(1, MAX_BULK);
        let counted = if options.frequency == Frequency::Off { 0 } else { frames };
        Self {
            options: SamplingOptions { bulk, ..options },
            group: BlockGroup::of(options.group),
            samples: AtomicU32::new(options.samples.clamp(1, MAX_SAMPLES)),
            random: RandomSource::new(seed),
            intervals: (0..counted).map(|_| AtomicU64::new(0)).collect(),
            chosen: Chosen::new(bulk - 1),
        }
    }

    fn keeps_times(&self) -> bool {
        self.options.lru_fallback || self.options.frequency != Frequency::Off
    }

    /// What is known of the page in `frame`; of times up to `bound` no more than that.
    fn look_at(&self, frames: &dyn Frames, frame: FrameId, page: PageId, look: &Look<'_>) -> Sample {
        let by_scans = self.group.next_access(self.group.first(page), look.bound, look.now, look.oracle);
        let idle = if self.keeps_times() { look.now.saturating_sub(frames.word(frame).load(Relaxed)) } else { 0 };
        let by_uses = self
            .intervals
            .get(frame.index())
            .and_then(|intervals| Intervals::unpack(intervals.load(Relaxed)).until_next(idle, self.options.frequency));
        match by_scans.into_iter().chain(by_uses).min() {
            Some(ticks) => Sample { frame, page, wanted_in: ticks.min(UNKNOWN - 1), idle: 0 },
            None => Sample { frame, page, wanted_in: UNKNOWN, idle: if self.options.lru_fallback { idle } else { 0 } },
        }
    }

    /// Fills `samples` until draws or places run out, or, if nothing better can come, one is taken on the spot.
    fn draw(
        &self,
        frames: &dyn Frames,
        random: &mut Random,
        samples: &mut [Sample],
        look: &mut Look<'_>,
    ) -> Result<FrameId, usize> {
        let count = frames.count();
        let all = !self.options.replacement && samples.len() >= count as usize;
        let start = random.below(count);
        let draws = if all { count } else { samples.len() as u32 * DRAWS_PER_SAMPLE };
        let first_unknown_goes = self.options.bulk == 1 && !self.options.lru_fallback;
        let mut kept = 0;
        for draw in 0..draws {
            if kept == samples.len() {
                break;
            }
            let frame = match draw {
                _ if all => FrameId((start + draw) % count),
                0 => FrameId(start),
                _ => FrameId(random.below(count)),
            };
            let Some(page) = frames.evictable(frame) else { continue };
            if !self.options.replacement && samples[..kept].iter().any(|sample| sample.frame == frame) {
                continue;
            }
            let sample = self.look_at(frames, frame, page, look);
            if sample.wanted_in == UNKNOWN && first_unknown_goes {
                if frames.claim(frame, page) == Claim::Taken {
                    return Ok(frame);
                }
                continue;
            }
            if self.options.bulk == 1 && sample.wanted_in != UNKNOWN {
                look.bound = look.bound.max(sample.wanted_in);
            }
            samples[kept] = sample;
            kept += 1;
        }
        Err(kept)
    }

    /// Claims the best of the samples that can be had, and keeps the next of them for those who come after.
    fn claim_best(&self, frames: &dyn Frames, samples: &mut [Sample]) -> Option<FrameId> {
        // Stable: of equals the first drawn goes first.
        sort_by_key(samples, |sample| Reverse((sample.wanted_in, sample.idle)));
        let is_taken = |sample: &Sample| frames.claim(sample.frame, sample.page) == Claim::Taken;
        let taken = samples.iter().position(is_taken)?;
        let victim = samples[taken].frame;
        let mut next = [(FrameId(0), PageId::from_raw(0)); MAX_BULK as usize];
        let mut count = 0;
        for sample in &samples[taken + 1..] {
            let known = next[..count].iter().any(|(frame, _)| *frame == sample.frame);
            if count + 1 < self.options.bulk as usize && sample.frame != victim && !known {
                next[count] = (sample.frame, sample.page);
                count += 1;
            }
        }
        if self.options.bulk > 1 {
            self.chosen.put(&next[..count]);
        }
        Some(victim)
    }
}

/// What an estimate is made from.
struct Look<'a> {
    oracle: &'a dyn Oracle,
    now: Tick,
    bound: Tick,
}

/// Sorts by insertion, in place and stable: for a few hundred at most, of which there is no room for a copy.
fn sort_by_key<K: Ord>(samples: &mut [Sample], key: impl Fn(&Sample) -> K) {
    for end in 1..samples.len() {
        let place = samples[..end].partition_point(|sample| key(sample) <= key(&samples[end]));
        samples[place..=end].rotate_right(1);
    }
}

impl ConcurrentPolicy for ExtendedSampling {
    fn hit_need(&self) -> HitNeed {
        if self.keeps_times() { HitNeed::Word } else { HitNeed::Nothing }
    }

    #[inline]
    fn hit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        if self.keeps_times() {
            let word = frames.word(frame);
            let last = word.load(Relaxed);
            word.store(access.at, Relaxed);
            if let Some(packed) = self.intervals.get(frame.index()) {
                let intervals = Intervals::unpack(packed.load(Relaxed)).with(access.at.saturating_sub(last));
                packed.store(intervals.pack(), Relaxed);
            }
        }
    }

    fn evict(&self, frames: &dyn Frames, incoming: &Access, oracle: &dyn Oracle) -> Option<FrameId> {
        if let Some(frame) = self.chosen.claim(frames) {
            return Some(frame);
        }
        let mut random = self.random.fork();
        let mut few = [BLANK; FEW];
        let mut many;
        let samples = self.samples.load(Relaxed) as usize;
        let samples = if samples <= FEW {
            &mut few[..samples]
        } else {
            many = [BLANK; MAX_SAMPLES as usize];
            &mut many[..samples]
        };
        let mut look = Look { oracle, now: incoming.at, bound: 0 };
        match self.draw(frames, &mut random, samples, &mut look) {
            Ok(frame) => Some(frame),
            Err(kept) => self.claim_best(frames, &mut samples[..kept]).or_else(|| claim_any(frames, &mut random)),
        }
    }

    fn admit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        if self.keeps_times() {
            frames.word(frame).store(access.at, Relaxed);
        }
        if let Some(packed) = self.intervals.get(frame.index()) {
            packed.store(Intervals::default().pack(), Relaxed);
        }
    }

    fn forget(&self, _frames: &dyn Frames, _frame: FrameId, _page: PageId) {}

    fn set_samples(&self, samples: u32) -> bool {
        self.samples.store(samples.clamp(1, MAX_SAMPLES), Relaxed);
        true
    }
}
