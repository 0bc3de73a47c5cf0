//! A numeric beside a double is a double, as in PostgreSQL.
//!
//! DataFusion compares both as decimals with 15 digits behind the point, which a double is not; and
//! it casts the column of doubles for that, so that its statistics tell nothing. Needed for
//! DataFusion 55.2, until <https://github.com/apache/datafusion/issues/14272> is done.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, TableReference};
use datafusion::logical_expr::{
    Expr, ExprSchemable, JoinConstraint, LogicalPlan, LogicalPlanBuilder, Union, Values, cast,
};

/// Whether these are doubles and numerics together.
pub(super) fn are_mixed<'a>(kinds: impl IntoIterator<Item = &'a DataType>) -> bool {
    let (mut real, mut numeric) = (false, false);
    for kind in kinds {
        (real, numeric) = (real || kind.is_floating(), numeric || kind.is_decimal());
    }
    real && numeric
}

/// A numeric as a double. A literal stays one.
pub(super) fn real(expr: Expr, kind: &DataType) -> Expr {
    match expr {
        expr if !kind.is_decimal() => expr,
        Expr::Literal(value, metadata) => match value.to_string().parse() {
            Ok(nearest) if !value.is_null() => Expr::Literal(ScalarValue::Float64(Some(nearest)), metadata),
            _ => Expr::Literal(ScalarValue::Float64(None), metadata),
        },
        expr => cast(expr, DataType::Float64),
    }
}

/// These expressions as doubles, if they are doubles and numerics.
pub(super) fn unified(exprs: Vec<Expr>, kinds: &[DataType]) -> Vec<Expr> {
    match are_mixed(kinds) {
        true => exprs.into_iter().zip(kinds).map(|(expr, kind)| real(expr, kind)).collect(),
        false => exprs,
    }
}

/// Plans that DataFusion has made decimals of doubles in, or will.
pub(super) fn over(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Values(values) => of_values(values),
        LogicalPlan::Union(union) => of_union(union),
        // Keys of USING are columns.
        LogicalPlan::Join(mut join) if join.join_constraint == JoinConstraint::On => {
            for (left, right) in &mut join.on {
                let kinds = [left.get_type(join.left.schema())?, right.get_type(join.right.schema())?];
                if are_mixed(&kinds) {
                    *left = real(std::mem::take(left), &kinds[0]);
                    *right = real(std::mem::take(right), &kinds[1]);
                }
            }
            Ok(LogicalPlan::Join(join))
        }
        other => Ok(other),
    }
}

/// `VALUES (0.5::float8), (1.5)`, of which the planner has made decimals already.
fn of_values(values: Values) -> Result<LogicalPlan> {
    let from = |expr: &Expr| match expr {
        Expr::Cast(cast) => cast.expr.get_type(&values.schema).ok(),
        _ => None,
    };
    let is_lost = |at: usize| {
        values.schema.field(at).data_type().is_decimal()
            && values.values.iter().any(|row| from(&row[at]).is_some_and(|kind| kind.is_floating()))
    };
    let lost: Vec<bool> = (0..values.schema.fields().len()).map(is_lost).collect();
    if !lost.contains(&true) {
        return Ok(LogicalPlan::Values(values));
    }
    let rows = values.values.iter().map(|row| {
        let cell = |(expr, lost): (&Expr, &bool)| match expr {
            Expr::Cast(inner) if *lost => cast((*inner.expr).clone(), DataType::Float64),
            other if *lost => cast(other.clone(), DataType::Float64),
            other => other.clone(),
        };
        row.iter().zip(&lost).map(cell).collect()
    });
    LogicalPlanBuilder::values(rows.collect())?.build()
}

/// Queries of which one has doubles where another has numerics.
fn of_union(union: Union) -> Result<LogicalPlan> {
    let mixed = |at: usize| are_mixed(union.inputs.iter().map(|input| input.schema().field(at).data_type()));
    let columns = union.schema.fields().len();
    let mixed: Vec<bool> = (0..columns).map(mixed).collect();
    if !mixed.contains(&true) {
        return Ok(LogicalPlan::Union(union));
    }
    let inputs = union.inputs.into_iter().map(|input| in_reals(input, &mixed));
    Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs.collect::<Result<_>>()?)?))
}

/// A query of one column, which is a double.
pub(super) fn of_subquery(query: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
    let first = vec![true; query.schema().fields().len()];
    in_reals(query, &first)
}

/// A query of which these columns are doubles, where they are numerics.
fn in_reals(query: Arc<LogicalPlan>, these: &[bool]) -> Result<Arc<LogicalPlan>> {
    let column = |((qualifier, field), is_one): ((Option<&TableReference>, &FieldRef), &bool)| {
        let column = Expr::from((qualifier, field));
        match *is_one && field.data_type().is_decimal() {
            true => cast(column, DataType::Float64).alias_qualified(qualifier.cloned(), field.name()),
            false => column,
        }
    };
    let columns: Vec<Expr> = query.schema().iter().zip(these).map(column).collect();
    Ok(Arc::new(LogicalPlanBuilder::new_from_arc(query).project(columns)?.build()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::super::{configured, frame, install};

    #[tokio::test]
    async fn no_column_is_cast_for_a_literal() {
        let ctx = SessionContext::new_with_config(configured(SessionConfig::new()));
        install(&ctx).unwrap();
        let rows = "CREATE TABLE t (x DOUBLE, y REAL, p DECIMAL(12, 2), n BIGINT) AS VALUES (0.5, 0.5, 4.07, 2)";
        frame(&ctx, rows).await.unwrap();
        for (condition, planned) in [
            ("x > 1.5", "t.x > Float64(1.5)"),
            ("1e3 < x", "t.x > Float64(1000)"),
            ("x BETWEEN 0.25 AND 2", "t.x >= Float64(0.25) AND t.x <= Float64(2)"),
            ("p = 4.07", "t.p = Decimal128(4.07,12,2)"),
            ("p BETWEEN 0.06 - 0.01 AND 0.06 + 0.01", "t.p >= Decimal128(0.05,12,2)"),
            ("n = 2.0", "t.n = Int64(2)"),
        ] {
            let sql = format!("SELECT count(*) FROM t WHERE {condition}");
            let plan = frame(&ctx, &sql).await.unwrap().into_optimized_plan().unwrap().to_string();
            assert!(plan.contains(planned) && !plan.contains("CAST"), "{condition}: {plan}");
        }
    }
}
