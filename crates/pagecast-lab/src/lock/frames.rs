//! Frames without pages' contents, shared by threads, around any policy. The pool has its policies
//! behind a catalog, and this benchmark puts a watch around them.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use pagecast_core::oracle::NoScans;
use pagecast_core::policy::{Access, Claimed, ConcurrentPolicy, Frames, Refusal};
use pagecast_core::{FrameId, PageId};

use super::loads::PAGES;
use crate::warm;

/// Twice the pages: all can stay.
pub(crate) const FRAMES: u32 = 2 * PAGES;

/// Which page is in which frame. While threads measure, nothing comes and nothing goes.
pub(crate) struct Table {
    words: Vec<AtomicU64>,
    /// By frame.
    pages: Vec<Option<PageId>>,
    /// By block.
    frames: Vec<Option<FrameId>>,
    claimed: Mutex<Option<PageId>>,
    time: u64,
}

pub(crate) fn access(block: u32, at: u64) -> Access {
    Access { page: PageId::from_raw(u64::from(block)), scan: None, write: false, at }
}

impl Table {
    /// All pages are resident in `policy`, as [`warm::all`] says.
    pub(crate) fn filled(policy: &dyn ConcurrentPolicy) -> Self {
        let mut table = Self {
            words: (0..FRAMES).map(|_| AtomicU64::new(0)).collect(),
            pages: Vec::new(),
            frames: vec![None; (PAGES + warm::filler(PAGES)) as usize],
            claimed: Mutex::new(None),
            time: 0,
        };
        warm::all(PAGES, FRAMES, |block| table.touch(policy, block));
        table
    }

    /// Asks for a block, and says whether it was missed.
    fn touch(&mut self, policy: &dyn ConcurrentPolicy, block: u32) -> bool {
        self.time += 1;
        let access = access(block, self.time);
        if let Some(frame) = self.frames[block as usize] {
            policy.hit(self, frame, &access);
            return false;
        }
        let frame = if self.pages.len() < FRAMES as usize {
            self.pages.push(None);
            FrameId(self.pages.len() as u32 - 1)
        } else {
            let claimed = policy.evict(self, &access, &NoScans).expect("nobody holds a frame");
            let gone = self.claimed.get_mut().expect("nobody panicked").take().expect("it was claimed");
            self.frames[gone.raw() as usize] = None;
            claimed.frame()
        };
        self.words[frame.index()] = AtomicU64::new(0);
        self.pages[frame.index()] = Some(access.page);
        self.frames[block as usize] = Some(frame);
        policy.admit(self, frame, &access);
        true
    }

    /// The frame of a page of the load.
    pub(crate) fn frame(&self, block: u32) -> FrameId {
        self.frames[block as usize].expect("all pages are resident")
    }
}

impl Frames for Table {
    fn count(&self) -> u32 {
        FRAMES
    }

    fn word(&self, frame: FrameId) -> &AtomicU64 {
        &self.words[frame.index()]
    }

    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        self.page(frame)
    }

    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.pages.get(frame.index()).copied().flatten()
    }

    fn claim(&self, frame: FrameId, page: PageId) -> Result<Claimed, Refusal> {
        if self.page(frame) != Some(page) {
            return Err(Refusal::Pinned);
        }
        *self.claimed.lock().expect("nobody panicked") = Some(page);
        Ok(Claimed::new(frame))
    }
}
