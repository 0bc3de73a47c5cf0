//! PBM-sampling with what section 4 of its paper adds and what we add, each part with a switch.
//!
//! Khalaji, Vanderkooy, Guo, Daudjee, "Sampling-based Predictive Database Buffer Management" (PVLDB 18(13), 2025):
//! * section 4.1, bulk eviction: of `samples` samples the `bulk` that are wanted last leave, one by one as frames are needed.
//! * section 4.2 and Algorithm 2, frequency statistics (`frequency`); see intervals.rs for the three definitions. A page
//!   with scans and statistics is expected at the sooner of the two times.
//! * section 4.3 (`fallback=lru`): of pages with neither, the least recently used goes first.
//! * section 4, block groups (`group`): neighbouring pages share an estimate. The authors' 1 MiB are 128 pages of 8 KiB.
//! * section 4.5, samples that change while the pool works: [`ConcurrentPolicy::set_samples`].
//!
//! Ours:
//! * `keep`: so many of the best samples that an eviction does not need are kept for the next. They keep the moment at which
//!   they are wanted, and only the one that would go is looked at again; if it is wanted sooner than was thought, it
//!   takes its place among the others. That comes near to a queue of all pages, and nothing is kept in order.
//! * `replacement=round`: frames are drawn along a sequence that spreads evenly over the pool, so that in a round of as many
//!   draws as there are frames each comes about once. Independent draws leave out 37 % of the frames in a round.
//! * `samples=all`: every frame, the limit of what estimates can tell; for simulations.
//! * Where times of use are kept (`fallback` or `frequency`) estimates are told of them: what a scan has read since its last
//!   report is then not taken for wanted at once ([`Question::last_use`]). The sources keep no such time.
//!
//! With `replacement=yes`, `keep=0` and all other switches off it chooses as [`super::PbmSampling`] does, victim by victim, and
//! what that deviates in stands there. Beyond it:
//! * `replacement=no` draws no frame twice for one choice; if the pool has no more frames than are to be drawn, all are looked
//!   at. The authors draw with replacement. In a bulk a frame that was drawn twice counts once, as with them.
//! * A bulk's victims stay where they are until their frames are needed; a page that is used meanwhile leaves all
//!   the same. The authors put them on PostgreSQL's free list.
//! * A group's time is that of its first or last page, whichever is wanted sooner: a scan that lies inside one group is
//!   not seen. Here groups save no memory (see docs/predictive-policies.md); they are for comparison.
//!
//! Suits scans with point reads among them. The statistics are of resident pages only, and scans leave traces in them too: on
//! scans alone they lose (docs/reproduction.md).
//!
//! Cost: a hit is nothing, or one write with `fallback`, two with `frequency`; an eviction `samples / bulk` estimates and, with
//! `keep`, one or two more. A sample that cannot be among the best costs the estimate of one scan. 8 bytes per frame
//! with `frequency`, else none; 24 for each kept sample, 16 for each place of a bulk.
//!
//! Concurrency: no lock. The word is the time of the page's last use and changes on its own; two uses at once
//! lose one interval. Claims decide. What is kept is one eviction's at a time; others at that moment only sample.

use super::chosen::Chosen;
use super::intervals::{Frequency, Intervals};
use super::kept::{Kept, Rank, Ranked, Sample, is_there};
use super::pbm::MAX_SAMPLES;
use super::{DRAWS_PER_SAMPLE, claim_any, evenly};
use crate::policy::block_group::BlockGroup;
use crate::policy::{Access, Claimed, ConcurrentPolicy, Frames, HitNeed};
use crate::random::{Random, RandomSource};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::{
    FrameId, PageId, Tick,
    oracle::{Oracle, Question},
};
use alloc::vec::Vec;

/// The most victims that may be chosen together.
pub const MAX_BULK: u32 = 128;
/// The most samples that may be kept from one eviction to the next.
pub const MAX_KEEP: u32 = 128;
/// As a number of samples: every frame.
pub const ALL: u32 = u32::MAX;

/// Up to this many samples are ranked in a small array; it covers the default.
const FEW: usize = 20;
const MANY: usize = (MAX_KEEP + MAX_BULK) as usize;
const _: () = assert!(MANY >= MAX_SAMPLES as usize);

/// Whether a frame may be drawn again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replacement {
    /// At any time.
    Yes,
    /// Not for the same choice.
    No,
    /// Hardly ever before about all others were.
    Round,
}

