//! A column of moments or days beside a literal that is finer than it, or beyond what it can hold.
//!
//! DataFusion 55.2 casts the literal to the column's unit, which cuts it: `t = '..00.0000015'` then
//! finds the microsecond before, and `t < '..'` leaves it out. Or it casts the column to the
//! literal's unit, and years after 2262 are no nanoseconds: an error. Both units count from the
//! same moment, in UTC whatever the zone that shows them, so the comparison is made here, in whole
//! numbers, and the literal gets the column's type with a bound that means the same.
//!
//! The file goes when DataFusion rounds such a literal by its operator.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, Operator, binary_expr, cast, lit};

use crate::{compares, constant};

/// The rule. It comes before DataFusion gives both sides one type.
#[derive(Debug)]
pub(crate) struct Instants;

impl FunctionRewrite for Instants {
    fn name(&self) -> &str {
        "moments beside literals"
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        let column = |expr: &Expr| match (expr, expr.get_type(schema)) {
            (_, Ok(kind @ (DataType::Timestamp(..) | DataType::Date32))) if Literal::of(expr).is_none() => {
                Some(Column { kind })
            }
            _ => None,
        };
        let new = match &expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (column(left), column(right)) {
                (Some(of), None) => of.compare(left, *op, right),
                (None, Some(of)) => op.swap().and_then(|op| of.compare(right, op, left)),
                (Some(one), Some(other)) if compares(*op) => in_one_unit((left, one), *op, (right, other)),
                _ => None,
            },
            // They make nanoseconds of a day.
            Expr::ScalarFunction(ScalarFunction { func, args })
                if matches!(func.name(), "date_bin" | "date_trunc")
                    && args
                        .get(1)
                        .is_some_and(|day| day.get_type(schema).is_ok_and(|kind| kind == DataType::Date32)) =>
            {
                let mut args = args.clone();
                args[1] = cast(args[1].clone(), DataType::Timestamp(TimeUnit::Microsecond, None));
                Some(func.call(args))
            }
            Expr::Between(between) => column(&between.expr).and_then(|of| of.between(between)),
            Expr::InList(list) => column(&list.expr).and_then(|of| of.in_list(list)),
            _ => None,
        };
        Ok(new.map_or_else(|| Transformed::no(expr), Transformed::yes))
    }
}

/// A day beside a moment is that day's midnight, in the moment's unit. DataFusion makes nanoseconds
/// of both.
fn in_one_unit((left, one): (&Expr, Column), op: Operator, (right, other): (&Expr, Column)) -> Option<Expr> {
    match (&one.kind, &other.kind) {
        (DataType::Timestamp(..), DataType::Date32) => {
            Some(binary_expr(left.clone(), op, cast(right.clone(), one.kind)))
        }
        (DataType::Date32, DataType::Timestamp(..)) => {
            Some(binary_expr(cast(left.clone(), other.kind), op, right.clone()))
        }
        _ => None,
    }
}

/// A moment in nanoseconds since 1970, in UTC: of a day its midnight.
struct Literal(i128);

impl Literal {
    /// What a literal of a moment says, or what is as constant as one.
    fn of(expr: &Expr) -> Option<Self> {
        Self::of_value(&constant(expr)?)
    }

    fn of_value(value: &ScalarValue) -> Option<Self> {
        let (count, unit) = match value {
            ScalarValue::TimestampSecond(count, _) => (*count, TimeUnit::Second),
            ScalarValue::TimestampMillisecond(count, _) => (*count, TimeUnit::Millisecond),
            ScalarValue::TimestampMicrosecond(count, _) => (*count, TimeUnit::Microsecond),
            ScalarValue::TimestampNanosecond(count, _) => (*count, TimeUnit::Nanosecond),
            ScalarValue::Date32(days) => return Some(Self(i128::from((*days)?) * DAY)),
            _ => return None,
        };
        Some(Self(i128::from(count?) * nanoseconds(unit)))
    }

