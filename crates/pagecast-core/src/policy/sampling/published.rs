//! `pbm-published`: sampling with the switches of its paper, and `pbm-paper`, its preset.
//!
//! Source: Khalaji, Vanderkooy, Guo, Daudjee, "Sampling-based Predictive Database Buffer
//! Management" (PVLDB 18(13), 2025). Section 3: of `samples` random frames the page goes that scans
//! want last. 4.1: the best `bulk` of them go, one by one as frames are needed. 4.2: statistics
//! (`frequency`, see intervals.rs). 4.3: of pages with neither the least recently used goes
//! (`fallback=lru`). 4.5: [`ConcurrentPolicy::set_samples`]. Thesis, appendix A: `replacement`.
//!
//! Deviations: a held frame is drawn again, four times a sample at most. A page that nothing can
//! rank behind is claimed on the spot. Questions say how far an answer matters and, where times of
//! use are kept, the last use. Claims settle races.
//!
//! Suits scans with points among them. Cost: a hit is nothing, a write with `fallback`, two with
//! `frequency`; an eviction `samples / bulk` questions. 8 bytes a frame with `frequency`, else
//! none.

use super::chosen::Chosen;
use super::intervals::{Frequency, Intervals};
use super::{MAX_SAMPLES, claim_any, most_draws};
use crate::policy::ranked::{self, Looked};
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

/// Up to this many samples are ranked in a small array; it covers the preset.
const FEW: usize = 16;

/// The switches of [`PublishedSampling`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublishedOptions {
    /// Frames that a choice looks at, from 1 to [`MAX_SAMPLES`].
    pub samples: u32,
    /// Victims that a choice gives, from 1 to [`MAX_BULK`].
    pub bulk: u32,
    /// Whether a frame may be drawn twice for a choice.
    pub replacement: bool,
    /// What statistics of earlier uses say.
    pub frequency: Frequency,
    /// Whether of pages of which nothing is known the least recently used goes first; else the
    /// first drawn.
    pub lru_fallback: bool,
}

impl PublishedOptions {
    /// `pbm-paper`, for good.
    pub const PAPER: Self =
        Self { samples: 10, bulk: 1, replacement: true, frequency: Frequency::Off, lru_fallback: false };
}

/// PBM-sampling as published.
#[derive(Debug)]
pub struct PublishedSampling {
    options: PublishedOptions,
    samples: AtomicU32,
    random: RandomSource,
    /// By frame, packed; empty without statistics.
    intervals: Vec<AtomicU64>,
    chosen: Chosen,
}

/// When a page is expected to be used: the greater, the sooner it goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Expected {
    /// In so many ticks.
    In(Tick),
    /// Nobody knows; it is unused for so long, or 0.
    Unknown(Tick),
}

impl Expected {
    fn ticks(self) -> Tick {
        match self {
            Self::In(ticks) => ticks,
            Self::Unknown(_) => Tick::MAX,
        }
    }
}

/// A page that was drawn.
#[derive(Clone, Copy)]
struct Sample {
    frame: FrameId,
    page: PageId,
    expected: Expected,
}

const BLANK: Sample = Sample { frame: FrameId(0), page: PageId::from_raw(0), expected: Expected::In(0) };

impl Looked for Sample {
    type Rank = Expected;

    const LOWEST: Expected = Expected::In(0);

    fn frame(&self) -> FrameId {
        self.frame
    }

    fn rank(&self) -> Expected {
        self.expected
    }

    fn is_fresh(&self) -> bool {
        true
    }
}

type Ranked<'a> = ranked::Ranked<'a, Sample>;

/// What an estimate is made from.
struct Look<'a> {
    frames: &'a dyn Frames,
    oracle: &'a dyn Oracle,
    now: Tick,
}

impl PublishedSampling {
    /// For a pool of `frames` frames; draws by `seed`.
    pub fn new(frames: u32, options: PublishedOptions, seed: u64) -> Self {
        let bulk = options.bulk.clamp(1, MAX_BULK);
        let counted = if options.frequency == Frequency::Off { 0 } else { frames };
        Self {
            options: PublishedOptions { bulk, ..options },
            samples: AtomicU32::new(options.samples.clamp(1, MAX_SAMPLES)),
            random: RandomSource::new(seed),
            intervals: (0..counted).map(|_| AtomicU64::new(0)).collect(),
            chosen: Chosen::new(bulk - 1),
        }
    }

    fn keeps_times(&self) -> bool {
        self.options.lru_fallback || self.options.frequency != Frequency::Off
    }

