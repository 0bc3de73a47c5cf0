//! Aggregates of distinct values, each by itself, which goes to disk.
//!
//! `count(DISTINCT x)` alone is planned as a count of groups, and groups spill. Beside an aggregate
//! of another kind, or of other values, it keeps a set of values in memory for each group. Where
//! that is too much, each is computed by a plan of its own, and these are joined by their groups.
//! The rows below are read once for each of them.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, JoinType, LogicalPlan, LogicalPlanBuilder, col};

/// What the node is called where memory is counted.
pub(crate) const AGGREGATE: &str = "AggregateStream";

/// Aggregates that give the same in whatever order rows come; of floats not even these.
const SAME: [&str; 4] = ["count", "max", "min", "sum"];

/// The plan with such aggregates apart; `None` if it has none that can be.
pub(crate) fn apart(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let apart = plan.clone().transform_up_with_subqueries(|node| {
        let LogicalPlan::Aggregate(aggregate) = &node else { return Ok(Transformed::no(node)) };
        match parts(aggregate) {
            Some(parts) if is_repeatable(aggregate)? => joined(aggregate, &parts).map(Transformed::yes),
            _ => Ok(Transformed::no(node)),
        }
    })?;
    Ok(apart.transformed.then_some(apart.data))
}

/// The aggregates that are computed together, by their numbers; `None` where that is all of them.
fn parts(aggregate: &Aggregate) -> Option<Vec<Vec<usize>>> {
    let (mut others, mut parts): (_, Vec<(&Expr, Vec<usize>)>) = (Vec::new(), Vec::new());
    for (number, expr) in aggregate.aggr_expr.iter().enumerate() {
        match distinct(expr) {
            Some(of) => match parts.iter_mut().find(|(known, _)| *known == of) {
                Some((_, part)) => part.push(number),
                None => parts.push((of, vec![number])),
            },
            None => others.push(number),
        }
    }
    if parts.is_empty() {
        return None;
    }
    let parts = parts.into_iter().map(|(_, part)| part).chain([others]);
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
    // What is computed may become an expression with another name, which is not planned as groups.
    let is_computed = distinct(&aggregate.aggr_expr[0]).is_some_and(|of| !matches!(of, Expr::Column(_)));
    (parts.len() > 1 || is_computed).then_some(parts)
}

/// What the aggregate takes distinct values of, if it is planned as one of groups.
fn distinct(expr: &Expr) -> Option<&Expr> {
    // What was another expression before keeps its name.
    let expr = if let Expr::Alias(alias) = expr { &alias.expr } else { expr };
    let Expr::AggregateFunction(AggregateFunction { params, .. }) = expr else { return None };
    match &params.args[..] {
        [of] if params.distinct && params.filter.is_none() && params.order_by.is_empty() => Some(of),
        _ => None,
    }
}

/// Whether the rows and groups below are the same each time, and groups equal where a join says so.
fn is_repeatable(aggregate: &Aggregate) -> Result<bool> {
    let is_plain = |kind: &DataType| !kind.is_floating() && !kind.is_nested();
    let groups = aggregate.schema.fields().iter().take(aggregate.group_expr.len());
    if matches!(aggregate.group_expr[..], [Expr::GroupingSet(_), ..])
        || groups.into_iter().any(|field| !is_plain(field.data_type()))
    {
        return Ok(false);
    }
    let differs = |node: &LogicalPlan| {
        let is_known = match node {
            LogicalPlan::TableScan(scan) => scan.fetch.is_none(),
            LogicalPlan::Aggregate(below) => {
                let mut aggregates = below.schema.fields().iter().skip(below.group_expr.len());
                aggregates.all(|field| is_plain(field.data_type())) && below.aggr_expr.iter().all(is_the_same)
            }
            LogicalPlan::Sort(sort) => sort.fetch.is_none(),
            LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::Join(_) => true,
            LogicalPlan::SubqueryAlias(_) | LogicalPlan::Union(_) | LogicalPlan::Values(_) => true,
            LogicalPlan::EmptyRelation(_) => true,
            _ => false,
        };
        Ok(!is_known || node.expressions().iter().any(depends))
    };
    let own = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
    Ok(!own.into_iter().any(depends) && !aggregate.input.exists(differs)?)
}

