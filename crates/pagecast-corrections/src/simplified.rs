//! What is NULL because its value is: `x NOT IN (1, 2) OR x NOT IN (3, 4)`, `x # x`, `s ~ '.*'`.
//!
//! DataFusion 55.2 makes one list of two that stand beside each other, and says true or false where
//! none is left, or takes a NULL of a list for one more value; x # x is 0 for it, and `s ~ '.*'` is
//! `s IS NOT NULL`. Its issue is <https://github.com/apache/datafusion/issues/24246>; the file goes
//! with a release that has <https://github.com/apache/datafusion/pull/24258>.
//!
//! A value that stands a second time is hidden behind a function that gives it back, where both are
//! compared. The first one still says which pages are read.

use std::collections::HashSet;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, lit,
};

#[derive(Debug)]
pub(crate) struct NullStays;

impl FunctionRewrite for NullStays {
    fn name(&self) -> &'static str {
        "null stays"
    }

    fn rewrite(&self, expr: Expr, _: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        let (left, op, right) = match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => (left, op, right),
            // Another one may come beside it from another SELECT.
            Expr::InList(InList { expr, list, negated }) if list.iter().any(is_null) => {
                let expr = Box::new(hidden(*expr));
                return Ok(Transformed::yes(Expr::InList(InList { expr, list, negated })));
            }
            expr => return Ok(Transformed::no(expr)),
        };
        let right = match op {
            Operator::And | Operator::Or => with_own_lists(*right, &left)?,
            Operator::BitwiseXor => hidden_in(*right, &left)?,
            Operator::RegexMatch | Operator::RegexIMatch if *right == lit(".*") => Transformed::yes(lit("")),
            _ => Transformed::no(*right),
        };
        Ok(right.update_data(|right| Expr::BinaryExpr(BinaryExpr { left, op, right: Box::new(right) })))
    }
}

/// The condition, in which no list is of a value that a list of `other` is of.
fn with_own_lists(condition: Expr, other: &Expr) -> Result<Transformed<Expr>> {
    let mut values = HashSet::new();
    other.apply(|part| {
        if let Expr::InList(list) = part {
            values.insert(list.expr.as_ref());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if values.is_empty() {
        return Ok(Transformed::no(condition));
    }
    condition.transform_up(|part| {
        Ok(match part {
            Expr::InList(InList { expr, list, negated }) if values.contains(expr.as_ref()) => {
                Transformed::yes(Expr::InList(InList { expr: Box::new(hidden(*expr)), list, negated }))
            }
            part => Transformed::no(part),
        })
    })
}

/// One side of an XOR, hidden if it is, or has, a part of the other side.
fn hidden_in(side: Expr, other: &Expr) -> Result<Transformed<Expr>> {
    let mut parts = HashSet::new();
    other.apply(|part| {
        parts.insert(part);
        Ok(TreeNodeRecursion::Continue)
    })?;
    match side.exists(|part| Ok(!matches!(part, Expr::Literal(..)) && parts.contains(part)))? {
        true => Ok(Transformed::yes(hidden(side))),
        false => Ok(Transformed::no(side)),
    }
}

fn is_null(item: &Expr) -> bool {
    matches!(item, Expr::Literal(value, _) if value.is_null())
}

fn hidden(expr: Expr) -> Expr {
    ScalarUDF::from(Itself(Signature::any(1, Volatility::Immutable))).call(vec![expr])
}

/// Its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Itself(Signature);

impl ScalarUDFImpl for Itself {
    fn name(&self) -> &str {
        "itself"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        internal_err!("it has a field, which says whether it may be NULL")
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(arguments.arg_fields[0].clone())
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(arguments.args.swap_remove(0))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::AsArray;
    use datafusion::prelude::SessionContext;

    #[tokio::test]
    async fn what_has_a_null_is_null() {
        let ctx = SessionContext::new();
        crate::install(&ctx, |_| false).unwrap();
        for (condition, value, right) in [
            ("x NOT IN (1, 2) OR x NOT IN (3, 4)", "NULL", None),
            ("x NOT IN (1, 2) OR x NOT IN (3, 4)", "5", Some(true)),
            ("NOT (x IN (1, 2, 9, 10) AND x IN (3, 4, 11, 12))", "NULL", None),
            ("x IN (1, 2, 9, 10) AND x IN (3, 4, 11, 12)", "NULL", None),
            ("x IN (1, 2, 9, 10) AND x > 0 AND x IN (3, 4, 11, 12)", "1", Some(false)),
            ("x IN (1, 2, 3, 4) AND x NOT IN (2, 3, 5, NULL)", "1", None),
            ("x IN (1, 2, 3, 4) AND x NOT IN (2, 3, 5)", "1", Some(true)),
            ("x IN (1, NULL, 7, 8) AND x IN (2, 9, 10, 11)", "2", None),
            ("x NOT IN (1, 2) AND x NOT IN (2, 3)", "NULL", None),
            ("x ^ x = 0", "NULL", None),
            ("3 ^ x ^ x = 3", "NULL", None),
            ("x ^ (3 ^ x) = 3", "7", Some(true)),
            ("x ^ x ^ x = 3", "3", Some(true)),
            ("x::text ~ '.*'", "NULL", None),
            ("x::text ~* '.*'", "1", Some(true)),
        ] {
            let sql =
                format!("SELECT {condition} FROM (SELECT CASE WHEN value > 0 THEN {value} END AS x FROM range(1, 2))");
            let sql = sql.replace("THEN NULL", "THEN NULL::bigint");
            let rows = ctx.sql(&sql).await.unwrap().collect().await.unwrap();
            assert_eq!(rows[0].column(0).as_boolean().iter().next().unwrap(), right, "{condition} of {value}");
        }
        let sql =
            "SELECT * FROM (SELECT value FROM range(9) WHERE value IN (1, 2, 3, 4)) WHERE value NOT IN (2, 3, NULL, 7)";
        assert_eq!(ctx.sql(sql).await.unwrap().count().await.unwrap(), 0);
    }
}
