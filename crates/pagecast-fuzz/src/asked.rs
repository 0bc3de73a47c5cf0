//! Random statements in which the rules of the DataFusion host fire: scans in and out of order,
//! merge joins, limits, windows, set operations, subqueries.

use pagecast_core::random::Random;

use crate::expr::{Aggregate, Direction, Expr, Function, Inner, Is, Operator, Over, Sign, Window};
use crate::faulty::one;
use crate::statements::{Around, From, Join, Limit, Select, Set, Statement};
use crate::tables::{Column, Table};
use crate::types::Kind;

/// Tables by their aliases.
pub(crate) type Sides<'a> = [(&'static str, &'a Table)];

impl Statement {
    /// A statement over some of `tables`; mostly a join if it is `for_joins`.
    pub(crate) fn any(random: &mut Random, tables: &[Table], for_joins: bool) -> Self {
        let pick = |random: &mut Random| &tables[random.below(tables.len() as u32) as usize];
        let (left, right) = (pick(random), pick(random));
        let is_of_one = random.below(10) < if for_joins { 1 } else { 4 };
        let from = if is_of_one { From::Table(left.name.clone()) } else { join(random, left, right) };
        let sides: Vec<_> = from.sides().iter().map(|side| (*side, if *side == "a" { left } else { right })).collect();
        let filters = (0..random.below(3)).map(|_| filter(random, &sides, tables)).collect();
        let select = select(random, &sides);
        let mut statement = Self { from, filters, select, order: Vec::new(), limit: None, around: None };
        if random.below(3) == 0 {
            statement.set_order(random);
        }
        let has_windows = statement.has(&|part| matches!(part, Expr::Window(_)));
        statement.around = match random.below(8) {
            0 => Some(Around::Count(limit(random))),
            1 | 2 if statement.order.is_empty() && !has_windows => Some(Around::Set {
                operation: one(random, &[Set::Union, Set::Intersect, Set::Except]),
                all: random.below(3) == 0,
                filters: vec![filter(random, &sides, tables)],
            }),
            _ => None,
        };
        if statement.around.is_none() && random.below(4) == 0 {
            statement.limit = Some(limit(random));
        }
        statement
    }

    /// Orders by what is selected, so that no order is left open, if that can be.
    pub(crate) fn set_order(&mut self, random: &mut Random) {
        let (items, total) = (self.items(), self.total());
        let mut places: Vec<usize> = (0..total).collect();
        // What is not compared has no order.
        let is_ordered = |item: &Expr| match item {
            Expr::Column { kind, .. } => kind.is_compared(),
            Expr::Call(Function::Field, _) => false,
            Expr::Case(parts) => {
                parts[1..].iter().all(|part| !matches!(part, Expr::Column { kind, .. } if !kind.is_compared()))
            }
            Expr::Aggregate(_, Some(of)) => matches!(&**of, Expr::Column { kind, .. } if kind.is_compared()),
            Expr::Window(window) => !matches!(&window.of, Some(Expr::Column { kind, .. }) if !kind.is_compared()),
            _ => true,
        };
        if random.below(2) == 0 && items.len() > total {
            let first = total + random.below((items.len() - total) as u32) as usize;
            if is_ordered(&items[first]) {
                places.insert(0, first);
            }
        }
        let descending = random.below(2) == 0;
        let direction = |random: &mut Random| Direction { descending, nulls_first: random.below(2) == 0 };
        self.order =
            if total == 0 { Vec::new() } else { places.into_iter().map(|at| (at, direction(random))).collect() };
    }
}

fn limit(random: &mut Random) -> Limit {
    Limit { rows: one(random, &[0, 1, 10, 100, 1000, 20_000]), offset: one(random, &[0, 0, 3, 300, 1000]) }
}

