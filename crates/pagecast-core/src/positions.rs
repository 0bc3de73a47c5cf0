//! Positions in a table that has changed: where a row of the table as it is now lies in the table
//! as it is stored.
//!
//! Source: Świtakowski 2011, §4.5, after Héman et al., SIGMOD 2010 (positional delta trees). Stored
//! rows have a *SID*, their number from 0. Rows as a query sees them have a *RID*, from 0, too. A
//! [`Layer`] tells what lies between the two: stored rows that are deleted, and rows that are
//! inserted, which lie elsewhere and are numbered there. The SID of an inserted row is that of the
//! stored row before which it comes, or the number of stored rows. A change is a deletion and an
//! insertion.
//!
//! Layers lie one on the other: what a transaction has changed is a layer on the RIDs of what was
//! committed, and [`Layer::under`] makes one of the two.
//!
//! A scan that gets a table in units of stored rows, in any order, needs to know which of the rows
//! that it was asked for come with a unit: [`Layer::rids_of`]. These stretches do not overlap and
//! leave none out. Deviation: they are half-open. As printed (Fig 4.5), a unit whose last row is
//! deleted reaches into the next one, whose stored rows may not be there.
//!
//! Deviation: not a tree but a list of pieces, in order, which is searched. It is built at once
//! from all changes. Changes come in batches here (a commit, a statement), and a batch costs what a
//! tree of as many single changes does.
//!
//! Cost: O(log changes) a question, O(changes) for two layers in one. Memory: 40 bytes a piece, and
//! at most two pieces a change and one.
//!
//! ```
//! use pagecast_core::positions::{Insert, Layer, Row};
//!
//! // Of ten stored rows 3 and 4 are deleted. Two inserted ones come before row 8.
//! let layer = Layer::new(10, [3..5], [Insert { before: 8, rows: 0..2 }])?;
//! assert_eq!(layer.rows(), 10);
//! assert_eq!(layer.row(3), Some(Row::Stored(5)));
//! assert_eq!(layer.row(6), Some(Row::Inserted { number: 0, before: 8 }));
//! // Units of five stored rows: which rows come with them.
//! assert_eq!((layer.rids_of(0..5), layer.rids_of(5..10)), (0..3, 3..10));
//! # Ok::<(), pagecast_core::positions::Fault>(())
//! ```

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// Rows that are inserted together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Insert {
    /// The stored row before which they come: its SID, or the number of stored rows.
    pub before: u64,
    /// Their numbers in the place where inserted rows are kept.
    pub rows: Range<u64>,
}

/// Where a row is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Row {
    /// In the table, at this SID.
    Stored(u64),
    /// Among the inserted rows.
    Inserted {
        /// Its number there.
        number: u64,
        /// Its SID.
        before: u64,
    },
}

/// Rows that follow each other, as a scan reads them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Stored rows, by their SIDs.
    Stored(Range<u64>),
    /// Inserted ones.
    Inserted(Insert),
}

/// What is wrong with the changes of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// These changes are not in the order of their SIDs, or overlap, at this SID.
    Order(u64),
    /// This SID is behind the last stored row.
    PastEnd(u64),
    /// There would be more rows than can be counted.
    TooMany,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order(sid) => write!(f, "the change at row {sid} comes before another one's end"),
            Self::PastEnd(sid) => write!(f, "a change at row {sid} is behind the last row"),
            Self::TooMany => f.write_str("there would be more rows than can be counted"),
        }
    }
}

impl core::error::Error for Fault {}

/// Rows that follow each other. Their SIDs rise with them if they are stored, and are one if they
/// are inserted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stretch {
    rid: u64,
    sid: u64,
    rows: u64,
    /// Of inserted ones, where they are kept.
    kept: Option<u64>,
}

impl Stretch {
    fn piece(&self, from: u64, to: u64) -> Piece {
        match self.kept {
            None => Piece::Stored(self.sid + from..self.sid + to),
            Some(kept) => Piece::Inserted(Insert { before: self.sid, rows: kept + from..kept + to }),
        }
    }

    fn end(&self) -> u64 {
        self.rid + self.rows
    }

