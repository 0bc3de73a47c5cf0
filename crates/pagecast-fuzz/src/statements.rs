//! Random statements in which the rules of the DataFusion host fire: scans in and out of order,
//! merge joins, limits, windows, set operations, subqueries.
//!
//! A statement is a list of parts, so that parts can be left away. Its result never depends on the
//! order in which rows come, but for a limit without order, of which any rows do.

use pagecast_core::random::Random;
use serde::{Deserialize, Serialize};

use crate::tables::{Column, Table};

/// SQL, and whether DuckDB reads the same in it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    sql: String,
    portable: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Statement {
    pub(crate) from: From,
    /// All of them must hold.
    pub(crate) filters: Vec<Part>,
    pub(crate) select: Select,
    pub(crate) order: Ordered,
    pub(crate) limit: Option<Limit>,
    pub(crate) around: Option<Around>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Limit {
    rows: u32,
    offset: u32,
}

/// ORDER BY all that is selected, or the first of it alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Ordered {
    No,
    /// With the numbers of the rows, or the keys of groups, which leave nothing open.
    Yes {
        descending: bool,
    },
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum From {
    /// A table, as `a`.
    Table(String),
    /// Two tables, as `a` and `b`, each behind filters of its own.
    Join { kind: Join, tables: [String; 2], inner: [Vec<Part>; 2], on: Vec<Part> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Join {
    Inner,
    Left,
    Right,
    Full,
    LeftSemi,
    LeftAnti,
    RightSemi,
    RightAnti,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Select {
    /// The numbers of the rows come with them.
    Rows(Vec<Part>),
    Distinct(Vec<Part>),
    Groups {
        keys: Vec<Part>,
        values: Vec<Part>,
    },
    Windows(Vec<Part>),
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Around {
    /// How many rows a limit leaves.
    Count(Limit),
    /// The same with other filters, behind a set operation.
    Set(String, Vec<Part>),
}

/// What results have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Same {
    /// All rows, in this order.
    Order,
    /// All rows.
    Rows,
    /// So many rows, all of which are of the statement without its limit.
    Some,
}

impl Part {
    fn new(sql: impl Into<String>) -> Self {
        Self { sql: sql.into(), portable: true }
    }

    fn of(sql: impl Into<String>, portable: bool) -> Self {
        Self { sql: sql.into(), portable }
    }
}

impl Statement {
    /// A statement over some of `tables`; mostly a join if it is `for_joins`.
    pub(crate) fn any(random: &mut Random, tables: &[Table], for_joins: bool) -> Self {
        let pick = |random: &mut Random| &tables[random.below(tables.len() as u32) as usize];
        let (left, right) = (pick(random), pick(random));
        let others = tables;
        let is_of_one = random.below(10) < if for_joins { 1 } else { 4 };
        let from = if is_of_one { From::Table(left.name.clone()) } else { join(random, left, right) };
        let sides = from.sides(left, right);
        let filters = (0..random.below(3)).map(|_| filter(random, &sides, others)).collect();
        let (select, is_total) = select(random, &sides);
        let order = match random.below(3) {
            0 if is_total => Ordered::Yes { descending: random.below(2) == 0 },
            _ => Ordered::No,
        };
        let mut limit = (random.below(4) == 0).then(|| Limit::any(random));
        let around = match random.below(8) {
            0 => Some(Around::Count(Limit::any(random))),
            1 | 2 if order == Ordered::No && !matches!(select, Select::Windows(_)) => {
                let operation = ["UNION ALL", "UNION", "INTERSECT", "EXCEPT"][random.below(4) as usize];
                limit = None;
                Some(Around::Set(operation.to_owned(), vec![filter(random, &sides, others)]))
            }
            _ => None,
        };
        if matches!(around, Some(Around::Count(_))) {
            limit = None;
        }
        Self { from, filters, select, order, limit, around }
    }

    /// Whether DuckDB means the same by it.
    pub(crate) fn is_portable(&self) -> bool {
        let all = |parts: &[Part]| parts.iter().all(|part| part.portable);
        let from = match &self.from {
            From::Table(_) => true,
            From::Join { kind, inner, on, .. } => {
                let known = matches!(kind, Join::Inner | Join::Left | Join::Right | Join::Full);
                known && all(&inner[0]) && all(&inner[1]) && all(on)
            }
        };
        let select = match &self.select {
            Select::Rows(parts) | Select::Distinct(parts) | Select::Windows(parts) => all(parts),
            Select::Groups { keys, values } => all(keys) && all(values),
        };
        let around = match &self.around {
            Some(Around::Set(_, filters)) => all(filters),
            _ => true,
        };
        from && all(&self.filters) && select && around && self.same() != Same::Some
    }

    /// What the results of two engines must have in common.
    pub(crate) fn same(&self) -> Same {
        match (self.order, self.limit) {
            _ if matches!(self.around, Some(Around::Count(_))) => Same::Rows,
            (Ordered::Yes { .. }, _) => Same::Order,
            (Ordered::No, Some(_)) => Same::Some,
            (Ordered::No, None) => Same::Rows,
        }
    }

    /// The same without its limit.
    pub(crate) fn unlimited(&self) -> Self {
        Self { limit: None, ..self.clone() }
    }

    pub(crate) fn sql(&self) -> String {
        let mut sql = self.select(&self.filters);
        if let Some(Around::Set(operation, filters)) = &self.around {
            sql = format!("{sql} {operation} {}", self.select(filters));
        }
        if let Ordered::Yes { descending } = self.order {
            let places = (1..=self.places()).map(|place| match descending {
                true => format!("{place} DESC NULLS LAST"),
                false => format!("{place} ASC NULLS FIRST"),
            });
            sql += &format!(" ORDER BY {}", places.collect::<Vec<_>>().join(", "));
        }
        match (&self.around, self.limit) {
            (Some(Around::Count(limit)), _) => format!("SELECT count(*) FROM ({sql}{})", limit.sql()),
            (_, Some(limit)) => sql + &limit.sql(),
            _ => sql,
        }
    }

    fn select(&self, filters: &[Part]) -> String {
        let numbers = match &self.from {
            From::Table(_) => vec!["a.id".to_owned()],
            From::Join { kind, .. } => kind.numbers(),
        };
        let (distinct, items, groups) = match &self.select {
            Select::Rows(parts) | Select::Windows(parts) => ("", [numbers, texts(parts)].concat(), Vec::new()),
            Select::Distinct(parts) => ("DISTINCT ", texts(parts), Vec::new()),
            Select::Groups { keys, values } => ("", [texts(keys), texts(values)].concat(), texts(keys)),
        };
        let items = items.iter().enumerate().map(|(at, item)| format!("{item} AS i{at}"));
        let items = items.collect::<Vec<_>>().join(", ");
        let mut sql = format!("SELECT {distinct}{items} FROM {}", self.from.sql());
        if !filters.is_empty() {
            sql += &format!(" WHERE {}", texts(filters).join(" AND "));
        }
        if !groups.is_empty() {
            sql += &format!(" GROUP BY {}", groups.join(", "));
        }
        sql
    }

    /// How many of the columns leave no order open.
    fn places(&self) -> usize {
        match (&self.select, &self.from) {
            (Select::Groups { keys, .. }, _) => keys.len(),
            (Select::Distinct(parts), _) => parts.len(),
            (_, From::Table(_)) => 1,
            (_, From::Join { kind, .. }) => kind.numbers().len(),
        }
    }

    /// Statements that lack one of its parts.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        let mut with = |change: &dyn Fn(&mut Self)| {
            let mut other = self.clone();
            change(&mut other);
            if other != *self {
                smaller.push(other);
            }
        };
        with(&|other| other.around = None);
        with(&|other| other.limit = None);
        with(&|other| {
            if other.limit.is_none() {
                other.order = Ordered::No;
            }
        });
        for at in 0..self.filters.len() {
            with(&|other| drop(other.filters.remove(at)));
        }
        if let From::Join { inner, on, tables, .. } = &self.from {
            for side in 0..2 {
                for at in 0..inner[side].len() {
                    with(&|other| {
                        if let From::Join { inner, .. } = &mut other.from {
                            inner[side].remove(at);
                        }
                    });
                }
            }
            for at in 0..on.len() {
                with(&|other| {
                    if let From::Join { on, .. } = &mut other.from
                        && on.len() > 1
                    {
                        on.remove(at);
                    }
                });
            }
            let table = tables[0].clone();
            with(&|other| other.from = From::Table(table.clone()));
        }
        let parts = match &self.select {
            Select::Rows(parts) | Select::Distinct(parts) | Select::Windows(parts) => parts.len(),
            Select::Groups { keys, values } => keys.len() + values.len(),
        };
        for at in 0..parts {
            with(&|other| match &mut other.select {
                Select::Rows(parts) => drop(parts.remove(at)),
                Select::Distinct(parts) | Select::Windows(parts) if parts.len() > 1 => drop(parts.remove(at)),
                Select::Groups { keys, .. } if at < keys.len() => drop(keys.remove(at)),
                Select::Groups { keys, values } if values.len() > 1 => drop(values.remove(at - keys.len())),
                _ => {}
            });
        }
        with(&|other| other.select = Select::Rows(Vec::new()));
        smaller
    }
}

impl Limit {
    fn any(random: &mut Random) -> Self {
        let rows = [0, 1, 10, 100, 1000, 20_000][random.below(6) as usize];
        Self { rows, offset: [0, 0, 3, 300, 1000][random.below(5) as usize] }
    }

    fn sql(self) -> String {
        match self.offset {
            0 => format!(" LIMIT {}", self.rows),
            offset => format!(" LIMIT {} OFFSET {offset}", self.rows),
        }
    }
}

impl From {
    /// The tables whose columns may be named, by their aliases.
    fn sides<'a>(&self, left: &'a Table, right: &'a Table) -> Vec<(&'static str, &'a Table)> {
        match self {
            Self::Table(_) => vec![("a", left)],
            Self::Join { kind: Join::LeftSemi | Join::LeftAnti, .. } => vec![("a", left)],
            Self::Join { kind: Join::RightSemi | Join::RightAnti, .. } => vec![("b", right)],
            Self::Join { .. } => vec![("a", left), ("b", right)],
        }
    }

    fn sql(&self) -> String {
        let Self::Join { kind, tables, inner, on } = self else {
            let Self::Table(table) = self else { return String::new() };
            return format!("{table} a");
        };
        let side = |number: usize, alias: &str| match &inner[number][..] {
            [] => format!("{} {alias}", tables[number]),
            filters => {
                format!("(SELECT * FROM {} {alias} WHERE {}) {alias}", tables[number], texts(filters).join(" AND "))
            }
        };
        format!("{} {} {} ON {}", side(0, "a"), kind.sql(), side(1, "b"), texts(on).join(" AND "))
    }
}

impl Join {
    fn sql(self) -> &'static str {
        match self {
            Self::Inner => "JOIN",
            Self::Left => "LEFT JOIN",
            Self::Right => "RIGHT JOIN",
            Self::Full => "FULL JOIN",
            Self::LeftSemi => "LEFT SEMI JOIN",
            Self::LeftAnti => "LEFT ANTI JOIN",
            Self::RightSemi => "RIGHT SEMI JOIN",
            Self::RightAnti => "RIGHT ANTI JOIN",
        }
    }

    /// What tells its rows apart.
    fn numbers(self) -> Vec<String> {
        let numbers: &[&str] = match self {
            Self::LeftSemi | Self::LeftAnti => &["a.id"],
            Self::RightSemi | Self::RightAnti => &["b.id"],
            _ => &["a.id", "b.id"],
        };
        numbers.iter().map(|&number| number.to_owned()).collect()
    }
}

