//! The cache looked at as a whole: what is in it, and whether its invariants hold.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use pagecast_core::PageId;

use super::frame::Unwritten;
use super::{Cache, Header};

/// How many frames are in which state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct FrameCounts {
    /// Frames that the pool uses: its size.
    pub in_use: u32,
    /// Frames that hold a page.
    pub resident: u32,
    /// Frames of those that are pinned.
    pub pinned: u32,
    /// Frames that differ from storage: dirty, being written, or in the hands of somebody who may
    /// change them.
    pub unwritten: u32,
    /// Frames that hold items of pages without the pages ([`TupleOptions`](crate::TupleOptions)).
    pub slabs: u32,
    /// Frames in use that hold nothing and wait for a page.
    pub free: u32,
    /// Frames beyond the size that a larger pool would use. They take address space, no memory.
    pub retired: u32,
    /// Loads on their way.
    pub loading: u32,
    /// Pages that were brought, or are being brought, before anybody asked for them.
    pub ahead: u32,
}

impl Cache {
    /// Counts frames, and shows each resident page with the number of its pins and the policy's
    /// word for its frame. Takes no lock but the free frames'; pages come and go meanwhile, so that
    /// each number is true of its own moment.
    pub(crate) fn survey(&self, mut resident: impl FnMut(PageId, u32, u64)) -> FrameCounts {
        let [free, retired] = self.free.idle();
        let (in_use, loading, ahead) = (self.frames(), self.loads.load(Relaxed), self.ahead());
        let slabs = self.slabs();
        let mut counts = FrameCounts { in_use, slabs, free, retired, loading, ahead, ..FrameCounts::default() };
        for header in &self.headers {
            if let Some(page) = header.tagged() {
                let pins = header.pins();
                counts.resident += 1;
                counts.pinned += u32::from(pins > 0);
                counts.unwritten += u32::from(header.unwritten(None) != Unwritten::Nothing);
                resident(page, pins, header.word.load(Relaxed));
            }
        }
        counts
    }

    /// The page in a frame, and its pins, at this moment.
    pub(crate) fn page_in(&self, frame: u32) -> Option<(PageId, u32)> {
        let header = self.headers.get(frame as usize)?;
        Some((header.tagged()?, header.pins()))
    }

    /// Panics if an invariant does not hold. Nobody may be at work. Costs a look at each frame.
    pub(crate) fn check(&self) {
        let (used, unused) = self.headers.split_at(self.free.span() as usize);
        assert_eq!(self.pinned(), 0, "(I4): a pin is left");
        assert_eq!(self.loads.load(Relaxed), 0, "(I5): a load is left");
        assert_eq!(unused.iter().find_map(Header::tagged), None, "(F3): a page is in a frame out of use");
        let resident: Vec<_> = used.iter().enumerate().filter_map(|(i, header)| Some((i, header.tagged()?))).collect();
        let [free, retired] = self.free.idle();
        assert_eq!(resident.len() as u32 + free + self.slabs(), self.frames(), "(I1): a frame is lost");
        self.check_tuples();
        assert_eq!(retired + self.frames(), self.headers.len() as u32, "(F1): a frame out of use is not retired");
        let at_rest = |header: &Header| matches!(header.unwritten(None), Unwritten::Nothing | Unwritten::Dirty);
        assert!(self.headers.iter().all(at_rest), "(I8): a page is being written or had alone");
        let pages: HashSet<_> = resident.iter().map(|&(_, page)| page).collect();
        assert_eq!(pages.len(), resident.len(), "(I3): a page is in two frames");
        for &(frame, page) in &resident {
            let shard = self.table.shard(page).lock();
            let found = self.table.find_locked(&self.headers, page, &shard);
            assert_eq!(found, Some(frame as u32), "(I2): the chains lost {page:?}");
        }
        assert_eq!(self.table.linked(&self.headers), resident.len(), "(I2): a chain holds a frame without its page");
        let flagged = self.headers.iter().filter(|header| header.is_flagged()).count();
        let stats = self.statistics.snapshot();
        let ended = stats.prefetch_useful + stats.prefetch_late + stats.prefetch_wasted;
        assert_eq!(self.ahead(), flagged as u32, "(I7): a flag was counted twice or not at all");
        self.cooperation.check();
        assert_eq!(stats.prefetched, ended + flagged as u64, "(I7): a flag was counted twice or not at all");
    }
}