    /// The SID behind its last one.
    fn last_sid_end(&self) -> u64 {
        self.sid + if self.kept.is_none() { self.rows } else { 1 }
    }
}

/// What was changed in a table of so many stored rows.
///
/// Invariants:
/// * (L1) The stretches have each RID once, in order, and none is empty.
/// * (L2) Their SIDs do not fall, and no stored row is in two.
/// * (L3) No SID is greater than the number of stored rows, which only inserted rows have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layer {
    stored: u64,
    stretches: Vec<Stretch>,
}

impl Layer {
    /// A table of `stored` rows that was not changed.
    pub fn unchanged(stored: u64) -> Self {
        let mut layer = Self { stored, stretches: Vec::new() };
        layer.push(Piece::Stored(0..stored));
        layer
    }

    /// A table of `stored` rows without the `deleted` ones, which are stretches of SIDs in their
    /// order, and with the `inserted` ones, in the order of the rows before which they come. Rows
    /// inserted before the same row come in the order that is given.
    ///
    /// # Errors
    /// [`Fault`], which names the change that is wrong.
    pub fn new(
        stored: u64,
        deleted: impl IntoIterator<Item = Range<u64>>,
        inserted: impl IntoIterator<Item = Insert>,
    ) -> Result<Self, Fault> {
        let mut layer = Self { stored, stretches: Vec::new() };
        let mut deleted = deleted.into_iter().peekable();
        let (mut at, mut order) = (0, 0);
        for insert in inserted {
            if insert.before > stored {
                return Err(Fault::PastEnd(insert.before));
            }
            if insert.before < order {
                return Err(Fault::Order(insert.before));
            }
            order = insert.before;
            at = layer.keep(at, insert.before, &mut deleted)?;
            layer.push(Piece::Inserted(insert));
            layer.countable()?;
        }
        layer.keep(at, stored, &mut deleted)?;
        match deleted.next() {
            Some(range) => Err(Fault::PastEnd(range.end.saturating_sub(1))),
            None => Ok(layer),
        }
    }

    /// Takes the stored rows from `at` to `until` that are not deleted; where to go on.
    fn keep<D: Iterator<Item = Range<u64>>>(
        &mut self,
        mut at: u64,
        until: u64,
        deleted: &mut core::iter::Peekable<D>,
    ) -> Result<u64, Fault> {
        while at < until {
            let Some(range) = deleted.peek_mut() else { break };
            if range.start < at {
                return Err(Fault::Order(range.start));
            }
            if range.start >= until {
                break;
            }
            self.push(Piece::Stored(at..range.start));
            // What is deleted beyond `until` is so when its turn comes.
            at = range.end.min(until).max(range.start);
            range.start = at;
            if range.end <= at {
                deleted.next();
            }
        }
        self.push(Piece::Stored(at..until.max(at)));
        Ok(until.max(at))
    }

    /// Appends rows, to the last stretch if they go on from it.
    fn push(&mut self, piece: Piece) {
        let (rows, sid, kept) = match piece {
            Piece::Stored(sids) => (sids, None, None),
            Piece::Inserted(Insert { before, rows }) => (rows.clone(), Some(before), Some(rows.start)),
        };
        let (count, sid) = (rows.end.saturating_sub(rows.start), sid.unwrap_or(rows.start));
        if count == 0 {
            return;
        }
        let rid = self.rows();
        match self.stretches.last_mut() {
            Some(last) if last.kept.is_none() && kept.is_none() && last.sid + last.rows == sid => last.rows += count,
            Some(last) if last.sid == sid && last.kept.is_some_and(|first| Some(first + last.rows) == kept) => {
                last.rows += count;
            }
            _ => self.stretches.push(Stretch { rid, sid, rows: count, kept }),
        }
    }

    fn countable(&self) -> Result<(), Fault> {
        let rows = self.stretches.last().map_or(Some(0), |last| last.rid.checked_add(last.rows));
        rows.and_then(|rows| rows.checked_add(self.stored)).map(drop).ok_or(Fault::TooMany)
    }

    /// How many rows are stored.
    pub fn stored(&self) -> u64 {
        self.stored
    }