fn texts(parts: &[Part]) -> Vec<String> {
    parts.iter().map(|part| part.sql.clone()).collect()
}

fn join(random: &mut Random, left: &Table, right: &Table) -> From {
    let kinds = [Join::Inner, Join::Inner, Join::Left, Join::Right, Join::Full];
    let others = [Join::LeftSemi, Join::LeftAnti, Join::RightSemi, Join::RightAnti];
    let kind = if random.below(4) > 0 { kinds[random.below(5) as usize] } else { others[random.below(4) as usize] };
    let portable = left.columns[1].kind.is_portable() && right.columns[1].kind.is_portable();
    let operator = if random.below(12) == 0 { "IS NOT DISTINCT FROM" } else { "=" };
    let mut on = vec![Part::of(format!("a.k {operator} b.k"), portable)];
    let pairs = left.columns.iter().skip(2).flat_map(|a| right.columns.iter().skip(2).map(move |b| (a, b)));
    let alike: Vec<_> =
        pairs.filter(|(a, b)| a.kind.family() == b.kind.family() && a.kind.family() != "none").collect();
    match random.below(6) {
        0 if !alike.is_empty() => {
            let (a, b) = alike[random.below(alike.len() as u32) as usize];
            let operator = ["=", "<", ">="][random.below(3) as usize];
            let portable = a.kind.is_portable() && b.kind.is_portable();
            on.push(Part::of(format!("a.{} {operator} b.{}", a.name, b.name), portable));
        }
        1 => on.push(Part::new(format!("a.id % {} < b.id % 5", 2 + random.below(5)))),
        _ => {}
    }
    let inner = [("a", left), ("b", right)].map(|side| match random.below(3) {
        0 => vec![filter(random, &[side], &[])],
        _ => Vec::new(),
    });
    From::Join { kind, tables: [left.name.clone(), right.name.clone()], inner, on }
}

