//! What may be concluded of a CAST from what is cast: its order, its bounds, whether it is one
//! value.
//!
//! DataFusion 55.2 concludes too much in four places.
//! * Row groups are left out by casts of their bounds, whatever the types, unless one is a text:
//!   `CAST(ts AS TIME) = TIME '12:00'` and ORDER BY with LIMIT by such a cast lose rows.
//! * Where a column is in order, so is a cast of a time to a time, also of instants to times of
//!   day.
//! * A filter by `CAST(ts AS DATE) = DATE '2020-01-02'` makes `ts` a constant, and ORDER BY, GROUP
//!   BY and windows by `ts` then do nothing.
//! * [`min` and `max`](bounds).
//!
//! So a cast that changes the order becomes a function, of which nothing is known; in conditions
//! also one that makes several values one, if it can fail. If it cannot, TRY_CAST does, by which
//! row groups can still be left out. This folder goes when DataFusion asks of a cast what
//! [`Kept`] says, in `verify_support_type_for_prune`, `cast_expr_properties` and `check_support`.

pub(crate) mod bounds;
mod function;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, ScalarUDF, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use function::CastFunction;

/// Hides casts from what concludes too much of them. It runs last, when comparisons with casts
/// have become comparisons without.
#[derive(Debug)]
pub(crate) struct HiddenCasts;

impl OptimizerRule for HiddenCasts {
    fn name(&self) -> &str {
        "hidden_casts"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !plan.expressions().iter().any(|expr| expr.exists(|expr| Ok(is_of_columns(expr))).unwrap_or(false)) {
            return Ok(Transformed::no(plan));
        }
        let schema = match &plan {
            LogicalPlan::TableScan(scan) => {
                DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?
            }
            plan => merge_schema(&plan.inputs()),
        };
        let is_condition = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::TableScan(_) | LogicalPlan::Join(_));
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let hidden = expr.transform_up(|expr| Ok(hidden(expr, &schema, is_condition)))?;
            Ok(if hidden.transformed { hidden.update_data(|expr| name.restore(expr)) } else { hidden })
        })
    }
}

fn is_of_columns(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) if expr.any_column_refs())
}

fn hidden(expr: Expr, schema: &DFSchema, is_condition: bool) -> Transformed<Expr> {
    let (inner, field, fails) = match &expr {
        Expr::Cast(cast) if is_of_columns(&expr) => (&cast.expr, &cast.field, true),
        Expr::TryCast(cast) if is_of_columns(&expr) => (&cast.expr, &cast.field, false),
        _ => return Transformed::no(expr),
    };
    let to = field.data_type();
    let Ok(from) = inner.get_type(schema) else { return Transformed::no(expr) };
    match Kept::by(&from, to) {
        Kept::Values => Transformed::no(expr),
        Kept::Order { .. } if !is_condition || !fails => Transformed::no(expr),
        Kept::Order { fails: false } => {
            Transformed::yes(Expr::TryCast(TryCast { expr: inner.clone(), field: field.clone() }))
        }
        Kept::Order { fails: true } | Kept::Nothing => {
            let Ok(of_type) = ScalarValue::try_from(to) else { return Transformed::no(expr) };
            let function = ScalarUDF::from(CastFunction::new(fails));
            Transformed::yes(function.call(vec![inner.as_ref().clone(), lit(of_type)]))
        }
    }
}

/// What a cast keeps of the values that it casts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// Which are less and which are the same.
    Values,
    /// Which are not greater. It may fail for values between two for which it does not.
    Order {
        fails: bool,
    },
    Nothing,
}

impl Kept {
    fn by(from: &DataType, to: &DataType) -> Self {
        use DataType::{Boolean, Date32, Date64, Dictionary, Int32, Int64, Timestamp};
        match (from, to) {
            _ if from == to || from.is_nested() || to.is_nested() || from.is_null() => Self::Values,
            (Dictionary(_, from), to) => Self::by(from, to),
            (from, Dictionary(_, to)) => Self::by(from, to),
            (from, to) if from.is_string() && to.is_string() => Self::Values,
            (Boolean, to) if to.is_numeric() => Self::Values,
            (from, to) if from.is_integer() && to.is_numeric() => Self::Values,
            (from, to) if from.is_decimal() && to.is_floating() => Self::Values,
            (from, to) if from.is_decimal() && to.is_decimal() && scale(from) <= scale(to) => Self::Values,
            (from, to) if from.is_floating() && to.is_floating() => match (from, to) {
                (_, DataType::Float64) => Self::Values,
                _ => Self::Order { fails: true },
            },
            (from, to) if from.is_numeric() && to.is_numeric() => Self::Order { fails: true },
            (Int32, Date32) | (Date32, Int32) | (Int64, Date64 | Timestamp(..)) | (Date64 | Timestamp(..), Int64) => {
                Self::Values
            }
            (Date32, Date64) => Self::Values,
            (Date64, Date32) => Self::Order { fails: false },
            (Date32 | Date64, Timestamp(_, zone)) if is_utc(zone.as_deref()) => Self::Values,
            (Timestamp(_, zone), Date32 | Date64) if is_utc(zone.as_deref()) => Self::Order { fails: false },
            (Timestamp(from, one), Timestamp(to, other))
                if one.is_some() == other.is_some() || both_utc(one, other) =>
            {
                if from <= to {
                    Self::Values
                } else {
                    Self::Order { fails: false }
                }
            }
            _ => Self::Nothing,
        }
    }
}

fn scale(decimal: &DataType) -> i8 {
    match decimal {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => *scale,
        _ => 0,
    }
}

/// Whether clocks never go back there.
fn is_utc(zone: Option<&str>) -> bool {
    zone.is_none_or(|zone| matches!(zone, "UTC" | "utc" | "Z" | "+00:00" | "+00" | "Etc/UTC"))
}

fn both_utc(one: &Option<std::sync::Arc<str>>, other: &Option<std::sync::Arc<str>>) -> bool {
    is_utc(one.as_deref()) && is_utc(other.as_deref())
}
