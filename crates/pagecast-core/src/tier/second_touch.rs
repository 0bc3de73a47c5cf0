//! Second touch: a page is written when memory gives it up for the second time in a while. Source:
//! Huang et al., "Improving flash-based disk cache with lazy adaptive replacement" (MSST 2013),
//! with as many pages remembered as there are slots, whatever comes.

use super::{Admission, Offer};
use crate::PageId;
use alloc::vec::Vec;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// The pages that memory gave up last, the oldest of which is forgotten.
pub struct SecondTouch {
    /// In the order in which they were given up; [`None`] for one that came again since.
    ring: Vec<Option<PageId>>,
    /// By page: its place in the ring.
    places: HashMap<PageId, usize, FixedState>,
    next: usize,
}

impl SecondTouch {
    /// Remembers `pages` pages (1 at least).
    pub fn new(pages: u32) -> Self {
        Self { ring: alloc::vec![None; pages.max(1) as usize], places: HashMap::default(), next: 0 }
    }

    /// Whether memory gave up `page` before. This time takes its place.
    fn touch(&mut self, page: PageId) -> bool {
        let before = self.places.remove(&page);
        before.into_iter().for_each(|place| self.ring[place] = None);
        if let Some(oldest) = self.ring[self.next].replace(page) {
            self.places.remove(&oldest);
        }
        self.places.insert(page, self.next);
        self.next = (self.next + 1) % self.ring.len();
        before.is_some()
    }
}

impl Admission for SecondTouch {
    fn admits(&mut self, offer: &Offer) -> bool {
        self.touch(offer.page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten() {
        let mut touched = SecondTouch::new(3);
        let mut touch = |page| touched.touch(PageId::from_raw(page));
        assert_eq!([1, 2, 1, 3, 2].map(&mut touch), [false, false, true, false, true]);
        assert_eq!([4, 1].map(&mut touch), [false, false], "1 was the oldest of three");
    }
}