/// A column of one of these tables, as it is named.
fn column<'a>(random: &mut Random, sides: &[(&str, &'a Table)]) -> (String, &'a Column) {
    let (alias, table) = sides[random.below(sides.len() as u32) as usize];
    let column = &table.columns[random.below(table.columns.len() as u32) as usize];
    (format!("{alias}.{}", column.name), column)
}

/// A condition on the rows of these tables, over subqueries of the others too.
fn filter(random: &mut Random, sides: &[(&str, &Table)], others: &[Table]) -> Part {
    match random.below(10) {
        0 => {
            let (one, other) = (filter(random, sides, others), filter(random, sides, &[]));
            Part::of(format!("({} OR {})", one.sql, other.sql), one.portable && other.portable)
        }
        1 => {
            let inner = filter(random, sides, &[]);
            Part::of(format!("NOT ({})", inner.sql), inner.portable)
        }
        2 if !others.is_empty() => subquery(random, sides, others),
        _ => comparison(random, sides),
    }
}

fn comparison(random: &mut Random, sides: &[(&str, &Table)]) -> Part {
    let (name, column) = column(random, sides);
    let portable = column.kind.is_portable();
    if !column.kind.is_compared() {
        let not = ["", "NOT "][random.below(2) as usize];
        return match column.kind {
            crate::types::Kind::List(..) if random.below(2) == 0 => {
                Part::of(format!("array_length({name}) > {}", random.below(3)), false)
            }
            _ => Part::of(format!("{name} IS {not}NULL"), false),
        };
    }
    let mut value = || column.kind.literal(column.number(random));
    let (one, two, three) = (value(), value(), value());
    match random.below(9) {
        0 => Part::of(format!("{name} IS NULL"), portable),
        1 => Part::of(format!("{name} IS NOT NULL"), portable),
        2 => Part::of(format!("{name} BETWEEN {one} AND {two}"), portable),
        3 => Part::of(format!("{name} IN ({one}, {two}, {three})"), portable),
        4 => Part::of(format!("{name} NOT IN ({one}, {two})"), portable),
        // Without the parentheses the parser takes a following AND into the operand.
        5 => Part::of(format!("({name} IS DISTINCT FROM {one})"), portable),
        _ => {
            let operator = ["=", "<>", "<", "<=", ">", ">="][random.below(6) as usize];
            Part::of(format!("{name} {operator} {one}"), portable)
        }
    }
}

