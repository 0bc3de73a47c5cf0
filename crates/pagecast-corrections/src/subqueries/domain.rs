//! A correlated subquery for all outer rows at once.
//!
//! The domain is the distinct values of the outer columns that a subquery refers to. It is joined
//! where the subquery reads, and from there each node keeps its columns: an aggregate has a group,
//! a window a partition, LIMIT a count for each outer row (Neumann and Kemper, "Unnesting Arbitrary
//! Queries", 2015). Deviation: the domain stands at every leaf below which nothing is correlated;
//! DataFusion's optimizer makes the cross product there and the conditions above it a join.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, Result, TableReference, not_impl_err};
use datafusion::functions_aggregate::expr_fn::{count, first_value};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::logical_plan::{Aggregate, Distinct, Join, Limit, Union, Window};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, FetchType, LogicalPlan, LogicalPlanBuilder, Operator, ScalarUDF, SkipType, SortExpr,
    binary_expr, col, lit,
};

use super::free::of_plan;
use super::only_row::OnlyRow;
use super::{Names, column};

/// The distinct values of the outer columns of a subquery.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    plan: LogicalPlan,
    /// Outer columns, and how they are called here.
    columns: Vec<(Column, Column)>,
    names: Arc<Names>,
}

impl Domain {
    pub(super) fn of(outer: &LogicalPlan, columns: Vec<Column>, names: &Arc<Names>) -> Result<Self> {
        let columns: Vec<_> =
            columns.into_iter().map(|column| (column, Column::new_unqualified(names.next("outer")))).collect();
        let values = columns.iter().map(|(outer, here)| Expr::Column(outer.clone()).alias(&here.name));
        let plan = LogicalPlanBuilder::from(outer.clone()).project(values)?.distinct()?.build()?;
        Ok(Self { plan, columns, names: Arc::clone(names) })
    }

    pub(super) fn columns(&self) -> Vec<Expr> {
        self.columns.iter().map(|(_, here)| Expr::Column(here.clone())).collect()
    }

    /// Conditions under which a row below an alias is one of an outer row.
    pub(super) fn matches(&self, alias: Option<&str>) -> Vec<Expr> {
        let here = |column: &Column| Expr::Column(Column::new(alias, column.name.clone()));
        self.columns.iter().map(|(outer, column)| same(Expr::Column(outer.clone()), here(column))).collect()
    }

    /// The same values by other names: no two sides of a join have columns of one name.
    fn again(&self) -> Result<Self> {
        let columns: Vec<_> = self
            .columns
            .iter()
            .map(|(outer, _)| (outer.clone(), Column::new_unqualified(self.names.next("outer"))))
            .collect();
        let values = self.columns().into_iter().zip(&columns).map(|(value, (_, here))| value.alias(&here.name));
        let plan = LogicalPlanBuilder::from(self.plan.clone()).project(values)?.build()?;
        Ok(Self { plan, columns, names: Arc::clone(&self.names) })
    }

    fn same_as(&self, other: &Self, alias: Option<&TableReference>) -> Vec<Expr> {
        let other = other.columns.iter().map(|(_, column)| Expr::Column(Column::new(alias.cloned(), &column.name)));
        self.columns().into_iter().zip(other).map(|(one, other)| same(one, other)).collect()
    }

    fn is_in(&self, plan: &LogicalPlan) -> Result<bool> {
        let free = of_plan(plan)?;
        Ok(self.columns.iter().any(|(outer, _)| free.contains(outer)))
    }

    fn named(&self, expr: Expr) -> Result<Expr> {
        let named = expr.transform(|expr| {
            Ok(match &expr {
                Expr::OuterReferenceColumn(_, outer) => match self.columns.iter().find(|(known, _)| known == outer) {
                    Some((_, here)) => Transformed::yes(Expr::Column(here.clone())),
                    None => Transformed::no(expr),
                },
                _ => Transformed::no(expr),
            })
        });
        named.map(|expr| expr.data)
    }

    fn all_named(&self, exprs: &[Expr]) -> Result<Vec<Expr>> {
        exprs.iter().cloned().map(|expr| self.named(expr)).collect()
    }

    /// Expressions that give columns of a schema, called as these.
    fn columns_named(&self, exprs: &[Expr], schema: &DFSchema) -> Result<Vec<Expr>> {
        let named = exprs.iter().zip(schema.iter()).map(|(expr, (qualifier, field))| {
            let named = self.named(expr.clone())?;
            if named == *expr {
                Ok(named)
            } else {
                Ok(named.unalias().alias_qualified(qualifier.cloned(), field.name()))
            }
        });
        named.collect()
    }

