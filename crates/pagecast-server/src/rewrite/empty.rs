//! Queries of the catalog, whose tables may be empty for good: what they give is known then.

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CastKind, DataType, Expr, GroupByExpr, Ident, JoinOperator, ObjectNamePart, Query, Select,
    SelectItem, SetExpr, TableFactor, TableWithJoins, Value,
};

use pagecast_sql::semantics::ast::{call, counts, take};

use crate::catalog::{self, CATALOG};

/// Whether a query names a table of the catalog itself.
pub(super) fn reads_catalog(body: &SetExpr) -> bool {
    let is_one = |relation: &TableFactor| match relation {
        TableFactor::Table { name, .. } => match name.0.as_slice() {
            [schema, _] => schema.as_ident().is_some_and(|schema| schema.value.eq_ignore_ascii_case(CATALOG)),
            [name] => name.as_ident().is_some_and(|name| catalog::has(&name.value)),
            _ => false,
        },
        _ => false,
    };
    match body {
        SetExpr::Select(select) => select
            .from
            .iter()
            .any(|from| is_one(&from.relation) || from.joins.iter().any(|join| is_one(&join.relation))),
        SetExpr::SetOperation { left, right, .. } => reads_catalog(left) || reads_catalog(right),
        SetExpr::Query(query) => reads_catalog(&query.body),
        _ => false,
    }
}

/// Whether a query reads a table that is always empty, and only rows of it: it joins nothing to
/// others that could stay without it, and counts nothing, unless by keys, of which there are none.
pub(super) fn gives_nothing(select: &Select) -> bool {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else { return false };
    let counts = keys.is_empty() && select.projection.iter().any(|item| counts(&item.to_string()));
    !counts && reads_nothing(select)
}

/// Whether what it reads has no row, before it counts.
fn reads_nothing(select: &Select) -> bool {
    let reads = select.from.iter().any(|from| {
        is_empty(&from.relation)
            || from.joins.iter().any(|join| {
                matches!(join.join_operator, JoinOperator::Join(_) | JoinOperator::Inner(_)) && is_empty(&join.relation)
            })
    });
    let keeps_others = select.from.iter().flat_map(|from| &from.joins).any(|join| {
        matches!(join.join_operator, JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_))
    });
    reads && !keeps_others
}

/// A value looked up in the catalog is the most of the one that there is.
pub(super) fn take_most(query: &mut Query) {
    let SetExpr::Select(select) = &mut *query.body else { return };
    let groups = matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let looks_up =
        groups && query.order_by.is_none() && query.limit_clause.is_none() && select.from.iter().all(is_ours);
    if let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] = &mut select.projection[..]
        && looks_up
        && !counts(&item.to_string())
    {
        *item = call("max", take(item));
    }
}

/// What a lookup without a row gives that counts: 0, or nothing.
pub(super) fn counted(select: &Select) -> Option<Expr> {
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] = &select.projection[..] else {
        return None;
    };
    let groups = matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if !keys.is_empty());
    let Expr::Function(function) = item else { return None };
    let name = function.name.0.last()?.as_ident()?.value.to_ascii_lowercase();
    let is_one = !groups && select.having.is_none() && reads_nothing(select);
    match name.as_str() {
        "count" if is_one => Some(Expr::value(Value::Number("0".into(), false))),
        "max" | "min" | "sum" | "array_agg" | "string_agg" if is_one => Some(Expr::value(Value::Null)),
        _ => None,
    }
}

/// Whether all of it are tables of the catalog.
pub(super) fn is_ours(from: &TableWithJoins) -> bool {
    let is_one = |relation: &TableFactor| match relation {
        TableFactor::Table { name, args: None, .. } => {
            let name = name.0.last().and_then(ObjectNamePart::as_ident);
            name.is_some_and(|name| catalog::has(&name.value))
        }
        _ => false,
    };
    is_one(&from.relation) && from.joins.iter().all(|join| is_one(&join.relation))
}

fn is_empty(relation: &TableFactor) -> bool {
    let name = match relation {
        TableFactor::Table { name, .. } => name,
        TableFactor::Derived { subquery, .. } => {
            return matches!(&*subquery.body, SetExpr::Select(select) if gives_nothing(select));
        }
        _ => return false,
    };
    let parts: Vec<_> = name.0.iter().filter_map(ObjectNamePart::as_ident).collect();
    match parts.as_slice() {
        [name] => catalog::is_empty(None, &name.value),
        [schema, name] => catalog::is_empty(Some(&schema.value), &name.value),
        _ => false,
    }
}

/// Makes a query that gives nothing one without tables: its columns, as texts, and no row. Says
/// whether it is one of these.
pub(super) fn empty(body: &mut SetExpr) -> bool {
    match body {
        SetExpr::Select(select) if gives_nothing(select) => {
            let is_wild =
                |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
            if select.projection.iter().any(is_wild) {
                return false;
            }
            select.projection = std::mem::take(&mut select.projection).into_iter().map(null_named).collect();
            number_twins(&mut select.projection);
            select.from.clear();
            (select.distinct, select.having) = (None, None);
            select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
            select.selection = Some(Expr::value(Value::Boolean(false)));
            true
        }
        SetExpr::SetOperation { left, right, .. } => {
            let (left, right) = (empty(left), empty(right));
            left && right
        }
        _ => false,
    }
}

/// A null of the name that a column has.
fn null_named(item: SelectItem) -> SelectItem {
    let expr = if is_list(&item) { null_of(list_of_texts()) } else { null_text() };
    let alias = match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(mut names)) => names.pop(),
        SelectItem::UnnamedExpr(Expr::Function(mut function)) => function.name.0.pop().and_then(|part| match part {
            ObjectNamePart::Identifier(name) => Some(name),
            ObjectNamePart::Function(_) => None,
        }),
        _ => None,
    };
    SelectItem::ExprWithAlias { expr, alias: alias.unwrap_or_else(|| Ident::new("?column?")) }
}

pub(super) fn null_text() -> Expr {
    null_of(DataType::Text)
}

fn null_of(data_type: DataType) -> Expr {
    let expr = Box::new(Expr::value(Value::Null));
    Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None }
}

fn list_of_texts() -> DataType {
    DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(DataType::Text), None))
}

/// Whether a column gathers others: a list goes on as one, even if nothing is in it.
fn is_list(item: &SelectItem) -> bool {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return false };
    matches!(expr, Expr::Function(function)
        if function.name.0.last().is_some_and(|name| name.to_string().eq_ignore_ascii_case("array_agg")))
}

/// DataFusion wants each column of a query to have a name of its own.
fn number_twins(items: &mut [SelectItem]) {
    let mut seen = std::collections::HashMap::new();
    for item in items {
        if let SelectItem::ExprWithAlias { alias, .. } = item {
            let count = seen.entry(alias.value.clone()).or_insert(0);
            if *count > 0 {
                alias.value = format!("{}_{count}", alias.value);
            }
            *count += 1;
        }
    }
}
