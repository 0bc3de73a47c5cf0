//! Where a join of two tables is cut, by the statistics of both.
//!
//! Source: Świtakowski 2011, §5.2. There borders of chunks are taken from the join index summary.
//! Parquet has none, but says the smallest and the largest key of each row group: a *piece* here.
//!
//! Deviations, and why:
//! * Statistics bound keys, and rows of one piece may be on both sides of a cut. Such a piece is
//!   in the chunks of both, and whoever reads it keeps the rows of his interval alone.
//! * Nothing is asked of the order of pieces: sorted ones, ascending or descending, overlap least.
//! * NULLs have no place among keys. Those that may leave the join, or match each other, go to the
//!   chunk that has most of the pieces with NULLs already.
//!
//! What holds, for every row of both tables:
//! * (J1) Its key is in the interval of one chunk, or in none that could give a row.
//! * (J2) Each chunk names all pieces that may have a row of its interval.
//!
//! Cost: O(n log n) for n pieces, and a word for each chunk that a piece is in.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use datafusion::common::{JoinType, NullEquality};

/// What is known of the keys of a row group.
#[derive(Clone, Debug)]
pub(crate) struct Piece<K> {
    /// The smallest and the largest one, or keys beyond them; none if all are NULL.
    pub(crate) keys: Option<(K, K)>,
    /// Whether a key may be NULL.
    pub(crate) nulls: bool,
    /// Bytes that the join reads of it.
    pub(crate) bytes: u64,
    /// Those of them that whoever reads any part of it reads, too: dictionaries.
    pub(crate) dictionaries: u64,
    /// In how many parts the others can be read: its pages, if there is an index of them.
    pub(crate) parts: u64,
}

impl<K> Piece<K> {
    /// Bytes that each chunk but the first reads again of a piece that is in several.
    fn division(&self) -> u64 {
        self.dictionaries + self.bytes.saturating_sub(self.dictionaries) / self.parts.max(1)
    }
}

/// Left and right.
pub(crate) type Both<T> = [T; 2];

/// The keys of a chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interval<K> {
    /// The first one; none: all from the smallest.
    pub(crate) from: Option<K>,
    /// The first one that is not of it; none: all to the largest.
    pub(crate) to: Option<K>,
    /// Whether it has the rows without a key, of each side.
    pub(crate) nulls: Both<bool>,
}

/// What is joined at once.
#[derive(Clone, Debug)]
pub(crate) struct Joint<K> {
    pub(crate) interval: Interval<K>,
    /// The pieces of each side that may have rows of it, by number.
    pub(crate) pieces: Both<Vec<usize>>,
}

/// Which rows of a join matter without a match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alone {
    /// Rows of a side that come out, or are counted, where the other has none.
    rows: Both<bool>,
    /// Rows without a key that matter.
    nulls: Both<bool>,
}

impl Alone {
    pub(crate) fn of(join: JoinType, null_equality: NullEquality) -> Self {
        use JoinType::{Full, Left, LeftAnti, LeftMark, Right, RightAnti, RightMark};
        let rows =
            [matches!(join, Left | Full | LeftAnti | LeftMark), matches!(join, Right | Full | RightAnti | RightMark)];
        let match_each_other = null_equality == NullEquality::NullEqualsNull;
        Self { rows, nulls: rows.map(|alone| alone || match_each_other) }
    }

    /// Whether a chunk may give a row whose sides have rows, or have none.
    pub(crate) fn matters(self, has_rows: Both<bool>) -> bool {
        has_rows == [true; 2] || (0..2).any(|side| self.rows[side] && has_rows[side])
    }
}

/// The chunks of a join, in the order of their keys: each of about `aim` bytes, both sides
/// together. Those that give no row are left out.
pub(crate) fn cut<K: Ord + Clone>(pieces: Both<&[Piece<K>]>, aim: u64, alone: Alone) -> Vec<Joint<K>> {
    let cuts = cut_keys(pieces, aim.max(1));
    let border = |number: usize| cuts.get(number).cloned();
    let mut joints: Vec<Joint<K>> = (0..=cuts.len())
        .map(|number| {
            let from = number.checked_sub(1).and_then(border);
            let interval = Interval { from, to: border(number), nulls: [false; 2] };
            Joint { interval, pieces: Default::default() }
        })
        .collect();
    for (side, of_side) in pieces.iter().enumerate() {
        for (number, piece) in of_side.iter().enumerate() {
            joints[spread(piece, &cuts)].iter_mut().for_each(|joint| joint.pieces[side].push(number));
        }
    }
    place_nulls(&mut joints, pieces, alone);
    joints.retain(|joint| alone.matters([0, 1].map(|side| !joint.pieces[side].is_empty())));
    joints
}

