//! Statements in which a fault can show.

use pagecast_core::random::Random;

use crate::asked::{Sides, aggregate, column, compared, comparison, filter, item, key, number, value};
use crate::expr::{Aggregate, Direction, Expr, Function, Inner, Is, Operator, Over, Sign, To, Window};
use crate::faults::Fault;
use crate::faulty::one;
use crate::statements::{Around, Limit, Select, Set, Statement};
use crate::tables::{Column, FOLDER, Table};
use crate::types::{Kind, Unit, Zone};
use crate::value::Value;

impl Fault {
    /// A statement over some of `tables`.
    pub(crate) fn statement(self, random: &mut Random, tables: &[Table]) -> Statement {
        if random.below(4) == 0 {
            return Statement::any(random, tables, false);
        }
        let table = one(random, tables);
        let sides: &Sides<'_> = &[("a", &table)];
        let mut statement = Statement::rows(&table.name, Vec::new());
        match self {
            Self::WindowsOverGroups => return over_groups(random, statement, sides),
            Self::BoundsOfCasts => statement.select = bounds_of_casts(random, sides),
            Self::SortedGroups => statement.select = of_key(random, &table),
            Self::TwiceInSets => {
                let (of, _) = column(random, sides);
                statement.select = Select::Rows(vec![of.clone(), of]);
            }
            _ => {
                statement.select = match random.below(4) {
                    0 => Select::Groups { keys: vec![key(random, sides)], values: vec![aggregate(random, sides)] },
                    1 => Select::Groups {
                        keys: Vec::new(),
                        values: vec![aggregate(random, sides), aggregate(random, sides)],
                    },
                    _ if self == Self::Intervals => Select::Rows(vec![self.selected(random, sides, tables)]),
                    2 => Select::Rows(vec![self.selected(random, sides, tables)]),
                    _ => Select::Rows(vec![item(random, sides)]),
                };
                statement.filters = vec![self.condition(random, sides, tables)];
            }
        }
        if random.below(3) > 0 {
            statement.set_order(random);
        }
        if self == Self::SortedGroups && random.below(2) == 0 {
            // As its files say it.
            let direction = Direction { descending: false, nulls_first: false };
            statement.order.iter_mut().for_each(|(_, of)| *of = direction);
        }
        if !statement.order.is_empty() && random.below(3) > 0 {
            statement.limit = Some(Limit { rows: one(random, &[1, 3, 10]), offset: one(random, &[0, 0, 2]) });
        }
        let is_plain = statement.order.is_empty() && !matches!(statement.select, Select::Groups { .. });
        let copies = self == Self::ThreeValues && is_plain && random.below(2) == 0;
        if copies || (self == Self::TwiceInSets && random.below(4) > 0) {
            if copies {
                statement.select = Select::Bare(vec![key(random, sides)]);
            }
            let operation = if copies { one(random, &[Set::Except, Set::Intersect]) } else { Set::Union };
            statement.around = Some(Around::Set { operation, all: true, filters: vec![filter(random, sides, &[])] });
            statement.limit = None;
        }
        statement
    }

    /// A condition that can show it, or another.
    fn condition(self, random: &mut Random, sides: &Sides<'_>, tables: &[Table]) -> Expr {
        // Columns beside which there is a literal of its own, if some are.
        let drawn = (0..8).map(|_| column(random, sides)).collect::<Vec<_>>();
        let of_its_own = drawn.iter().find(|(_, column)| literal(self, random, column).is_some());
        let (of, column) = of_its_own.unwrap_or(&drawn[0]).clone();
        match self {
            Self::ThreeValues => three_values(random, sides, tables),
            Self::GuardedDivisions => guarded(random, sides).unwrap_or_else(|| comparison(random, sides)),
            Self::DeclaredKeys | Self::KeysInFiles => {
                let table = sides[0].1;
                let key = table.columns.iter().find(|column| column.name == FOLDER).unwrap_or(&table.columns[1]);
                let (of, value) = (key.of("a"), value(random, key));
                match random.below(4) {
                    0 => of.compare(Operator::Equal, value),
                    1 => Expr::Between(Box::new([of, value.clone(), value])),
                    _ => compared(random, of, key),
                }
            }
            Self::KeysOfTruth => {
                let kind = Kind::Bool;
                let of = Expr::Column { side: "a".to_owned(), name: FOLDER.to_owned(), kind: kind.clone() };
                let of = Expr::Cast { of: of.boxed(), from: kind, to: To::Text };
                let text =
                    Expr::Literal { sql: "'true'".to_owned(), value: Value::Text("true".to_owned()), portable: true };
                of.compare(one(random, &[Operator::Equal, Operator::Unequal]), text)
            }
            _ => match literal(self, random, column) {
                Some(own) => match random.below(4) {
                    0 => {
                        let other = literal(self, random, column);
                        let list = vec![own, other.unwrap_or_else(|| value(random, column))];
                        Expr::In { of: of.boxed(), not: random.below(3) == 0, list }
                    }
                    1 => Expr::Not(of.compare(one(random, &Operator::ALL), own).boxed()),
                    _ => of.compare(one(random, &Operator::ALL), own),
                },
                None => filter(random, sides, tables),
            },
        }
    }

