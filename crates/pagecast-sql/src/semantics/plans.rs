//! A plan that means what PostgreSQL means by the statement.
//!
//! It comes before DataFusion's own rules, so that every cast in it is one that the statement has,
//! and every operator has the types that the statement gives it.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, TableReference};
use datafusion::functions::string::btrim;
use datafusion::logical_expr::expr::{AggregateFunction, Case, Cast, InList, InSubquery, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, ScalarFunctionArgs, Subquery,
    binary_expr, cast,
};

use super::calculation::{Gives, call, call_again, known_type, refused};
use super::intervals::{self, is_interval};
use super::numerics::{Below, folded, is_numeric};
use super::time::{at_time_zone, date_part, is_midnight, of_days};
use super::{arithmetic, numerics, reals, shifted_sums, texts};
use crate::values::canonical;

/// Functions that give one of their arguments.
const CHOOSES: [&str; 8] = ["coalesce", "greatest", "ifnull", "least", "make_array", "nullif", "nvl", "nvl2"];

/// Functions of which DataFusion has other ones for decimals, with fewer digits.
const REALS: [&str; 3] = ["log", "pow", "power"];

/// A numeric that says nothing of its digits.
const BARE: DataType = DataType::Decimal128(38, 10);

/// What PostgreSQL means by a plan.
///
/// # Errors
///
/// It has no meaning here.
pub fn meant(plan: LogicalPlan) -> Result<LogicalPlan> {
    let meant = plan.transform_up_with_subqueries(|plan| {
        let inputs = plan.inputs();
        if let LogicalPlan::TableScan(_) = &plan {
            return Ok(Transformed::no(plan));
        }
        let schema: DFSchema = merge_schema(&inputs);
        let below: Vec<LogicalPlan> = inputs.into_iter().cloned().collect();
        let below: Vec<&LogicalPlan> = below.iter().collect();
        let names = NamePreserver::new(&plan);
        let fixed = matches!(plan, LogicalPlan::Values(_));
        let sorts = matches!(plan, LogicalPlan::Sort(_));
        let rule = Rule { below: Below { inputs: &below, schema: &schema } };
        let mapped = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let kind = if fixed { expr.get_type(&schema).ok() } else { None };
            let mut changed = expr.transform_up(|expr| rule.expr(expr))?;
            if sorts && changed.data.get_type(&schema).is_ok_and(|kind| matches!(kind, DataType::Interval(_))) {
                changed = Transformed::yes(intervals::key(changed.data));
            }
            // The columns of VALUES have their types already.
            if let Some(kind) = kind.filter(|kind| changed.data.get_type(&schema).is_ok_and(|is| is != *kind)) {
                changed = changed.update_data(|expr| cast(expr, kind));
            }
            Ok(changed.update_data(|expr| name.restore(expr)))
        })?;
        mapped.map_data(|plan| shifted_sums::over(fitted(reals::over(plan)?)?.recompute_schema()?))
    })?;
    Ok(meant.data)
}

/// What is written into a table has the types of its columns: those of the statement's may have
/// changed.
fn fitted(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Dml(mut change) = plan else { return Ok(plan) };
    let (table, rows) = (change.target.schema(), change.input.schema());
    let fits = |(field, row): (&FieldRef, &FieldRef)| field.data_type() == row.data_type();
    let same_length = table.fields().len() == rows.fields().len();
    if !same_length || table.fields().iter().zip(rows.fields()).all(fits) {
        return Ok(LogicalPlan::Dml(change));
    }
    let column = |((qualifier, row), field): ((Option<&TableReference>, &FieldRef), &FieldRef)| {
        let column = Expr::from((qualifier, row));
        match row.data_type() == field.data_type() {
            true => column,
            false => cast(column, field.data_type().clone()).alias_qualified(qualifier.cloned(), row.name()),
        }
    };
    let columns: Vec<Expr> = rows.iter().zip(table.fields()).map(column).collect();
    change.input = Arc::new(LogicalPlanBuilder::new_from_arc(change.input).project(columns)?.build()?);
    Ok(LogicalPlan::Dml(change))
}

