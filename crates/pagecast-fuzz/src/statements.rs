//! Statements as lists of parts, so that parts can be left away. Their results never depend on the
//! order in which rows come, but for a limit without order, of which any rows do.

use serde::{Deserialize, Serialize};

use crate::expr::{Direction, Expr};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Statement {
    pub(crate) from: From,
    /// All of them must hold.
    pub(crate) filters: Vec<Expr>,
    pub(crate) select: Select,
    /// Places in what is selected, which leave no order open; or none.
    pub(crate) order: Vec<(usize, Direction)>,
    pub(crate) limit: Option<Limit>,
    pub(crate) around: Option<Around>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Limit {
    pub(crate) rows: u32,
    pub(crate) offset: u32,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum From {
    /// A table, as `a`.
    Table(String),
    /// Two tables, as `a` and `b`, each behind filters of its own.
    Join { kind: Join, tables: [String; 2], inner: [Vec<Expr>; 2], on: Vec<Expr> },
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

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum Select {
    /// The numbers of the rows come with them.
    Rows(Vec<Expr>),
    /// Without them, so that rows have copies.
    Bare(Vec<Expr>),
    Distinct(Vec<Expr>),
    Groups {
        keys: Vec<Expr>,
        values: Vec<Expr>,
    },
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum Around {
    /// How many rows a limit leaves.
    Count(Limit),
    /// The same with other filters, behind a set operation.
    Set { operation: Set, all: bool, filters: Vec<Expr> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Set {
    Union,
    Intersect,
    Except,
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

impl Statement {
    /// All rows of one table, by its number and these expressions.
    pub(crate) fn rows(table: &str, items: Vec<Expr>) -> Self {
        Self {
            from: From::Table(table.to_owned()),
            filters: Vec::new(),
            select: Select::Rows(items),
            order: Vec::new(),
            limit: None,
            around: None,
        }
    }

    /// All expressions in it.
    pub(crate) fn parts(&self) -> Vec<&Expr> {
        let mut parts: Vec<&Expr> = self.filters.iter().collect();
        if let From::Join { inner, on, .. } = &self.from {
            parts.extend(inner.iter().flatten().chain(on));
        }
        match &self.select {
            Select::Rows(items) | Select::Bare(items) | Select::Distinct(items) => parts.extend(items),
            Select::Groups { keys, values } => parts.extend(keys.iter().chain(values)),
        }
        if let Some(Around::Set { filters, .. }) = &self.around {
            parts.extend(filters);
        }
        parts
    }

    /// Whether something in it is so.
    pub(crate) fn has(&self, is_so: &dyn Fn(&Expr) -> bool) -> bool {
        self.parts().into_iter().any(|part| part.has(is_so))
    }

    /// Whether DuckDB means the same by it.
    pub(crate) fn is_portable(&self) -> bool {
        let is_known = match &self.from {
            From::Table(_) => true,
            From::Join { kind, .. } => matches!(kind, Join::Inner | Join::Left | Join::Right | Join::Full),
        };
        is_known && self.same() != Same::Some && self.parts().into_iter().all(Expr::is_portable)
    }

    /// What the results of two engines must have in common.
    pub(crate) fn same(&self) -> Same {
        match self.limit {
            _ if matches!(self.around, Some(Around::Count(_))) => Same::Rows,
            _ if !self.order.is_empty() => Same::Order,
            Some(_) => Same::Some,
            None => Same::Rows,
        }
    }

    /// The same without its limit.
    pub(crate) fn unlimited(&self) -> Self {
        Self { limit: None, ..self.clone() }
    }

    pub(crate) fn sql(&self) -> String {
        let mut sql = self.select(&self.filters);
        if let Some(Around::Set { operation, all, filters }) = &self.around {
            let operation = match operation {
                Set::Union => "UNION",
                Set::Intersect => "INTERSECT",
                Set::Except => "EXCEPT",
            };
            let all = if *all { " ALL" } else { "" };
            sql = format!("{sql} {operation}{all} {}", self.select(filters));
        }
        if !self.order.is_empty() {
            let places = self.order.iter().map(|(place, direction)| format!("{} {}", place + 1, direction.sql()));
            sql += &format!(" ORDER BY {}", places.collect::<Vec<_>>().join(", "));
        }
        match (&self.around, self.limit) {
            (Some(Around::Count(limit)), _) => format!("SELECT count(*) FROM ({sql}{})", limit.sql()),
            (_, Some(limit)) => sql + &limit.sql(),
            _ => sql,
        }
    }

    /// What is selected; the numbers of rows first, where rows are.
    pub(crate) fn items(&self) -> Vec<Expr> {
        let number = |side: &&str| Expr::Column {
            side: (*side).to_owned(),
            name: "id".to_owned(),
            kind: crate::types::Kind::Int(64),
        };
        match &self.select {
            Select::Rows(items) => self.from.sides().iter().map(number).chain(items.iter().cloned()).collect(),
            Select::Bare(items) | Select::Distinct(items) => items.clone(),
            Select::Groups { keys, values } => keys.iter().chain(values).cloned().collect(),
        }
    }

    fn select(&self, filters: &[Expr]) -> String {
        let items = self.items();
        let items = items.iter().enumerate().map(|(at, item)| format!("{} AS i{at}", item.sql()));
        let items = items.collect::<Vec<_>>().join(", ");
        let distinct = if matches!(self.select, Select::Distinct(_)) { "DISTINCT " } else { "" };
        let mut sql = format!("SELECT {distinct}{items} FROM {}", self.from.sql());
        if !filters.is_empty() {
            sql += &format!(" WHERE {}", all_of(filters));
        }
        if let Select::Groups { keys, .. } = &self.select
            && !keys.is_empty()
        {
            sql += &format!(" GROUP BY {}", keys.iter().map(Expr::sql).collect::<Vec<_>>().join(", "));
        }
        sql
    }

    /// How many of the first columns leave no order open.
    pub(crate) fn total(&self) -> usize {
        match &self.select {
            Select::Groups { keys, .. } => keys.len(),
            Select::Bare(items) | Select::Distinct(items) => items.len(),
            Select::Rows(_) => self.from.sides().len(),
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
                other.order.clear();
            }
        });
        for at in 0..self.filters.len() {
            with(&|other| drop(other.filters.remove(at)));
            for part in self.filters[at].parts().into_iter().filter(|part| part.is_condition()) {
                with(&|other| other.filters[at] = part.clone());
            }
        }
        self.smaller_joins(&mut with);
        let items = match &self.select {
            Select::Rows(items) | Select::Bare(items) | Select::Distinct(items) => items.len(),
            Select::Groups { keys, values } => keys.len() + values.len(),
        };
        // Places of the order are those of what is selected.
        for at in (0..items).filter(|_| self.order.is_empty()) {
            with(&|other| match &mut other.select {
                Select::Rows(items) => drop(items.remove(at)),
                Select::Bare(items) | Select::Distinct(items) if items.len() > 1 => drop(items.remove(at)),
                Select::Groups { keys, .. } if at < keys.len() => drop(keys.remove(at)),
                Select::Groups { keys, values } if values.len() > 1 => drop(values.remove(at - keys.len())),
                _ => {}
            });
        }
        if self.order.is_empty() {
            with(&|other| other.select = Select::Rows(Vec::new()));
        }
        smaller
    }

    fn smaller_joins(&self, with: &mut impl FnMut(&dyn Fn(&mut Self))) {
        let From::Join { inner, on, tables, .. } = &self.from else { return };
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
        if self.order.is_empty() && !self.has(&|part| matches!(part, Expr::Column { side, .. } if side == "b")) {
            with(&|other| other.from = From::Table(tables[0].clone()));
        }
    }
}

impl Limit {
    fn sql(self) -> String {
        match self.offset {
            0 => format!(" LIMIT {}", self.rows),
            offset => format!(" LIMIT {} OFFSET {offset}", self.rows),
        }
    }
}

impl From {
    /// The aliases whose columns may be named.
    pub(crate) fn sides(&self) -> &'static [&'static str] {
        match self {
            Self::Table(_) | Self::Join { kind: Join::LeftSemi | Join::LeftAnti, .. } => &["a"],
            Self::Join { kind: Join::RightSemi | Join::RightAnti, .. } => &["b"],
            Self::Join { .. } => &["a", "b"],
        }
    }

    fn sql(&self) -> String {
        let Self::Join { kind, tables, inner, on } = self else {
            let Self::Table(table) = self else { return String::new() };
            return format!("{table} a");
        };
        let side = |number: usize, alias: &str| match &inner[number][..] {
            [] => format!("{} {alias}", tables[number]),
            filters => format!("(SELECT * FROM {} {alias} WHERE {}) {alias}", tables[number], all_of(filters)),
        };
        format!("{} {} {} ON {}", side(0, "a"), kind.sql(), side(1, "b"), all_of(on))
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
}

fn all_of(filters: &[Expr]) -> String {
    filters.iter().map(Expr::sql).collect::<Vec<_>>().join(" AND ")
}
