//! How much is shared: by how many scans each block is needed (thesis, Figure 6.1).

use super::state::State;
use super::units::UnitRecord;

/// Blocks that so many scans or more still need are not told apart.
pub(super) const MOST: usize = 5;

impl State<'_> {
    /// Blocks of units that exactly 1, 2, 3, 4, and 5 or more scans need.
    pub(super) fn sharing(self) -> [u64; MOST] {
        let mut blocks = [0; MOST];
        for unit in (0..self.layout.config.units).filter_map(|number| self.unit(number)) {
            if unit.references() > 0 {
                unit.add_sharing(&mut blocks);
            }
        }
        blocks
    }
}

impl UnitRecord<'_> {
    fn add_sharing(self, blocks: &mut [u64; MOST]) {
        for index in 0..self.resident().count {
            // Bit `i` of `needed[n]`: more than `n` scans need the block.
            let mut needed = [0; MOST];
            for need in self.needs() {
                let mask = self.mask(need).word(index);
                for _ in 0..need.members().len().min(MOST as u32) {
                    let mut carried = mask;
                    for bits in &mut needed {
                        (*bits, carried) = (*bits | carried, *bits & carried);
                    }
                }
            }
            let more = needed.into_iter().skip(1).chain([0]);
            for ((count, exactly), more) in blocks.iter_mut().zip(needed).zip(more) {
                *count += u64::from((exactly & !more).count_ones());
            }
        }
    }
}
