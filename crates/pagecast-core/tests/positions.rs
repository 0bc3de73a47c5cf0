//! Positions in a changed table, beside a list of all its rows.
#![allow(clippy::unwrap_used)]

use pagecast_core::positions::{Fault, Insert, Layer, Piece, Row};
use proptest::collection::vec;
use proptest::prelude::*;
use std::ops::Range;

/// What is done to the rows as they are seen: from a place on some go, or come, or both.
#[derive(Clone, Debug)]
struct Change {
    thousandth: u64,
    deleted: u64,
    inserted: u64,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = (0u64..1001, 0u64..6, 0u64..4).prop_map(|(thousandth, deleted, inserted)| Change {
        thousandth,
        deleted,
        inserted,
    });
    vec(change, 0..8)
}

/// A table row by row, as a naive merge has it: where each row is, and its SID.
#[derive(Clone)]
struct Merged {
    stored: u64,
    rows: Vec<Row>,
    /// Rows that were ever inserted.
    inserted: u64,
}

fn sid(row: Row) -> u64 {
    match row {
        Row::Stored(sid) | Row::Inserted { before: sid, .. } => sid,
    }
}

impl Merged {
    fn new(stored: u64) -> Self {
        Self { stored, rows: (0..stored).map(Row::Stored).collect(), inserted: 0 }
    }

    fn sid_at(&self, rid: u64) -> u64 {
        self.rows.get(rid as usize).map_or(self.stored, |&row| sid(row))
    }

    /// Makes the changes, and the same as a layer on the rows as they were.
    fn change(&mut self, changes: &[Change]) -> Layer {
        let count = self.rows.len() as u64;
        let mut places: Vec<_> = changes.iter().map(|change| (change.thousandth * count / 1000, change)).collect();
        places.sort_by_key(|place| place.0);
        let (mut deleted, mut inserts): (Vec<Range<u64>>, Vec<Insert>) = (Vec::new(), Vec::new());
        for (at, change) in places {
            let from = deleted.last().map_or(at, |last: &Range<u64>| at.max(last.end));
            deleted.push(from..(from + change.deleted).min(count).max(from));
            inserts.push(Insert { before: at, rows: self.inserted..self.inserted + change.inserted });
            self.inserted += change.inserted;
        }
        let mut rows = Vec::new();
        for rid in 0..=count {
            for insert in inserts.iter().filter(|insert| insert.before == rid) {
                rows.extend(insert.rows.clone().map(|number| Row::Inserted { number, before: self.sid_at(rid) }));
            }
            if rid < count && !deleted.iter().any(|range| range.contains(&rid)) {
                rows.push(self.rows[rid as usize]);
            }
        }
        self.rows = rows;
        deleted.retain(|range| !range.is_empty());
        Layer::new(count, deleted, inserts).unwrap()
    }

    /// The lowest and the highest RID with this SID, or twice the lowest with a higher one.
    fn rids(&self, of: u64) -> (u64, u64) {
        let first = |wanted: fn(u64, u64) -> bool| self.rows.iter().position(|&row| wanted(sid(row), of));
        let next = first(|sid, of| sid > of).unwrap_or(self.rows.len()) as u64;
        match first(|sid, of| sid == of) {
            None => (next, next),
            Some(low) => (low as u64, self.rows.iter().rposition(|&row| sid(row) == of).unwrap() as u64),
        }
    }
}

fn rows_of(pieces: impl Iterator<Item = Piece>) -> Vec<Row> {
    pieces
        .flat_map(|piece| match piece {
            Piece::Stored(sids) => sids.map(Row::Stored).collect::<Vec<_>>(),
            Piece::Inserted(Insert { before, rows }) => rows.map(|number| Row::Inserted { number, before }).collect(),
        })
        .collect()
}

