//! Expressions over a row or a group of rows, by SQL's logic of three values.

use std::cmp::Ordering;

use anyhow::{Context, Result, bail};

use super::{Row, Rows, Run, aggregated};
use crate::expr::{Aggregate, Expr, Function, Is, Operator, Sign, To};
use crate::types::Kind;
use crate::types::arrays::day;
use crate::value::{DAY, ONE, Value, product};

/// Tables by their aliases.
pub(crate) struct Source<'a> {
    pub(crate) sides: Vec<(&'static str, &'a Rows)>,
}

/// What an expression is computed over.
pub(crate) struct Place<'a> {
    run: &'a Run<'a>,
    source: &'a Source<'a>,
    /// Of a group its first.
    row: Row,
    group: Option<&'a [Row]>,
}

impl<'a> Place<'a> {
    pub(crate) fn row(run: &'a Run<'a>, source: &'a Source<'a>, row: Row) -> Self {
        Self { run, source, row, group: None }
    }

    pub(crate) fn group(run: &'a Run<'a>, source: &'a Source<'a>, rows: &'a [Row]) -> Self {
        Self { run, source, row: rows.first().copied().unwrap_or([None, None]), group: Some(rows) }
    }

    /// Whether all of these are true.
    pub(crate) fn holds(&self, filters: &[Expr]) -> Result<bool> {
        for filter in filters {
            if self.eval(filter)?.truth() != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn column(&self, side: &str, name: &str) -> Result<Value> {
        let at = self.source.sides.iter().position(|(alias, _)| *alias == side);
        let at = at.with_context(|| format!("there is no {side}.{name} here"))?;
        let rows = self.source.sides[at].1;
        let column = rows.names.iter().position(|known| known == name);
        let column = column.with_context(|| format!("{side} has no {name}"))?;
        Ok(self.row[at].map_or(Value::Null, |row| rows.rows[row][column].clone()))
    }

    pub(crate) fn eval(&self, expr: &Expr) -> Result<Value> {
        Ok(match expr {
            Expr::Column { side, name, .. } => self.column(side, name)?,
            Expr::Literal { value, .. } => value.clone(),
            Expr::Not(of) => Value::of_truth(self.eval(of)?.truth().map(|truth| !truth)),
            Expr::Both(one, other) => match self.eval(one)?.truth() {
                Some(false) => Value::Bool(false),
                one => match (one, self.eval(other)?.truth()) {
                    (_, Some(false)) => Value::Bool(false),
                    (Some(true), Some(true)) => Value::Bool(true),
                    _ => Value::Null,
                },
            },
            Expr::Either(one, other) => match (self.eval(one)?.truth(), self.eval(other)?.truth()) {
                (Some(true), _) | (_, Some(true)) => Value::Bool(true),
                (Some(false), Some(false)) => Value::Bool(false),
                _ => Value::Null,
            },
            Expr::Compare(one, operator, other) => {
                let order = self.eval(one)?.compare(&self.eval(other)?);
                Value::of_truth(order.map(|order| meets(*operator, order)))
            }
            Expr::Distinct(one, other) => Value::Bool(self.eval(one)?.order(&self.eval(other)?).is_ne()),
            Expr::Is(of, is) => {
                let of = self.eval(of)?;
                Value::Bool(match is {
                    Is::Null | Is::Unknown => of.is_null(),
                    Is::NotNull => !of.is_null(),
                    Is::True => of.truth() == Some(true),
                    Is::NotTrue => of.truth() != Some(true),
                    Is::NotFalse => of.truth() != Some(false),
                })
            }
            Expr::Between(parts) => {
                let [of, low, high] = &**parts;
                let of = self.eval(of)?;
                let above = of.compare(&self.eval(low)?).map(Ordering::is_ge);
                let below = of.compare(&self.eval(high)?).map(Ordering::is_le);
                Value::of_truth(match (above, below) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                })
            }
            Expr::In { of, not, list } => {
                let of = self.eval(of)?;
                let mut is_in = Some(false);
                for value in list {
                    match of.compare(&self.eval(value)?) {
                        Some(Ordering::Equal) => is_in = Some(true),
                        Some(_) => {}
                        None => is_in = is_in.filter(|is_in| *is_in),
                    }
                }
                Value::of_truth(is_in.map(|is_in| is_in != *not))
            }
            Expr::InRows { of, not, rows } => {
                let (of, found) = (self.eval(of)?, self.run.found(rows, self)?);
                let is_in = match of {
                    _ if found.count == 0 => Some(false),
                    Value::Null => None,
                    of if found.values.contains(&of.text()) => Some(true),
                    _ => (!found.has_null).then_some(false),
                };
                Value::of_truth(is_in.map(|is_in| is_in != *not))
            }
            Expr::Exists { not, rows } => Value::Bool((self.run.found(rows, self)?.count > 0) != *not),
            Expr::CountOf(rows) => Value::whole(self.run.found(rows, self)?.count as i64),
            Expr::Case(parts) => {
                let [when, then, otherwise] = &**parts;
                self.eval(if self.eval(when)?.truth() == Some(true) { then } else { otherwise })?
            }
            Expr::Coalesce(parts) => match self.eval(&parts[0])? {
                Value::Null => self.eval(&parts[1])?,
                value => value,
            },
            Expr::Arithmetic(one, sign, other) => arithmetic(&self.eval(one)?, *sign, &self.eval(other)?)?,
            Expr::Cast { of, from, to } => cast(self.eval(of)?, from, *to)?,
            Expr::Call(function, of) => called(*function, self.eval(of)?)?,
            Expr::Aggregate(aggregate, of) => self.aggregate(*aggregate, of.as_deref())?,
            Expr::Window(_) => bail!("a window within an expression"),
        })
    }

    fn aggregate(&self, aggregate: Aggregate, of: Option<&Expr>) -> Result<Value> {
        let group = self.group.context("an aggregate over one row")?;
        let place = |row: &Row| Self { row: *row, group: None, ..*self };
        let Some(of) = of else { return Ok(Value::whole(group.len() as i64)) };
        if aggregate == Aggregate::First {
            // Rows are in the order of their numbers.
            return group.first().map_or(Ok(Value::Null), |row| place(row).eval(of));
        }
        let values = group.iter().map(|row| place(row).eval(of)).collect::<Result<Vec<_>>>()?;
        aggregated(aggregate, values.into_iter())
    }
}

fn meets(operator: Operator, order: Ordering) -> bool {
    match operator {
        Operator::Equal => order.is_eq(),
        Operator::Unequal => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::AtMost => order.is_le(),
        Operator::More => order.is_gt(),
        Operator::AtLeast => order.is_ge(),
    }
}

fn arithmetic(one: &Value, sign: Sign, other: &Value) -> Result<Value> {
    let exact = |value: Option<i128>| value.map(Value::Exact).context("a number without bounds");
    match (one, other) {
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (Value::Exact(one), Value::Exact(other)) => match sign {
            Sign::Plus => exact(one.checked_add(*other)),
            Sign::Minus => exact(one.checked_sub(*other)),
            Sign::Times => exact(product(*one, *other)),
            Sign::Over | Sign::Rest if *other == 0 => bail!("a division by zero"),
            Sign::Over => exact((one / other).checked_mul(ONE)),
            Sign::Rest => exact(one.checked_rem(*other)),
        },
        _ => {
            let (one, other) = (one.as_float().context("no number")?, other.as_float().context("no number")?);
            Ok(Value::Float(match sign {
                Sign::Plus => one + other,
                Sign::Minus => one - other,
                Sign::Times => one * other,
                Sign::Over | Sign::Rest => bail!("floats are not divided"),
            }))
        }
    }
}

fn cast(value: Value, from: &Kind, to: To) -> Result<Value> {
    Ok(match (value, to) {
        (Value::Null, _) => Value::Null,
        (Value::Exact(value), To::Text) => Value::Text(match from {
            &Kind::Decimal { scale: scale @ 1.., .. } => decimal_text(value, scale as usize),
            _ => Value::Exact(value).text(),
        }),
        (Value::Moment(value), To::Text) => Value::Text(day((value / DAY) as i64)),
        (value @ (Value::Bool(_) | Value::Text(_)), To::Text) => Value::Text(value.text()),
        (Value::Text(text), To::Whole) => Value::whole(text.parse().with_context(|| format!("{text} is no number"))?),
        (Value::Text(text), To::Double) => Value::Float(text.parse()?),
        (Value::Bool(value), To::Whole) => Value::whole(value.into()),
        (Value::Exact(value), To::Bool) => Value::Bool(value != 0),
        (value @ Value::Exact(_), To::Double) => Value::Float(value.as_float().context("no number")?),
        (value @ Value::Exact(_), To::Whole) => value,
        (Value::Moment(value), To::Date) => Value::Moment(value.div_euclid(DAY) * DAY),
        (value @ Value::Moment(_), To::Timestamp) => value,
        (Value::Moment(value), To::Time) => Value::Time(value.rem_euclid(DAY)),
        (value, to) => bail!("{value:?} is not cast to {to:?}"),
    })
}

/// With all digits of its type.
fn decimal_text(value: i128, scale: usize) -> String {
    let (sign, value) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
    let digits = format!("{:018}", value % ONE.unsigned_abs());
    format!("{sign}{}.{}", value / ONE.unsigned_abs(), &digits[..scale])
}

fn called(function: Function, value: Value) -> Result<Value> {
    Ok(match (function, value) {
        (_, Value::Null) => Value::Null,
        (Function::Year, Value::Moment(value)) => {
            let day = day(value.div_euclid(DAY) as i64);
            Value::whole(day.split('-').next().unwrap_or_default().parse().with_context(|| day.clone())?)
        }
        (Function::Hour, Value::Moment(value)) => Value::whole((value.rem_euclid(DAY) / (DAY / 24)) as i64),
        (Function::Bin, Value::Moment(value)) => Value::Moment(value.div_euclid(DAY) * DAY),
        (Function::Round, Value::Exact(value)) => {
            let unit = ONE / 100;
            Value::Exact((value.abs() + unit / 2) / unit * unit * value.signum())
        }
        (Function::Length, Value::List(values)) => Value::whole(values.len() as i64),
        (Function::AfterJanuary, Value::Text(text)) => {
            let months: i64 = text.split(' ').next().unwrap_or_default().parse().with_context(|| text.clone())?;
            Value::Moment(after_january(months) * DAY)
        }
        (Function::Field, Value::Struct(values)) => values.into_iter().next().unwrap_or(Value::Null),
        (function, value) => bail!("{function:?} of {value:?}"),
    })
}

/// The day that is so many months and five days after 2024-01-31.
fn after_january(months: i64) -> i128 {
    let is_leap = |year: i64| year % 4 == 0;
    let length = |month: i64| match month % 12 {
        1 => 28 + i64::from(is_leap(2024 + month / 12)),
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    };
    // From the last day of January to that of the month, and all months have 31 days at most.
    let days: i64 = (1..=months).map(length).sum();
    i128::from(19_753 + days + 5)
}