    /// A plan for each value of the domain: its columns stand before those of the plan.
    pub(super) fn under(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        if !self.is_in(plan)? {
            return LogicalPlanBuilder::from(self.plan.clone()).cross_join(plan.clone())?.build();
        }
        let width = self.columns.len();
        let under = match plan {
            LogicalPlan::Projection(projection) => {
                let values = self.columns().into_iter().chain(self.columns_named(&projection.expr, plan.schema())?);
                LogicalPlanBuilder::from(self.under(&projection.input)?).project(values)?.build()?
            }
            LogicalPlan::Filter(filter) => LogicalPlanBuilder::from(self.under(&filter.input)?)
                .filter(self.named(filter.predicate.clone())?)?
                .build()?,
            LogicalPlan::SubqueryAlias(alias) => self.under(&alias.input)?,
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate)?,
            LogicalPlan::Window(window) => self.window(window)?,
            // Order matters below LIMIT alone.
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.under(&sort.input)?,
            LogicalPlan::Limit(limit) => self.limit(limit)?,
            LogicalPlan::Distinct(Distinct::All(input)) => {
                LogicalPlanBuilder::from(self.under(input)?).distinct()?.build()?
            }
            LogicalPlan::Union(union) => {
                let inputs = union.inputs.iter().map(|input| self.under(input).map(Arc::new));
                LogicalPlan::Union(Union::try_new(inputs.collect::<Result<_>>()?)?)
            }
            LogicalPlan::Join(join) => return self.join(join),
            other => {
                return not_impl_err!(
                    "a subquery that refers to the row outside of it has {}: write it as a join",
                    other.display()
                );
            }
        };
        named_as(under, width.., plan.schema(), self.columns())
    }

    fn aggregate(&self, aggregate: &Aggregate) -> Result<LogicalPlan> {
        if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
            return not_impl_err!(
                "GROUPING SETS in a subquery that refers to the row outside of it: write it as a join"
            );
        }
        let values = self.all_named(&aggregate.aggr_expr)?;
        if !aggregate.group_expr.is_empty() {
            let groups = self.columns_named(&aggregate.group_expr, &aggregate.schema)?;
            let groups = self.columns().into_iter().chain(groups);
            return LogicalPlanBuilder::from(self.under(&aggregate.input)?).aggregate(groups, values)?.build();
        }
        // No rows are a row of the aggregate, also for an outer row that has none.
        let (other, present) = (self.again()?, self.names.next("present"));
        let rows = other.under(&aggregate.input)?;
        let columns = rows.schema().columns().into_iter().map(Expr::Column).chain([lit(true).alias(&present)]);
        let rows = LogicalPlanBuilder::from(rows).project(columns)?.build()?;
        let rows = LogicalPlanBuilder::from(self.plan.clone())
            .join_on(rows, JoinType::Left, self.same_as(&other, None))?
            .build()?;
        let present = Expr::Column(Column::new_unqualified(present)).is_not_null();
        let of_present = |expr: Expr| {
            expr.transform(|expr| {
                let Expr::AggregateFunction(mut function) = expr else { return Ok(Transformed::no(expr)) };
                let filter = function.params.filter.take().map(|filter| filter.and(present.clone()));
                function.params.filter = Some(Box::new(filter.unwrap_or_else(|| present.clone())));
                Ok(Transformed::yes(Expr::AggregateFunction(function)))
            })
            .map(|expr| expr.data)
        };
        let values = values.into_iter().map(of_present).collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(rows).aggregate(self.columns(), values)?.build()
    }

    fn window(&self, window: &Window) -> Result<LogicalPlan> {
        let partitioned = |expr: Expr| {
            let within = expr.transform(|expr| {
                let Expr::WindowFunction(mut function) = expr else { return Ok(Transformed::no(expr)) };
                function.params.partition_by.extend(self.columns());
                Ok(Transformed::yes(Expr::WindowFunction(function)))
            });
            within.map(|expr| expr.data)
        };
        let values = self.all_named(&window.window_expr)?.into_iter().map(partitioned).collect::<Result<Vec<_>>>()?;
        let input = self.under(&window.input)?;
        Ok(LogicalPlan::Window(Window::try_new(values, Arc::new(input))?))
    }

    /// LIMIT as a condition on the number that a row has among those of its outer row.
    fn limit(&self, limit: &Limit) -> Result<LogicalPlan> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) = (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return not_impl_err!("LIMIT of an expression in a subquery that refers to the row outside of it");
        };
        if let LogicalPlan::Projection(projection) = limit.input.as_ref() {
            let below = Limit { input: Arc::clone(&projection.input), ..limit.clone() };
            let above = limit.input.with_new_exprs(projection.expr.clone(), vec![LogicalPlan::Limit(below)])?;
            return self.under(&above);
        }
        let (order, rows): (Vec<SortExpr>, _) = match limit.input.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => (sort.expr.clone(), &sort.input),
            _ => (Vec::new(), &limit.input),
        };
        let order = order.into_iter().map(|by| Ok(SortExpr { expr: self.named(by.expr)?, ..by }));
        let number = self.names.next("number");
        let numbered = row_number()
            .partition_by(self.columns())
            .order_by(order.collect::<Result<Vec<_>>>()?)
            .build()?
            .alias(&number);
        let number = Expr::Column(Column::new_unqualified(number));
        let mut kept = number.clone().gt(lit(skip as u64));
        if let Some(fetch) = fetch {
            kept = kept.and(number.lt_eq(lit(skip.saturating_add(fetch) as u64)));
        }
        LogicalPlanBuilder::from(self.under(rows)?).window([numbered])?.filter(kept)?.build()
    }

    fn join(&self, join: &Join) -> Result<LogicalPlan> {
        let kind = join.join_type;
        let (left_kept, right_kept) = match kind {
            JoinType::Inner => (false, false),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (true, false),
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => (false, true),
            JoinType::Full | JoinType::RightMark => {
                return not_impl_err!("a {kind} JOIN in a subquery that refers to the row outside of it");
            }
        };
        let right_under = right_kept || self.is_in(&join.right)?;
        let left_under = left_kept || self.is_in(&join.left)? || !right_under;
        let other = self.again()?;
        let (of_left, of_right) = if right_kept { (&other, self) } else { (self, &other) };
        let of_right = if left_under { of_right } else { self };
        let left = if left_under { of_left.under(&join.left)? } else { join.left.as_ref().clone() };
        let mut right = if right_under { of_right.under(&join.right)? } else { join.right.as_ref().clone() };
        // A mark is called by the alias that all columns on the right have.
        let mark = join.schema.qualified_field(join.schema.fields().len() - 1).0.filter(|_| kind == JoinType::LeftMark);
        if let Some(mark) = mark {
            right = LogicalPlanBuilder::from(right).alias(mark.clone())?.build()?;
        }
        let mut filter = join.filter.clone().map(|filter| self.named(filter)).transpose()?;
        if left_under && right_under {
            filter = filter.into_iter().chain(self.same_as(&other, mark)).reduce(Expr::and);
        }
        let before = |is_under: bool| if is_under { self.columns.len() } else { 0 };
        let (left_width, right_width) = (join.left.schema().fields().len(), join.right.schema().fields().len());
        let left_places = before(left_under)..before(left_under) + left_width;
        let right_places = |start: usize| start + before(right_under)..start + before(right_under) + right_width;
        let places: Vec<_> = match kind {
            JoinType::LeftSemi | JoinType::LeftAnti => left_places.collect(),
            JoinType::LeftMark => left_places.clone().chain([left_places.end]).collect(),
            JoinType::RightSemi | JoinType::RightAnti => right_places(0).collect(),
            _ => left_places.clone().chain(right_places(left_places.end)).collect(),
        };
        let (left, right) = (Arc::new(left), Arc::new(right));
        let (on, constraint) = (join.on.clone(), join.join_constraint);
        let under = Join::try_new(left, right, on, filter, kind, constraint, join.null_equality, join.null_aware)?;
        named_as(LogicalPlan::Join(under), places, &join.schema, self.columns())
    }
}

