//! The chunks of random tables, joined one by one, give what a join of the whole tables gives.

#![allow(clippy::unwrap_used)]

use std::time::{SystemTime, UNIX_EPOCH};

use pagecast_core::random::Random;

use super::*;

const JOINS: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::RightSemi,
    JoinType::LeftAnti,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];

/// A row: the column that is cut, another column of the key, and its number.
type Row = (Option<i64>, Option<u32>, usize);

/// A row of a join: of either side, or the mark of one.
type Joined = (Option<usize>, Option<usize>, Option<bool>);

struct Table {
    row_groups: Vec<Vec<Row>>,
    pieces: Vec<Piece<i64>>,
}

impl Table {
    /// Row groups of rows that ascend, descend or come as they like, with keys of which some repeat
    /// over many row groups.
    fn random(random: &mut Random) -> Self {
        let (rows, keys) = (random.below(120) as usize, 1 + random.below(60));
        let nulls = random.below(5);
        let key = |random: &mut Random| (random.below(12) >= nulls).then(|| i64::from(random.below(keys)));
        let mut rows: Vec<Row> =
            (0..rows).map(|number| (key(random), (random.below(9) > 0).then(|| random.below(3)), number)).collect();
        match random.below(4) {
            0 => {}
            1 => rows.sort_by_key(|row| Reverse(row.0)),
            // NULLs at the end.
            2 => rows.sort_by_key(|row| row.0.unwrap_or(i64::MAX)),
            _ => rows.sort_by_key(|row| row.0),
        }
        let size = 1 + random.below(20) as usize;
        let row_groups: Vec<Vec<Row>> = rows.chunks(size).map(<[Row]>::to_vec).collect();
        let pieces = row_groups.iter().map(|row_group| piece(row_group, random)).collect();
        Self { row_groups, pieces }
    }

    fn rows(&self) -> Vec<Row> {
        self.row_groups.concat()
    }
}

/// What statistics say of a row group; they may bound it loosely.
fn piece(row_group: &[Row], random: &mut Random) -> Piece<i64> {
    let keys = || row_group.iter().filter_map(|row| row.0);
    let loose = i64::from(random.below(8) == 0);
    Piece {
        keys: keys().min().zip(keys().max()).map(|(min, max)| (min - loose, max + loose)),
        nulls: random.below(10) == 0 || row_group.iter().any(|row| row.0.is_none()),
        bytes: row_group.len() as u64,
        dictionaries: 0,
        parts: 1 + u64::from(random.below(4)),
    }
}

/// A join as its definition says.
fn join(rows: Both<&[Row]>, join: JoinType, null_equality: NullEquality) -> Vec<Joined> {
    use JoinType::*;
    let matches = |l: &Row, r: &Row| {
        let has_nulls = l.0.is_none() || l.1.is_none();
        (l.0, l.1) == (r.0, r.1) && (!has_nulls || null_equality == NullEquality::NullEqualsNull)
    };
    let mut joined = Vec::new();
    if matches!(join, Inner | Left | Right | Full) {
        for left in rows[0] {
            let of_right = rows[1].iter().filter(|right| matches(left, right));
            joined.extend(of_right.map(|right| (Some(left.2), Some(right.2), None)));
        }
    }
    for left in rows[0] {
        let found = rows[1].iter().any(|right| matches(left, right));
        match join {
            Left | Full | LeftAnti if !found => joined.push((Some(left.2), None, None)),
            LeftSemi if found => joined.push((Some(left.2), None, None)),
            LeftMark => joined.push((Some(left.2), None, Some(found))),
            _ => {}
        }
    }
    for right in rows[1] {
        let found = rows[0].iter().any(|left| matches(left, right));
        match join {
            Right | Full | RightAnti if !found => joined.push((None, Some(right.2), None)),
            RightSemi if found => joined.push((None, Some(right.2), None)),
            RightMark => joined.push((None, Some(right.2), Some(found))),
            _ => {}
        }
    }
    joined.sort_unstable();
    joined
}

/// Whether a row of a side is one of the interval.
fn contains(interval: &Interval<i64>, side: usize, key: Option<i64>) -> bool {
    let Some(key) = key else { return interval.nulls[side] };
    interval.from.is_none_or(|from| from <= key) && interval.to.is_none_or(|to| key < to)
}

/// Rows of a chunk: those of its interval, in the pieces that it names.
fn rows_of(joint: &Joint<i64>, tables: Both<&Table>, side: usize) -> Vec<Row> {
    let row_groups = joint.pieces[side].iter().flat_map(|&number| &tables[side].row_groups[number]);
    row_groups.filter(|row| contains(&joint.interval, side, row.0)).copied().collect()
}

#[test]
fn chunks_give_what_the_tables_give() {
    let fresh = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("PAGECAST_SEED").map_or(fresh, |seed| seed.parse().unwrap());
    println!("PAGECAST_SEED={seed}");
    for seed in [20_261_122, seed] {
        let mut random = Random::new(seed);
        for _ in 0..300 {
            let tables = [Table::random(&mut random), Table::random(&mut random)];
            let tables = [&tables[0], &tables[1]];
            let pieces = tables.map(|table| &table.pieces[..]);
            let aim = u64::from(1 + random.below(60));
            for kind in JOINS {
                for null_equality in [NullEquality::NullEqualsNothing, NullEquality::NullEqualsNull] {
                    let joints = cut(pieces, aim, Alone::of(kind, null_equality));
                    let mut joined = Vec::new();
                    for joint in &joints {
                        let rows = [0, 1].map(|side| rows_of(joint, tables, side));
                        joined.extend(join([&rows[0], &rows[1]], kind, null_equality));
                    }
                    joined.sort_unstable();
                    let rows = tables.map(Table::rows);
                    let expected = join([&rows[0], &rows[1]], kind, null_equality);
                    assert_eq!(joined, expected, "{kind} {null_equality:?}, {joints:?}");
                    belongs_to_one(&joints, tables);
                }
            }
        }
    }
}