/// Bytes that the chunks read, where a piece that is in several is read in parts.
pub(crate) fn bytes<K>(joints: &[Joint<K>], pieces: Both<&[Piece<K>]>) -> u64 {
    let read = |(piece, times): (&Piece<K>, u64)| match times {
        0 => 0,
        times => piece.bytes + (times - 1) * piece.division(),
    };
    (0..2).map(|side| pieces[side].iter().zip(times(joints, pieces[side], side)).map(read).sum::<u64>()).sum()
}

/// Which part of a side the largest chunk has, of 1.
pub(crate) fn largest_share<K>(joints: &[Joint<K>], pieces: &[Piece<K>], side: usize) -> f64 {
    let times = times(joints, pieces, side);
    let all: u64 = pieces.iter().map(|piece| piece.bytes).sum();
    let share = |joint: &Joint<K>| -> f64 {
        let numbers = joint.pieces[side].iter();
        numbers.map(|&number| pieces[number].bytes as f64 / times[number] as f64).sum()
    };
    joints.iter().map(share).fold(0.0, f64::max) / all.max(1) as f64
}

/// In how many chunks each piece of a side is.
fn times<K>(joints: &[Joint<K>], pieces: &[Piece<K>], side: usize) -> Vec<u64> {
    let mut times = vec![0; pieces.len()];
    joints.iter().flat_map(|joint| &joint.pieces[side]).for_each(|&number| times[number] += 1);
    times
}

/// The numbers of the chunks that hold keys of a piece.
fn spread<K: Ord>(piece: &Piece<K>, cuts: &[K]) -> Range<usize> {
    let chunk = |key: &K| cuts.partition_point(|cut| cut <= key);
    piece.keys.as_ref().map_or(0..0, |(min, max)| chunk(min)..chunk(max) + 1)
}

/// Keys at which pieces begin, so far from each other that between them is work for a chunk. Of
/// those that would do, the one that divides least.
fn cut_keys<K: Ord + Clone>(pieces: Both<&[Piece<K>]>, aim: u64) -> Vec<K> {
    let mut begins: Vec<(&K, &K, &Piece<K>)> = pieces
        .into_iter()
        .flatten()
        .filter_map(|piece| piece.keys.as_ref().map(|(min, max)| (min, max, piece)))
        .collect();
    begins.sort_by_key(|&(min, ..)| min);
    // Bytes of the pieces that begin before here, and before the last cut.
    let (mut before, mut cut_at) = (0, 0);
    let (mut cuts, mut best) = (Vec::new(), None::<(u64, u64, &K)>);
    // Pieces that begin before here and may end after: by their ends, with what a division costs.
    let (mut open, mut divided) = (BinaryHeap::new(), 0);
    for here in begins.chunk_by(|(one, ..), (other, ..)| one == other) {
        let key = here[0].0;
        while let Some((Reverse(max), cost)) = open.peek()
            && *max < key
        {
            divided -= cost;
            open.pop();
        }
        if before - cut_at >= aim {
            if best.is_none_or(|(least, ..)| divided < least) {
                best = Some((divided, before, key));
            }
            if let Some((least, at, key)) = best
                && (least == 0 || before - cut_at >= aim + aim / 2)
            {
                cuts.push(key.clone());
                (cut_at, best) = (at, None);
            }
        }
        for &(_, max, piece) in here {
            let cost = piece.division() + 1;
            before += piece.bytes;
            divided += cost;
            open.push((Reverse(max), cost));
        }
    }
    cuts
}

/// Gives the rows without a key that matter to one chunk, with the pieces that may have such rows.
fn place_nulls<K>(joints: &mut [Joint<K>], pieces: Both<&[Piece<K>]>, alone: Alone) {
    let has_nulls = |side: usize, number: &usize| alone.nulls[side] && pieces[side][*number].nulls;
    let bytes = |joint: &Joint<K>| -> u64 {
        let of_side = |side: usize| joint.pieces[side].iter().filter(move |number| has_nulls(side, number));
        (0..2).flat_map(|side| of_side(side).map(move |&number| pieces[side][number].bytes)).sum()
    };
    let Some(most) = (0..joints.len()).max_by_key(|&number| (bytes(&joints[number]), Reverse(number))) else { return };
    let joint = &mut joints[most];
    for (side, of_side) in pieces.iter().enumerate() {
        let with_nulls: Vec<usize> = (0..of_side.len()).filter(|number| has_nulls(side, number)).collect();
        joint.interval.nulls[side] = !with_nulls.is_empty();
        joint.pieces[side].extend(with_nulls);
        joint.pieces[side].sort_unstable();
        joint.pieces[side].dedup();
    }
}

#[cfg(test)]
mod tests;
