//! Expressions: what SQL says by them, and whether DuckDB means the same. `naive` computes them.

use serde::{Deserialize, Serialize};

use crate::types::Kind;
use crate::value::Value;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum Expr {
    /// A column of the table with this alias.
    Column {
        side: String,
        name: String,
        kind: Kind,
    },
    Literal {
        sql: String,
        value: Value,
        portable: bool,
    },
    Not(Box<Expr>),
    /// AND, from the left: what fails for rows that the left leaves out never fails.
    Both(Box<Expr>, Box<Expr>),
    Either(Box<Expr>, Box<Expr>),
    Compare(Box<Expr>, Operator, Box<Expr>),
    /// IS DISTINCT FROM.
    Distinct(Box<Expr>, Box<Expr>),
    Is(Box<Expr>, Is),
    Between(Box<[Expr; 3]>),
    In {
        of: Box<Expr>,
        not: bool,
        list: Vec<Expr>,
    },
    InRows {
        of: Box<Expr>,
        not: bool,
        rows: Box<Inner>,
    },
    Exists {
        not: bool,
        rows: Box<Inner>,
    },
    /// How many rows there are.
    CountOf(Box<Inner>),
    /// CASE WHEN, THEN, ELSE.
    Case(Box<[Expr; 3]>),
    Coalesce(Box<[Expr; 2]>),
    Arithmetic(Box<Expr>, Sign, Box<Expr>),
    Cast {
        of: Box<Expr>,
        from: Kind,
        to: To,
    },
    Call(Function, Box<Expr>),
    /// Of nothing: the number of rows.
    Aggregate(Aggregate, Option<Box<Expr>>),
    Window(Box<Window>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Operator {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Operator {
    pub(crate) const ALL: [Self; 6] = [Self::Equal, Self::Unequal, Self::Less, Self::AtMost, Self::More, Self::AtLeast];

    fn sql(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Unequal => "<>",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::More => ">",
            Self::AtLeast => ">=",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Is {
    Null,
    NotNull,
    True,
    NotTrue,
    NotFalse,
    Unknown,
}

impl Is {
    fn sql(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::NotNull => "NOT NULL",
            Self::True => "TRUE",
            Self::NotTrue => "NOT TRUE",
            Self::NotFalse => "NOT FALSE",
            Self::Unknown => "UNKNOWN",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Sign {
    Plus,
    Minus,
    Times,
    /// Of whole numbers, towards zero.
    Over,
    /// What that leaves.
    Rest,
}

/// What is cast to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum To {
    Text,
    Whole,
    Double,
    Date,
    Timestamp,
    Time,
    Bool,
}

impl To {
    fn sql(self) -> &'static str {
        match self {
            Self::Text => "VARCHAR",
            Self::Whole => "BIGINT",
            Self::Double => "DOUBLE",
            Self::Date => "DATE",
            Self::Timestamp => "TIMESTAMP",
            Self::Time => "TIME",
            Self::Bool => "BOOLEAN",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Function {
    Year,
    Hour,
    /// The beginning of the day.
    Bin,
    /// To two digits behind the point, away from zero.
    Round,
    Length,
    /// The first field of a structure.
    Field,
    /// A January's last day and this interval.
    AfterJanuary,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Aggregate {
    Count,
    CountDistinct,
    Sum,
    Min,
    Max,
    /// Of the row with the smallest number.
    First,
}

/// Rows of one table that a condition asks for, as `s`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Inner {
    pub(crate) table: String,
    pub(crate) value: Option<Expr>,
    pub(crate) filters: Vec<Expr>,
    /// What must be equal inside and outside.
    pub(crate) pair: Option<(Expr, Expr)>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Window {
    pub(crate) function: Over,
    pub(crate) of: Option<Expr>,
    pub(crate) by: Vec<Expr>,
    pub(crate) order: Vec<(Expr, Direction)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Over {
    RowNumber,
    Rank,
    Lag,
    First,
    Of(Aggregate),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Direction {
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

impl Direction {
    pub(crate) const UP: Self = Self { descending: false, nulls_first: true };

    pub(crate) fn sql(self) -> String {
        let nulls = if self.nulls_first { "FIRST" } else { "LAST" };
        format!("{} NULLS {nulls}", if self.descending { "DESC" } else { "ASC" })
    }
}

impl Expr {
    pub(crate) fn boxed(self) -> Box<Self> {
        Box::new(self)
    }

    pub(crate) fn null() -> Self {
        Self::Literal { sql: "NULL".to_owned(), value: Value::Null, portable: true }
    }

    pub(crate) fn whole(number: i64) -> Self {
        Self::Literal { sql: number.to_string(), value: Value::whole(number), portable: true }
    }

    pub(crate) fn compare(self, operator: Operator, other: Self) -> Self {
        Self::Compare(self.boxed(), operator, other.boxed())
    }

    /// The remainder of a row's number.
    pub(crate) fn remainder(self, by: i64) -> Self {
        Self::Arithmetic(self.boxed(), Sign::Rest, Self::whole(by).boxed())
    }

    /// What it is made of.
    pub(crate) fn parts(&self) -> Vec<&Self> {
        match self {
            Self::Column { .. } | Self::Literal { .. } => Vec::new(),
            Self::Not(of) | Self::Is(of, _) | Self::Cast { of, .. } | Self::Call(_, of) => vec![of],
            Self::Both(one, other) | Self::Either(one, other) | Self::Distinct(one, other) => vec![one, other],
            Self::Compare(one, _, other) | Self::Arithmetic(one, _, other) => vec![one, other],
            Self::Between(parts) | Self::Case(parts) => parts.iter().collect(),
            Self::Coalesce(parts) => parts.iter().collect(),
            Self::In { of, list, .. } => std::iter::once(&**of).chain(list).collect(),
            Self::InRows { of, rows, .. } => std::iter::once(&**of).chain(rows.parts()).collect(),
            Self::Exists { rows, .. } | Self::CountOf(rows) => rows.parts(),
            Self::Aggregate(_, of) => of.iter().map(|of| &**of).collect(),
            Self::Window(window) => {
                let order = window.order.iter().map(|(by, _)| by);
                window.of.iter().chain(&window.by).chain(order).collect()
            }
        }
    }

    /// Whether it is true, false or unknown, as far as can be seen.
    pub(crate) fn is_condition(&self) -> bool {
        matches!(
            self,
            Self::Not(_)
                | Self::Both(..)
                | Self::Either(..)
                | Self::Compare(..)
                | Self::Distinct(..)
                | Self::Is(..)
                | Self::Between(_)
                | Self::In { .. }
                | Self::InRows { .. }
                | Self::Exists { .. }
        )
    }

    /// Whether something in it is so.
    pub(crate) fn has(&self, is_so: &dyn Fn(&Self) -> bool) -> bool {
        is_so(self) || self.parts().into_iter().any(|part| part.has(is_so))
    }

    /// Whether DuckDB means the same by it.
    pub(crate) fn is_portable(&self) -> bool {
        !self.has(&|part| match part {
            Self::Column { kind, .. } => !kind.is_portable(),
            Self::Literal { portable, .. } => !portable,
            Self::Arithmetic(_, Sign::Over, _) | Self::Aggregate(Aggregate::First, _) => true,
            Self::Call(function, _) => matches!(function, Function::Bin | Function::Field | Function::Length),
            _ => false,
        })
    }

    pub(crate) fn sql(&self) -> String {
        let not = |not: &bool| if *not { "NOT " } else { "" };
        let list = |all: &[Self]| all.iter().map(Self::sql).collect::<Vec<_>>().join(", ");
        match self {
            Self::Column { side, name, .. } => format!("{side}.{name}"),
            Self::Literal { sql, .. } => sql.clone(),
            Self::Not(of) => format!("(NOT {})", of.sql()),
            Self::Both(one, other) => format!("({} AND {})", one.sql(), other.sql()),
            Self::Either(one, other) => format!("({} OR {})", one.sql(), other.sql()),
            Self::Compare(one, operator, other) => format!("({} {} {})", one.sql(), operator.sql(), other.sql()),
            // Without the parentheses the parser takes a following AND into the operand.
            Self::Distinct(one, other) => format!("({} IS DISTINCT FROM {})", one.sql(), other.sql()),
            Self::Is(of, is) => format!("({} IS {})", of.sql(), is.sql()),
            Self::Between(parts) => {
                format!("({} BETWEEN {} AND {})", parts[0].sql(), parts[1].sql(), parts[2].sql())
            }
            Self::In { of, not: is_not, list: values } => {
                format!("({} {}IN ({}))", of.sql(), not(is_not), list(values))
            }
            Self::InRows { of, not: is_not, rows } => {
                format!("({} {}IN ({}))", of.sql(), not(is_not), rows.sql("NULL"))
            }
            Self::Exists { not: is_not, rows } => format!("({}EXISTS ({}))", not(is_not), rows.sql("1")),
            Self::CountOf(rows) => format!("({})", rows.sql("count(*)")),
            Self::Case(parts) => {
                format!("CASE WHEN {} THEN {} ELSE {} END", parts[0].sql(), parts[1].sql(), parts[2].sql())
            }
            Self::Coalesce(parts) => format!("coalesce({}, {})", parts[0].sql(), parts[1].sql()),
            Self::Arithmetic(one, sign, other) => {
                let sign = match sign {
                    Sign::Plus => "+",
                    Sign::Minus => "-",
                    Sign::Times => "*",
                    Sign::Over => "/",
                    Sign::Rest => "%",
                };
                format!("({} {sign} {})", one.sql(), other.sql())
            }
            Self::Cast { of, to, .. } => format!("CAST({} AS {})", of.sql(), to.sql()),
            Self::Call(function, of) => {
                let of = of.sql();
                match function {
                    Function::Year => format!("extract(year FROM {of})"),
                    Function::Hour => format!("extract(hour FROM {of})"),
                    Function::Bin => format!("date_bin(INTERVAL '1 day', {of})"),
                    Function::Round => format!("round({of}, 2)"),
                    Function::Length => format!("array_length({of})"),
                    Function::Field => format!("{of}['x']"),
                    Function::AfterJanuary => format!("(DATE '2024-01-31' + {of})"),
                }
            }
            Self::Aggregate(aggregate, of) => {
                let of = of.as_ref().map_or_else(|| "*".to_owned(), |of| of.sql());
                match aggregate {
                    Aggregate::Count => format!("count({of})"),
                    Aggregate::CountDistinct => format!("count(DISTINCT {of})"),
                    Aggregate::Sum => format!("sum({of})"),
                    Aggregate::Min => format!("min({of})"),
                    Aggregate::Max => format!("max({of})"),
                    Aggregate::First => format!("first_value({of} ORDER BY a.id NULLS FIRST)"),
                }
            }
            Self::Window(window) => window.sql(),
        }
    }
}

impl Inner {
    fn parts(&self) -> Vec<&Expr> {
        let pair = self.pair.iter().flat_map(|(inner, outer)| [inner, outer]);
        self.value.iter().chain(&self.filters).chain(pair).collect()
    }

    /// `otherwise`: what is selected where there is no value.
    fn sql(&self, otherwise: &str) -> String {
        let value = self.value.as_ref().map_or_else(|| otherwise.to_owned(), Expr::sql);
        let pair = self.pair.iter().map(|(inner, outer)| format!("{} = {}", inner.sql(), outer.sql()));
        let filters: Vec<String> = self.filters.iter().map(Expr::sql).chain(pair).collect();
        let filters = if filters.is_empty() { String::new() } else { format!(" WHERE {}", filters.join(" AND ")) };
        format!("SELECT {value} FROM {} s{filters}", self.table)
    }
}

impl Window {
    fn sql(&self) -> String {
        let function = match self.function {
            Over::RowNumber => "row_number()".to_owned(),
            Over::Rank => "rank()".to_owned(),
            Over::Lag => format!("lag({})", self.of.as_ref().map_or_else(String::new, Expr::sql)),
            Over::First => format!("first_value({})", self.of.as_ref().map_or_else(String::new, Expr::sql)),
            Over::Of(aggregate) => Expr::Aggregate(aggregate, self.of.clone().map(Box::new)).sql(),
        };
        let by = self.by.iter().map(Expr::sql).collect::<Vec<_>>().join(", ");
        let order = self.order.iter().map(|(of, direction)| format!("{} {}", of.sql(), direction.sql()));
        let order = order.collect::<Vec<_>>().join(", ");
        let by = if by.is_empty() { by } else { format!("PARTITION BY {by} ") };
        let order = if order.is_empty() { order } else { format!("ORDER BY {order}") };
        format!("{function} OVER ({by}{order})")
    }
}

impl Kind {
    /// The value of a number, as an expression.
    pub(crate) fn expr(&self, number: i64) -> Expr {
        let value = self.value(number).unwrap_or(Value::Null);
        Expr::Literal { sql: self.literal(number), value, portable: self.is_portable() }
    }
}