    /// [`of`](Self::of), or a text beside a column, as finely as it says.
    fn beside(expr: &Expr, column: &DataType) -> Option<Self> {
        if let Some(literal) = Self::of(expr) {
            return Some(literal);
        }
        let (Expr::Literal(text, _), DataType::Timestamp(_, zone)) = (expr, column) else { return None };
        text.try_as_str().flatten()?;
        let moment = |unit| text.cast_to(&DataType::Timestamp(unit, zone.clone()));
        Self::of_value(&moment(TimeUnit::Nanosecond).or_else(|_| moment(TimeUnit::Microsecond)).ok()?)
    }
}

fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Nanoseconds of a day.
const DAY: i128 = 86_400_000_000_000;

/// A column of moments or of days.
struct Column {
    kind: DataType,
}

/// Where a literal lies among the values that a column can have.
enum Place {
    /// At this one.
    At(Expr),
    /// Behind this one, and before the next.
    Behind(Expr),
    BeforeAll,
    BehindAll,
}

impl Column {
    fn place(&self, literal: &Literal) -> Place {
        let step = match &self.kind {
            DataType::Timestamp(unit, _) => nanoseconds(*unit),
            _ => DAY,
        };
        let (whole, rest) = (literal.0.div_euclid(step), literal.0.rem_euclid(step));
        let value = i64::try_from(whole).ok().and_then(|count| self.value(count));
        match value.map(|value| Expr::Literal(value, None)) {
            Some(value) if rest == 0 => Place::At(value),
            Some(value) => Place::Behind(value),
            None if whole < 0 => Place::BeforeAll,
            None => Place::BehindAll,
        }
    }

    fn value(&self, count: i64) -> Option<ScalarValue> {
        Some(match &self.kind {
            DataType::Timestamp(TimeUnit::Second, zone) => ScalarValue::TimestampSecond(Some(count), zone.clone()),
            DataType::Timestamp(TimeUnit::Millisecond, zone) => {
                ScalarValue::TimestampMillisecond(Some(count), zone.clone())
            }
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                ScalarValue::TimestampMicrosecond(Some(count), zone.clone())
            }
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                ScalarValue::TimestampNanosecond(Some(count), zone.clone())
            }
            _ => ScalarValue::Date32(Some(i32::try_from(count).ok()?)),
        })
    }

    fn compare(&self, column: &Expr, op: Operator, literal: &Expr) -> Option<Expr> {
        use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
        if !compares(op) {
            return None;
        }
        let place = self.place(&Literal::beside(literal, &self.kind)?);
        let with = |op, value| binary_expr(column.clone(), op, value);
        // NULL beside anything is NULL.
        let always = |holds| with(if holds { Eq } else { NotEq }, column.clone());
        Some(match (place, op) {
            (Place::At(value), op) => with(op, value),
            (_, IsDistinctFrom) => lit(true),
            (_, IsNotDistinctFrom) => lit(false),
            (_, Eq) => always(false),
            (_, NotEq) => always(true),
            (Place::Behind(value), Lt | LtEq) => with(LtEq, value),
            (Place::Behind(value), _) => with(Gt, value),
            (Place::BeforeAll, Gt | GtEq) | (Place::BehindAll, Lt | LtEq) => always(true),
            (Place::BeforeAll | Place::BehindAll, _) => always(false),
        })
    }

    fn between(&self, of: &Between) -> Option<Expr> {
        let from = self.compare(&of.expr, Operator::GtEq, &of.low)?;
        let to = self.compare(&of.expr, Operator::LtEq, &of.high)?;
        let within = from.and(to);
        Some(if of.negated { !within } else { within })
    }

    /// What is no value of the column is taken out. A list of nothing is found by no value.
    fn in_list(&self, of: &InList) -> Option<Expr> {
        let mut list = Vec::new();
        for item in &of.list {
            match Literal::beside(item, &self.kind).map(|literal| self.place(&literal)) {
                Some(Place::At(value)) => list.push(value),
                Some(_) => {}
                None if matches!(item, Expr::Literal(value, _) if value.is_null()) => list.push(item.clone()),
                None => return None,
            }
        }
        if list.is_empty() {
            let op = if of.negated { Operator::Eq } else { Operator::NotEq };
            return Some(binary_expr((*of.expr).clone(), op, (*of.expr).clone()));
        }
        Some((*of.expr).clone().in_list(list, of.negated))
    }
}
