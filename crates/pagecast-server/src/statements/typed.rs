//! The plan of a statement, whose parameters get their types.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Statement as PlanStatement};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{Ident, Statement as Ast};
use pagecast_sql::formats::Format;
use pagecast_sql::query::Query;
use pagecast_sql::semantics;
use pgwire::api::Type;

use crate::problem::Problem;
use crate::rewrite;
use crate::types;

/// Functions that give one of their arguments.
const CHOOSES: &[&str] = &["coalesce", "greatest", "least", "nullif", "nvl", "ifnull"];

/// Parameters that messages can count.
const MOST_PARAMETERS: usize = u16::MAX as usize;

/// A plan, and of each parameter its type on the wire and in the plan.
type Typed = (LogicalPlan, Vec<(u32, DataType)>);

/// The plan of a statement, and its parameters. What the client does not say of them the statement
/// does, and of what neither says anything it is text.
pub(super) async fn typed(ctx: &SessionContext, ast: Ast, oids: &[u32]) -> Result<Typed, Problem> {
    let (ctx, oids) = (ctx.clone(), oids.to_vec());
    Query::plan(async move { Ok(planned(&ctx.state(), ast, &oids).await) }).await?.map_err(explained)
}

/// The same, in the thread that plans it.
async fn planned(state: &SessionState, ast: Ast, oids: &[u32]) -> Result<Typed, Problem> {
    let told: Vec<Option<DataType>> = oids.iter().map(|&oid| types::of_parameter(oid)).collect();
    let (plan, found) = match plan(state, ast.clone()).await {
        Ok(plan) => {
            let mut found = plan.get_parameter_types().map_err(|error| Problem::of(&error))?;
            let beside = beside(&plan).map_err(|error| Problem::of(&error))?;
            for (name, kind) in beside {
                if let Some(unknown @ None) = found.get_mut(&name) {
                    *unknown = Some(kind);
                }
            }
            (Some(plan), found)
        }
        // It may be that the types are what is missing.
        Err(_) if told.iter().any(Option::is_some) => (None, HashMap::new()),
        Err(error) => return Err(Problem::of(&error)),
    };
    // Some may be left out: a part of the statement that gives nothing here had them.
    let number = |name: &String| name.strip_prefix('$')?.parse::<usize>().ok().filter(|&number| number > 0);
    let numbers: Vec<usize> = found.keys().filter_map(number).collect();
    if numbers.len() < found.len() {
        return Err(Problem::error("42P02", "parameters are called $1, $2 and so on"));
    }
    let named = numbers.into_iter().max().unwrap_or(0);
    if named > MOST_PARAMETERS {
        let what = format!("a statement has at most {MOST_PARAMETERS} parameters, and there is no ${named}");
        return Err(Problem::error("42P02", what));
    }
    let lists = rewrite::lists(&ast);
    let kind = |number: usize| {
        let told = told.get(number).cloned().flatten();
        let list = lists.contains(&format!("${}", number + 1)).then(|| DataType::new_list(DataType::Utf8, true));
        told.or(list).or_else(|| found.get(&format!("${}", number + 1)).cloned().flatten()).unwrap_or(DataType::Utf8)
    };
    let kinds: Vec<DataType> = (0..named.max(told.len())).map(kind).collect();
    let is_found = |(number, kind): (usize, &DataType)| {
        found.get(&format!("${}", number + 1)).is_some_and(|found| found.as_ref() == Some(kind))
    };
    let plan = match plan.filter(|_| kinds.iter().enumerate().take(named).all(is_found)) {
        Some(plan) => plan,
        None => with_types(state, ast, &kinds).await.map_err(|error| Problem::of(&error))?,
    };
    let plan = semantics::meant(plan).map_err(|error| Problem::of(&error))?;
    let on_wire = |(number, kind): (usize, DataType)| match oids.get(number) {
        Some(&oid) if oid != 0 && oid != Type::UNKNOWN.oid() => (oid, kind),
        _ => (types::of_arrow(&kind).oid(), kind),
    };
    Ok((plan, kinds.into_iter().enumerate().map(on_wire).collect()))
}

async fn plan(state: &SessionState, ast: Ast) -> Result<LogicalPlan> {
    state.statement_to_plan(Parsed::Statement(Box::new(ast))).await
}

async fn with_types(state: &SessionState, ast: Ast, kinds: &[DataType]) -> Result<LogicalPlan> {
    let data_types = kinds.iter().map(types::in_sql).collect();
    let prepare = Ast::Prepare { name: Ident::new("statement"), data_types, statement: Box::new(ast) };
    match plan(state, prepare).await? {
        LogicalPlan::Statement(PlanStatement::Prepare(prepared)) => Ok(Arc::unwrap_or_clone(prepared.input)),
        plan => Ok(plan),
    }
}

/// An error of planning. A file in the place of a table is refused by its name.
fn explained(problem: Problem) -> Problem {
    let missing = problem.message.strip_prefix("table '").and_then(|text| text.strip_suffix("' not found"));
    let Some(name) = missing.map(str::to_owned) else { return problem };
    let bare = name.strip_prefix("pagecast.public.").unwrap_or(&name);
    if bare.contains(['/', '*', '\\']) || Format::of(bare.as_ref()).is_some() {
        return Problem::error(
            "42501",
            format!("statements may not name files here: {bare}; SHOW TABLES lists the tables"),
        );
    }
    Problem::error("42P01", format!("no table is called {bare}; SHOW TABLES lists the tables"))
}

/// The types of parameters beside values of which one is chosen, as in `coalesce($1, a)`, and of
/// those that count rows.
fn beside(plan: &LogicalPlan) -> Result<HashMap<String, DataType>> {
    let mut found = HashMap::new();
    plan.apply_with_subqueries(|plan| {
        let schema = merge_schema(&plan.inputs());
        let counts = matches!(plan, LogicalPlan::Limit(_));
        plan.apply_expressions(|expr| {
            if let (Expr::Placeholder(placeholder), true) = (expr, counts) {
                found.insert(placeholder.id.clone(), DataType::Int64);
            }
            expr.apply(|expr| {
                let sides: Vec<&Expr> = match expr {
                    Expr::ScalarFunction(function) if CHOOSES.contains(&function.name()) => {
                        function.args.iter().collect()
                    }
                    Expr::Case(case) => {
                        let results = case.when_then_expr.iter().map(|(_, result)| &**result);
                        results.chain(case.else_expr.as_deref()).collect()
                    }
                    _ => return Ok(TreeNodeRecursion::Continue),
                };
                let kind = |side: &&Expr| match side {
                    Expr::Placeholder(_) => None,
                    side => side.get_type(&schema).ok().filter(|kind| !kind.is_null()),
                };
                if let Some(kind) = sides.iter().find_map(kind) {
                    for side in sides {
                        if let Expr::Placeholder(placeholder) = side {
                            found.entry(placeholder.id.clone()).or_insert_with(|| kind.clone());
                        }
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}
