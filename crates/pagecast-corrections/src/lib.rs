//! What DataFusion gets wrong, put right: a file for each fault.
//!
//! A file opens with the upstream issue, the versions that it is needed for, and what makes it go.
//! It holds the test that fails without it. Nothing here knows a pool, a host or a statement of
//! ours; whoever plans queries with DataFusion can install these corrections.
//!
//! | module | what is wrong without it |
//! |---|---|
//! | `bins` | `date_bin` is NULL and `date_trunc` fails before 1678 and after 2261 |
//! | `casts` | a CAST has the order and the bounds of what is cast; a filter by one makes that a constant |
//! | `cross_joins` | planning takes the cube of the number of joins |
//! | `extremes` | `min` of infinities in a group is the greatest finite number |
//! | `float_keys` | a join by floats leaves out -0 where the other side has 0 |
//! | `floats` | NaN has a sign; -0 is before 0, and another value in sets of literals, CASE and DISTINCT |
//! | `footer`, `parquet_format`, `readers` | types lose or hide values: small codes, ENUM, UUID, names twice |
//! | `guards` | what may fail is evaluated on rows that AND, OR, CASE or FILTER keep from it |
//! | `instants` | literals of moments are cut, or raise, beside columns of another unit |
//! | `intervals` | intervals of Parquet lose their months |
//! | `merge_joins` | merge joins, which an option prefers, lose rows and panic |
//! | `missing_order` | a union ordered by a column that stands twice, or a window over sorted groups, is refused |
//! | `namesakes` | a filter above a join goes by the first column of its name |
//! | `nested_filters` | a filter of a list goes into a scan and gets lost |
//! | `null_keys` | a join of which one key may equal NULL by NULL lets all keys |
//! | `padded` | what a filter made constant counts as constant where an outer join fills it with NULL |
//! | `projected_filters` | a projection above a filter that leaves out columns takes another of that name |
//! | `set_operations` | EXCEPT ALL and INTERSECT ALL take or keep all copies of a row |
//! | `settings` | options of which the default gives wrong rows |
//! | `simplified` | what is NULL because its value is, is true, false or 0: two lists of one value, x # x |
//! | `statistics` | more is concluded from a footer than it promises |
//! | `subqueries` | IN and NOT IN beside NULL; subqueries in select lists; correlated ones over LIMIT |
//! | `time_units` | a column of times beside a TIME literal is refused |
//! | `truth` | a truth value beside a text is refused |
//! | `uuid` | UUIDs are bytes, and no text is one |
//! | `widening` | a folder of files whose columns grew is refused |
//! | `window_groups` | a window over groups sees those that ORDER BY and LIMIT keep |

mod around;
mod bins;
mod casts;
mod cross_joins;
mod extremes;
mod fence;
mod float_keys;
pub mod floats;
pub mod footer;
mod guards;
mod in_groups;
mod instants;
pub mod intervals;
mod merge_joins;
mod missing_order;
pub mod namesakes;
mod nested_filters;
mod null_keys;
mod padded;
mod parquet_format;
mod projected_filters;
mod readers;
mod set_operations;
pub mod settings;
mod simplified;
mod states;
pub mod statistics;
mod subqueries;
mod time_units;
mod truth;
pub mod uuid;
pub mod widening;
mod window_groups;

use std::sync::Arc;

use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, Operator, ScalarUDF};
use datafusion::optimizer::OptimizerRule;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::{SessionConfig, SessionContext};

use around::Around;
pub use parquet_format::CorrectedParquet;
pub use readers::CorrectedReaders;

/// The options of a session under which DataFusion gives right rows.
pub fn configured(config: SessionConfig) -> SessionConfig {
    settings::right(config)
}

/// Puts the corrections that are rules of the planner into a session, before its first statement.
/// `may_fail` knows functions, beside DataFusion's own, that refuse some values.
///
/// # Errors
/// The session refuses a rule.
pub fn install(ctx: &SessionContext, may_fail: fn(&ScalarUDF) -> bool) -> Result<()> {
    ctx.add_analyzer_rule(Arc::new(set_operations::CountedCopies));
    ctx.add_analyzer_rule(Arc::new(subqueries::ThreeValued::default()));
    ctx.add_optimizer_rule(Arc::new(casts::HiddenCasts));
    ctx.add_optimizer_rule(Arc::new(floats::ZerosTie));
    // Behind all of DataFusion's rules, of which some change the order of conditions.
    ctx.add_optimizer_rule(Arc::new(guards::Guards::new(may_fail)));
    let state = ctx.state_ref();
    let mut state = state.write();
    let logical = state.optimizers().iter().map(corrected_logical).collect();
    let physical = state.physical_optimizers().iter().map(corrected).collect();
    *state = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(state.session_id().to_owned())
        .with_optimizer_rules(logical)
        .with_physical_optimizer_rules(physical)
        .build();
    for function in bins::functions() {
        state.register_udf(Arc::new(function))?;
    }
    for function in extremes::functions().into_iter().chain(states::functions()) {
        state.register_udaf(Arc::new(function))?;
    }
    state.register_function_rewrite(Arc::new(floats::AsNumbers))?;
    state.register_function_rewrite(Arc::new(instants::Instants))?;
    state.register_function_rewrite(Arc::new(simplified::NullStays))?;
    state.register_expr_planner(Arc::new(time_units::OneUnit))?;
    state.register_function_rewrite(Arc::new(time_units::OneUnit))?;
    state.register_function_rewrite(Arc::new(truth::TruthInQuotes))?;
    state.register_function_rewrite(Arc::new(uuid::UsualForm))
}

/// A rule, kept from what it does wrong.
fn corrected_logical(rule: &Arc<dyn OptimizerRule + Send + Sync>) -> Arc<dyn OptimizerRule + Send + Sync> {
    let mut rule = Arc::clone(rule);
    if null_keys::OwnEquality::OVER.contains(&rule.name()) {
        rule = Arc::new(null_keys::OwnEquality(rule));
    }
    if rule.name() == cross_joins::OnlyWithoutKeys::OVER {
        rule = Arc::new(cross_joins::OnlyWithoutKeys(rule));
    }
    rule
}

/// A physical rule, kept from what it does wrong.
fn corrected(rule: &Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    match rule.name() {
        casts::bounds::OVER => Around::new(rule, casts::bounds::optimize),
        float_keys::OVER => Around::new(rule, float_keys::optimize),
        merge_joins::OVER => Around::new(rule, merge_joins::optimize),
        missing_order::OVER => Around::new(rule, missing_order::optimize),
        nested_filters::OVER => Around::new(rule, nested_filters::optimize),
        padded::OVER => Around::new(rule, padded::optimize),
        projected_filters::OVER => Around::new(rule, projected_filters::optimize),
        window_groups::OVER => Around::new(rule, window_groups::optimize),
        _ => Arc::clone(rule),
    }
}

/// Whether an operator compares values of one type.
pub fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// The value of an expression that is the same for all rows, and known before they are.
fn constant(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Cast(_) | Expr::ScalarFunction(_) if !expr.any_column_refs() && !expr.is_volatile() => {
            let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
            let coerced = simplifier.coerce(expr.clone(), &DFSchema::empty()).ok()?;
            match simplifier.simplify(coerced) {
                Ok(Expr::Literal(value, _)) => Some(value),
                _ => None,
            }
        }
        _ => None,
    }
}