fn join(random: &mut Random, left: &Table, right: &Table) -> From {
    let kinds = [Join::Inner, Join::Inner, Join::Left, Join::Right, Join::Full];
    let others = [Join::LeftSemi, Join::LeftAnti, Join::RightSemi, Join::RightAnti];
    let kind = if random.below(4) > 0 { one(random, &kinds) } else { one(random, &others) };
    let (a, b) = (left.columns[1].of("a"), right.columns[1].of("b"));
    let mut on = vec![match random.below(12) {
        0 => Expr::Not(Expr::Distinct(a.boxed(), b.boxed()).boxed()),
        _ => a.compare(Operator::Equal, b),
    }];
    let pairs = left.columns.iter().skip(2).flat_map(|a| right.columns.iter().skip(2).map(move |b| (a, b)));
    let alike: Vec<_> =
        pairs.filter(|(a, b)| a.kind.family() == b.kind.family() && a.kind.family() != "none").collect();
    match random.below(6) {
        0 if !alike.is_empty() => {
            let (a, b) = one(random, &alike);
            let operator = one(random, &[Operator::Equal, Operator::Less, Operator::AtLeast]);
            on.push(a.of("a").compare(operator, b.of("b")));
        }
        1 => {
            let by = 2 + i64::from(random.below(5));
            on.push(number("a").remainder(by).compare(Operator::Less, number("b").remainder(5)));
        }
        _ => {}
    }
    let inner = [("a", left), ("b", right)].map(|side| match random.below(3) {
        0 => vec![filter(random, &[side], &[])],
        _ => Vec::new(),
    });
    From::Join { kind, tables: [left.name.clone(), right.name.clone()], inner, on }
}

/// The number of a row.
pub(crate) fn number(side: &str) -> Expr {
    Expr::Column { side: side.to_owned(), name: "id".to_owned(), kind: Kind::Int(64) }
}

/// A column of one of these tables, as it is named.
pub(crate) fn column<'a>(random: &mut Random, sides: &Sides<'a>) -> (Expr, &'a Column) {
    let (alias, table) = sides[random.below(sides.len() as u32) as usize];
    let column = &table.columns[random.below(table.columns.len() as u32) as usize];
    // An interval is added to a day, and engines show it each in its own way.
    let column = if column.kind == Kind::Interval { &table.columns[0] } else { column };
    (column.of(alias), column)
}

/// A condition on the rows of these tables, over subqueries of the others too.
pub(crate) fn filter(random: &mut Random, sides: &Sides<'_>, others: &[Table]) -> Expr {
    match random.below(10) {
        0 => {
            let one = filter(random, sides, others);
            Expr::Either(one.boxed(), filter(random, sides, &[]).boxed())
        }
        1 => Expr::Not(filter(random, sides, &[]).boxed()),
        2 if !others.is_empty() => subquery(random, sides, others),
        _ => comparison(random, sides),
    }
}

/// A value of the column, or none that it has.
pub(crate) fn value(random: &mut Random, column: &Column) -> Expr {
    column.kind.expr(column.number(random))
}

pub(crate) fn comparison(random: &mut Random, sides: &Sides<'_>) -> Expr {
    let (of, column) = column(random, sides);
    compared(random, of, column)
}

/// A condition on one column.
pub(crate) fn compared(random: &mut Random, of: Expr, column: &Column) -> Expr {
    let of = of.boxed();
    if !column.kind.is_compared() {
        return match column.kind {
            Kind::List(..) if random.below(2) == 0 => {
                let length = Expr::Call(Function::Length, of);
                length.compare(Operator::More, Expr::whole(i64::from(random.below(3))))
            }
            _ => Expr::Is(of, one(random, &[Is::Null, Is::NotNull])),
        };
    }
    match random.below(9) {
        0 => Expr::Is(of, Is::Null),
        1 => Expr::Is(of, Is::NotNull),
        2 => Expr::Between(Box::new([*of, value(random, column), value(random, column)])),
        3 => Expr::In { of, not: false, list: (0..3).map(|_| value(random, column)).collect() },
        4 => Expr::In { of, not: true, list: (0..2).map(|_| value(random, column)).collect() },
        5 => Expr::Distinct(of, value(random, column).boxed()),
        _ => of.compare(one(random, &Operator::ALL), value(random, column)),
    }
}

