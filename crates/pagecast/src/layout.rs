//! Where a page keeps its items: what the pool asks of whoever stores rows in pages.

use std::ops::Range;

/// Where the pages of a relation keep their items: rows, or whatever is read one at a time.
///
/// Its calls are pure and quick, never block and never call the pool. The pool makes them under no
/// lock. What they answer is not trusted: a range outside the page is no item, one longer than half
/// a page is not kept apart from its page, and a panic costs the items of that page alone.
///
/// The bytes of a page are those that a [`PageGuard`](crate::PageGuard) shows: of a sealed page
/// without its seal. An item has a name of 32 bits, which stays the same for as long as the item is
/// in its page: the number of a slot, or a hash of its key where slots move. With hashes two items
/// of a page may have one name. Then `locate` answers with either, and the caller compares the key.
pub trait TupleLayout: Send + Sync + 'static {
    /// How many items a page of so many bytes has at most: as many visits are told apart.
    fn items(&self, page_bytes: u32) -> u32;

    /// The bytes of item `item`, if the page has it, whole and in this place.
    fn locate(&self, page: &[u8], item: u32) -> Option<Range<u32>>;

    /// Calls `found` for each item of the page. The default asks for the items 0 to
    /// [`items`](Self::items); a layout whose names are hashes goes through its slots instead.
    fn each(&self, page: &[u8], found: &mut dyn FnMut(u32, Range<u32>)) {
        for item in 0..self.items(page.len() as u32) {
            if let Some(range) = self.locate(page, item) {
                found(item, range);
            }
        }
    }

    /// Puts `bytes` in the place of the item, which has the same length. False, and nothing
    /// changes, if the page has no such item. The default copies to where
    /// [`locate`](Self::locate) says.
    fn store(&self, page: &mut [u8], item: u32, bytes: &[u8]) -> bool {
        let place = self.locate(page, item).and_then(|range| within(page.len(), range));
        match place.and_then(|range| page.get_mut(range)).filter(|place| place.len() == bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }
}

/// The range in a page of `len` bytes, if it is in it and has a byte.
pub(crate) fn within(len: usize, range: Range<u32>) -> Option<Range<usize>> {
    let range = range.start as usize..range.end as usize;
    (range.start < range.end && range.end <= len).then_some(range)
}

/// Rows of `row` bytes, one after the other, from byte `first` of the page on. Item `n` is the row
/// `n`.
///
/// ```
/// use pagecast::{FixedRows, TupleLayout};
///
/// let rows = FixedRows { first: 24, row: 128 };
/// assert_eq!(rows.items(4096), 31);
/// assert_eq!(rows.locate(&[0; 4096], 2), Some(280..408));
/// assert_eq!(rows.locate(&[0; 4096], 31), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FixedRows {
    /// Bytes of the page before the first row.
    pub first: u32,
    /// Bytes of a row.
    pub row: u32,
}

impl TupleLayout for FixedRows {
    fn items(&self, page_bytes: u32) -> u32 {
        page_bytes.saturating_sub(self.first).checked_div(self.row).unwrap_or(0)
    }

    #[inline]
    fn locate(&self, page: &[u8], item: u32) -> Option<Range<u32>> {
        let start = item.checked_mul(self.row)?.checked_add(self.first)?;
        let end = start.checked_add(self.row)?;
        (self.row > 0 && end as usize <= page.len()).then_some(start..end)
    }
}

/// A page with slots: from byte `header` on the number of slots, then for each its offset in the
/// page and its length, all as little-endian 16-bit numbers. Item `n` is the slot `n`; one of
/// length 0 is none.
///
/// ```
/// use pagecast::{Slotted, TupleLayout};
///
/// let mut page = [0; 4096];
/// page[8..14].copy_from_slice(&[1, 0, 0xf0, 0x0f, 16, 0]); // one slot: 16 bytes from 4080 on
/// let slots = Slotted { header: 8 };
/// assert_eq!(slots.locate(&page, 0), Some(4080..4096));
/// assert_eq!(slots.locate(&page, 1), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slotted {
    /// Bytes of the page before the number of slots.
    pub header: u32,
}

/// Bytes of a slot: offset and length.
const SLOT: u32 = 4;

impl Slotted {
    fn number(page: &[u8], at: u32) -> Option<u32> {
        let bytes = page.get(at as usize..)?.first_chunk::<2>()?;
        Some(u16::from_le_bytes(*bytes).into())
    }
}

impl TupleLayout for Slotted {
    fn items(&self, page_bytes: u32) -> u32 {
        page_bytes.saturating_sub(self.header).saturating_sub(2) / SLOT
    }

    #[inline]
    fn locate(&self, page: &[u8], item: u32) -> Option<Range<u32>> {
        let slots = Self::number(page, self.header)?;
        let slot = self.header.checked_add(2)?.checked_add(item.checked_mul(SLOT)?)?;
        let (start, len) = (Self::number(page, slot)?, Self::number(page, slot + 2)?);
        let end = start + len;
        (item < slots && len > 0 && end as usize <= page.len()).then_some(start..end)
    }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn hostile_pages_and_numbers_give_no_range_outside_the_page() {
        let mut random = pagecast_core::random::Random::new(7);
        let numbers = [0, 1, 2, 16, 4094, 4095, 4096, 4097, u32::MAX - 1, u32::MAX];
        for _ in 0..200 {
            let page: Vec<u8> =
                (0..4096).map(|_| if random.below(2) == 0 { 0xff } else { random.below(40) as u8 }).collect();
            for (a, b) in numbers.iter().flat_map(|&a| numbers.map(|b| (a, b))) {
                let layouts: [&dyn TupleLayout; 2] = [&FixedRows { first: a, row: b }, &Slotted { header: a }];
                for layout in layouts {
                    let Some(range) = layout.locate(&page, b) else { continue };
                    assert!(range.start < range.end && range.end <= 4096, "{a} {b} {range:?}");
                    assert!(b < layout.items(4096), "{a} {b}: more items than it says");
                    assert!(!layout.store(&mut page.clone(), b, &vec![0; range.len() + 1]), "of another length");
                }
            }
        }
    }

    #[test]
    fn an_item_is_put_back_where_it_was() {
        let mut page = vec![0; 4096];
        let rows = FixedRows { first: 10, row: 100 };
        assert!(rows.store(&mut page, 39, &[7; 100]));
        assert!(!rows.store(&mut page, 40, &[7; 100]) && !rows.store(&mut page, 3, &[7; 99]));
        let mut found = Vec::new();
        rows.each(&page, &mut |item, range| found.push((item, page[range.start as usize])));
        assert_eq!(found.len(), 40, "the last row would end outside");
        assert!(found.iter().all(|&(item, byte)| (byte == 7) == (item == 39)));
    }
}
