//! The memory that a mini-page takes: its head, its items, its place in the index, and what
//! rounding to the slots of a slab loses.

/// Bytes of a mini-page's head in its slot.
pub const HEAD_BYTES: u32 = 32;
/// Bytes in front of each item: its name, its length, its counter.
pub const ITEM_BYTES: u32 = 8;
/// Bytes of a mini-page in the index that finds it.
pub const INDEX_BYTES: u32 = 20;
/// Slots are cut at multiples of this.
const ALIGN: u32 = 8;
/// The smallest slot.
const LEAST_SLOT: u32 = 64;
/// Significant bits of a number of slots: an eighth between one class and the next.
const CLASS_BITS: u32 = 4;

/// How slabs are cut into slots.
///
/// A slab holds slots of one class, so many that as little as possible is left over at its end. A
/// mini-page takes at most half a slab.
///
/// ```
/// use pagecast_core::tuples::Room;
///
/// let room = Room::new(4096);
/// let slot = room.slot(4, 512).unwrap(); // 32 + 4 * 8 + 512 = 576 bytes, seven times in 4096
/// assert_eq!((slot.per_slab, slot.bytes), (7, 584));
/// assert_eq!(room.slot(31, 31 * 128), None, "more than half a slab");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    slab: u32,
}

/// A class of slots.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot {
    /// How many a slab has.
    pub per_slab: u32,
    /// The bytes of each.
    pub bytes: u32,
}

impl Room {
    /// For slabs of `slab` bytes.
    pub const fn new(slab: u32) -> Self {
        Self { slab }
    }

    /// The bytes of a slab.
    pub const fn slab(self) -> u32 {
        self.slab
    }

    /// The narrowest slot for `items` items of together `bytes` bytes; none if that is more than
    /// half a slab.
    pub fn slot(self, items: u32, bytes: u32) -> Option<Slot> {
        let payload = items.checked_mul(ITEM_BYTES)?.checked_add(bytes)?;
        let need = payload.checked_add(HEAD_BYTES)?.max(LEAST_SLOT).checked_next_multiple_of(ALIGN)?;
        let per_slab = rounded(self.slab / need);
        (per_slab >= 2).then(|| self.class(per_slab))
    }

    /// What a mini-page takes in a slot of which a slab has `per_slab`: its part of the slab, and
    /// its place in the index.
    pub const fn charge(self, per_slab: u32) -> u32 {
        self.slab / if per_slab == 0 { 1 } else { per_slab } + INDEX_BYTES
    }

    /// The most mini-pages that `slabs` slabs hold.
    pub fn most(self, slabs: u32) -> u32 {
        let least = self.charge(rounded(self.slab / LEAST_SLOT));
        u32::try_from(u64::from(slabs) * u64::from(self.slab) / u64::from(least)).unwrap_or(u32::MAX - 1)
    }

    /// All classes, the widest slots first.
    #[cfg(test)]
    fn classes(self) -> impl Iterator<Item = Slot> {
        let narrowest = move |slot: &Slot| rounded(self.slab / slot.bytes) == slot.per_slab;
        (2..=self.slab / LEAST_SLOT).map(move |per_slab| self.class(per_slab)).filter(narrowest)
    }

    fn class(self, per_slab: u32) -> Slot {
        Slot { per_slab, bytes: self.slab / per_slab / ALIGN * ALIGN }
    }
}

/// A number of slots as classes have them: its upper bits.
const fn rounded(fit: u32) -> u32 {
    let dropped = (u32::BITS - fit.leading_zeros()).saturating_sub(CLASS_BITS);
    fit >> dropped << dropped
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_slot_holds_what_it_was_asked_for_and_is_the_narrowest() {
        for slab in [4096, 8192, 1 << 16, 1000] {
            let room = Room::new(slab);
            let classes: Vec<_> = room.classes().collect();
            assert!(classes.windows(2).all(|pair| pair[0].bytes > pair[1].bytes), "{classes:?}");
            for (items, bytes) in (1..40).flat_map(|items| [1, 64, 100, 128, 1000].map(|each| (items, items * each))) {
                let need = HEAD_BYTES + items * ITEM_BYTES + bytes;
                match room.slot(items, bytes) {
                    None => assert!(need > slab / 2 - ALIGN, "{need} of {slab}"),
                    Some(slot) => {
                        assert!(slot.bytes >= need && slot.bytes * slot.per_slab <= slab);
                        let narrower = classes.iter().filter(|class| class.bytes < slot.bytes);
                        assert!(
                            narrower.clone().all(|class| class.bytes < need.next_multiple_of(ALIGN)),
                            "{need} in {slot:?}"
                        );
                    }
                }
            }
        }
        assert_eq!(Room::new(4096).slot(u32::MAX, 7), None);
    }
}
