//! Subqueries of expressions as columns of marks: joins below the node whose expressions they are.
//!
//! `x IN (S)` is true if a row of S is equal to x. Otherwise it is NULL if x is NULL and S has
//! rows, or if S has a NULL; else it is false. Each of the three is a mark; those that cannot be,
//! or do not matter where the expression stands, are not asked for.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, JoinType, Result, ScalarValue, plan_err};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Case, Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr, lit, scalar_subquery, when,
};

use super::domain::{Domain, one_row_each};
use super::free::{has_one_row, is_plain, is_plain_aggregate, of_plan, of_subqueries, references, subquery};
use super::{Names, column};

/// Which of three values matter where an expression stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    Exact,
    /// Whether it is true: NULL is as good as false.
    OfTrue,
    /// Whether it is false: NULL is as good as true.
    OfFalse,
}

impl Truth {
    fn negated(self) -> Self {
        match self {
            Self::Exact => Self::Exact,
            Self::OfTrue => Self::OfFalse,
            Self::OfFalse => Self::OfTrue,
        }
    }
}

/// The node whose expressions they are; DataFusion plans subqueries in the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Filter,
    Projection,
    Other,
}

/// The input of a node, and marks that have been joined to it.
pub(super) struct Marked<'a> {
    original: LogicalPlan,
    plan: LogicalPlan,
    place: Place,
    changed: bool,
    /// What has to be a column below a node that takes columns of subqueries alone.
    values: Vec<Expr>,
    names: &'a Arc<Names>,
    /// The other input of a join: what refers to it is not of this one.
    beside: Option<DFSchemaRef>,
}

/// A subquery for all outer rows at once.
struct Unnested {
    /// With one column, and those of the domain.
    plan: LogicalPlan,
    domain: Option<Domain>,
    /// Nothing in it is of an outer row, of this plan's or another's.
    closed: bool,
}

impl<'a> Marked<'a> {
    pub(super) fn over(plan: LogicalPlan, place: Place, names: &'a Arc<Names>) -> Self {
        Self { original: plan.clone(), plan, place, changed: false, values: Vec::new(), names, beside: None }
    }

    /// One input of a join.
    pub(super) fn beside(mut self, other: &DFSchemaRef) -> Self {
        self.beside = Some(Arc::clone(other));
        self
    }

    fn schema(&self) -> &DFSchema {
        self.original.schema()
    }

    /// The input with marks, if there are some or an expression has become another.
    pub(super) fn changed(self) -> Result<Option<LogicalPlan>> {
        if self.changed { self.into_plan().map(Some) } else { Ok(None) }
    }

    pub(super) fn into_plan(mut self) -> Result<LogicalPlan> {
        self.with_values()
    }

    fn with_values(&mut self) -> Result<LogicalPlan> {
        let values = std::mem::take(&mut self.values);
        if values.is_empty() {
            return Ok(self.plan.clone());
        }
        let columns = self.plan.schema().columns().into_iter().map(Expr::Column).chain(values);
        LogicalPlanBuilder::from(self.plan.clone()).project(columns)?.build()
    }

    /// One of a filter's conditions, all of which must be true. DataFusion has joins for some.
    pub(super) fn condition(&mut self, expr: Expr) -> Result<Expr> {
        let (inner, not) = if let Expr::Not(inner) = &expr { (inner.as_ref(), true) } else { (&expr, false) };
        let is_join = match inner {
            Expr::InSubquery(InSubquery { expr: left, subquery, negated }) => {
                let joins = match self.known(subquery)? {
                    None => false,
                    // A null-aware anti join has a key of one column.
                    Some(free) if *negated != not => free.is_empty() && left.any_column_refs(),
                    Some(free) => free.is_empty() || is_plain(&subquery.subquery),
                };
                joins && !of_subqueries(left) && !left.contains_outer()
            }
            Expr::Exists(Exists { subquery, .. }) => {
                self.known(subquery)?.is_some_and(|free| free.is_empty() || is_plain(&subquery.subquery))
            }
            _ => false,
        };
        if is_join { Ok(expr) } else { self.value(expr, Truth::OfTrue) }
    }

    /// What a subquery refers to outside of itself, if all that is here.
    fn known(&self, subquery: &Subquery) -> Result<Option<BTreeSet<Column>>> {
        let free = of_plan(&subquery.subquery)?;
        Ok(free.iter().all(|column| self.schema().has_column(column)).then_some(free))
    }