/// A condition on what another table holds.
fn subquery(random: &mut Random, sides: &[(&str, &Table)], others: &[Table]) -> Part {
    let (alias, table) = sides[random.below(sides.len() as u32) as usize];
    let other = &others[random.below(others.len() as u32) as usize];
    let inner = filter(random, &[("s", other)], &[]);
    let portable = inner.portable && table.columns[1].kind.is_portable() && other.columns[1].kind.is_portable();
    let (name, condition) = (&other.name, &inner.sql);
    let sql = match random.below(4) {
        0 => format!("{alias}.k IN (SELECT s.k FROM {name} s WHERE {condition})"),
        1 => format!("{alias}.k NOT IN (SELECT s.k FROM {name} s WHERE {condition} AND s.k IS NOT NULL)"),
        2 => format!("EXISTS (SELECT 1 FROM {name} s WHERE s.k = {alias}.k AND {condition})"),
        _ => format!("{alias}.id > (SELECT count(*) / 2 FROM {name} s WHERE {condition})"),
    };
    // Whole numbers divide as people expect in one of the two alone.
    Part::of(sql.clone(), portable && !sql.contains(" / "))
}

/// What is selected, and whether an order of it leaves nothing open.
fn select(random: &mut Random, sides: &[(&str, &Table)]) -> (Select, bool) {
    let count = 1 + random.below(3);
    match random.below(8) {
        0 => {
            let keys: Vec<Part> = (0..count).map(|_| key(random, sides)).collect();
            (Select::Distinct(keys), true)
        }
        1 | 2 => {
            let keys = (0..random.below(3)).map(|_| key(random, sides)).collect::<Vec<_>>();
            let is_total = !keys.is_empty();
            let values = (0..count).map(|_| aggregate(random, sides)).collect();
            (Select::Groups { keys, values }, is_total)
        }
        3 => (Select::Windows((0..count).map(|_| window(random, sides)).collect()), true),
        _ => (Select::Rows((0..count).map(|_| item(random, sides)).collect()), true),
    }
}

