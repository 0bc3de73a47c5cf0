//! Which of the two estimates does better: two small pools that hold no pages replay a sample of the requests, one by each.
//!
//! Waldspurger et al., "Efficient MRC construction with SHARDS" (FAST 2015), section 3: a sample of the pages by a hash of
//! their number, and a pool smaller in proportion, miss about as often as the whole. The shadows see the same requests and
//! run the pool's own code ([`super::ranking`]), so that what differs between them is the estimate alone.
//!
//! The pool follows the steadfast estimate at first, which needs nothing learned, and changes sides when the other is ahead
//! by more requests than chance explains: `Z` standard deviations of a fair coin tossed for each request on which the two
//! differ. To come back it must be ahead by a share of a shadow's frames, too: what the pool holds by then is the other's choice, and
//! to settle on it costs about as much. Going over costs little, for the learned estimate can rank any pages.
//!
//! Old requests fade. Scans' requests are not shown to them: who ranks pages without a registered future is the question.
//!
//! Shadows grow with the pool: 128 frames see so few requests of a pool of 40,000 that a lead of one point stays within
//! chance to the end of a million requests. Larger ones in small pools would believe what the first pages tell.
//!
//! Cost: a request for one of the shadows' pages, 1 in 64 of a large pool's, two searches of as many words as a shadow has
//! frames; a miss in a shadow an eviction there. Bytes: 148 for each frame of each shadow, 37 KiB up to 8,192 frames of the
//! pool, then 4.6 a frame and 296 KiB at most.
//!
//! Concurrency: one thread at a time goes through the shadows, who comes meanwhile lets it be. Acquire and Release on
//! `busy`: it sees what the one before left. No lock: nobody waits.

use super::ghosts;
use super::ranking::{Estimate, Judge, Ranking};
use super::reuse::ReuseTable;
use crate::oracle::NoScans;
use crate::policy::{Access, Claimed, Frames, Refusal};
use crate::random::{Random, hash};
use crate::sync::atomic::AtomicU64 as Word;
use crate::{FrameId, PageId};
use alloc::vec::Vec;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// One frame of a shadow for so many of the pool, but no fewer and no more than these.
const SCALE: u32 = 64;
const LEAST: u32 = 128;
const MOST: u32 = 1024;
/// For each of them a page, a word, a history and the ghosts.
const BYTES_PER_FRAME: u32 = 8 + 8 + 4 + ghosts::BYTES_PER_FRAME;
/// Frames that an eviction there draws.
const SAMPLES: u32 = 32;
/// Standard deviations that a lead must have, as if the two had differed on so many requests more: one for so many of a shadow's frames, but no
/// fewer than the second. The larger they are, the longer the first requests tell only how they fill.
const Z: u32 = 2;
const INERTIA: u32 = 5;
const LEAST_INERTIA: u32 = 40;
/// The steadfast estimate's lead in percent of a shadow's frames, to come back.
const RETURN: u32 = 30;
/// Differing requests after which all before weigh half: so many for each frame of a shadow, but no fewer than the second.
const MEMORY: u32 = 2;
const LEAST_MEMORY: u32 = 1024;
/// Keeps the choice of pages apart from other uses of the same hash.
const SALT: u64 = 0x5bd1_e995_7b93_a4d1;

/// The frames of a shadow, all held by nobody.
#[derive(Debug)]
struct ShadowFrames {
    /// Raw page and word by frame; the first `used` hold a page.
    pages: Vec<AtomicU64>,
    words: Vec<Word>,
    used: AtomicU32,
    /// Frames in use; with fewer than before, the pages above are forgotten.
    in_use: AtomicU32,
}

impl Frames for ShadowFrames {
    fn count(&self) -> u32 {
        self.in_use.load(Relaxed)
    }

    fn word(&self, frame: FrameId) -> &Word {
        &self.words[frame.index()]
    }

    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        (frame.0 < self.used.load(Relaxed)).then(|| PageId::from_raw(self.pages[frame.index()].load(Relaxed)))
    }

    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.evictable(frame)
    }

    fn claim(&self, frame: FrameId, _page: PageId) -> Result<Claimed, Refusal> {
        Ok(Claimed::new(frame))
    }
}

