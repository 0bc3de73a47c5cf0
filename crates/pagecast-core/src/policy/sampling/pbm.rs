//! `pbm-paper` and `pbm`: predictive buffer management by sampling.
//!
//! Khalaji, Vanderkooy, Guo, Daudjee, "Sampling-based Predictive Database Buffer Management" (PVLDB 18(13), 2025),
//! section 3, Algorithm 1: draw `samples` (10) frames that nobody holds, ask when the running scans will next read
//! their pages, and give up the page that is wanted last; a page that no scan wants counts as wanted never. Section 4.1
//! (bulk eviction), 4.2 (frequency statistics) and the LRU fallback are switched off in `pbm-paper`, for good.
//!
//! Where Algorithm 1 leaves room or we differ:
//! * "Random unused block": samples are drawn with replacement and a held frame is drawn again, as in the authors'
//!   code, here at most 4 draws a sample on average, so that a pool in which nearly all is held costs a bounded effort.
//! * A page that nobody wants is claimed when it is drawn, without drawing the rest. Nothing can rank behind it and the
//!   first of equals wins, so the victim is the one that the full sample would have given, at a fraction of the cost.
//! * Of a sample that is wanted before the latest one so far only that much is asked. When the latest is lost to a race,
//!   the next is therefore chosen by estimates that may be too high.
//! * The race that the paper settles at the end ("can be evicted") is settled by the claim, which checks the page too.
//!   A sample that is lost to it goes out and the next best is claimed.
//! * "Return random unused block" at the end is one round over all frames from a random place, hence also bounded.
//!
//! Suits concurrent scans of which the pool knows; without scans it is `random`.
//!
//! Cost: nothing per hit; per eviction `samples` random numbers and estimates. 8 bytes in all, none per frame.
//!
//! Concurrency: victims are chosen without a lock or a shared write but the generator's one add; claims decide races.

use super::{DRAWS_PER_SAMPLE, claim_any};
use crate::policy::{Access, Claimed, ConcurrentPolicy, Frames, HitNeed};
use crate::random::{Random, RandomSource};
use crate::{
    FrameId, PageId, Tick,
    oracle::{Oracle, Question},
};

/// The most samples an eviction may take.
pub const MAX_SAMPLES: u32 = 256;
/// Up to this many samples are kept in a small array; it covers the default.
pub(super) const FEW: usize = 16;

/// PBM-sampling, Algorithm 1.
#[derive(Debug)]
pub struct PbmSampling {
    samples: u32,
    random: RandomSource,
}

/// A page that was drawn, and the ticks until some scan reads it.
#[derive(Clone, Copy)]
struct Sample {
    frame: FrameId,
    page: PageId,
    wanted_in: Tick,
}

const BLANK: Sample = Sample { frame: FrameId(0), page: PageId::from_raw(0), wanted_in: 0 };

impl PbmSampling {
    /// Takes `samples` samples per eviction, from 1 to [`MAX_SAMPLES`], drawn by `seed`.
    pub fn new(samples: u32, seed: u64) -> Self {
        Self { samples: samples.clamp(1, MAX_SAMPLES), random: RandomSource::new(seed) }
    }

    /// Fills `samples` until one is taken on the spot (it is then returned) or draws or places run out.
    fn draw(
        &self,
        frames: &dyn Frames,
        random: &mut Random,
        samples: &mut [Sample],
        wanted_in: impl Fn(Tick, PageId) -> Option<Tick>,
    ) -> Result<Claimed, usize> {
        let (mut kept, mut latest) = (0, 0);
        for _ in 0..self.samples * DRAWS_PER_SAMPLE {
            if kept == samples.len() {
                break;
            }
            let frame = FrameId(random.below(frames.count()));
            let Some(page) = frames.evictable(frame) else { continue };
            match wanted_in(latest, page) {
                Some(wanted_in) => {
                    samples[kept] = Sample { frame, page, wanted_in };
                    latest = latest.max(wanted_in);
                }
                None => match frames.claim(frame, page) {
                    Ok(victim) => return Ok(victim),
                    Err(_) => continue,
                },
            }
            kept += 1;
        }
        Err(kept)
    }
}

/// Claims the sample that is wanted last, then the next, until one is taken. Of equals the first drawn goes first.
fn claim_last_wanted(frames: &dyn Frames, samples: &mut [Sample]) -> Option<Claimed> {
    for left in (1..=samples.len()).rev() {
        let mut last = 0;
        for i in 1..left {
            if samples[i].wanted_in > samples[last].wanted_in {
                last = i;
            }
        }
        let Sample { frame, page, .. } = samples[last];
        if let Ok(victim) = frames.claim(frame, page) {
            return Some(victim);
        }
        samples.copy_within(last + 1..left, last);
    }
    None
}

impl ConcurrentPolicy for PbmSampling {
    fn hit_need(&self) -> HitNeed {
        HitNeed::Nothing
    }

    fn asks_oracle(&self) -> bool {
        true
    }

    fn hit(&self, _frames: &dyn Frames, _frame: FrameId, _access: &Access) {}

    #[inline]
    fn evict(&self, frames: &dyn Frames, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed> {
        let mut random = self.random.fork();
        let mut few = [BLANK; FEW];
        let mut many;
        let samples = self.samples as usize;
        let samples = if samples <= FEW {
            &mut few[..samples]
        } else {
            many = [BLANK; MAX_SAMPLES as usize];
            &mut many[..samples]
        };
        let wanted_in =
            |latest, page| oracle.next_access(Question { above: Some(latest), ..Question::new(page, incoming.at) });
        match self.draw(frames, &mut random, samples, wanted_in) {
            Ok(victim) => Some(victim),
            Err(kept) => claim_last_wanted(frames, &mut samples[..kept]).or_else(|| claim_any(frames, &mut random)),
        }
    }

    fn admit(&self, _frames: &dyn Frames, _frame: FrameId, _access: &Access) {}

    fn forget(&self, _frames: &dyn Frames, _frame: FrameId, _page: PageId) {}
}