/// A column that rows are grouped by.
fn key(random: &mut Random, sides: &[(&str, &Table)]) -> Part {
    let (name, column) = column(random, sides);
    match random.below(4) {
        _ if !column.kind.is_compared() => Part::new(format!("{name} IS NULL")),
        0 => Part::new(format!("{}.id % {}", sides[0].0, 2 + random.below(9))),
        _ => Part::of(name, column.kind.is_portable()),
    }
}

fn aggregate(random: &mut Random, sides: &[(&str, &Table)]) -> Part {
    let (name, column) = column(random, sides);
    let portable = column.kind.is_portable();
    match random.below(7) {
        0 => Part::new("count(*)"),
        1 => Part::of(format!("count({name})"), portable),
        2 if column.kind.is_compared() => Part::of(format!("count(DISTINCT {name})"), portable),
        3 | 4 if column.kind.is_number() => {
            let whole = matches!(column.kind, crate::types::Kind::Int(_) | crate::types::Kind::UInt(_));
            match whole {
                true => Part::of(format!("CAST(sum({name}) AS BIGINT)"), portable),
                false => Part::of(format!("sum({name})"), portable),
            }
        }
        5 => Part::of(format!("first_value({name} ORDER BY {})", numbers(sides)), false),
        _ if !column.kind.has_bounds() => Part::of(format!("count({name})"), portable),
        _ => Part::of(format!("{}({name})", ["min", "max"][random.below(2) as usize]), portable),
    }
}

/// The order in which no rows tie.
fn numbers(sides: &[(&str, &Table)]) -> String {
    let numbers = sides.iter().map(|(alias, _)| format!("{alias}.id NULLS FIRST"));
    numbers.collect::<Vec<_>>().join(", ")
}

/// A function of a window in which no rows tie.
fn window(random: &mut Random, sides: &[(&str, &Table)]) -> Part {
    let (name, column) = column(random, sides);
    let portable = column.kind.is_portable();
    let order = numbers(sides);
    let partition = match random.below(2) {
        0 => format!("PARTITION BY {}.id % 5 ", sides[0].0),
        _ => String::new(),
    };
    let function = match random.below(5) {
        0 => "row_number()".to_owned(),
        1 => format!("lag({name})"),
        2 => format!("first_value({name})"),
        3 if column.kind.has_bounds() => format!("max({name})"),
        _ => format!("count({name})"),
    };
    Part::of(format!("{function} OVER ({partition}ORDER BY {order})"), portable)
}

fn item(random: &mut Random, sides: &[(&str, &Table)]) -> Part {
    let (name, column) = column(random, sides);
    let portable = column.kind.is_portable();
    match random.below(8) {
        0 => {
            let filter = comparison(random, sides);
            Part::of(format!("CASE WHEN {} THEN {name} END", filter.sql), portable && filter.portable)
        }
        1 if column.kind.is_compared() && !column.kind.is_bytes() => {
            let value = column.kind.literal(column.number(random));
            Part::of(format!("coalesce({name}, {value})"), portable)
        }
        2 if matches!(column.kind, crate::types::Kind::Int(_)) => Part::of(format!("{name} + 1"), portable),
        3 if matches!(column.kind, crate::types::Kind::Struct(_)) => Part::of(format!("{name}['x']"), false),
        _ => Part::of(name, portable),
    }
}