/// A pool without pages.
#[derive(Debug)]
struct Shadow {
    frames: ShadowFrames,
    ranking: Ranking,
}

impl Shadow {
    fn new(frames: u32) -> Self {
        let pages = (0..frames).map(|_| AtomicU64::new(0)).collect();
        let words = (0..frames).map(|_| Word::new(0)).collect();
        let (used, in_use) = (AtomicU32::new(0), AtomicU32::new(frames));
        Self { frames: ShadowFrames { pages, words, used, in_use }, ranking: Ranking::new(frames, 0) }
    }

    fn resize(&self, frames: u32) -> u32 {
        let frames = frames.min(self.frames.pages.len() as u32);
        self.frames.in_use.store(frames, Relaxed);
        self.frames.used.fetch_min(frames, Relaxed);
        self.ranking.resize(frames);
        frames
    }

    /// Whether the page of `access` is there; afterwards it is.
    fn request(&self, access: &Access, judge: Judge, random: &mut Random) -> bool {
        let raw = access.page.raw();
        let used = self.frames.used.load(Relaxed).min(self.frames.count());
        if let Some(frame) = self.frames.pages[..used as usize].iter().position(|page| page.load(Relaxed) == raw) {
            self.ranking.used(&self.frames, FrameId(frame as u32), access.at);
            return true;
        }
        let frame = if used < self.frames.count() {
            self.frames.used.store(used + 1, Relaxed);
            FrameId(used)
        } else {
            let victim = self.ranking.evict(&self.frames, access, judge, random);
            victim.map_or_else(|| FrameId(random.below(used)), |victim| victim.frame())
        };
        self.frames.pages[frame.index()].store(raw, Relaxed);
        self.ranking.admitted(&self.frames, frame, access, 0);
        false
    }
}

/// The two shadows, and which of them is ahead.
#[derive(Debug)]
pub(super) struct Shadows {
    learned: Shadow,
    steadfast: Shadow,
    /// Of 2^32 pages so many are theirs.
    share: AtomicU64,
    busy: AtomicBool,
    /// Requests on which they differed, and by how many the learned estimate is ahead.
    differed: AtomicU32,
    ahead: AtomicI32,
    learned_leads: AtomicBool,
}

/// Frames of each shadow of a pool of `frames`.
fn shadow_frames(frames: u32) -> u32 {
    (frames / SCALE).clamp(LEAST, MOST).min(frames)
}

fn share(frames: u32, shadow: u32) -> u64 {
    (u64::from(shadow) << 32) / u64::from(frames.max(shadow))
}

impl Shadows {
    pub(super) fn new(frames: u32) -> Self {
        let shadow = shadow_frames(frames);
        Self {
            learned: Shadow::new(shadow),
            steadfast: Shadow::new(shadow),
            share: AtomicU64::new(share(frames, shadow)),
            busy: AtomicBool::new(false),
            differed: AtomicU32::new(0),
            ahead: AtomicI32::new(0),
            learned_leads: AtomicBool::new(false),
        }
    }

    /// What they take beside a pool of `frames` frames.
    pub(super) fn bytes(frames: u32) -> u32 {
        2 * shadow_frames(frames) * BYTES_PER_FRAME
    }

    pub(super) fn resize(&self, frames: u32) {
        let shadow = shadow_frames(frames);
        let shadow = self.learned.resize(shadow).min(self.steadfast.resize(shadow));
        self.share.store(share(frames, shadow), Relaxed);
    }

    /// Whether a page is one of theirs.
    pub(super) fn have(&self, page: PageId) -> bool {
        hash(page.raw() ^ SALT) >> 32 < self.share.load(Relaxed)
    }

    /// What the pool is to follow.
    pub(super) fn better(&self) -> Estimate {
        if self.learned_leads.load(Relaxed) { Estimate::Learned } else { Estimate::Steadfast }
    }