    /// What is known of the page in `frame`; up to `bar` no more than that.
    fn look_at(&self, look: &Look, frame: FrameId, page: PageId, bar: Expected) -> Sample {
        let last_use = self.keeps_times().then(|| look.frames.word(frame).load(Relaxed));
        let question = Question { page, now: look.now, last_use, above: Some(bar.ticks()) };
        let by_scans = look.oracle.next_access(question);
        let idle = look.now.saturating_sub(last_use.unwrap_or(look.now));
        let by_uses = self
            .intervals
            .get(frame.index())
            .and_then(|intervals| Intervals::unpack(intervals.load(Relaxed)).until_next(idle, self.options.frequency));
        let expected = match by_scans.into_iter().chain(by_uses).min() {
            Some(ticks) => Expected::In(ticks),
            None if self.options.lru_fallback => Expected::Unknown(idle),
            None => Expected::Unknown(0),
        };
        Sample { frame, page, expected }
    }

    /// Draws into `ranked`, or claims on the spot a page that nothing better can come after.
    fn draw(&self, look: &Look, random: &mut Random, ranked: &mut Ranked<'_>) -> Option<Claimed> {
        let (count, samples) = (look.frames.count(), self.samples.load(Relaxed));
        let all = !self.options.replacement && samples >= count;
        let first_unknown_goes = self.options.bulk == 1 && !self.options.lru_fallback;
        let (samples, draws) = if all { (count, count) } else { (samples, most_draws(look.frames, samples)) };
        let start = random.below(count);
        let mut looked_at = 0;
        for draw in 0..draws {
            if looked_at == samples {
                break;
            }
            let frame = match draw {
                _ if all => FrameId((start + draw) % count),
                0 => FrameId(start),
                _ => FrameId(random.below(count)),
            };
            let Some(page) = look.frames.evictable(frame) else { continue };
            if !self.options.replacement && !all && ranked.has_fresh(frame) {
                continue;
            }
            let sample = self.look_at(look, frame, page, ranked.bar(self.options.bulk as usize));
            if first_unknown_goes && matches!(sample.expected, Expected::Unknown(_)) {
                match look.frames.claim(frame, page) {
                    Ok(victim) => return Some(victim),
                    Err(_) => continue,
                }
            }
            ranked.put(sample);
            looked_at += 1;
        }
        None
    }

    /// Claims the best of the samples that can be had, and leaves the next of them to those who
    /// come after.
    fn claim_best(&self, look: &Look, ranked: &mut Ranked<'_>) -> Option<Claimed> {
        let victim = loop {
            let Sample { frame, page, .. } = ranked.pop()?;
            if let Ok(victim) = look.frames.claim(frame, page) {
                break victim;
            }
        };
        if self.options.bulk > 1 {
            let mut next = [(FrameId(0), PageId::from_raw(0)); MAX_BULK as usize];
            let rest = core::iter::from_fn(|| ranked.pop()).take(self.options.bulk as usize - 1);
            let places = next.iter_mut().zip(rest);
            let count = places.map(|(place, sample)| *place = (sample.frame, sample.page)).count();
            self.chosen.put(&next[..count]);
        }
        Some(victim)
    }

    /// Draws and claims; `places` is room for what is looked at.
    fn choose(&self, look: &Look, random: &mut Random, places: &mut [Sample]) -> Option<Claimed> {
        let mut ranked = Ranked::new(places);
        self.draw(look, random, &mut ranked).or_else(|| self.claim_best(look, &mut ranked))
    }
}

impl ConcurrentPolicy for PublishedSampling {
    fn hit_need(&self) -> HitNeed {
        match self.options.frequency {
            Frequency::Off if self.options.lru_fallback => HitNeed::Time,
            Frequency::Off => HitNeed::Nothing,
            _ => HitNeed::Word,
        }
    }

    fn hit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        if !self.keeps_times() {
            return;
        }
        let word = frames.word(frame);
        let last = word.load(Relaxed);
        word.store(access.at, Relaxed);
        if let Some(packed) = self.intervals.get(frame.index()) {
            let interval = access.at.saturating_sub(last);
            packed.store(Intervals::unpack(packed.load(Relaxed)).with(interval).pack(), Relaxed);
        }
    }

    #[inline]
    fn evict(&self, frames: &dyn Frames, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed> {
        if let Some(victim) = self.chosen.claim(frames) {
            return Some(victim);
        }
        let mut random = self.random.fork();
        let look = Look { frames, oracle, now: incoming.at };
        let places = self.samples.load(Relaxed) as usize;
        let victim = if places <= FEW {
            self.choose(&look, &mut random, &mut [BLANK; FEW][..places])
        } else {
            self.choose(&look, &mut random, &mut [BLANK; MAX_SAMPLES as usize][..places])
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
        self.samples.store(samples.clamp(1, MAX_SAMPLES), Relaxed);
        true
    }
}