    /// How many rows a query sees.
    pub fn rows(&self) -> u64 {
        self.stretches.last().map_or(0, Stretch::end)
    }

    /// Where the row with this RID is, if there is one.
    pub fn row(&self, rid: u64) -> Option<Row> {
        let stretch = self.stretches.get(self.at(rid))?;
        let from = rid - stretch.rid;
        Some(match stretch.kept {
            None => Row::Stored(stretch.sid + from),
            Some(kept) => Row::Inserted { number: kept + from, before: stretch.sid },
        })
    }

    /// The SID of the row with this RID; behind the last row that of rows inserted there.
    pub fn sid(&self, rid: u64) -> u64 {
        match self.row(rid) {
            None => self.stored,
            Some(Row::Stored(sid) | Row::Inserted { before: sid, .. }) => sid,
        }
    }

    /// The lowest RID of a row with this SID. If there is none, of one with the next SID that a row
    /// has; the number of rows behind the last.
    pub fn low(&self, sid: u64) -> u64 {
        let at = self.stretches.partition_point(|stretch| stretch.last_sid_end() <= sid);
        self.stretches.get(at).map_or_else(
            || self.rows(),
            |stretch| stretch.rid + if stretch.kept.is_none() { sid.saturating_sub(stretch.sid) } else { 0 },
        )
    }

    /// The highest RID of a row with this SID; if there is none, as [`low`](Self::low).
    pub fn high(&self, sid: u64) -> u64 {
        let (low, next) = (self.low(sid), self.low(sid.saturating_add(1)));
        next.max(low + 1) - 1
    }

    /// The RIDs that come with a unit of stored rows. Units that follow each other have stretches
    /// of RIDs that do. The last unit, whose end is the number of stored rows, has what is inserted
    /// behind them.
    pub fn rids_of(&self, sids: Range<u64>) -> Range<u64> {
        let end = if sids.end >= self.stored { self.rows() } else { self.low(sids.end) };
        self.low(sids.start).min(end)..end
    }

    /// The stored rows with which these RIDs come, as a stretch of SIDs: what a scan of them has to
    /// register. It ends behind the number of stored rows if something that is inserted there is
    /// among them.
    pub fn sids_of(&self, rids: Range<u64>) -> Range<u64> {
        let end = rids.end.min(self.rows());
        if rids.start >= end {
            return 0..0;
        }
        self.sid(rids.start)..self.sid(end - 1) + 1
    }

    /// What a scan reads for these RIDs, in their order.
    pub fn pieces(&self, rids: Range<u64>) -> impl Iterator<Item = Piece> {
        let first = self.at(rids.start);
        let meets = move |stretch: &&Stretch| stretch.rid < rids.end;
        self.stretches[first.min(self.stretches.len())..].iter().take_while(meets).map(move |stretch| {
            let from = rids.start.saturating_sub(stretch.rid);
            stretch.piece(from, (rids.end - stretch.rid).min(stretch.rows))
        })
    }

    /// Both layers in one: `upper` says what was changed in the rows that this one shows, and its
    /// stored rows are this one's RIDs. The inserted rows of both are kept in one place.
    ///
    /// # Errors
    /// [`Fault::PastEnd`] if `upper` is of another number of rows, [`Fault::TooMany`].
    pub fn under(&self, upper: &Self) -> Result<Self, Fault> {
        if upper.stored != self.rows() {
            return Err(Fault::PastEnd(upper.stored));
        }
        let mut both = Self { stored: self.stored, stretches: Vec::new() };
        for piece in upper.pieces(0..upper.rows()) {
            match piece {
                Piece::Stored(rids) => self.pieces(rids).for_each(|piece| both.push(piece)),
                Piece::Inserted(Insert { before, rows }) => {
                    both.push(Piece::Inserted(Insert { before: self.sid(before), rows }));
                }
            }
            both.countable()?;
        }
        Ok(both)
    }

    /// The stretch that has this RID, or their number.
    fn at(&self, rid: u64) -> usize {
        self.stretches.partition_point(|stretch| stretch.end() <= rid)
    }
}