    /// What is selected to show it.
    fn selected(self, random: &mut Random, sides: &Sides<'_>, tables: &[Table]) -> Expr {
        let (of, column) = column(random, sides);
        let is_moment = matches!(column.kind, Kind::Timestamp(..) | Kind::Age);
        let called = |function| Expr::Call(function, of.clone().boxed());
        match self {
            Self::ThreeValues => three_values(random, sides, tables),
            Self::Zones if is_moment => match random.below(3) {
                0 => called(Function::Hour),
                1 => called(Function::Year),
                _ => Expr::Cast { of: of.boxed(), from: column.kind.clone(), to: To::Date },
            },
            Self::OldYears if is_moment => match random.below(3) {
                0 => called(Function::Bin),
                1 => called(Function::Year),
                _ => Expr::Coalesce(Box::new([of, value(random, column)])),
            },
            Self::DecimalLiterals => {
                let number = |random: &mut Random| decimal(i64::from(random.below(3000)));
                let other = number(random);
                match column.kind {
                    Kind::Decimal { .. } => {
                        Expr::Arithmetic(of.boxed(), one(random, &[Sign::Plus, Sign::Times]), other.boxed())
                    }
                    _ => Expr::Call(Function::Round, thousandths(random).boxed()),
                }
            }
            Self::Intervals => {
                let interval = sides[0].1.columns.iter().find(|column| column.kind == Kind::Interval);
                let of = interval.map_or(of, |interval| interval.of(sides[0].0));
                match interval {
                    Some(_) => Expr::Call(Function::AfterJanuary, of.boxed()),
                    None => of,
                }
            }
            Self::MarkedTexts if column.kind.is_text() => {
                Expr::Cast { of: of.boxed(), from: column.kind.clone(), to: To::Text }
            }
            _ => item(random, sides),
        }
    }
}

/// A literal of a kind's own beside this column.
fn literal(fault: Fault, random: &mut Random, column: &Column) -> Option<Expr> {
    let number = column.number(random);
    match (fault, &column.kind) {
        (Fault::DecimalLiterals, Kind::Decimal { scale: 1.., .. }) => Some(decimal(number)),
        (Fault::NegativeZero, Kind::Float { .. }) => Some(decimal(0)),
        (Fault::Times, Kind::Time(_)) => {
            let Expr::Literal { value: Value::Time(nanos), .. } = column.kind.expr(number) else { return None };
            let shown = crate::types::arrays::clock((nanos / 1_000_000_000) as i64);
            Some(Expr::Literal { sql: format!("TIME '{shown}'"), value: Value::Time(nanos), portable: true })
        }
        (Fault::FinerLiterals, Kind::Timestamp(unit, zone)) => {
            let (digits, nanos) = match unit {
                Unit::Seconds | Unit::Millis => ("0005", 500_000),
                Unit::Micros => ("0000005", 500),
                Unit::Nanos => ("000000001", 1),
            };
            let Value::Moment(moment) = column.kind.value(number).ok()? else { return None };
            let (kind, end) = if *zone == Zone::None { ("TIMESTAMP", "") } else { ("TIMESTAMPTZ", "+00:00") };
            let sql = format!("{kind} '{}.{digits}{end}'", column.kind.shown(number));
            Some(Expr::Literal { sql, value: Value::Moment(moment + nanos), portable: false })
        }
        // As people write it, and with another zone than the column's.
        (Fault::Zones, Kind::Timestamp(_, zone)) if *zone != Zone::None => {
            let value = column.kind.value(number).ok()?;
            let shown = column.kind.shown(number).replace(' ', "T");
            let sql = one(random, &[format!("'{shown}Z'"), format!("TIMESTAMPTZ '{shown}+00:00'")]);
            Some(Expr::Literal { sql, value, portable: false })
        }
        _ => None,
    }
}