/// The same for an expression over the rows of a plan.
pub(super) fn meant_over(expr: Expr, plan: &LogicalPlan) -> Result<Expr> {
    let rule = Rule { below: Below { inputs: &[plan], schema: plan.schema() } };
    Ok(expr.transform_up(|expr| rule.expr(expr))?.data)
}

struct Rule<'a> {
    below: Below<'a>,
}

impl Rule<'_> {
    fn kind(&self, expr: &Expr) -> Option<DataType> {
        if let Expr::ScalarFunction(function) = expr
            && let Some(kind) = known_type(&function.func)
        {
            return Some(kind.clone());
        }
        expr.get_type(self.below.schema).ok()
    }

    fn expr(&self, expr: Expr) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::BinaryExpr(binary) => self.binary(binary),
            Expr::Negative(inner) => self.negative(*inner),
            Expr::Cast(cast) => self.cast(cast),
            Expr::Between(between) => self.between(between),
            Expr::InList(list) => self.in_list(list),
            Expr::InSubquery(of) => self.in_subquery(of)?,
            Expr::ScalarSubquery(query) => Transformed::yes(Expr::ScalarSubquery(maybe_empty(query)?)),
            Expr::Case(case) => self.case(case),
            Expr::ScalarFunction(function) => self.function(self.of_reals(function)),
            Expr::AggregateFunction(function) => {
                let kind = function.params.args.first().and_then(|first| self.kind(first));
                let by_order = matches!(function.func.name(), "min" | "max");
                if by_order && matches!(kind, Some(DataType::Interval(_))) {
                    let name = function.func.name();
                    return Err(refused(format!(
                        "{name} of intervals is not answered here; write {name}(extract(epoch FROM x))"
                    )));
                }
                self.percentile(function)
            }
            other => Transformed::no(other),
        })
    }

    fn binary(&self, binary: BinaryExpr) -> Transformed<Expr> {
        let BinaryExpr { left, op, right } = binary;
        let (Some(one), Some(other)) = (self.kind(&left), self.kind(&right)) else {
            return Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }));
        };
        let (left, right) = (*left, *right);
        if let Some(literal) = folded(&left, op, &right) {
            return Transformed::yes(literal);
        }
        if reals::are_mixed([&one, &other]) {
            let (left, right) = (Box::new(reals::real(left, &one)), Box::new(reals::real(right, &other)));
            let binary = self.binary(BinaryExpr { left, op, right });
            return Transformed::yes(binary.data);
        }
        // Nothing is copied here: the left side of a long sum is as long.
        let adds = matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply);
        if let Some(kind) = whole(&one, &other).filter(|_| adds) {
            return Transformed::yes(arithmetic::checked((left, &one), op, (right, &other), &kind));
        }
        if adds
            && (one.is_decimal() || other.is_decimal())
            && let Some(digits) = arithmetic::digits((&left, &one))
            && let Some(other_digits) = arithmetic::digits((&right, &other))
        {
            return Transformed::yes(arithmetic::numeric((left, digits), op, (right, other_digits)));
        }
        // A numeric in PostgreSQL, which has no bigint without signs.
        let is_unsigned = one == DataType::UInt64 || other == DataType::UInt64;
        let changed = match op {
            _ if adds && is_unsigned && one.is_integer() && other.is_integer() => {
                let numeric = |side: &Expr| cast(side.clone(), canonical(&DataType::UInt64));
                Some(binary_expr(numeric(&left), op, numeric(&right)))
            }
            _ if adds => of_days(&left, &one, op, &right, &other),
            Operator::Divide if one.is_floating() || other.is_floating() => {
                let real = one == DataType::Float32 && other == DataType::Float32;
                let kind = if real { DataType::Float32 } else { DataType::Float64 };
                let is_number = |kind: &DataType| kind.is_numeric();
                (is_number(&one) && is_number(&other)).then(|| arithmetic::divided(left.clone(), right.clone(), &kind))
            }
            Operator::Divide if one.is_decimal() || other.is_decimal() => {
                arithmetic::numeric_divided((left.clone(), &one), (right.clone(), &other))
            }
            Operator::StringConcat => joined(&left, &one, &right, &other),
            _ if op.supports_propagation() || matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) => {
                let sides = self.comparable(vec![left.clone(), right.clone()]);
                sides.map(|mut sides| {
                    let right = Box::new(sides.pop().unwrap_or_else(|| right.clone()));
                    let left = Box::new(sides.pop().unwrap_or_else(|| left.clone()));
                    Expr::BinaryExpr(BinaryExpr { left, op, right })
                })
            }
            _ => None,
        };
        match changed {
            Some(changed) => Transformed::yes(changed),
            None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })),
        }
    }

    /// The sides of a comparison as values that compare as PostgreSQL's do; `None` if they do so.
    fn comparable(&self, sides: Vec<Expr>) -> Option<Vec<Expr>> {
        let kinds: Vec<DataType> = sides.iter().map(|side| self.kind(side)).collect::<Option<_>>()?;
        if reals::are_mixed(&kinds) {
            return Some(reals::unified(sides, &kinds));
        }
        if kinds.iter().all(is_interval) && !kinds.iter().all(|kind| matches!(kind, DataType::Duration(_))) {
            return Some(sides.into_iter().map(intervals::key).collect());
        }
        // A day that was made a moment for PostgreSQL's sake compares as the day that it is, and so
        // the statistics of a column of days still tell which files hold it.
        let day = |(side, kind): (&Expr, &DataType)| match side {
            Expr::Cast(cast) if is_midnight(cast) && self.kind(&cast.expr) == Some(DataType::Date32) => {
                Some((*cast.expr).clone())
            }
            side => (kind == &DataType::Date32).then(|| side.clone()),
        };
        let days: Option<Vec<Expr>> = sides.iter().zip(&kinds).map(day).collect();
        if days.is_some() && kinds.iter().any(|kind| kind != &DataType::Date32) {
            return days;
        }
        let moment = kinds.iter().find(|kind| matches!(kind, DataType::Timestamp(..)));
        let moment = moment.or_else(|| kinds.iter().find(|kind| matches!(kind, DataType::Date32)))?;
        if !sides.iter().zip(&kinds).any(|(side, kind)| is_literal_text(side, kind)) {
            return None;
        }
        let side = |(side, kind): (&Expr, &DataType)| match is_literal_text(side, kind) {
            true => texts::moment_of(side.clone(), moment),
            false => Some(side.clone()),
        };
        sides.iter().zip(&kinds).map(side).collect()
    }

    fn between(&self, between: Between) -> Transformed<Expr> {
        let Between { expr, negated, low, high } = between;
        let sides = self.comparable(vec![(*expr).clone(), (*low).clone(), (*high).clone()]);
        match sides.map(<[Expr; 3]>::try_from) {
            Some(Ok([expr, low, high])) => Transformed::yes(Expr::Between(Between {
                expr: Box::new(expr),
                negated,
                low: Box::new(low),
                high: Box::new(high),
            })),
            _ => Transformed::no(Expr::Between(Between { expr, negated, low, high })),
        }
    }

    fn in_list(&self, list: InList) -> Transformed<Expr> {
        let InList { expr, list, negated } = list;
        let mut sides = vec![(*expr).clone()];
        sides.extend(list.iter().cloned());
        match self.comparable(sides) {
            Some(mut sides) => {
                let rest = sides.split_off(1);
                let first = sides.pop().unwrap_or(*expr);
                Transformed::yes(Expr::InList(InList { expr: Box::new(first), list: rest, negated }))
            }
            None => Transformed::no(Expr::InList(InList { expr, list, negated })),
        }
    }

    /// The results of a CASE have one type, and so have the values that it compares.
    fn case(&self, case: Case) -> Transformed<Expr> {
        let Case { expr, when_then_expr, else_expr } = case;
        let (whens, thens): (Vec<_>, Vec<_>) = when_then_expr.into_iter().map(|(when, then)| (*when, *then)).unzip();
        let (compares, has_else) = (expr.is_some(), else_expr.is_some());
        let compared = expr.map(|expr| *expr).into_iter().chain(whens).collect();
        let results = thens.into_iter().chain(else_expr.map(|expr| *expr)).collect();
        let mut compared = if compares { self.unified(compared) } else { compared };
        let mut results = self.unified(results);
        let else_expr = has_else.then(|| results.pop().map(Box::new)).flatten();
        let expr = compares.then(|| Box::new(compared.remove(0)));
        let when_then_expr = compared.into_iter().zip(results).map(|(when, then)| (Box::new(when), Box::new(then)));
        Transformed::yes(Expr::Case(Case { expr, when_then_expr: when_then_expr.collect(), else_expr }))
    }

    /// These as doubles, if they are doubles and numerics.
    fn unified(&self, exprs: Vec<Expr>) -> Vec<Expr> {
        match exprs.iter().map(|expr| self.kind(expr)).collect::<Option<Vec<_>>>() {
            Some(kinds) => reals::unified(exprs, &kinds),
            None => exprs,
        }
    }

    /// A function that gives one of its arguments, or a double.
    fn of_reals(&self, mut function: ScalarFunction) -> ScalarFunction {
        if CHOOSES.contains(&function.name()) {
            function.args = self.unified(function.args);
        } else if REALS.contains(&function.name()) {
            let real = |expr: Expr| match self.kind(&expr) {
                Some(kind) => reals::real(expr, &kind),
                None => expr,
            };
            function.args = function.args.into_iter().map(real).collect();
        }
        function
    }

    /// The share of rows that a percentile names is a double to DataFusion.
    fn percentile(&self, mut function: AggregateFunction) -> Transformed<Expr> {
        if function.func.name().contains("percentile") {
            for share in function.params.args.iter_mut().skip(1) {
                if let Expr::Literal(value, _) = share {
                    let kind = value.data_type();
                    *share = reals::real(std::mem::take(share), &kind);
                }
            }
        }
        Transformed::yes(Expr::AggregateFunction(function))
    }

    fn in_subquery(&self, mut of: InSubquery) -> Result<Transformed<Expr>> {
        let inner = of.subquery.subquery.schema().field(0).data_type().clone();
        match self.kind(&of.expr) {
            Some(kind) if reals::are_mixed([&kind, &inner]) => {
                *of.expr = reals::real(std::mem::take(&mut *of.expr), &kind);
                of.subquery.subquery = reals::of_subquery(of.subquery.subquery)?;
                Ok(Transformed::yes(Expr::InSubquery(of)))
            }
            _ => Ok(Transformed::no(Expr::InSubquery(of))),
        }
    }

    fn negative(&self, inner: Expr) -> Transformed<Expr> {
        let zero = |kind: &DataType| ScalarValue::new_zero(kind).ok().map(|zero| Expr::Literal(zero, None));
        let from = self.kind(&inner);
        let checked = from.and_then(|from| {
            let kind = whole(&from, &from)?;
            Some(arithmetic::checked((zero(&kind)?, &kind), Operator::Minus, (inner.clone(), &from), &kind))
        });
        match checked {
            Some(checked) => Transformed::yes(checked),
            None => Transformed::no(Expr::Negative(Box::new(inner))),
        }
    }

    fn cast(&self, cast: Cast) -> Transformed<Expr> {
        let Some(from) = self.kind(&cast.expr) else { return Transformed::no(Expr::Cast(cast)) };
        let to = cast.field.data_type().clone();
        let inner = (*cast.expr).clone();
        let changed = match &to {
            DataType::Int16 | DataType::Int32 | DataType::Int64 if from.is_floating() || from.is_decimal() => {
                let away = from.is_decimal() || is_numeric(&inner, &self.below);
                Some(arithmetic::to_whole(inner, &to, away))
            }
            DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Float32
            | DataType::Float64
            | DataType::Boolean
            | DataType::Decimal128(..)
                if is_text(&from) =>
            {
                let digits = if to == BARE { numerics::in_ten_digits(inner) } else { inner };
                // Blanks around a number are none of it.
                Some(Expr::Cast(Cast::new(Box::new(btrim().call(vec![digits])), to.clone())))
            }
            DataType::List(_) if is_text(&from) => Some(texts::list_of(inner, &to)),
            DataType::Date32 | DataType::Timestamp(..) if is_text(&from) => texts::moment_of(inner, &to),
            DataType::Timestamp(_, Some(zone)) if zone.as_ref() != "+00:00" => at_time_zone(inner, &from, &to),
            DataType::Utf8 | DataType::Utf8View if has_own_text(&from) => Some(texts::text_of(inner)),
            DataType::Interval(_) if matches!(from, DataType::Duration(_)) => Some(intervals::in_days(inner)),
            _ => None,
        };
        match changed {
            Some(changed) => Transformed::yes(changed),
            None => Transformed::no(Expr::Cast(cast)),
        }
    }

    fn function(&self, function: ScalarFunction) -> Transformed<Expr> {
        let kinds: Vec<Option<DataType>> = function.args.iter().map(|argument| self.kind(argument)).collect();
        let changed = match (function.name(), function.args.as_slice(), kinds.as_slice()) {
            ("round", [number], [Some(kind)]) if kind.is_floating() => {
                (!is_numeric(number, &self.below)).then(|| arithmetic::to_even(number.clone()))
            }
            ("ln" | "log" | "log2" | "log10", [number], [Some(kind)]) if kind.is_numeric() => {
                Some(call_again(&function, vec![arithmetic::positive(number.clone())]))
            }
            ("date_part", [part, moment], [_, Some(kind)]) => date_part(&function, part, moment, kind),
            ("concat" | "concat_ws", arguments, _) => {
                let text = |(argument, kind): (&Expr, &Option<DataType>)| match kind {
                    Some(kind) if has_own_text(kind) || kind == &DataType::Boolean => texts::text_of(argument.clone()),
                    _ => argument.clone(),
                };
                let texts: Vec<Expr> = arguments.iter().zip(&kinds).map(text).collect();
                (texts != arguments).then(|| call_again(&function, texts))
            }
            ("character_length" | "length" | "char_length", [bytes], [Some(kind)]) if is_bytes(kind) => {
                Some(texts::bytes_in(bytes.clone()))
            }
            _ => None,
        };
        match changed {
            Some(changed) => Transformed::yes(changed),
            None => Transformed::no(Expr::ScalarFunction(function)),
        }
    }
}