/// The switches of [`ExtendedSampling`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SamplingOptions {
    /// Frames that a choice looks at, from 1 to [`MAX_SAMPLES`], or [`ALL`].
    pub samples: u32,
    /// Victims that a choice gives, from 1 to [`MAX_BULK`].
    pub bulk: u32,
    /// The best of the other samples that the next choice looks at too, up to [`MAX_KEEP`].
    pub keep: u32,
    /// Whether a frame may be drawn twice.
    pub replacement: Replacement,
    /// What statistics of earlier uses say.
    pub frequency: Frequency,
    /// Whether of pages of which nothing is known the least recently used goes first; else the first drawn.
    pub lru_fallback: bool,
    /// Pages that share an estimate, from 1.
    pub group: u32,
}

/// PBM-sampling with the extensions of section 4, and ours.
#[derive(Debug)]
pub struct ExtendedSampling {
    options: SamplingOptions,
    group: BlockGroup,
    samples: AtomicU32,
    random: RandomSource,
    /// Draws so far along the even sequence.
    drawn: AtomicU32,
    /// By frame, packed; empty without statistics.
    intervals: Vec<AtomicU64>,
    chosen: Chosen,
    kept: Kept,
}

fn bounded(samples: u32) -> u32 {
    if samples == ALL { ALL } else { samples.clamp(1, MAX_SAMPLES) }
}

/// Claims the frame for the page that was seen in it.
fn claim(frames: &dyn Frames, sample: &Sample) -> Option<Claimed> {
    frames.claim(sample.frame, sample.page).ok()
}

impl ExtendedSampling {
    /// For a pool of `frames` frames; draws by `seed`.
    pub fn new(frames: u32, options: SamplingOptions, seed: u64) -> Self {
        let bulk = options.bulk.clamp(1, MAX_BULK);
        let counted = if options.frequency == Frequency::Off { 0 } else { frames };
        Self {
            options: SamplingOptions { bulk, ..options },
            group: BlockGroup::of(options.group),
            samples: AtomicU32::new(bounded(options.samples)),
            random: RandomSource::new(seed),
            drawn: AtomicU32::new(Random::new(seed).next() as u32),
            intervals: (0..counted).map(|_| AtomicU64::new(0)).collect(),
            chosen: Chosen::new(bulk - 1),
            kept: Kept::new(options.keep.min(MAX_KEEP)),
        }
    }

    fn keeps_times(&self) -> bool {
        self.options.lru_fallback || self.options.frequency != Frequency::Off
    }

    /// Samples of which the best are to be known: the victims and those that are kept; all without `keep`, as the first may
    /// be held.
    fn places(&self, samples: u32) -> usize {
        match self.kept.room() {
            0 => samples.min(MAX_SAMPLES) as usize,
            kept => kept + self.options.bulk as usize,
        }
    }

    /// What is known of the page in `frame`; of ranks up to `look.bar` no more than that.
    fn look_at(&self, frames: &dyn Frames, frame: FrameId, page: PageId, look: &Look<'_>) -> Sample {
        let bound = look.bar.ticks(look.now);
        let last_use = if self.keeps_times() { frames.word(frame).load(Relaxed) } else { 0 };
        let question = Question {
            page: self.group.first(page),
            now: look.now,
            last_use: self.keeps_times().then_some(last_use),
            above: Some(bound),
        };
        let by_scans = self.group.next_access(question, look.oracle);
        let by_uses = self.intervals.get(frame.index()).and_then(|intervals| {
            let idle = look.now.saturating_sub(last_use);
            Intervals::unpack(intervals.load(Relaxed)).until_next(idle, self.options.frequency)
        });
        let rank = match by_scans.into_iter().chain(by_uses).min() {
            Some(ticks) => Rank::wanted_in(ticks, look.now),
            None if self.options.lru_fallback => Rank::unwanted_since(last_use),
            None => Rank::unwanted_since(0),
        };
        Sample { frame, page, rank, fresh: true }
    }

