//! Who has a frame: tokens that are handed on, and neither copied nor dropped.
//!
//! They are below the cache, which makes and takes them with each change of a frame's state
//! (`cache/frame.rs`), and below the frames' memory, which turns them into slices
//! (`frame_memory.rs`): each knows the tokens and not the other.

use pagecast_core::FrameId;
use pagecast_core::policy::Claimed;

/// A frame that belongs to whoever has this: nobody can pin it or claim it, and its bytes may be
/// written.
///
/// There is one for each frame that is free or being filled. In the order of their frames.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use = "a frame that is dropped is lost to the pool"]
pub(crate) struct Owned(u32);

impl Owned {
    /// For the transitions of `cache/frame.rs` alone, by which the frame becomes the caller's.
    #[inline]
    pub(crate) fn new(index: u32) -> Self {
        Self(index)
    }

    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.0
    }

    /// For the policy that claimed it, and hands it to whoever asked for a victim.
    pub(crate) fn into_claimed(self) -> Claimed {
        Claimed::new(FrameId(self.0))
    }
}

/// One pin of a resident frame: while there is one, the frame's page stays and its bytes may be
/// read.
#[derive(Debug)]
#[must_use = "a pin that is dropped keeps its frame for ever"]
pub(crate) struct Held(u32);

impl Held {
    /// For the transitions of `cache/frame.rs` alone, which have counted the pin.
    #[inline]
    pub(crate) fn new(index: u32) -> Self {
        Self(index)
    }

    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.0
    }
}
