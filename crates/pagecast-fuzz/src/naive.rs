//! What a statement says of the rows of its tables, computed row by row: the answer that engines
//! are compared with. It plans nothing and knows no files. A join looks its key up in a map, for
//! all pairs of rows would take too long; nothing else is clever.

pub(crate) mod computed;

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use anyhow::{Context, Result, bail};

use self::computed::{Place, Source};
use crate::expr::{Aggregate, Direction, Expr, Inner, Operator, Over, Window};
use crate::statements::{Around, From, Join, Limit, Select, Set, Statement};
use crate::value::{Value, line};

/// Results that have more are not compared.
pub(crate) const MOST_ROWS: usize = 300_000;

/// Tables as lists of rows.
pub(crate) struct World {
    tables: HashMap<String, Rows>,
}

pub(crate) struct Rows {
    pub(crate) names: Vec<String>,
    pub(crate) rows: Vec<Vec<Value>>,
}

/// A row of each side of a join; none where an outer join found none.
pub(crate) type Row = [Option<usize>; 2];

impl World {
    pub(crate) fn of(tables: impl Iterator<Item = Result<(String, Rows)>>) -> Result<Self> {
        Ok(Self { tables: tables.collect::<Result<_>>()? })
    }

    fn table(&self, name: &str) -> Result<&Rows> {
        self.tables.get(name).with_context(|| format!("there is no table {name}"))
    }

    /// The rows of a statement.
    pub(crate) fn answer(&self, statement: &Statement) -> Result<Vec<Vec<Value>>> {
        let run = Run { world: self, inner: RefCell::default() };
        let items = statement.items();
        let mut rows = run.select(statement, &items, &statement.filters)?;
        if let Some(Around::Set { operation, all, filters }) = &statement.around {
            rows = set(*operation, *all, rows, run.select(statement, &items, filters)?);
        }
        rows.sort_by(|one, other| in_order(&statement.order, one, other));
        if let Some(Around::Count(limit)) = statement.around {
            return Ok(vec![vec![Value::whole(limited(rows, limit).len() as i64)]]);
        }
        Ok(match statement.limit {
            Some(limit) => limited(rows, limit),
            None => rows,
        })
    }

    /// Which rows of a table, called so, a condition holds for.
    pub(crate) fn chosen(name: &'static str, table: &Rows, filter: &Expr) -> Result<Vec<bool>> {
        let copy = Rows { names: table.names.clone(), rows: table.rows.clone() };
        let world = Self { tables: HashMap::from([(name.to_owned(), copy)]) };
        let run = Run { world: &world, inner: RefCell::default() };
        let source = Source { sides: vec![(name, table)] };
        let is_chosen = |row| Ok(Place::row(&run, &source, [Some(row), None]).eval(filter)?.truth() == Some(true));
        (0..table.rows.len()).map(is_chosen).collect()
    }
}

fn limited(rows: Vec<Vec<Value>>, limit: Limit) -> Vec<Vec<Value>> {
    rows.into_iter().skip(limit.offset as usize).take(limit.rows as usize).collect()
}

fn in_order(order: &[(usize, Direction)], one: &[Value], other: &[Value]) -> Ordering {
    let places = order.iter().map(|(place, direction)| directed(*direction, &one[*place], &other[*place]));
    places.fold(Ordering::Equal, Ordering::then)
}

fn directed(direction: Direction, one: &Value, other: &Value) -> Ordering {
    match one.compare(other) {
        Some(order) => {
            if direction.descending {
                order.reverse()
            } else {
                order
            }
        }
        None => {
            let nulls_first = other.is_null().cmp(&one.is_null());
            if direction.nulls_first { nulls_first } else { nulls_first.reverse() }
        }
    }
}