    /// Both shadows see `access` to one of their pages, outside scans; whether the pool has to come back to the steadfast
    /// estimate now.
    pub(super) fn request(&self, access: &Access, reuse: &ReuseTable, random: &mut Random) -> bool {
        if self.busy.swap(true, Acquire) {
            return false;
        }
        let judge = |estimate| Judge { reuse, regions: None, oracle: &NoScans, estimate, samples: SAMPLES };
        let learned = self.learned.request(access, judge(Estimate::Learned), random);
        let steadfast = self.steadfast.request(access, judge(Estimate::Steadfast), random);
        let comes_back = learned != steadfast && self.compare(if learned { 1 } else { -1 });
        self.busy.store(false, Release);
        comes_back
    }

    /// Counts a request that one of them had and the other had not: 1 if the learned estimate had, else -1. Whether it lost its
    /// lead by that.
    fn compare(&self, outcome: i32) -> bool {
        let (differed, ahead) = (self.differed.load(Relaxed) + 1, self.ahead.load(Relaxed) + outcome);
        let frames = self.learned.frames.count();
        let inertia = (frames / INERTIA).max(LEAST_INERTIA);
        let beyond_chance = ahead.pow(2) as u32 > Z * Z * (differed + inertia);
        let worth_it = ahead > 0 || ahead.unsigned_abs() * 100 > RETURN * frames;
        let lost = beyond_chance && worth_it && self.learned_leads.swap(ahead > 0, Relaxed) && ahead < 0;
        let faded = if differed >= (MEMORY * frames).max(LEAST_MEMORY) { 2 } else { 1 };
        self.differed.store(differed / faded, Relaxed);
        self.ahead.store(ahead / faded as i32, Relaxed);
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests of `pages` go through shadows of a pool of 64 frames; what is followed then.
    fn followed(pages: impl Iterator<Item = u32>) -> Estimate {
        let (shadows, reuse, mut random) = (Shadows::new(64), ReuseTable::new(64), Random::new(7));
        for (at, page) in pages.enumerate() {
            let page = PageId::from_raw(u64::from(page));
            shadows.request(&Access { page, scan: None, write: false, at: at as u64 }, &reuse, &mut random);
        }
        shadows.better()
    }

    #[test]
    fn a_loop_stays_with_what_came_first() {
        assert_eq!(followed((0..20_000).map(|at| at % 200)), Estimate::Steadfast);
    }

    #[test]
    fn a_lead_beyond_chance_changes_sides_and_back() {
        let shadows = Shadows::new(64);
        (0..14).for_each(|_| _ = shadows.compare(1));
        assert_eq!(shadows.better(), Estimate::Steadfast, "14 squared is less than 4 times 54");
        shadows.compare(1);
        assert_eq!(shadows.better(), Estimate::Learned, "15 squared is more than 4 times 55");
        (0..20).for_each(|at| _ = shadows.compare(if at % 2 == 0 { 1 } else { -1 }));
        assert_eq!(shadows.better(), Estimate::Learned, "a draw changes nothing");
        let lost = (0..120).filter(|_| shadows.compare(-1)).count();
        assert_eq!((shadows.better(), lost), (Estimate::Steadfast, 1), "it comes back once");
    }

    #[test]
    fn a_large_pool_goes_over_later_and_comes_back_for_a_large_lead_alone() {
        let shadows = Shadows::new(1 << 16);
        (0..30).for_each(|_| _ = shadows.compare(1));
        assert_eq!(shadows.better(), Estimate::Steadfast, "30 squared is less than 4 times 234");
        shadows.compare(1);
        assert_eq!(shadows.better(), Estimate::Learned, "31 squared is more than 4 times 235");
        (0..338).for_each(|_| assert!(!shadows.compare(-1)));
        assert_eq!(shadows.better(), Estimate::Learned, "307 of 1,024 frames are 30 %");
        assert!(shadows.compare(-1) && shadows.better() == Estimate::Steadfast);
    }

    #[test]
    fn they_have_their_share_of_the_pages() {
        let shadows = Shadows::new(1280);
        let had = (0..100_000).filter(|&page| shadows.have(PageId::from_raw(page))).count();
        assert!((9_500..10_500).contains(&had), "{had} of 100,000 pages, a tenth");
        shadows.resize(100);
        assert!((0..1000).all(|page| shadows.have(PageId::from_raw(page))), "a small pool shows them everything");
    }
}
