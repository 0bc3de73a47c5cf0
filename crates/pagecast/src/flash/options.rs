//! What a tier is made of.

use std::path::PathBuf;

use pagecast_core::policy::PolicySpec;
use pagecast_core::tier::{Admission, BYTES_PER_SLOT, Budget, Predicted, SecondTouch};

use super::layout::{BLOCK, Layout};
use crate::storage::Device;

/// The file's name in its folder.
const NAME: &str = "pagecast.flash";
/// Pages that may be on their way to flash.
const MAX_BUFFERS: u64 = 32;
const NANOSECONDS: f64 = 1e9;

/// Who is written to a tier on flash, and who leaves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FlashAdmission {
    /// What is expected to be read before it leaves, by what scans foretell and how often it came.
    /// `pbm` says who leaves.
    #[default]
    Predicted,
    /// What memory gives up for the second time in a while, with LRU and without a bound of
    /// [`writes`](FlashOptions::writes): what it is measured against.
    SecondTouch,
}

/// A tier on flash, for pages of object stores. Start from [`new`](Self::new) and change what
/// matters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FlashOptions {
    /// The folder of its one file, `pagecast.flash`, which its owner alone may read. The folder
    /// must be there, and one pool at a time uses the file.
    pub folder: PathBuf,
    /// The most bytes of that file, all that belongs to it included. Another number, or another
    /// page size, begins it anew.
    pub bytes: u64,
    /// The most bytes per second that are written on average, for the device's life; the room that
    /// is free at the start may be filled beyond that. Default: no bound.
    pub writes: Option<u64>,
    /// Who is written. Default: [`FlashAdmission::Predicted`].
    pub admission: FlashAdmission,
    /// Where the folder is. Default: the local file system, past the operating system's cache.
    pub device: Device,
}

impl FlashOptions {
    /// A file of at most `bytes` bytes in `folder`.
    pub fn new(folder: impl Into<PathBuf>, bytes: u64) -> Self {
        let (writes, admission) = (None, FlashAdmission::default());
        Self { folder: folder.into(), bytes, writes, admission, device: Device::local() }
    }

    crate::setters! {
        writes: impl Into<Option<u64>>,
        admission: FlashAdmission,
        device: Device,
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    pub(super) fn layout(&self, page_size: u32) -> Layout {
        Layout::within(self.bytes, page_size)
    }

    /// The policy by which pages leave.
    pub(super) fn policy(&self) -> PolicySpec {
        let name = match self.admission {
            FlashAdmission::Predicted => "pbm",
            FlashAdmission::SecondTouch => "lru",
        };
        PolicySpec::parse(name).expect("the catalog has it")
    }

    pub(super) fn admission_for(&self, layout: Layout, free: u32) -> Box<dyn Admission + Send> {
        let per_second = |bytes: u64| bytes as f64 / layout.slot_bytes() as f64;
        let budget = self.writes.map(|bytes| Budget::new(per_second(bytes) / NANOSECONDS, layout.slots));
        let budget = budget.map_or(Budget::unlimited(), |budget| budget.starting_with(free));
        match self.admission {
            FlashAdmission::Predicted => Box::new(Predicted::new(layout.slots, budget)),
            FlashAdmission::SecondTouch => Box::new(SecondTouch::new(layout.slots)),
        }
    }

    /// How many buffers a pool of `memory` bytes has for pages on their way.
    pub(super) fn buffers(&self, layout: Layout, memory: u64) -> u64 {
        (memory / 64 / layout.slot_bytes() as u64).clamp(2, MAX_BUFFERS)
    }

    /// What the tier takes of a pool of `memory` bytes.
    pub(crate) fn memory(&self, page_size: u32, memory: u64) -> u64 {
        let (layout, policy) = (self.layout(page_size), self.policy());
        let each = u64::from(BYTES_PER_SLOT) + u64::from(policy.bytes_per_frame());
        let buffers = self.buffers(layout, memory) * (layout.slot_bytes() as u64 + BLOCK);
        u64::from(layout.slots) * each + u64::from(policy.bytes_apart(layout.slots)) + buffers
    }
}