/// Whether an aggregate of numbers or texts does not depend on the order of its rows.
fn is_the_same(aggregate: &Expr) -> bool {
    let aggregate = if let Expr::Alias(alias) = aggregate { &alias.expr } else { aggregate };
    matches!(aggregate, Expr::AggregateFunction(of) if SAME.contains(&of.func.name()))
}

/// Whether an expression may differ each time, or is of another statement than the rows.
fn depends(expr: &Expr) -> bool {
    let is_of_another = |expr: &Expr| {
        let is_query = matches!(expr, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_));
        Ok(is_query || matches!(expr, Expr::SetComparison(_) | Expr::OuterReferenceColumn(..)))
    };
    expr.is_volatile() || expr.exists(is_of_another).unwrap_or(true)
}

/// The column of which an aggregate takes distinct values.
const VALUES: &str = "__values";

fn of_values(aggregate: Expr) -> Expr {
    let mut aggregate = aggregate.unalias();
    if let Expr::AggregateFunction(AggregateFunction { params, .. }) = &mut aggregate {
        params.args = vec![col(VALUES)];
    }
    aggregate
}

/// The parts, joined by their groups, with the columns of the aggregate.
fn joined(aggregate: &Aggregate, parts: &[Vec<usize>]) -> Result<LogicalPlan> {
    let groups = aggregate.group_expr.len();
    let group = |part: usize, number: usize| format!("__group_{part}_{number}");
    let value = |number: usize| format!("__value_{number}");
    let plan_of = |part: usize, numbers: &[usize]| {
        let aggregates: Vec<_> = numbers.iter().map(|&number| aggregate.aggr_expr[number].clone()).collect();
        let of_part = match distinct(&aggregates[0]) {
            Some(of) => {
                let keys = aggregate.group_expr.iter().enumerate();
                let keys = keys.map(|(number, key)| key.clone().unalias().alias(group(part, number)));
                let columns = keys.chain([of.clone().alias(VALUES)]);
                let input = LogicalPlanBuilder::from(aggregate.input.as_ref().clone()).project(columns)?.build()?;
                let keys = (0..groups).map(|number| col(group(part, number))).collect();
                Aggregate::try_new(Arc::new(input), keys, aggregates.into_iter().map(of_values).collect())?
            }
            None => Aggregate::try_new(Arc::clone(&aggregate.input), aggregate.group_expr.clone(), aggregates)?,
        };
        let columns: Vec<Column> = of_part.schema.columns();
        let names = (0..groups).map(|number| group(part, number)).chain(numbers.iter().map(|&number| value(number)));
        let columns = columns.into_iter().zip(names).map(|(column, name)| Expr::Column(column).alias(name));
        LogicalPlanBuilder::from(LogicalPlan::Aggregate(of_part)).project(columns.collect::<Vec<_>>())
    };
    let mut plan = plan_of(0, &parts[0])?;
    for (part, numbers) in parts.iter().enumerate().skip(1) {
        let other = plan_of(part, numbers)?.build()?;
        let keys = |part: usize| (0..groups).map(|number| Column::from_name(group(part, number))).collect::<Vec<_>>();
        plan = match groups {
            0 => plan.cross_join(other)?,
            _ => {
                plan.join_detailed(other, JoinType::Inner, (keys(0), keys(part)), None, NullEquality::NullEqualsNull)?
            }
        };
    }
    let names = (0..groups).map(|number| group(0, number)).chain((0..aggregate.aggr_expr.len()).map(value));
    let columns = names.zip(aggregate.schema.iter());
    let columns = columns.map(|(name, (table, field))| col(name).alias_qualified(table.cloned(), field.name()));
    plan.project(columns.collect::<Vec<_>>())?.build()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::dataframe::DataFrame;
    use datafusion::functions_aggregate::expr_fn::count_distinct;
    use datafusion::prelude::SessionContext;

    const ROWS: &str = "(SELECT CASE WHEN value % 5 = 0 THEN NULL ELSE value % 7 END AS g, value % 3 AS h, value AS v, \
                        'x' || (value % 11) AS t, value / 2.0 AS f FROM range(1000)) AS r";

    async fn rows(ctx: &SessionContext, plan: LogicalPlan) -> Vec<String> {
        let rows = DataFrame::new(ctx.state(), plan).collect().await.unwrap();
        let mut lines: Vec<_> = pretty_format_batches(&rows).unwrap().to_string().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    #[tokio::test]
    async fn each_by_itself_gives_the_same_rows() {
        let ctx = SessionContext::new();
        for (select, is_apart) in [
            ("count(DISTINCT v % 3), count(DISTINCT t) FROM r", true),
            ("count(DISTINCT v % 3), count(DISTINCT t) FROM r WHERE v < 0", true),
            ("g, count(DISTINCT h) AS a, count(DISTINCT t), count(*), avg(f), sum(DISTINCT h) FROM r GROUP BY g", true),
            ("g, h, r.h + 1, count(DISTINCT t), min(v) FROM r GROUP BY g, h HAVING count(DISTINCT v) > 2", true),
            ("g + h AS k, count(DISTINCT t) FILTER (WHERE v > 9), count(DISTINCT v) FROM r GROUP BY k", true),
            ("a.g, count(DISTINCT a.t), count(DISTINCT b.h) FROM r a JOIN r b ON a.v = b.v GROUP BY a.g", true),
            ("max(n), count(DISTINCT n) FROM (SELECT count(DISTINCT h) AS n, count(v) FROM r GROUP BY t)", true),
            (
                "sum(n) FROM (SELECT g, count(DISTINCT h) AS n, count(DISTINCT t) AS m FROM r GROUP BY g) WHERE m > 9",
                true,
            ),
            ("h, count(DISTINCT v * 7 % 3) FROM r GROUP BY h", true),
            ("count(DISTINCT g) FROM r", false),
            ("count(DISTINCT g), sum(DISTINCT g) FROM r", false),
            ("f, count(DISTINCT g), count(DISTINCT h) FROM r GROUP BY f", false),
            ("max(n), count(DISTINCT n) FROM (SELECT first_value(v) AS n FROM r GROUP BY t)", false),
            ("count(DISTINCT g), count(DISTINCT t) FROM (SELECT * FROM r LIMIT 10)", false),
            ("count(DISTINCT g), count(DISTINCT t) FROM (SELECT g, CAST(random() * 2 AS INT) AS t FROM r)", false),
            ("count(DISTINCT h), count(DISTINCT t) FROM r GROUP BY ROLLUP (g)", false),
            ("count(DISTINCT h), count(DISTINCT t) FROM r WHERE v = (SELECT max(v) FROM r)", false),
        ] {
            let sql = format!("WITH r AS (SELECT * FROM {ROWS}) SELECT {select}");
            let plan = ctx.state().create_logical_plan(&sql).await.unwrap();
            let apart = apart(&plan).unwrap();
            assert_eq!(apart.is_some(), is_apart, "{select}");
            if let Some(apart) = apart {
                assert_eq!(apart.schema(), plan.schema(), "{select}");
                assert_eq!(rows(&ctx, apart).await, rows(&ctx, plan).await, "{select}");
            }
        }
    }

    #[tokio::test]
    async fn aggregates_that_have_another_name_are_apart() {
        let ctx = SessionContext::new();
        let rows = ctx.sql(&format!("SELECT * FROM {ROWS}")).await.unwrap();
        let distinct = |column| count_distinct(col(column)).alias(column);
        let (_, plan) = rows.aggregate(vec![col("g")], vec![distinct("h"), distinct("t")]).unwrap().into_parts();
        let apart = apart(&plan).unwrap().unwrap();
        assert!(!apart.to_string().contains("count(DISTINCT r."), "{apart}");
        assert_eq!(self::rows(&ctx, apart).await, self::rows(&ctx, plan).await);
    }
}
