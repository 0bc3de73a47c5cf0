//! The bytes of the frames: one anonymous mapping, cut into pages. Unsafe: tokens, not borrows, say
//! who may touch it.
//!
//! Who may touch which bytes is decided by the tokens of [`crate::token`]: an [`Owned`] is the only
//! one of its frame and excludes every [`Held`] of it; a [`Held`] excludes an [`Owned`]. The
//! functions here turn tokens into slices. One of them takes no token, and copies bytes that may be
//! anything.

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::processor_cache::prefetch;
use crate::token::{Held, Owned};

/// Advice that frees the memory at once, which elsewhere than on Linux may be no more than a hint.
#[cfg(target_os = "linux")]
const GIVE_BACK: Advice = Advice::LinuxDontNeed;
#[cfg(not(target_os = "linux"))]
const GIVE_BACK: Advice = Advice::DontNeed;

/// Advice to use large pages where the system has them, and not to.
#[cfg(target_os = "linux")]
const LARGE_PAGES: Option<(Advice, Advice)> = Some((Advice::LinuxHugepage, Advice::LinuxNoHugepage));
#[cfg(not(target_os = "linux"))]
const LARGE_PAGES: Option<(Advice, Advice)> = None;

/// With fewer short pages large ones stay.
const MANY: u32 = 64;

/// Memory for `frames` pages, each aligned to 4096 bytes, zero at first and taken from the system
/// when first touched.
pub(crate) struct FrameMemory {
    base: NonNull<u8>,
    bytes: usize,
    page_size: usize,
    frames: u32,
    /// Until memory is given back for the first time, or most pages leave most of their frames
    /// empty.
    in_large_pages: AtomicBool,
    /// Pages that were loaded meanwhile, and those of them that filled half a frame or less.
    loaded: AtomicU32,
    short: AtomicU32,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
unsafe impl Send for FrameMemory {}
// SAFETY: shared access hands out slices by token only; the tokens exclude a writer beside anyone
// else.
unsafe impl Sync for FrameMemory {}

impl FrameMemory {
    /// Maps the memory. `page_size` is a multiple of 4096, neither factor is 0.
    pub(crate) fn new(frames: u32, page_size: u32) -> io::Result<Self> {
        let page_size = page_size as usize;
        let too_large = || io::Error::new(io::ErrorKind::OutOfMemory, "more than this machine can address");
        let bytes =
            page_size.checked_mul(frames as usize).filter(|&n| n <= isize::MAX as usize).ok_or_else(too_large)?;
        // Address space for all that there may ever be; memory only for what is in use.
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: no address is asked for, so that no existing mapping is replaced.
        let base = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(too_large)?;
        let in_large_pages = AtomicBool::new(LARGE_PAGES.is_some());
        let (loaded, short) = (AtomicU32::new(0), AtomicU32::new(0));
        let memory = Self { base, bytes, page_size, frames, in_large_pages, loaded, short };
        // Readers come to pages all over the memory: with few large entries the processor knows
        // where they all are.
        memory.advise_all(LARGE_PAGES.map(|(wanted, _)| wanted));
        Ok(memory)
    }

    /// Advice on how the whole mapping is backed. A hint, which a kernel without large pages
    /// refuses.
    fn advise_all(&self, advice: Option<Advice>) {
        if let Some(advice) = advice {
            // SAFETY: the mapping is ours; this advice changes how it is backed, never what it
            // reads as.
            let _ = unsafe { madvise(self.base.as_ptr().cast(), self.bytes, advice) };
        }
    }

    /// How many pages there is address space for.
    pub(crate) fn frames(&self) -> u32 {
        self.frames
    }

    /// Bytes of a page.
    pub(crate) fn page_size(&self) -> u32 {
        // It was a `u32`.
        self.page_size as u32
    }

    /// Gives a frame's memory back to the system; when it is touched next it reads as zero.
    pub(crate) fn give_back(&self, owned: &mut Owned) {
        // A kernel that tidies up would make a large page out of what is left around the gap, and
        // fill it.
        self.end_large_pages();
        let page = self.page(owned.index());
        // Where the system's pages are larger than 4096 bytes it may refuse, and keeps the memory.
        // SAFETY: within the mapping, which stays mapped and initialised (to zero). `owned` is the
        // frame's only token and is borrowed mutably: nobody has a slice of it.
        let _ = unsafe { madvise(page.as_ptr().cast(), self.page_size, GIVE_BACK) };
    }

    /// A page of `len` bytes was loaded. The files of some tables are much smaller than a frame: in
    /// large pages each takes a whole one.
    pub(crate) fn note_filled(&self, len: u32) {
        if !self.in_large_pages.load(Relaxed) {
            return;
        }
        let loaded = self.loaded.fetch_add(1, Relaxed);
        if len as usize <= self.page_size / 2 {
            let short = self.short.fetch_add(1, Relaxed);
            if short >= MANY && short >= loaded / 2 {
                self.end_large_pages();
            }
        }
    }

    fn end_large_pages(&self) {
        // Relaxed: once too often does no harm.
        if self.in_large_pages.load(Relaxed) {
            self.in_large_pages.store(false, Relaxed);
            self.advise_all(LARGE_PAGES.map(|(_, unwanted)| unwanted));
        }
    }