/// (J1) No row is in two chunks.
fn belongs_to_one(joints: &[Joint<i64>], tables: Both<&Table>) {
    for (side, table) in tables.iter().enumerate() {
        for row in table.rows() {
            let chunks = joints.iter().filter(|joint| contains(&joint.interval, side, row.0)).count();
            assert!(chunks <= 1, "{row:?} is in {chunks} chunks");
        }
    }
}

/// Row groups of ten keys each, from this one on.
fn clean(from: i64, count: i64) -> Vec<Piece<i64>> {
    let piece = |number| {
        let min = from + 10 * number;
        Piece { keys: Some((min, min + 9)), nulls: false, bytes: 100, dictionaries: 0, parts: 1 }
    };
    (0..count).map(piece).collect()
}

#[test]
fn chunks_have_the_size_that_is_aimed_at_and_divide_nothing_that_needs_not_be() {
    let (left, right) = (clean(0, 40), clean(0, 40));
    let joints = cut([&left, &right], 1000, Alone::of(JoinType::Inner, NullEquality::NullEqualsNothing));
    assert_eq!(joints.len(), 8);
    assert!(joints.iter().all(|joint| joint.pieces[0].len() == 5 && joint.pieces[1].len() == 5));
    assert_eq!(bytes(&joints, [&left, &right]), 8000);
}

#[test]
fn a_cut_moves_to_where_it_divides_least() {
    // A key that goes on in the next row group at each border but every third.
    let mut left = clean(0, 30);
    for (number, piece) in left.iter_mut().enumerate().filter(|(number, _)| number % 3 != 2) {
        piece.keys = Some((10 * number as i64, 10 * number as i64 + 10));
    }
    let joints = cut([&left, &[]], 200, Alone::of(JoinType::Left, NullEquality::NullEqualsNothing));
    assert_eq!(bytes(&joints, [&left, &[]]), 3000, "nothing is read twice");
    assert_eq!(joints.len(), 10);
}

#[test]
fn what_cannot_give_a_row_is_dropped() {
    let (left, right) = (clean(0, 100), clean(500, 10));
    let read = |kind| {
        let joints = cut([&left, &right], 500, Alone::of(kind, NullEquality::NullEqualsNothing));
        bytes(&joints, [&left, &right])
    };
    // Of the left side no more than chunks at both ends beside what meets the right one.
    assert!(read(JoinType::Inner) <= 1000 + 1000 + 2 * 750);
    assert_eq!(read(JoinType::Inner), read(JoinType::RightSemi));
    assert_eq!(read(JoinType::Left), 11_000);
}

#[test]
fn what_is_read_again_has_the_dictionaries() {
    let piece = |min: i64| Piece { keys: Some((min, min + 10)), nulls: false, bytes: 100, dictionaries: 60, parts: 20 };
    let pieces: Vec<_> = (0..40).map(|number| piece(10 * number)).collect();
    let joints = cut([&pieces, &pieces[..1]], 400, Alone::of(JoinType::Full, NullEquality::NullEqualsNothing));
    // Each cut divides the piece before it, of which the dictionary and a twentieth of the rest are
    // read again.
    let cuts = joints.len() as u64 - 1;
    assert!(cuts >= 5, "{cuts} cuts");
    assert_eq!(bytes(&joints, [&pieces, &pieces[..1]]), 41 * 100 + cuts * (60 + 2));
}

#[test]
fn row_groups_that_overlap_are_read_again() {
    let everywhere = Piece { keys: Some((0, 1000)), nulls: false, bytes: 100, dictionaries: 0, parts: 1 };
    let (left, right) = (vec![everywhere; 10], clean(0, 100));
    let joints = cut([&left, &right], 1000, Alone::of(JoinType::Inner, NullEquality::NullEqualsNothing));
    assert!(bytes(&joints, [&left, &right]) > 11_000 + 5_000);
}

#[test]
fn nulls_go_where_most_of_them_are() {
    let mut left = clean(0, 20);
    left[19].nulls = true;
    left.push(Piece { keys: None, nulls: true, bytes: 100, dictionaries: 0, parts: 1 });
    let right = clean(0, 20);
    let joints = cut([&left, &right], 500, Alone::of(JoinType::Left, NullEquality::NullEqualsNothing));
    let with_nulls: Vec<_> = joints.iter().filter(|joint| joint.interval.nulls != [false; 2]).collect();
    assert_eq!(with_nulls.len(), 1);
    assert_eq!(with_nulls[0].interval, Interval { nulls: [true, false], ..joints[joints.len() - 1].interval.clone() });
    assert!(with_nulls[0].pieces[0].ends_with(&[19, 20]));
    // Where no NULL can leave the join, none is read.
    let joints = cut([&left, &right], 500, Alone::of(JoinType::Inner, NullEquality::NullEqualsNothing));
    assert!(joints.iter().all(|joint| joint.interval.nulls == [false; 2] && !joint.pieces[0].contains(&20)));
}
