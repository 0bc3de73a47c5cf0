//! `sum(x + 1), sum(x + 2), ...` as one sum of `x` and its count.
//!
//! DataFusion has such a rule, and does not see through [additions](super::arithmetic) that say
//! when they leave their type. Here `x` is an integer or smaller that became a bigint, so that
//! neither they nor their sum can.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::AggregateFunctionParams;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, lit};

use super::{arithmetic, sum};

/// As many sums of one column gain from it.
const FEW: usize = 3;

/// The plan, in which such sums of one column are one.
pub(super) fn over(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(plan) };
    let shifted: Vec<_> = aggregate.aggr_expr.iter().map(|expr| shifted(expr, &aggregate.input)).collect();
    let mut sums = HashMap::<&Expr, usize>::new();
    shifted.iter().flatten().for_each(|(of, _)| *sums.entry(of).or_default() += 1);
    let is_one_of_many = |of: &Expr| sums.get(of).is_some_and(|&many| many >= FEW);
    let has_sets = matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)]);
    if has_sets || !sums.keys().any(|of| is_one_of_many(of)) {
        return Ok(plan);
    }
    let groups = aggregate.group_expr.len();
    let (mut below, mut parts) = (Vec::new(), HashMap::<&Expr, [Expr; 2]>::new());
    let mut above: Vec<Expr> = aggregate.schema.iter().take(groups).map(Expr::from).collect();
    for (at, (expr, shifted)) in aggregate.aggr_expr.iter().zip(&shifted).enumerate() {
        let (qualifier, field) = aggregate.schema.qualified_field(groups + at);
        let Some((of, by)) = shifted.filter(|(of, _)| is_one_of_many(of)) else {
            below.push(expr.clone());
            above.push(Expr::from((qualifier, field)));
            continue;
        };
        let [sum, count] = parts.entry(of).or_insert_with(|| {
            let named = [("sum", sum::function().call(vec![of.clone()])), ("count", count(of.clone()))];
            named.map(|(name, part)| {
                let name = format!("{name} of {at}");
                below.push(part.alias(&name));
                Expr::Column(Column::new_unqualified(name))
            })
        });
        let times = (count.clone(), &DataType::Int64);
        let more = arithmetic::checked(times, Operator::Multiply, (lit(by), &DataType::Int64), &DataType::Int64);
        let all = (sum.clone(), &DataType::Int64);
        above.push(
            arithmetic::checked(all, Operator::Plus, (more, &DataType::Int64), &DataType::Int64).alias(field.name()),
        );
    }
    let below = Aggregate::try_new(Arc::clone(&aggregate.input), aggregate.group_expr.clone(), below)?;
    LogicalPlanBuilder::from(LogicalPlan::Aggregate(below)).project(above)?.build()
}

/// What is summed, and the constant that is added to it.
fn shifted<'a>(expr: &'a Expr, input: &LogicalPlan) -> Option<(&'a Expr, i64)> {
    let expr = if let Expr::Alias(alias) = expr { alias.expr.as_ref() } else { expr };
    let Expr::AggregateFunction(function) = expr else { return None };
    let AggregateFunctionParams { args, distinct, filter, order_by, null_treatment } = &function.params;
    let is_plain = !distinct && filter.is_none() && order_by.is_empty() && null_treatment.is_none();
    let [Expr::ScalarFunction(addition)] = args.as_slice() else { return None };
    let [of, Expr::Literal(ScalarValue::Int64(Some(by)), _)] = addition.args.as_slice() else { return None };
    let Expr::Cast(wide) = of else { return None };
    let is_narrow = matches!(
        wide.expr.get_type(input.schema()).ok()?,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 | DataType::UInt32
    );
    let by = match addition.name() {
        arithmetic::ADD_BIGINT => *by,
        arithmetic::SUBTRACT_BIGINT => by.checked_neg()?,
        _ => return None,
    };
    let is_small = i32::try_from(by).is_ok();
    (function.func.name() == "sum" && is_plain && is_narrow && is_small).then_some((of, by))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::assert_batches_eq;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::super::{configured, frame, install};

    #[tokio::test]
    async fn sums_of_a_column_and_constants_are_one() {
        let ctx = SessionContext::new_with_config(configured(SessionConfig::new()));
        install(&ctx).unwrap();
        let rows =
            "CREATE TABLE t (g INT, x SMALLINT, w BIGINT) AS VALUES (1, 5, 5), (1, NULL, 7), (2, -3, 1), (3, NULL, 2)";
        frame(&ctx, rows).await.unwrap();
        let shifted =
            "SELECT g, sum(x + 1), max(x), sum(x - 2), sum(x + 3) AS three, sum(w + 1) FROM t GROUP BY g ORDER BY g";
        let plan = frame(&ctx, shifted).await.unwrap().into_optimized_plan().unwrap().to_string();
        assert!(
            plan.contains("aggr=[[sum(__common_expr_1) AS sum of 0, count(__common_expr_1) AS count of 0, max"),
            "{plan}"
        );
        let rows = frame(&ctx, shifted).await.unwrap().collect().await.unwrap();
        assert_batches_eq!(
            [
                "+---+---------------------+----------+---------------------+-------+---------------------+",
                "| g | sum(t.x + Int64(1)) | max(t.x) | sum(t.x - Int64(2)) | three | sum(t.w + Int64(1)) |",
                "+---+---------------------+----------+---------------------+-------+---------------------+",
                "| 1 | 6                   | 5        | 3                   | 8     | 14                  |",
                "| 2 | -2                  | -3       | -5                  | 0     | 2                   |",
                "| 3 |                     |          |                     |       | 3                   |",
                "+---+---------------------+----------+---------------------+-------+---------------------+",
            ],
            &rows
        );
        // Two are not many, and those of bigint may leave their type.
        for sql in ["SELECT sum(x + 1), sum(x + 2) FROM t", "SELECT sum(w + 1), sum(w + 2), sum(w + 3) FROM t"] {
            let plan = frame(&ctx, sql).await.unwrap().into_optimized_plan().unwrap().to_string();
            assert!(plan.contains("sum(add_bigint"), "{plan}");
        }
    }
}