/// A query that has one row or none: DataFusion takes its column for one without nulls. If it
/// belongs to the row outside, that is not so.
fn maybe_empty(mut query: Subquery) -> Result<Subquery> {
    let (qualifier, field) = query.subquery.schema().qualified_field(0);
    if field.is_nullable() || !query.outer_ref_columns.is_empty() {
        return Ok(query);
    }
    let run = |args: &ScalarFunctionArgs| Ok(args.args[0].clone());
    let value = call("or_null", Gives::Always(field.data_type().clone()), run, vec![Expr::from((qualifier, field))]);
    let value = value.alias_qualified(qualifier.cloned(), field.name());
    query.subquery = Arc::new(LogicalPlanBuilder::new_from_arc(query.subquery).project([value])?.build()?);
    Ok(query)
}

/// The type that two whole numbers are added in.
fn whole(one: &DataType, other: &DataType) -> Option<DataType> {
    let order = |kind: &DataType| match canonical(kind) {
        DataType::Int16 => Some(0),
        DataType::Int32 => Some(1),
        DataType::Int64 => Some(2),
        _ => None,
    };
    let widest = if order(one)? >= order(other)? { one } else { other };
    Some(canonical(widest))
}

/// `left || right` where one side is no text.
fn joined(left: &Expr, one: &DataType, right: &Expr, other: &DataType) -> Option<Expr> {
    let side = |expr: &Expr, kind: &DataType| match has_own_text(kind) {
        true => texts::text_of(expr.clone()),
        false => expr.clone(),
    };
    let is_other = |kind: &DataType| is_bytes(kind) || kind.is_nested();
    if is_other(one) || is_other(other) || !(has_own_text(one) || has_own_text(other)) {
        return None;
    }
    let (left, right) = (Box::new(side(left, one)), Box::new(side(right, other)));
    Some(Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }))
}

fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_bytes(kind: &DataType) -> bool {
    matches!(canonical(kind), DataType::BinaryView)
}

fn is_literal_text(expr: &Expr, kind: &DataType) -> bool {
    is_text(kind) && matches!(expr, Expr::Literal(..))
}

/// Whether values have another text in PostgreSQL than in Arrow.
fn has_own_text(kind: &DataType) -> bool {
    matches!(
        canonical(kind),
        DataType::Float32
            | DataType::Float64
            | DataType::BinaryView
            | DataType::Date32
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Interval(_)
            | DataType::Duration(_)
            | DataType::List(_)
    )
}