/// How many copies of a row both have decides how many are left.
fn set(operation: Set, all: bool, one: Vec<Vec<Value>>, other: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    let mut copies: BTreeMap<String, (Vec<Value>, usize, usize)> = BTreeMap::new();
    for row in one {
        copies.entry(line(&row)).or_insert((row, 0, 0)).1 += 1;
    }
    for row in other {
        copies.entry(line(&row)).or_insert((row, 0, 0)).2 += 1;
    }
    let left = |one: usize, other: usize| match (operation, all) {
        (Set::Union, true) => one + other,
        (Set::Union, false) => 1,
        (Set::Intersect, true) => one.min(other),
        (Set::Intersect, false) => one.min(other).min(1),
        (Set::Except, true) => one.saturating_sub(other),
        (Set::Except, false) => usize::from(one > 0 && other == 0),
    };
    copies.into_values().flat_map(|(row, one, other)| std::iter::repeat_n(row, left(one, other))).collect()
}

/// Rows that a subquery finds, by the value that ties them to the outside.
type ByTie = Rc<HashMap<String, Rc<Found>>>;

/// One statement under way.
pub(crate) struct Run<'a> {
    world: &'a World,
    /// What the conditions of subqueries leave, by the value that ties them to the outside. A
    /// subquery is known by its place, so that none may be dropped before the run ends.
    inner: RefCell<HashMap<*const Inner, ByTie>>,
}

/// Rows that a subquery finds.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) count: usize,
    pub(crate) values: HashSet<String>,
    pub(crate) has_null: bool,
}