/// A condition on what another table holds.
fn subquery(random: &mut Random, sides: &Sides<'_>, others: &[Table]) -> Expr {
    let (alias, table) = sides[random.below(sides.len() as u32) as usize];
    let other = &others[random.below(others.len() as u32) as usize];
    let (key, inside) = (table.columns[1].of(alias), other.columns[1].of("s"));
    let filters = vec![filter(random, &[("s", other)], &[])];
    let mut rows = Inner { table: other.name.clone(), value: None, filters, pair: None };
    match random.below(4) {
        not @ (0 | 1) => {
            if not == 1 {
                rows.filters.push(Expr::Is(inside.clone().boxed(), Is::NotNull));
            }
            rows.value = Some(inside);
            Expr::InRows { of: key.boxed(), not: not == 1, rows: Box::new(rows) }
        }
        2 => {
            rows.pair = Some((inside, key));
            Expr::Exists { not: random.below(3) == 0, rows: Box::new(rows) }
        }
        _ => {
            let half = Expr::Arithmetic(Expr::CountOf(Box::new(rows)).boxed(), Sign::Over, Expr::whole(2).boxed());
            number(alias).compare(Operator::More, half)
        }
    }
}

fn select(random: &mut Random, sides: &Sides<'_>) -> Select {
    let count = 1 + random.below(3);
    match random.below(8) {
        0 => Select::Distinct((0..count).map(|_| key(random, sides)).collect()),
        1 | 2 => {
            let keys = (0..random.below(3)).map(|_| key(random, sides)).collect();
            Select::Groups { keys, values: (0..count).map(|_| aggregate(random, sides)).collect() }
        }
        3 => Select::Rows((0..count).map(|_| window(random, sides)).collect()),
        _ => Select::Rows((0..count).map(|_| item(random, sides)).collect()),
    }
}

/// A column that rows are grouped by.
pub(crate) fn key(random: &mut Random, sides: &Sides<'_>) -> Expr {
    let (of, column) = column(random, sides);
    match random.below(4) {
        _ if !column.kind.is_compared() => Expr::Is(of.boxed(), Is::Null),
        0 => number(sides[0].0).remainder(2 + i64::from(random.below(9))),
        _ => of,
    }
}

pub(crate) fn aggregate(random: &mut Random, sides: &Sides<'_>) -> Expr {
    let (of, column) = column(random, sides);
    let kind = &column.kind;
    let of = Some(of.boxed());
    match random.below(7) {
        0 => Expr::Aggregate(Aggregate::Count, None),
        2 if kind.is_compared() => Expr::Aggregate(Aggregate::CountDistinct, of),
        3 | 4 if kind.is_number() => Expr::Aggregate(Aggregate::Sum, of),
        5 if sides.len() == 1 && sides[0].0 == "a" => Expr::Aggregate(Aggregate::First, of),
        4 | 6 if kind.has_bounds() => Expr::Aggregate(Aggregate::Min, of),
        3 | 5 if kind.has_bounds() => Expr::Aggregate(Aggregate::Max, of),
        _ => Expr::Aggregate(Aggregate::Count, of),
    }
}

/// A function of a window in which no rows tie.
fn window(random: &mut Random, sides: &Sides<'_>) -> Expr {
    let (of, column) = column(random, sides);
    let by = if random.below(2) == 0 { vec![number(sides[0].0).remainder(5)] } else { Vec::new() };
    let function = match random.below(5) {
        0 => Over::RowNumber,
        1 => Over::Lag,
        2 => Over::First,
        3 if column.kind.has_bounds() => Over::Of(Aggregate::Max),
        _ => Over::Of(Aggregate::Count),
    };
    let order = sides.iter().map(|(alias, _)| (number(alias), Direction::UP)).collect();
    let of = (function != Over::RowNumber).then_some(of);
    Expr::Window(Box::new(Window { function, of, by, order }))
}

pub(crate) fn item(random: &mut Random, sides: &Sides<'_>) -> Expr {
    let (of, column) = column(random, sides);
    match random.below(8) {
        0 => Expr::Case(Box::new([comparison(random, sides), of, Expr::null()])),
        1 if column.kind.is_compared() && !column.kind.is_bytes() => {
            Expr::Coalesce(Box::new([of, value(random, column)]))
        }
        2 if matches!(column.kind, Kind::Int(16..)) => Expr::Arithmetic(of.boxed(), Sign::Plus, Expr::whole(1).boxed()),
        3 if matches!(column.kind, Kind::Struct(_)) => Expr::Call(Function::Field, of.boxed()),
        _ => of,
    }
}