fn same(one: Expr, other: Expr) -> Expr {
    binary_expr(one, Operator::IsNotDistinctFrom, other)
}

/// Columns of a plan by their places, called as in a schema, behind others.
pub(super) fn named_as(
    plan: LogicalPlan,
    places: impl IntoIterator<Item = usize>,
    schema: &DFSchema,
    first: Vec<Expr>,
) -> Result<LogicalPlan> {
    let named = schema.iter().zip(places).map(|((qualifier, field), place)| {
        let found = column(&plan, place);
        if found.relation.as_ref() == qualifier && found.name == *field.name() {
            return Expr::Column(found);
        }
        Expr::Column(found).alias_qualified(qualifier.cloned(), field.name())
    });
    let columns: Vec<_> = first.into_iter().chain(named).collect();
    if columns.iter().eq(plan.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>().iter()) {
        return Ok(plan);
    }
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// The value of a scalar subquery, the last column, for each value of the domain.
pub(super) fn one_row_each(plan: LogicalPlan, keys: Vec<Expr>) -> Result<LogicalPlan> {
    let value = Expr::Column(column(&plan, plan.schema().fields().len() - 1));
    let (first, rows) = (first_value(value, vec![]).alias("first"), count(lit(1_i64)).alias("rows"));
    let columns = keys.clone();
    let only = ScalarUDF::from(OnlyRow::default()).call(vec![col("first"), col("rows")]).alias("value");
    LogicalPlanBuilder::from(plan).aggregate(keys, [first, rows])?.project(columns.into_iter().chain([only]))?.build()
}