    #[inline]
    fn page(&self, frame: u32) -> NonNull<u8> {
        assert!(frame < self.frames, "frame {frame} is of another pool");
        // SAFETY: the frame is below their number, so the offset is within the mapping, which is
        // below isize::MAX.
        unsafe { self.base.add(frame as usize * self.page_size) }
    }

    /// Brings the start of a frame, where most readers begin, into the processor's cache. Whose it
    /// is does not matter.
    #[inline]
    pub(crate) fn prefetch(&self, frame: u32) {
        prefetch(self.page(frame).as_ptr().addr());
    }

    /// The page that is pinned.
    #[inline]
    pub(crate) fn read<'a>(&'a self, held: &'a Held) -> &'a [u8] {
        let page = self.page(held.index());
        // SAFETY: within the mapping and initialised (by the system to zero). While `held` exists
        // the frame is resident with a pin, so that no `Owned` of it exists and nobody writes; what
        // was written before is visible by the Acquire of the pin.
        unsafe { std::slice::from_raw_parts(page.as_ptr(), self.page_size) }
    }

    /// A frame that somebody may be writing to, word by word. What was read is right only if the
    /// frame's version was even before and is the same afterwards ([`crate::cache`], (I9)); else it
    /// is anything, of no page or of two.
    ///
    /// Each load is atomic, so that no access of ours is torn, repeated or invented by the
    /// compiler. The writes that it may meet are not atomic: most are the kernel's, which no
    /// language orders, some are the owner's through a slice. By the letter of the language a load
    /// that meets such a plain write is a race even though its result is thrown away. It is the
    /// bargain of every sequence lock over bytes; it rests on a load having no effect but its
    /// value, and on nobody using that value before the version has been looked at again. Without
    /// it a reader would have to announce itself in memory that evictions look at, which is what a
    /// pin is.
    #[inline]
    pub(crate) fn words_unpinned(&self, frame: u32) -> &[AtomicU64] {
        let words = self.page(frame).cast::<AtomicU64>();
        // SAFETY: within the mapping, which is initialised and lives as long as `self`. Frames
        // begin at multiples of 4096 and are as long, so that all of it is aligned words. For those
        // who write meanwhile, see above.
        unsafe { std::slice::from_raw_parts(words.as_ptr(), self.page_size / WORD) }
    }

    /// Copies bytes of a frame that somebody may be writing to: right or not as
    /// [`words_unpinned`](Self::words_unpinned) says.
    #[inline]
    pub(crate) fn copy_unpinned(&self, frame: u32, offset: usize, into: &mut [u8]) {
        copy_racing(self.words_unpinned(frame), offset, into);
    }

    /// The page that somebody has alone.
    pub(crate) fn read_owned<'a>(&'a self, owned: &'a Owned) -> &'a [u8] {
        let page = self.page(owned.index());
        // SAFETY: within the mapping and initialised. `owned` is the frame's only token, and
        // writing takes it mutably.
        unsafe { std::slice::from_raw_parts(page.as_ptr(), self.page_size) }
    }

    /// The page that is being filled, or changed by whoever has it alone.
    pub(crate) fn write<'a>(&'a self, owned: &'a mut Owned) -> &'a mut [u8] {
        let page = self.page(owned.index());
        // SAFETY: within the mapping and initialised. `owned` is the frame's only token, and it is
        // borrowed mutably for as long as the slice lives; those who read the page before are done
        // by the Acquire of the claim.
        unsafe { std::slice::from_raw_parts_mut(page.as_ptr(), self.page_size) }
    }
}

const WORD: usize = size_of::<u64>();

/// Copies the bytes from `offset` on of a frame that somebody may be writing to.
#[inline]
pub(crate) fn copy_racing(words: &[AtomicU64], offset: usize, into: &mut [u8]) {
    let load = |word: &AtomicU64| word.load(Relaxed).to_ne_bytes();
    // The rest of a word, whole words, and a part of one.
    let (mut at, skipped) = (offset / WORD, offset % WORD);
    let (head, rest) = into.split_at_mut(if skipped == 0 { 0 } else { (WORD - skipped).min(into.len()) });
    if !head.is_empty() {
        head.copy_from_slice(&load(&words[at])[skipped..][..head.len()]);
        at += 1;
    }
    let (body, tail) = rest.as_chunks_mut::<WORD>();
    let end = at + body.len();
    for (into, word) in body.iter_mut().zip(&words[at..end]) {
        *into = load(word);
    }
    if !tail.is_empty() {
        tail.copy_from_slice(&load(&words[end])[..tail.len()]);
    }
}

impl Drop for FrameMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and every slice of it borrowed this value. A refusal would
        // leak memory only.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn small_files_are_not_kept_in_large_pages() {
        let large = |lens: &[u32]| {
            let memory = FrameMemory::new(1024, 1 << 16).unwrap();
            lens.iter().for_each(|&len| memory.note_filled(len));
            memory.in_large_pages.load(Relaxed)
        };
        if LARGE_PAGES.is_none() {
            return assert!(!large(&[]));
        }
        let (whole, short) = (vec![1 << 16; 200], vec![3000; 70]);
        assert!(large(&short[..64]), "too few to say");
        assert!(!large(&short));
        assert!(large(&[whole, short].concat()), "the last pages of larger files");
    }
}