    /// An expression with columns of marks for those subqueries that DataFusion does not plan
    /// rightly.
    pub(super) fn value(&mut self, expr: Expr, truth: Truth) -> Result<Expr> {
        match expr {
            expr if !of_subqueries(&expr) => Ok(expr),
            Expr::BinaryExpr(mut binary) if matches!(binary.op, Operator::And | Operator::Or) => {
                *binary.left = self.value(*binary.left, truth)?;
                *binary.right = self.value(*binary.right, truth)?;
                Ok(Expr::BinaryExpr(binary))
            }
            Expr::Not(inner) => match *inner {
                Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                    self.value(Expr::InSubquery(InSubquery { expr, subquery, negated: !negated }), truth)
                }
                inner => Ok(Expr::Not(Box::new(self.value(inner, truth.negated())?))),
            },
            Expr::IsTrue(inner) => Ok(Expr::IsTrue(Box::new(self.value(*inner, Truth::OfTrue)?))),
            Expr::IsNotTrue(inner) => Ok(Expr::IsNotTrue(Box::new(self.value(*inner, Truth::OfTrue)?))),
            Expr::IsFalse(inner) => Ok(Expr::IsFalse(Box::new(self.value(*inner, Truth::OfFalse)?))),
            Expr::IsNotFalse(inner) => Ok(Expr::IsNotFalse(Box::new(self.value(*inner, Truth::OfFalse)?))),
            Expr::Case(case) => self.case(case, truth),
            expr if subquery(&expr).is_some() => self.of_subquery(expr, truth),
            other => {
                let children = other.map_children(|child| self.value(child, Truth::Exact).map(Transformed::yes));
                children.map(|expr| expr.data)
            }
        }
    }

    fn is_of_other(&self, expr: &Expr) -> Result<bool> {
        let Some(beside) = &self.beside else { return Ok(false) };
        let known = |column: &Column| beside.has_column(column) && !self.schema().has_column(column);
        Ok(references(expr)?.iter().any(known))
    }

    fn of_subquery(&mut self, expr: Expr, truth: Truth) -> Result<Expr> {
        if self.is_of_other(&expr)? {
            return Ok(expr);
        }
        let before = expr.clone();
        let value = match expr {
            Expr::InSubquery(InSubquery { expr, subquery, negated: false }) => {
                self.compared(*expr, Operator::Eq, &subquery, truth)
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated: true }) => {
                Ok(Expr::Not(Box::new(self.compared(*expr, Operator::Eq, &subquery, truth.negated())?)))
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier: SetQuantifier::Any }) => {
                self.compared(*expr, op, &subquery, truth)
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier: SetQuantifier::All }) => {
                let Some(op) = op.negate() else { return plan_err!("{op} ALL (a subquery) has no meaning") };
                Ok(Expr::Not(Box::new(self.compared(*expr, op, &subquery, truth.negated())?)))
            }
            Expr::Exists(Exists { subquery, negated }) => {
                let unnested = self.unnested(&subquery, true)?;
                let exists = self.any(&unnested, None, None)?;
                Ok(if negated { Expr::Not(Box::new(exists)) } else { exists })
            }
            Expr::ScalarSubquery(subquery) => self.scalar(subquery),
            other => Ok(other),
        }?;
        self.changed |= value != before;
        if self.place != Place::Other {
            return Ok(value);
        }
        let name = self.names.next("value");
        self.values.push(value.alias(&name));
        Ok(Expr::Column(Column::new_unqualified(name)))
    }

    fn case(&mut self, case: Case, truth: Truth) -> Result<Expr> {
        let Case { expr, when_then_expr, else_expr } = case;
        let of_when = if expr.is_some() { Truth::Exact } else { Truth::OfTrue };
        let expr = expr.map(|expr| self.value(*expr, Truth::Exact).map(Box::new)).transpose()?;
        let branch = |(when, then): (Box<Expr>, Box<Expr>)| {
            Ok((Box::new(self.value(*when, of_when)?), Box::new(self.value(*then, truth)?)))
        };
        let when_then_expr = when_then_expr.into_iter().map(branch).collect::<Result<_>>()?;
        let else_expr = else_expr.map(|expr| self.value(*expr, truth).map(Box::new)).transpose()?;
        Ok(Expr::Case(Case { expr, when_then_expr, else_expr }))
    }

    /// Whether a row of a subquery compares with an expression; NULL if that is not known.
    fn compared(&mut self, left: Expr, op: Operator, subquery: &Subquery, truth: Truth) -> Result<Expr> {
        let left = self.value(left, Truth::Exact)?;
        // What it has become is to be below the join.
        self.plan = self.with_values()?;
        let unnested = self.unnested(subquery, false)?;
        let (_, field) = unnested.plan.schema().qualified_field(unnested.plan.schema().fields().len() - 1);
        let (left_nulls, right_nulls) = (left.nullable(self.plan.schema())?, field.is_nullable());
        let found = self.any(&unnested, Some((&left, op)), None)?;
        if truth == Truth::OfTrue {
            return Ok(found);
        }
        let mut unknown = Vec::new();
        if left_nulls {
            unknown.push(left.is_null().and(self.any(&unnested, None, None)?));
        }
        if right_nulls {
            unknown.push(self.any(&unnested, None, Some(Expr::is_null))?);
        }
        let Some(unknown) = unknown.into_iter().reduce(Expr::or) else { return Ok(found) };
        match truth {
            Truth::OfFalse => Ok(found.or(unknown)),
            _ => when(found, lit(true)).when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(false)),
        }
    }

    /// Whether there is a row for each outer row: any, one that compares, or one whose value is
    /// such.
    fn any(
        &mut self,
        unnested: &Unnested,
        compared: Option<(&Expr, Operator)>,
        such: Option<fn(Expr) -> Expr>,
    ) -> Result<Expr> {
        let alias = self.names.next("subquery");
        let last = unnested.plan.schema().fields().len() - 1;
        let mut plan = LogicalPlanBuilder::from(unnested.plan.clone());
        let value = Expr::Column(column(&unnested.plan, last));
        if let Some(such) = such {
            plan = plan.filter(such(value.clone()))?;
        }
        // One answer for all rows is asked for once.
        if unnested.closed && compared.is_none_or(|(left, _)| !left.any_column_refs()) {
            if let Some((left, op)) = compared {
                plan = plan.filter(binary_expr(left.clone(), op, value))?;
            }
            let rows = plan.limit(0, Some(1))?.aggregate(Vec::<Expr>::new(), [count(lit(1_i64))])?.build()?;
            return Ok(scalar_subquery(Arc::new(rows)).gt(lit(0_i64)));
        }
        if unnested.closed && compared.is_none() {
            plan = plan.limit(0, Some(1))?;
        }
        let right = plan.alias(alias.clone())?.build()?;
        let value = Expr::Column(column(&right, last));
        let mut on: Vec<_> = unnested.domain.iter().flat_map(|domain| domain.matches(Some(&alias))).collect();
        on.extend(compared.map(|(left, op)| binary_expr(left.clone(), op, value)));
        if on.is_empty() {
            on.push(lit(true));
        }
        self.plan = LogicalPlanBuilder::from(self.plan.clone()).join_on(right, JoinType::LeftMark, on)?.build()?;
        Ok(Expr::Column(Column::new(Some(alias), "mark")))
    }

    /// The value of a subquery for each outer row.
    fn scalar(&mut self, subquery: Subquery) -> Result<Expr> {
        let free = self.known(&subquery)?;
        let plan = subquery.subquery.as_ref();
        if free.as_ref().is_some_and(BTreeSet::is_empty) {
            // No row is NULL, though the column may never be.
            if plan.schema().field(0).is_nullable() || has_one_row(plan) {
                return Ok(Expr::ScalarSubquery(subquery));
            }
            return Ok(scalar_subquery(Arc::new(one_row_each(plan.clone(), Vec::new())?)));
        }
        if free.is_some() && self.place != Place::Other && is_plain_aggregate(plan) {
            return Ok(Expr::ScalarSubquery(subquery));
        }
        let unnested = self.unnested(&subquery, false)?;
        let alias = self.names.next("subquery");
        let keys = unnested.domain.as_ref().map(Domain::columns).unwrap_or_default();
        let right = one_row_each(unnested.plan, keys)?;
        let right = LogicalPlanBuilder::from(right).alias(alias.clone())?.build()?;
        let value = Expr::Column(column(&right, right.schema().fields().len() - 1));
        let mut on: Vec<_> = unnested.domain.iter().flat_map(|domain| domain.matches(Some(&alias))).collect();
        if on.is_empty() {
            on.push(lit(true));
        }
        self.plan = LogicalPlanBuilder::from(self.plan.clone()).join_on(right, JoinType::Left, on)?.build()?;
        Ok(value)
    }

    fn unnested(&self, subquery: &Subquery, rows_alone: bool) -> Result<Unnested> {
        let plan = subquery.subquery.as_ref();
        let free = of_plan(plan)?;
        let closed = free.is_empty();
        let outer: Vec<_> = free.into_iter().filter(|column| self.schema().has_column(column)).collect();
        let value = if rows_alone { lit(true) } else { Expr::Column(column(plan, 0)) };
        if outer.is_empty() {
            let plan = LogicalPlanBuilder::from(plan.clone()).project([value.alias("value")])?.build()?;
            return Ok(Unnested { plan, domain: None, closed });
        }
        let domain = Domain::of(&self.original, outer, self.names)?;
        let plan = domain.under(plan)?;
        let columns = domain.columns().into_iter().chain([value.alias("value")]);
        let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
        Ok(Unnested { plan, domain: Some(domain), closed: false })
    }
}