    /// Draws into `ranked`, or claims on the spot a page that nothing better can come after.
    fn draw(
        &self,
        frames: &dyn Frames,
        random: &mut Random,
        ranked: &mut Ranked<'_>,
        look: &mut Look<'_>,
    ) -> Option<Claimed> {
        let (count, samples) = (frames.count(), self.samples.load(Relaxed));
        let all = samples == ALL || self.options.replacement == Replacement::No && samples >= count;
        let first_unknown_goes = self.options.bulk == 1 && !self.options.lru_fallback;
        let best = if self.kept.room() > 0 { self.places(samples) } else { self.options.bulk as usize };
        let start = random.below(count);
        // Draws that others' frames cost go on into the next eviction's.
        let even = self.drawn.fetch_add(if all { 0 } else { samples }, Relaxed);
        let (samples, draws) = if all { (count, count) } else { (samples, samples * DRAWS_PER_SAMPLE) };
        let mut looked_at = 0;
        for draw in 0..draws {
            if looked_at == samples {
                break;
            }
            let frame = match self.options.replacement {
                _ if all => FrameId((start + draw) % count),
                Replacement::Round => evenly(even.wrapping_add(draw), count),
                _ if draw == 0 => FrameId(start),
                _ => FrameId(random.below(count)),
            };
            let Some(page) = frames.evictable(frame) else { continue };
            if self.options.replacement == Replacement::No && !all && ranked.has_fresh(frame) {
                continue;
            }
            look.bar = ranked.bar(best);
            let sample = self.look_at(frames, frame, page, look);
            if sample.rank.is_unwanted() && first_unknown_goes {
                if let Some(victim) = claim(frames, &sample) {
                    return Some(victim);
                }
                continue;
            }
            ranked.put(sample);
            looked_at += 1;
        }
        None
    }

    /// Takes out the sample that may go first by what is known now.
    fn take_first(&self, frames: &dyn Frames, ranked: &mut Ranked<'_>, look: &mut Look<'_>) -> Option<Sample> {
        // Each turn takes out a sample or makes one fresh: it ends. The rank is to be exact, whatever the others': these may
        // turn out lower.
        loop {
            let sample = ranked.pop()?;
            if sample.fresh {
                return Some(sample);
            }
            if is_there(frames, &sample) {
                look.bar = Rank::LOWEST;
                ranked.put(self.look_at(frames, sample.frame, sample.page, look));
            }
        }
    }

    /// Claims the best of the samples that can be had, and keeps the next of them for those who come after.
    fn claim_best(&self, frames: &dyn Frames, ranked: &mut Ranked<'_>, look: &mut Look<'_>) -> Option<Claimed> {
        let victim = loop {
            let sample = self.take_first(frames, ranked, look)?;
            if let Some(victim) = claim(frames, &sample) {
                break victim;
            }
        };
        if self.options.bulk > 1 {
            let mut next = [(FrameId(0), PageId::from_raw(0)); MAX_BULK as usize];
            let mut count = 0;
            while count + 1 < self.options.bulk as usize
                && let Some(Sample { frame, page, .. }) = self.take_first(frames, ranked, look)
            {
                next[count] = (frame, page);
                count += 1;
            }
            self.chosen.put(&next[..count]);
        }
        Some(victim)
    }

    /// Draws, claims and keeps; `places` is room for what is looked at.
    fn choose(
        &self,
        frames: &dyn Frames,
        random: &mut Random,
        places: &mut [Sample],
        look: &mut Look<'_>,
    ) -> Option<Claimed> {
        let mut ranked = Ranked::new(places);
        let has_kept = self.kept.take(&mut ranked);
        let drawn = self.draw(frames, random, &mut ranked, look);
        let victim = drawn.or_else(|| self.claim_best(frames, &mut ranked, look));
        if has_kept {
            self.kept.give_back(&ranked);
        }
        victim
    }
}

/// What an estimate is made from.
struct Look<'a> {
    oracle: &'a dyn Oracle,
    now: Tick,
    /// Whatever ranks lower does not matter.
    bar: Rank,
}

impl ConcurrentPolicy for ExtendedSampling {
    fn hit_need(&self) -> HitNeed {
        match self.options.frequency {
            Frequency::Off if self.options.lru_fallback => HitNeed::Time,
            Frequency::Off => HitNeed::Nothing,
            _ => HitNeed::Word,
        }
    }

    fn asks_oracle(&self) -> bool {
        true
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

    fn evict(&self, frames: &dyn Frames, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed> {
        if let Some(victim) = self.chosen.claim(frames) {
            return Some(victim);
        }
        let mut random = self.random.fork();
        let mut look = Look { oracle, now: incoming.at, bar: Rank::LOWEST };
        let places = self.places(self.samples.load(Relaxed));
        let victim = if places <= FEW {
            self.choose(frames, &mut random, &mut [Sample::BLANK; FEW][..places], &mut look)
        } else {
            self.choose(frames, &mut random, &mut [Sample::BLANK; MANY][..places], &mut look)
        };
        victim.or_else(|| claim_any(frames, &mut random))
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
        self.samples.store(bounded(samples), Relaxed);
        true
    }
}
