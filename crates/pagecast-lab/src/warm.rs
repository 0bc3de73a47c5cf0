//! Pages that an ordered policy has where a hit changes their order.

/// Blocks behind `pages` pages, to push pages out with.
pub(crate) const fn filler(pages: u32) -> u32 {
    4 * pages
}

/// Has all of `pages` pages resident in `frames` frames, which are more, and not only just come:
/// they were pushed out and asked for again. `touch` asks for a block, a page or one of
/// [`filler`] behind them, and says whether it was missed.
///
/// # Panics
///
/// The policy does not keep them.
pub(crate) fn all(pages: u32, frames: u32, mut touch: impl FnMut(u32) -> bool) {
    let mut others = (pages..pages + filler(pages)).cycle();
    // All frames are taken from here on.
    for block in others.by_ref().take(frames as usize) {
        touch(block);
    }
    // In parts that are remembered when they have been pushed out.
    let part = frames / 4;
    for first in (0..pages).step_by(part as usize) {
        let blocks = first..(first + part).min(pages);
        for block in blocks.clone().chain(others.by_ref().take(part as usize + 1)).chain(blocks) {
            touch(block);
        }
    }
    // What has gone meanwhile, until nothing has.
    let kept = (0..10).any(|_| (0..pages).filter(|&block| touch(block)).count() == 0);
    assert!(kept, "the policy does not keep {pages} pages in {frames} frames");
}
