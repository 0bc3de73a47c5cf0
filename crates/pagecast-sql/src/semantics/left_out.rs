//! SQL that DataFusion's planner reads and then leaves out, as if it were not there.

use std::ops::ControlFlow;

use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgumentClause, FunctionArguments, GroupByExpr, JoinConstraint, JoinOperator,
    LockType, Query, Select, TableFactor, Visit, Visitor, WindowType,
};

use crate::classed::Classed;

/// Refuses a statement of which a part would be left out.
pub(super) fn check(statement: &impl Visit, ctx: &SessionContext) -> Result<(), Classed> {
    match statement.visit(&mut Check { ctx }) {
        ControlFlow::Break(problem) => Err(problem),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Check<'a> {
    ctx: &'a SessionContext,
}

fn refused(message: impl Into<String>) -> ControlFlow<Classed> {
    ControlFlow::Break(Classed::new("0A000", message))
}

/// The first of these that is there, by what is said of it.
fn first(wrong: &[(bool, &str)]) -> ControlFlow<Classed> {
    match wrong.iter().find(|(is_there, _)| *is_there) {
        Some((_, message)) => refused(*message),
        None => ControlFlow::Continue(()),
    }
}

impl Visitor for Check<'_> {
    type Break = Classed;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Classed> {
        if let Some(lock) = query.locks.first() {
            let word = match lock.lock_type {
                LockType::Share => "SHARE",
                LockType::Update => "UPDATE",
            };
            // As PostgreSQL does in a transaction that only reads.
            let message = format!("cannot execute SELECT FOR {word} in a read-only transaction");
            return ControlFlow::Break(Classed::new("25006", message));
        }
        first(&[
            (query.fetch.is_some(), "FETCH FIRST is answered with a number of rows and ONLY; write LIMIT"),
            (query.for_clause.is_some(), "FOR XML and FOR JSON are not answered here"),
            (query.settings.is_some(), "SETTINGS is not answered here; write SET before the statement"),
            (query.format_clause.is_some(), "FORMAT is not answered here; leave it out"),
        ])
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Classed> {
        let modifiers = match &select.group_by {
            GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) => !modifiers.is_empty(),
        };
        first(&[
            (select.select_modifiers.is_some(), "words between SELECT and its columns are not answered here"),
            (select.exclude.is_some(), "EXCLUDE is not answered here; list the columns"),
            (select.prewhere.is_some(), "PREWHERE is not answered here; write WHERE"),
            (!select.connect_by.is_empty(), "CONNECT BY is not answered here; write WITH RECURSIVE"),
            (!select.distribute_by.is_empty(), "DISTRIBUTE BY is not answered here; leave it out"),
            (select.value_table_mode.is_some(), "SELECT AS VALUE and AS STRUCT are not answered here"),
            (modifiers, "GROUP BY ... WITH is not answered here; write GROUP BY ROLLUP(...) or CUBE(...)"),
        ])?;
        select.from.iter().flat_map(|from| &from.joins).try_for_each(|join| {
            let condition = match &join.join_operator {
                JoinOperator::Join(condition)
                | JoinOperator::Inner(condition)
                | JoinOperator::Left(condition)
                | JoinOperator::LeftOuter(condition)
                | JoinOperator::Right(condition)
                | JoinOperator::RightOuter(condition)
                | JoinOperator::FullOuter(condition) => condition,
                _ => return ControlFlow::Continue(()),
            };
            match condition {
                JoinConstraint::None => ControlFlow::Break(Classed::new(
                    "42601",
                    "a join wants ON or USING; write CROSS JOIN for all pairs",
                )),
                _ => ControlFlow::Continue(()),
            }
        })
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Classed> {
        const SAMPLE: &str = "TABLESAMPLE is not answered here; write WHERE random() < 0.1 for a tenth of the rows";
        const ORDINALITY: &str = "WITH ORDINALITY is not answered here; write row_number() OVER ()";
        let alias = match factor {
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. } => alias.as_ref(),
            _ => None,
        };
        if let Some(alias) = alias {
            first(&[
                (alias.at.is_some(), "AT behind a table's name is not answered here"),
                (
                    alias.columns.iter().any(|column| column.data_type.is_some()),
                    "columns of an alias have no types here",
                ),
            ])?;
        }
        match factor {
            TableFactor::Table {
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
                args,
                ..
            } => first(&[
                (sample.is_some(), SAMPLE),
                (*with_ordinality, ORDINALITY),
                (version.is_some(), "a table has one version here; leave out which one"),
                (!partitions.is_empty(), "PARTITION is not answered here; write WHERE"),
                (json_path.is_some(), "a path into JSON is not answered here"),
                (!with_hints.is_empty() || !index_hints.is_empty(), "hints are not taken here; leave them out"),
                (args.as_ref().is_some_and(|args| args.settings.is_some()), "SETTINGS is not answered here"),
            ]),
            TableFactor::Derived { sample, .. } => first(&[(sample.is_some(), SAMPLE)]),
            TableFactor::Function { with_ordinality, args, .. } => {
                let named = args.iter().any(|argument| !matches!(argument, FunctionArg::Unnamed(_)));
                first(&[(*with_ordinality, ORDINALITY), (named, "arguments have no names here")])
            }
            TableFactor::UNNEST { with_ordinality, .. } => first(&[(*with_ordinality, ORDINALITY)]),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Classed> {
        match expr {
            Expr::Function(function) => self.function(function),
            Expr::SimilarTo { .. } => refused("SIMILAR TO takes a pattern in quotes here; write x ~ '^(...)$'"),
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Check<'_> {
    fn function(&self, function: &Function) -> ControlFlow<Classed> {
        let name = function.name.to_string().to_ascii_lowercase();
        let state = self.ctx.state_ref();
        let state = state.read();
        let aggregate = state.aggregate_functions().contains_key(&name);
        let window = state.window_functions().contains_key(&name);
        let wrong = |what: &str, kind: &str| {
            ControlFlow::Break(Classed::new("42809", format!("{what} specified, but {name} is not {kind} function")))
        };
        if function.over.is_some() && !aggregate && !window {
            return wrong("OVER", "a window function nor an aggregate");
        }
        if let Some(WindowType::WindowSpec(spec)) = &function.over
            && let Some(base) = &spec.window_name
        {
            return refused(format!("OVER ({base} ...) is not answered here; write the whole window, or OVER {base}"));
        }
        let FunctionArguments::List(list) = &function.args else {
            return match (&function.args, &function.parameters) {
                (FunctionArguments::Subquery(_), _) => refused(format!("{name} takes no subquery without parentheses")),
                _ => ControlFlow::Continue(()),
            };
        };
        let ordered = list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)));
        if !aggregate {
            for (is_there, what) in [
                (list.duplicate_treatment.is_some(), "DISTINCT"),
                (function.filter.is_some(), "FILTER"),
                (ordered, "ORDER BY"),
                (!function.within_group.is_empty(), "WITHIN GROUP"),
                (function.null_treatment.is_some() && !window, "IGNORE NULLS"),
            ] {
                if is_there {
                    return wrong(what, "an aggregate");
                }
            }
        }
        let parameters = !matches!(function.parameters, FunctionArguments::None);
        first(&[(parameters, "a function has its arguments in one pair of parentheses here")])
    }
}