impl Run<'_> {
    /// Rows of a subquery beside an outer row.
    pub(crate) fn found(&self, inner: &Inner, outside: &Place<'_>) -> Result<Rc<Found>> {
        let key = std::ptr::from_ref(inner);
        let known = self.inner.borrow().get(&key).cloned();
        let known = match known {
            Some(known) => known,
            None => {
                let found = Rc::new(self.inside(inner)?);
                self.inner.borrow_mut().insert(key, Rc::clone(&found));
                found
            }
        };
        let tie = match &inner.pair {
            Some((_, outer)) => match outside.eval(outer)? {
                Value::Null => return Ok(Rc::default()),
                value => value.text(),
            },
            None => String::new(),
        };
        Ok(known.get(&tie).cloned().unwrap_or_default())
    }

    fn inside(&self, inner: &Inner) -> Result<HashMap<String, Rc<Found>>> {
        let table = self.world.table(&inner.table)?;
        let source = Source { sides: vec![("s", table)] };
        let mut found: HashMap<String, Found> = HashMap::new();
        for row in 0..table.rows.len() {
            let place = Place::row(self, &source, [Some(row), None]);
            let tie = inner.pair.as_ref().map(|(inside, _)| place.eval(inside)).transpose()?;
            if !place.holds(&inner.filters)? || tie == Some(Value::Null) {
                continue;
            }
            let found = found.entry(tie.map_or_else(String::new, |tie| tie.text())).or_default();
            found.count += 1;
            match inner.value.as_ref().map(|value| place.eval(value)).transpose()? {
                Some(Value::Null) => found.has_null = true,
                Some(value) => _ = found.values.insert(value.text()),
                None => {}
            }
        }
        Ok(found.into_iter().map(|(tie, found)| (tie, Rc::new(found))).collect())
    }

    fn select(&self, statement: &Statement, items: &[Expr], filters: &[Expr]) -> Result<Vec<Vec<Value>>> {
        let (source, rows) = self.from(&statement.from)?;
        let mut left = Vec::new();
        for row in rows {
            if Place::row(self, &source, row).holds(filters)? {
                left.push(row);
            }
        }
        let groups = match &statement.select {
            Select::Groups { keys, .. } => Some(self.groups(&source, left.clone(), keys)?),
            _ => None,
        };
        let places: Vec<Place<'_>> = match &groups {
            Some(groups) => groups.iter().map(|group| Place::group(self, &source, group)).collect(),
            None => left.iter().map(|row| Place::row(self, &source, *row)).collect(),
        };
        let mut selected = vec![Vec::new(); places.len()];
        for item in items {
            let values = match item {
                Expr::Window(window) => over(window, &places)?,
                item => places.iter().map(|place| place.eval(item)).collect::<Result<_>>()?,
            };
            selected.iter_mut().zip(values).for_each(|(row, value)| row.push(value));
        }
        if matches!(statement.select, Select::Distinct(_)) {
            let mut seen = HashSet::new();
            selected.retain(|row| seen.insert(line(row)));
        }
        Ok(selected)
    }

    fn groups(&self, source: &Source<'_>, rows: Vec<Row>, keys: &[Expr]) -> Result<Vec<Vec<Row>>> {
        if keys.is_empty() {
            return Ok(vec![rows]);
        }
        let mut groups: BTreeMap<String, Vec<Row>> = BTreeMap::new();
        for row in rows {
            let place = Place::row(self, source, row);
            let key = keys.iter().map(|key| place.eval(key)).collect::<Result<Vec<_>>>()?;
            groups.entry(line(&key)).or_default().push(row);
        }
        Ok(groups.into_values().collect())
    }

    fn from(&self, from: &From) -> Result<(Source<'_>, Vec<Row>)> {
        let (kind, tables, inner, on) = match from {
            From::Table(table) => {
                let table = self.world.table(table)?;
                let rows = (0..table.rows.len()).map(|row| [Some(row), None]).collect();
                return Ok((Source { sides: vec![("a", table)] }, rows));
            }
            From::Join { kind, tables, inner, on } => (*kind, tables, inner, on),
        };
        let sides = vec![("a", self.world.table(&tables[0])?), ("b", self.world.table(&tables[1])?)];
        let source = Source { sides };
        let side = |side: usize| -> Result<Vec<usize>> {
            let mut rows = Vec::new();
            for row in 0..source.sides[side].1.rows.len() {
                let mut of_side = [None, None];
                of_side[side] = Some(row);
                if Place::row(self, &source, of_side).holds(&inner[side])? {
                    rows.push(row);
                }
            }
            Ok(rows)
        };
        let (left, right) = (side(0)?, side(1)?);
        let rows = self.joined(&source, kind, on, &left, &right)?;
        Ok((source, rows))
    }

    fn joined(
        &self,
        source: &Source<'_>,
        kind: Join,
        on: &[Expr],
        left: &[usize],
        right: &[usize],
    ) -> Result<Vec<Row>> {
        let (one, other, nulls_meet) = match on.first() {
            Some(Expr::Compare(one, Operator::Equal, other)) => (one, other, false),
            Some(Expr::Not(of)) => match &**of {
                Expr::Distinct(one, other) => (one, other, true),
                _ => bail!("a join by no key"),
            },
            _ => bail!("a join by no key"),
        };
        let key = |row: Row, key: &Expr| Place::row(self, source, row).eval(key);
        let mut by_key: HashMap<String, Vec<usize>> = HashMap::new();
        for &row in right {
            let value = key([None, Some(row)], other)?;
            if nulls_meet || !value.is_null() {
                by_key.entry(value.text()).or_default().push(row);
            }
        }
        let (mut pairs, mut met) = (Vec::new(), HashSet::new());
        let mut alone = Vec::new();
        for &row in left {
            let value = key([Some(row), None], one)?;
            let candidates = if nulls_meet || !value.is_null() { by_key.get(&value.text()) } else { None };
            let before = pairs.len();
            for &candidate in candidates.into_iter().flatten() {
                let pair = [Some(row), Some(candidate)];
                if Place::row(self, source, pair).holds(&on[1..])? {
                    pairs.push(pair);
                    met.insert(candidate);
                }
            }
            if pairs.len() > MOST_ROWS {
                bail!("more than {MOST_ROWS} rows");
            }
            if pairs.len() == before {
                alone.push([Some(row), None]);
            }
        }
        let alone_right = right.iter().filter(|row| !met.contains(*row)).map(|row| [None, Some(*row)]);
        let of_left: HashSet<usize> = pairs.iter().filter_map(|pair| pair[0]).collect();
        Ok(match kind {
            Join::Inner => pairs,
            Join::Left => pairs.into_iter().chain(alone).collect(),
            Join::Right => pairs.into_iter().chain(alone_right).collect(),
            Join::Full => pairs.into_iter().chain(alone).chain(alone_right).collect(),
            Join::LeftAnti => alone,
            Join::RightAnti => alone_right.collect(),
            Join::LeftSemi => left.iter().filter(|row| of_left.contains(*row)).map(|row| [Some(*row), None]).collect(),
            Join::RightSemi => right.iter().filter(|row| met.contains(*row)).map(|row| [None, Some(*row)]).collect(),
        })
    }
}

