//! PBM-sampling as the authors built it: estimates of block groups that are kept for a while.

use crate::groups::Groups;
use pagecast_core::oracle::Oracle;
use pagecast_core::policy::{Access, Claimed, Frames, SequentialPolicy};
use pagecast_core::random::Random;
use pagecast_core::{FrameId, PageId, Tick};

const SAMPLES: u32 = 10;

pub(crate) struct AuthorsSampling {
    groups: Groups,
    random: Random,
}

impl AuthorsSampling {
    pub(crate) fn new(groups: Groups, seed: u64) -> Self {
        Self { groups, random: Random::new(seed) }
    }

    /// Later is sooner to go; nobody's first.
    fn wanted(&mut self, page: PageId, now: Tick) -> Tick {
        let group = self.groups.of(page);
        self.groups.kept_estimate(group, now).unwrap_or(Tick::MAX)
    }
}

impl SequentialPolicy for AuthorsSampling {
    fn hit(&mut self, _frame: FrameId, access: &Access) {
        self.groups.comes(access);
    }

    fn evict(&mut self, frames: &dyn Frames, incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        self.groups.comes(incoming);
        let mut best: Option<(Tick, FrameId, PageId)> = None;
        for _ in 0..SAMPLES {
            let frame = FrameId(self.random.below(frames.count()));
            let Some(page) = frames.evictable(frame) else { continue };
            let wanted = self.wanted(page, incoming.at);
            if best.is_none_or(|(latest, ..)| wanted > latest) {
                best = Some((wanted, frame, page));
            }
        }
        let (_, frame, page) = best?;
        let claimed = frames.claim(frame, page).ok()?;
        self.groups.leaves(frame, page);
        Some(claimed)
    }

    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.groups.comes(access);
        self.groups.admits(frame, access.page);
    }

    fn forget(&mut self, _frame: FrameId, _page: PageId) {}

    fn check(&self) {}
}
