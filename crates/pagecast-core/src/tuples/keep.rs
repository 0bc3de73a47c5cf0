//! What of a page is kept when the page goes, and what of a mini-page when it must give way.

use super::MOST_VISITS;
use super::room::{Room, Slot};

/// An item of a page, as the choice sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weight {
    /// Its visits ([`super::Visits::count`]).
    pub count: u8,
    /// Its bytes; 0 if the page has no such item, or not whole.
    pub length: u32,
}

/// The items of a page that are worth a mini-page: those visited, the hottest first, until a slot
/// is at its widest.
///
/// `weight` is asked for the items 0 to `items - 1`, once for each count.
///
/// ```
/// use pagecast_core::tuples::{Keep, Room, Weight};
///
/// let counts = [0, 1, 3, 0, 1, 2];
/// let kept = Keep::new(6, Room::new(1024), |item| Weight { count: counts[item as usize], length: 128 });
/// // Half of 1024 bytes have room for three items of 128 and their heads.
/// assert_eq!(kept.collect::<Vec<_>>(), [2, 5, 1]);
/// ```
#[derive(Debug)]
pub struct Keep<W> {
    weight: W,
    items: u32,
    room: Room,
    /// Who is looked at next: the item, and the count that it must have.
    next: u32,
    count: u8,
    kept: u32,
    bytes: u32,
}

impl<W: Fn(u32) -> Weight> Keep<W> {
    /// Of a page of `items` items, for a slot in `room`.
    pub fn new(items: u32, room: Room, weight: W) -> Self {
        Self { weight, items, room, next: 0, count: MOST_VISITS, kept: 0, bytes: 0 }
    }

    /// The slot that those handed out so far need; none before the first.
    pub fn slot(&self) -> Option<Slot> {
        if self.kept == 0 { None } else { self.room.slot(self.kept, self.bytes) }
    }
}

impl<W: Fn(u32) -> Weight> Iterator for Keep<W> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        while self.count > 0 {
            while self.next < self.items {
                let item = self.next;
                self.next += 1;
                let Weight { count, length } = (self.weight)(item);
                let bytes = self.bytes.saturating_add(length);
                if count.min(MOST_VISITS) == self.count && length > 0 && self.room.slot(self.kept + 1, bytes).is_some()
                {
                    (self.kept, self.bytes) = (self.kept + 1, bytes);
                    return Some(item);
                }
            }
            (self.next, self.count) = (0, self.count - 1);
        }
        None
    }
}

/// What becomes of a mini-page that must give way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trim {
    /// It goes whole.
    Whole,
    /// The items with this count go, the others stay.
    Lowest(u8),
}

impl Trim {
    /// Of a mini-page whose items have these counts.
    pub fn of(counts: impl IntoIterator<Item = u8>) -> Self {
        let (mut least, mut most) = (u8::MAX, 0);
        for count in counts {
            (least, most) = (least.min(count), most.max(count));
        }
        if least < most { Self::Lowest(least) } else { Self::Whole }
    }

    /// Whether an item with `count` stays.
    pub const fn keeps(self, count: u8) -> bool {
        matches!(self, Self::Lowest(least) if count > least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn an_item_that_does_not_fit_leaves_its_place_to_a_shorter_one() {
        let items = [(1, 100), (3, 5000), (3, 300), (2, 300), (2, 0), (1, 60), (0, 8)];
        let weight = |item: u32| Weight { count: items[item as usize].0, length: items[item as usize].1 };
        let mut keep = Keep::new(7, Room::new(1000), weight);
        assert_eq!(keep.slot(), None);
        let kept: Vec<u32> = keep.by_ref().collect();
        assert_eq!(kept, [2, 0], "300 + 100 bytes and 48 of heads; 300 more or 60 more are above 500");
        assert_eq!(keep.slot().map(|slot| slot.per_slab), Some(2));
        let unvisited = Keep::new(3, Room::new(4096), |_| Weight { count: 0, length: 10 });
        assert_eq!(unvisited.count(), 0);
    }

    #[test]
    fn the_coldest_items_go_first_and_equals_together() {
        assert_eq!(Trim::of([1, 3, 2, 1]), Trim::Lowest(1));
        assert_eq!([1, 2, 3].map(|count| Trim::Lowest(1).keeps(count)), [false, true, true]);
        assert_eq!(Trim::of([2, 2]), Trim::Whole);
        assert_eq!(Trim::of([]), Trim::Whole);
        assert!(!Trim::Whole.keeps(3));
    }
}