/// The values of a window, in the order of `places`.
fn over(window: &Window, places: &[Place<'_>]) -> Result<Vec<Value>> {
    let mut parts: BTreeMap<String, Vec<(Vec<Value>, Value, usize)>> = BTreeMap::new();
    for (at, place) in places.iter().enumerate() {
        let all = |list: &mut dyn Iterator<Item = &Expr>| list.map(|of| place.eval(of)).collect::<Result<Vec<_>>>();
        let part = line(&all(&mut window.by.iter())?);
        let order = all(&mut window.order.iter().map(|(by, _)| by))?;
        // Rows are counted by what is never NULL.
        let value = window.of.as_ref().map_or(Ok(Value::Bool(true)), |of| place.eval(of))?;
        parts.entry(part).or_default().push((order, value, at));
    }
    let mut results = vec![Value::Null; places.len()];
    for mut rows in parts.into_values() {
        let order = |one: &[Value], other: &[Value]| {
            let pairs = window.order.iter().zip(one.iter().zip(other));
            pairs.map(|((_, way), (one, other))| directed(*way, one, other)).fold(Ordering::Equal, Ordering::then)
        };
        rows.sort_by(|one, other| order(&one.0, &other.0));
        let (mut begin, mut frame) = (0, Value::Null);
        while begin < rows.len() {
            // Rows that tie have one frame.
            let same = rows[begin..].iter().take_while(|row| order(&row.0, &rows[begin].0).is_eq()).count();
            if let Over::Of(aggregate) = window.function {
                // What the frame had before is one more value; but for counts, which begin at the
                // first row.
                let counts = matches!(aggregate, Aggregate::Count | Aggregate::CountDistinct);
                let (before, new) = if counts { (None, 0) } else { (Some(frame), begin) };
                let values = rows[new..begin + same].iter().map(|row| row.1.clone());
                frame = aggregated(aggregate, before.into_iter().chain(values))?;
            }
            for row in begin..begin + same {
                results[rows[row].2] = match window.function {
                    Over::RowNumber => Value::whole(row as i64 + 1),
                    Over::Rank => Value::whole(begin as i64 + 1),
                    Over::Lag => row.checked_sub(1).map_or(Value::Null, |before| rows[before].1.clone()),
                    Over::First => rows[0].1.clone(),
                    Over::Of(_) => frame.clone(),
                };
            }
            begin += same;
        }
    }
    Ok(results)
}

/// An aggregate of these values, in this order.
pub(crate) fn aggregated(aggregate: Aggregate, values: impl Iterator<Item = Value>) -> Result<Value> {
    let mut given = values.filter(|value| !value.is_null());
    Ok(match aggregate {
        Aggregate::Count => Value::whole(given.count() as i64),
        Aggregate::CountDistinct => Value::whole(given.map(|value| value.text()).collect::<HashSet<_>>().len() as i64),
        Aggregate::Min => given.min_by(Value::order).unwrap_or(Value::Null),
        Aggregate::Max => given.max_by(Value::order).unwrap_or(Value::Null),
        Aggregate::First => bail!("the first of rows is not among values"),
        Aggregate::Sum => {
            let Some(first) = given.next() else { return Ok(Value::Null) };
            given.try_fold(first, |sum, value| match (&sum, &value) {
                (Value::Exact(sum), Value::Exact(value)) => Ok(Value::Exact(sum + value)),
                (Value::Float(sum), Value::Float(value)) => Ok(Value::Float(sum + value)),
                _ => bail!("{sum:?} and {value:?} are not added"),
            })?
        }
    })
}