/// Hundredths as people write them.
fn decimal(hundredths: i64) -> Expr {
    let sql = crate::types::arrays::hundredths(hundredths);
    Expr::Literal { sql, value: Value::Exact(i128::from(hundredths) * crate::value::ONE / 100), portable: true }
}

fn thousandths(random: &mut Random) -> Expr {
    let number = i64::from(random.below(400)) * 10 + 5;
    let sql = format!("{}.{:03}", number / 1000, number % 1000);
    Expr::Literal { sql, value: Value::Exact(i128::from(number) * crate::value::ONE / 1000), portable: true }
}

/// A condition that NULL makes unknown, where it matters whether it is unknown or false.
fn three_values(random: &mut Random, sides: &Sides<'_>, tables: &[Table]) -> Expr {
    let (of, of_column) = loop {
        let (of, column) = column(random, sides);
        if column.kind.is_compared() && !column.kind.is_bytes() {
            break (of, column);
        }
    };
    let not = random.below(2) == 0;
    let other = one(random, tables);
    let alike = other.columns.iter().find(|column| column.kind == of_column.kind && column.name != "id");
    let is_in = match alike.filter(|_| random.below(3) > 0) {
        Some(alike) => {
            let outside = sides[0].1.columns[1].of(sides[0].0);
            let pair = (random.below(4) == 0).then(|| (other.columns[1].of("s"), outside));
            let filters = (0..random.below(2)).map(|_| comparison(random, &[("s", &other)])).collect();
            let rows = Inner { table: other.name.clone(), value: Some(alike.of("s")), filters, pair };
            Expr::InRows { of: of.boxed(), not, rows: Box::new(rows) }
        }
        None => {
            let mut list = vec![value(random, of_column), value(random, of_column)];
            list.insert(random.below(3) as usize, Expr::null());
            Expr::In { of: of.boxed(), not, list }
        }
    };
    let is_few = number(sides[0].0).remainder(3).compare(Operator::Equal, Expr::whole(1));
    match random.below(8) {
        0 => Expr::Either(is_in.boxed(), is_few.boxed()),
        1 => Expr::Is(is_in.boxed(), one(random, &[Is::Null, Is::NotNull, Is::NotTrue, Is::NotFalse])),
        2 => Expr::Case(Box::new([
            is_in,
            Expr::Literal { sql: "TRUE".to_owned(), value: Value::Bool(true), portable: true },
            is_few,
        ])),
        3 => is_in.compare(
            Operator::Equal,
            Expr::Literal { sql: "FALSE".to_owned(), value: Value::Bool(false), portable: true },
        ),
        4 => Expr::Not(is_in.boxed()),
        5 => Expr::Both(is_in.boxed(), is_few.boxed()),
        _ => is_in,
    }
}

/// A division that the left side of AND keeps from zeros.
fn guarded(random: &mut Random, sides: &Sides<'_>) -> Option<Expr> {
    let (of, _) = (0..20).map(|_| column(random, sides)).find(|(_, column)| matches!(column.kind, Kind::Int(16..)))?;
    let ratio = Expr::Arithmetic(Expr::whole(10).boxed(), Sign::Over, of.clone().boxed());
    let is_large = ratio.compare(one(random, &Operator::ALL), Expr::whole(i64::from(random.below(4))));
    let is_not_0 = of.compare(Operator::Unequal, Expr::whole(0));
    Some(match random.below(3) {
        0 => Expr::Case(Box::new([is_not_0, is_large, Expr::null()])),
        _ => Expr::Both(is_not_0.boxed(), is_large.boxed()),
    })
}

