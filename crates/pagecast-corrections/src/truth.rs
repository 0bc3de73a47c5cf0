//! A text beside a truth value: `flag = 'false'`, also of a folder `flag=false`.
//!
//! PostgreSQL takes a literal in quotes for a value of the type beside it. DataFusion 55 does so
//! for numbers and times, and refuses truth values. The file goes when its coercion has them.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, InList};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Expr, ExprSchemable};

use crate::compares;

#[derive(Debug)]
pub(crate) struct TruthInQuotes;

impl FunctionRewrite for TruthInQuotes {
    fn name(&self) -> &'static str {
        "truth in quotes"
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        let is_truth = |expr: &Expr| expr.get_type(schema).is_ok_and(|kind| kind == DataType::Boolean);
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
                let (left, right) = match (truth(&left), truth(&right)) {
                    (None, Some(meant)) if is_truth(&left) => (left, Box::new(meant)),
                    (Some(meant), None) if is_truth(&right) => (Box::new(meant), right),
                    _ => return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
                };
                Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
            }
            Expr::InList(InList { expr, list, negated }) if list.iter().any(|item| truth(item).is_some()) => {
                let is_truth = is_truth(&expr);
                let meant = |item: Expr| if is_truth { truth(&item).unwrap_or(item) } else { item };
                let list = list.into_iter().map(meant).collect();
                Transformed::yes(Expr::InList(InList { expr, list, negated }))
            }
            other => Transformed::no(other),
        })
    }
}

/// The truth value that a literal in quotes means; nothing if it is none.
fn truth(expr: &Expr) -> Option<Expr> {
    let Expr::Literal(value, notes) = expr else { return None };
    let meant = match value.try_as_str()??.trim().to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "on" | "1" => true,
        "f" | "false" | "n" | "no" | "off" | "0" => false,
        _ => return None,
    };
    Some(Expr::Literal(ScalarValue::Boolean(Some(meant)), notes.clone()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::prelude::SessionContext;

    #[tokio::test]
    async fn a_text_beside_a_truth_value_is_one() {
        let ctx = SessionContext::new();
        crate::install(&ctx, |_| false).unwrap();
        for (condition, right) in [("x = 'true'", 1), ("'No' = x", 1), ("x IN ('t', 'f')", 2), ("x <> 'off'", 1)] {
            let sql = format!("SELECT x FROM (VALUES (true), (false)) AS t (x) WHERE {condition}");
            assert_eq!(ctx.sql(&sql).await.unwrap().count().await.unwrap(), right, "{condition}");
        }
    }
}
