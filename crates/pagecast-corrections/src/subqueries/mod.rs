//! Subqueries in expressions: three values, wherever they stand.
//!
//! DataFusion makes a subquery in a filter a semi, anti or mark join. A mark says true or false, so
//! `x IN (SELECT ...)` under OR, NOT, CASE or IS NULL is false where SQL says NULL
//! (<https://github.com/apache/datafusion/issues/8241>,
//! <https://github.com/apache/datafusion/issues/25347>). In a select list, an aggregate, a window,
//! ORDER BY and ON it is refused. Of a correlated subquery DataFusion takes the conditions out, and
//! so over LIMIT, windows and aggregates, which then are of all rows and not of those of one outer
//! row; or it refuses.
//!
//! This rule runs before and leaves to DataFusion what it does right, so that plain IN, EXISTS and
//! NOT IN in WHERE are the joins that they were. The others become [marks](marks), which say
//! whether there is a match, a NULL, or anything, over a subquery that is [of all outer rows at
//! once](domain). Needed for 55.2. This folder goes when mark joins have three values there, and
//! correlated subqueries are unnested in general.

mod domain;
mod free;
mod marks;
mod only_row;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, Result};
use datafusion::logical_expr::logical_plan::{Filter, Join};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use free::of_subqueries;
use marks::{Marked, Place, Truth};

/// Plans subqueries of which DataFusion's way gives wrong rows or none.
#[derive(Debug, Default)]
pub(crate) struct ThreeValued {
    names: Arc<Names>,
}

/// Names that no other part of a plan has.
#[derive(Debug, Default)]
struct Names(AtomicUsize);

impl Names {
    fn next(&self, what: &str) -> String {
        format!("__{what}_{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

impl AnalyzerRule for ThreeValued {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| self.rewrite(node)).map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        "three_valued_subqueries"
    }
}

impl ThreeValued {
    fn rewrite(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        if !node.expressions().iter().any(of_subqueries) {
            return Ok(Transformed::no(node));
        }
        match node {
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Sort(_) => {
                self.expressions(node)
            }
            other => Ok(Transformed::no(other)),
        }
    }

    /// The conditions without subqueries come first, so that those with one see fewer rows.
    fn filter(&self, filter: Filter) -> Result<Transformed<LogicalPlan>> {
        let conditions = split_conjunction_owned(filter.predicate.clone());
        let (with, without): (Vec<_>, Vec<_>) = conditions.into_iter().partition(of_subqueries);
        let mut below = LogicalPlanBuilder::from(Arc::clone(&filter.input));
        if let Some(without) = conjunction(without) {
            below = below.filter(without)?;
        }
        let mut marked = Marked::over(below.build()?, Place::Filter, &self.names);
        let with = with.into_iter().map(|condition| marked.condition(condition)).collect::<Result<Vec<_>>>()?;
        let Some(input) = marked.changed()? else { return Ok(Transformed::no(LogicalPlan::Filter(filter))) };
        let mut plan = LogicalPlanBuilder::from(input);
        if let Some(with) = conjunction(with) {
            plan = plan.filter(with)?;
        }
        let columns = filter.input.schema().columns().into_iter().map(Expr::Column);
        Ok(Transformed::yes(plan.project(columns)?.build()?))
    }

    fn expressions(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let place = match node {
            LogicalPlan::Projection(_) => Place::Projection,
            _ => Place::Other,
        };
        let input = node.inputs()[0].clone();
        let width = input.schema().fields().len();
        let mut marked = Marked::over(input, place, &self.names);
        let values = node.expressions().into_iter().map(|expr| marked.value(expr, Truth::Exact));
        let values = values.collect::<Result<Vec<_>>>()?;
        let Some(input) = marked.changed()? else { return Ok(Transformed::no(node)) };
        let added = input.schema().fields().len() - width;
        let (plan, schema) = (node.with_new_exprs(values, vec![input])?, node.schema());
        // What passes its input on passes the marks on, behind the input's columns.
        let passes = matches!(node, LogicalPlan::Window(_) | LogicalPlan::Sort(_));
        let places = (0..schema.fields().len()).map(|at| if passes && at >= width { at + added } else { at });
        Ok(Transformed::yes(domain::named_as(plan, places, schema, Vec::new())?))
    }

    /// A subquery in ON is of the side whose columns it has; of both sides of an inner join, it is
    /// a condition above.
    fn join(&self, join: Join) -> Result<Transformed<LogicalPlan>> {
        let kept = join.join_type != JoinType::RightMark;
        let Some(filter) = join.filter.clone().filter(|_| kept) else {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        };
        let left = Marked::over(join.left.as_ref().clone(), Place::Other, &self.names);
        let right = Marked::over(join.right.as_ref().clone(), Place::Other, &self.names);
        let (mut left, mut right) = (left.beside(join.right.schema()), right.beside(join.left.schema()));
        let (mut on, mut above) = (Vec::new(), Vec::new());
        for condition in split_conjunction_owned(filter) {
            let condition = left.value(condition, Truth::OfTrue)?;
            let condition = right.value(condition, Truth::OfTrue)?;
            if !of_subqueries(&condition) { on.push(condition) } else { above.push(condition) }
        }
        if !above.is_empty() && join.join_type != JoinType::Inner {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let (width, right_width) = (join.left.schema().fields().len(), join.right.schema().fields().len());
        let (left, right) = (left.into_plan()?, right.into_plan()?);
        let added = left.schema().fields().len() - width;
        let plan = LogicalPlan::Join(Join::try_new(
            Arc::new(left),
            Arc::new(right),
            join.on,
            conjunction(on),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?);
        let places: Vec<_> = match join.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti => (0..width).collect(),
            JoinType::LeftMark => (0..width).chain([width + added]).collect(),
            JoinType::RightSemi | JoinType::RightAnti => (0..right_width).collect(),
            _ => (0..width).chain((0..right_width).map(|at| width + added + at)).collect(),
        };
        let plan = domain::named_as(plan, places, &join.schema, Vec::new())?;
        match conjunction(above) {
            None => Ok(Transformed::yes(plan)),
            Some(above) => self.filter(Filter::try_new(above, Arc::new(plan))?).map(|plan| Transformed::yes(plan.data)),
        }
    }
}

/// A column of a schema by its place.
fn column(plan: &LogicalPlan, place: usize) -> Column {
    Column::from(plan.schema().qualified_field(place))
}