/// Least and greatest of a cast that does not keep the order.
fn bounds_of_casts(random: &mut Random, sides: &Sides<'_>) -> Select {
    let cast = |random: &mut Random| loop {
        let (of, column) = column(random, sides);
        let to: &[To] = match column.kind {
            Kind::Digits => &[To::Whole, To::Double],
            Kind::Int(_) | Kind::UInt(_) => &[To::Text, To::Double, To::Bool],
            Kind::Decimal { precision: ..=38, .. } => &[To::Text, To::Double],
            Kind::Date => &[To::Text, To::Timestamp],
            Kind::Timestamp(_, Zone::None) => &[To::Time, To::Date],
            _ => continue,
        };
        let (to, from) = (one(random, to), column.kind.clone());
        let cast = Some(Expr::Cast { of: of.boxed(), from, to }.boxed());
        return Expr::Aggregate(
            if to == To::Bool { Aggregate::Count } else { one(random, &[Aggregate::Min, Aggregate::Max]) },
            cast,
        );
    };
    let first = cast(random);
    let values = match &first {
        // What is computed twice is computed once, and beneath.
        Expr::Aggregate(Aggregate::Min | Aggregate::Max, of) if random.below(2) == 0 => {
            [Aggregate::Min, Aggregate::Max].map(|aggregate| Expr::Aggregate(aggregate, of.clone())).to_vec()
        }
        _ => vec![first, cast(random)],
    };
    let keys = if random.below(4) == 0 { vec![number("a").remainder(3)] } else { Vec::new() };
    Select::Groups { keys, values }
}

/// What an order of the key makes quick.
fn of_key(random: &mut Random, table: &Table) -> Select {
    let of = table.columns[1].of("a");
    match random.below(5) {
        0 => Select::Rows(vec![of]),
        1 => Select::Distinct(vec![of]),
        2 => Select::Groups {
            keys: Vec::new(),
            values: vec![Expr::Aggregate(Aggregate::CountDistinct, Some(of.boxed()))],
        },
        3 => Select::Groups { keys: vec![of], values: vec![Expr::Aggregate(Aggregate::Count, None)] },
        _ => {
            let order = vec![(of.clone(), Direction::UP), (number("a"), Direction::UP)];
            let window = Window { function: Over::RowNumber, of: None, by: Vec::new(), order };
            Select::Rows(vec![of, Expr::Window(Box::new(window))])
        }
    }
}

/// A window over groups, of which the largest are shown.
fn over_groups(random: &mut Random, mut statement: Statement, sides: &Sides<'_>) -> Statement {
    let (of, column) = column(random, sides);
    let value = match random.below(3) {
        0 => aggregate(random, sides),
        _ if !column.kind.has_bounds() => aggregate(random, sides),
        _ => Expr::Aggregate(one(random, &[Aggregate::Min, Aggregate::Max]), Some(of.boxed())),
    };
    let keys = vec![key(random, sides)];
    let is_ordered =
        matches!(&value, Expr::Aggregate(Aggregate::Min | Aggregate::Max | Aggregate::Sum | Aggregate::Count, _));
    let order =
        vec![(value.clone(), Direction { descending: random.below(2) == 0, nulls_first: random.below(2) == 0 })];
    let window = match random.below(3) {
        0 if is_ordered => Window { function: Over::Rank, of: None, by: Vec::new(), order },
        1 => {
            let of = Some(Expr::Aggregate(Aggregate::Count, None));
            Window { function: Over::Of(Aggregate::Sum), of, by: Vec::new(), order: Vec::new() }
        }
        _ => Window { function: Over::Of(Aggregate::Count), of: None, by: Vec::new(), order: Vec::new() },
    };
    statement.select = Select::Groups { keys, values: vec![value, Expr::Window(Box::new(window))] };
    statement.set_order(random);
    if random.below(2) == 0 {
        // Numbers of rows do not tie, so that the value alone is an order, of which few groups are
        // asked for.
        let aggregate = one(random, &[Aggregate::Min, Aggregate::Max]);
        if let Select::Groups { values, .. } = &mut statement.select {
            values[0] = Expr::Aggregate(aggregate, Some(number("a").boxed()));
        }
        let descending = aggregate == Aggregate::Max;
        statement.order = vec![(1, Direction { descending, nulls_first: descending })];
    } else if is_ordered {
        // By the value, and by the key where values tie.
        statement.order.retain(|(place, _)| *place != 1);
        let descending = random.below(2) == 0;
        statement.order.insert(0, (1, Direction { descending, nulls_first: descending }));
    }
    statement.limit = Some(Limit { rows: one(random, &[1, 2, 5]), offset: one(random, &[0, 0, 1]) });
    statement
}
