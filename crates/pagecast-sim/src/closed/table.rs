//! A table of columns, cut into units of equally many rows: where a scan's rows lie in pages.
//!
//! A unit is a stretch of neighbouring blocks, its columns one after the other, as in a row group
//! of a Parquet file. A column has equally many pages in each unit, and each of them equally many
//! rows.

use pagecast_core::{PageId, RelationId};
use std::ops::Range;

/// A table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Its pages' relation.
    pub relation: RelationId,
    /// How many units it has.
    pub units: u32,
    /// Rows of each unit.
    pub rows: u64,
    /// Pages of each column in a unit.
    pub columns: Vec<u32>,
}

impl Table {
    /// Pages of a unit.
    pub fn unit_blocks(&self) -> u32 {
        self.columns.iter().sum()
    }

    /// Pages of the table.
    pub fn blocks(&self) -> u32 {
        self.units * self.unit_blocks()
    }

    /// Rows of the table.
    pub fn all_rows(&self) -> u64 {
        u64::from(self.units) * self.rows
    }

    /// The pages of `column` that have some of `rows`, numbered through all units.
    pub(super) fn pages(&self, column: usize, rows: &Range<u64>) -> Range<u64> {
        let pages = u64::from(self.columns[column]);
        let page_of = |row: u64| row / self.rows * pages + self.page_within(pages, row % self.rows);
        if rows.is_empty() { 0..0 } else { page_of(rows.start)..page_of(rows.end - 1) + 1 }
    }

    /// Which of a unit's `pages` pages has its row `row`.
    fn page_within(&self, pages: u64, row: u64) -> u64 {
        // The last page that does not begin after the row; beginnings are rounded down.
        ((row + 1) * pages - 1) / self.rows
    }

    /// The rows of page `number` of `column`.
    pub(super) fn rows_of(&self, column: usize, number: u64) -> Range<u64> {
        let pages = u64::from(self.columns[column]);
        let border = |number: u64| number / pages * self.rows + number % pages * self.rows / pages;
        border(number)..border(number + 1)
    }

    /// Page `number` of `column`.
    pub(super) fn page(&self, column: usize, number: u64) -> PageId {
        let pages = u64::from(self.columns[column]);
        let before: u32 = self.columns[..column].iter().sum();
        let block = number / pages * u64::from(self.unit_blocks()) + u64::from(before) + number % pages;
        PageId::new(self.relation, block as u32)
    }

    /// The units that have some of `rows`.
    pub(super) fn units_of(&self, rows: &Range<u64>) -> Range<u32> {
        if rows.is_empty() { 0..0 } else { (rows.start / self.rows) as u32..((rows.end - 1) / self.rows) as u32 + 1 }
    }

    /// The rows of `rows` that are in `unit`.
    pub(super) fn rows_in(&self, unit: u32, rows: &Range<u64>) -> Range<u64> {
        let first = u64::from(unit) * self.rows;
        rows.start.max(first)..rows.end.min(first + self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By looking at every row: which page has it.
    #[test]
    fn pages_and_rows_agree() {
        let table = Table { relation: RelationId(3), units: 3, rows: 10, columns: vec![3, 1, 7] };
        for column in 0..3 {
            let mut seen = Vec::new();
            for row in 0..table.all_rows() {
                let number = table.pages(column, &(row..row + 1)).start;
                assert!(table.rows_of(column, number).contains(&row), "column {column}, row {row}, page {number}");
                let page = table.page(column, number);
                let unit = row / 10;
                let within = u64::from(page.block()) - unit * 11;
                let columns = [0..3, 3..4, 4..11];
                assert!(columns[column].contains(&within), "column {column}, row {row}: block {within} of the unit");
                if seen.last() != Some(&page) {
                    seen.push(page);
                }
            }
            assert_eq!(seen.len() as u32, 3 * table.columns[column]);
            assert_eq!(table.pages(column, &(0..30)), 0..u64::from(3 * table.columns[column]));
        }
        assert_eq!(table.pages(0, &(5..5)), 0..0);
        assert_eq!((table.units_of(&(9..11)), table.rows_in(1, &(9..15))), (0..2, 10..15));
    }
}