proptest! {
    /// Any number of layers, one on the other, are one layer, and that is what a merge of all rows
    /// gives.
    #[test]
    fn layers_are_what_a_merge_gives(stored in 0u64..40, layers in vec(changes(), 0..4), unit in 1u64..9) {
        let mut merged = Merged::new(stored);
        let mut all = Layer::unchanged(stored);
        for changes in &layers {
            let upper = merged.change(changes);
            all = all.under(&upper).unwrap();
        }
        let rows = merged.rows.len() as u64;
        prop_assert_eq!((all.stored(), all.rows()), (stored, rows));
        prop_assert_eq!(&rows_of(all.pieces(0..rows)), &merged.rows);
        for rid in 0..rows {
            prop_assert_eq!(all.row(rid), Some(merged.rows[rid as usize]));
            prop_assert_eq!(all.sid(rid), sid(merged.rows[rid as usize]));
        }
        prop_assert_eq!((all.row(rows), all.sid(rows)), (None, stored));
        for sid in 0..=stored {
            prop_assert_eq!((all.low(sid), all.high(sid)), merged.rids(sid), "SID {}", sid);
        }
        // Units cover the rows, each once, in order; no row is in another unit than its SID.
        let units: Vec<_> = (0..stored.div_ceil(unit).max(1)).map(|i| i * unit..((i + 1) * unit).min(stored)).collect();
        let mut next = 0;
        for (number, sids) in units.iter().enumerate() {
            let rids = all.rids_of(sids.clone());
            prop_assert_eq!(rids.start, next);
            next = rids.end;
            for rid in rids {
                let sid = all.sid(rid);
                prop_assert!(sids.contains(&sid) || (number + 1 == units.len() && sid == stored));
            }
        }
        prop_assert_eq!(next, rows);
        // Any stretch of RIDs: its rows, and the stored rows with which they come.
        for (start, end) in (0..=rows).step_by(3).flat_map(|start| (start..=rows).step_by(2).map(move |end| (start, end))) {
            prop_assert_eq!(&rows_of(all.pieces(start..end)), &merged.rows[start as usize..end as usize]);
            let sids = all.sids_of(start..end);
            prop_assert_eq!(sids.is_empty(), start == end);
            prop_assert!((start..end).all(|rid| sids.contains(&all.sid(rid))));
        }
    }

    /// Whatever is given: it is refused, or makes a layer in which the deleted rows are not.
    #[test]
    fn any_input_is_refused_or_right(
        stored in 0u64..20,
        deleted in vec((0u64..25, 0u64..25), 0..4),
        inserted in vec((0u64..25, 0u64..9, 0u64..9), 0..4),
    ) {
        let deleted: Vec<_> = deleted.into_iter().map(|(start, end)| start..end).collect();
        let inserts: Vec<_> =
            inserted.into_iter().map(|(before, start, end)| Insert { before, rows: start..end }).collect();
        if let Ok(layer) = Layer::new(stored, deleted.clone(), inserts.clone()) {
            let gone = |sid: u64| deleted.iter().any(|range| range.contains(&sid));
            let stored_rows = (0..stored).filter(|&sid| !gone(sid)).count() as u64;
            let more: u64 = inserts.iter().map(|insert| insert.rows.end.saturating_sub(insert.rows.start)).sum();
            prop_assert_eq!(layer.rows(), stored_rows + more);
            prop_assert!((0..layer.rows()).all(|rid| !matches!(layer.row(rid), Some(Row::Stored(sid)) if gone(sid))));
        }
    }
}

/// A unit whose last row is deleted does not reach into the next one, as it does where high(last
/// SID) is its end.
#[test]
fn a_deleted_row_at_a_border() {
    let layer = Layer::new(10, Some(4..5), []).unwrap();
    assert_eq!((layer.low(4), layer.high(4)), (4, 4), "row 5, which is of the next unit");
    assert_eq!((layer.rids_of(0..5), layer.rids_of(5..10)), (0..4, 4..9));
}

#[test]
fn what_is_wrong_is_named() {
    let insert = |before, rows| Insert { before, rows };
    assert_eq!(Layer::new(10, Some(8..12), []), Err(Fault::PastEnd(11)));
    assert_eq!(Layer::new(10, [], [insert(11, 0..1)]), Err(Fault::PastEnd(11)));
    assert_eq!(Layer::new(10, [4..6, 5..7], []), Err(Fault::Order(5)));
    assert_eq!(Layer::new(10, [], [insert(4, 0..1), insert(3, 0..1)]), Err(Fault::Order(3)));
    assert_eq!(Layer::new(10, [], [insert(4, 0..u64::MAX - 8)]), Err(Fault::TooMany));
    assert_eq!(Layer::unchanged(3).under(&Layer::unchanged(4)), Err(Fault::PastEnd(4)));
    assert_eq!(Fault::PastEnd(4).to_string(), "a change at row 4 is behind the last row");
}

/// No stored rows: one unit has everything.
#[test]
fn a_table_without_stored_rows() {
    let layer = Layer::new(0, [], [Insert { before: 0, rows: 5..8 }]).unwrap();
    assert_eq!((layer.rows(), layer.rids_of(0..0), layer.sids_of(0..3)), (3, 0..3, 0..1));
}
