//! What is known of the catalog before a query of it runs: clients write it in SQL that DataFusion
//! does not have.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, Select, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, UnaryOperator, Value,
    ValueWithSpan, visit_expressions, visit_expressions_mut,
};
use pagecast_sql::semantics::ast::{call, call_with, take};
use pgwire::api::Type;

use super::column_name;
use super::empty::is_ours;
use crate::catalog::{self, CATALOG};
use crate::types::of_sql;

/// Columns that every table of PostgreSQL has and no list of columns shows. Nothing changes here.
const HIDDEN: &[&str] = &["cmax", "cmin", "ctid", "tableoid", "xmax", "xmin"];
/// Columns that number a function, and are shown as its name.
const FUNCTIONS: &[&str] = &[
    "amhandler",
    "typanalyze",
    "typinput",
    "typmodin",
    "typmodout",
    "typoutput",
    "typreceive",
    "typsend",
    "typsubscript",
];
/// Functions in the place of a table that are tables here.
const TABLES: &[(&str, &str)] = &[("pg_get_keywords", "pg_get_keywords"), ("pg_show_all_settings", "pg_settings")];

/// The tables of the catalog that a query reads, by the names that they have in it.
struct Sources {
    all: Vec<(String, String)>,
    /// Whether it reads nothing else.
    only: bool,
}

impl Sources {
    fn of(select: &Select) -> Self {
        let mut sources = Self { all: Vec::new(), only: select.from.iter().all(is_ours) };
        select.from.iter().for_each(|from| sources.add(from));
        sources
    }

    fn add(&mut self, from: &TableWithJoins) {
        for factor in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
            match factor {
                TableFactor::Table { name, alias, args: None, .. } => {
                    let Some(name) = name.0.last().and_then(ObjectNamePart::as_ident) else { continue };
                    if catalog::has(&name.value) {
                        let alias = alias.as_ref().map_or(name, |alias| &alias.name);
                        self.all.push((alias.value.to_ascii_lowercase(), name.value.to_ascii_lowercase()));
                    }
                }
                TableFactor::NestedJoin { table_with_joins, .. } => self.add(table_with_joins),
                _ => {}
            }
        }
    }

    /// The column of a catalog's table that an expression is.
    fn column<'a>(&self, expr: &'a Expr) -> Option<&'a Ident> {
        match expr {
            Expr::Identifier(name) => Some(name).filter(|_| self.only && !self.all.is_empty()),
            Expr::CompoundIdentifier(names) => {
                let [.., table, name] = names.as_slice() else { return None };
                let table = table.value.to_ascii_lowercase();
                self.all.iter().any(|(alias, _)| *alias == table).then_some(name)
            }
            _ => None,
        }
    }

    fn is_one_of(&self, expr: &Expr, names: &[&str]) -> bool {
        self.column(expr).is_some_and(|name| names.contains(&name.value.to_ascii_lowercase().as_str()))
    }
}

/// Puts in what is known of the catalog's columns. The outermost query shows functions by name.
pub(super) fn columns(body: &mut SetExpr, outermost: bool) {
    match body {
        SetExpr::Select(select) => of_select(select, outermost),
        SetExpr::SetOperation { left, right, .. } => {
            columns(left, outermost);
            columns(right, outermost);
        }
        _ => {}
    }
}

fn of_select(select: &mut Select, outermost: bool) {
    rows_as_json(select);
    let sources = Sources::of(select);
    if sources.all.is_empty() {
        return;
    }
    for item in &mut select.projection {
        let alias = column_name(item).map(|name| Ident::with_quote('"', name));
        if let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }, Some(alias)) =
            (&mut *item, alias)
        {
            let replaced = if sources.is_one_of(expr, HIDDEN) {
                zero()
            } else if outermost && sources.is_one_of(expr, FUNCTIONS) {
                call("regproc_name", take(expr))
            } else {
                continue;
            };
            *item = SelectItem::ExprWithAlias { expr: replaced, alias };
        }
    }
    let _ = visit_expressions_mut(select, |expr| {
        fold(expr, &sources);
        ControlFlow::<()>::Continue(())
    });
}

/// Makes what is known of an expression a constant.
fn fold(expr: &mut Expr, sources: &Sources) {
    match expr {
        // All types are base types here.
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right }
            if sources.is_one_of(left, &["typtype"]) && text(right).is_some_and(|kind| kind != "b") =>
        {
            *expr = Expr::value(Value::Boolean(false));
        }
        Expr::Case { operand: None, conditions, else_result, .. } => {
            conditions.retain(|when| !is_false(when));
            if conditions.is_empty() {
                *expr = else_result.take().map_or(Expr::value(Value::Null), |otherwise| *otherwise);
            }
        }
        other if sources.is_one_of(other, HIDDEN) => *other = zero(),
        _ => {}
    }
}

fn is_false(when: &CaseWhen) -> bool {
    matches!(&when.condition, Expr::Value(ValueWithSpan { value: Value::Boolean(false), .. }))
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        Expr::Cast { expr, .. } | Expr::Nested(expr) => text(expr),
        _ => None,
    }
}

fn zero() -> Expr {
    Expr::value(Value::Number("0".into(), false))
}

/// Whether a column numbers a function.
pub(super) fn is_function_column(expr: &Expr) -> bool {
    let name = match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        _ => None,
    };
    name.is_some_and(|name| FUNCTIONS.contains(&name.value.to_ascii_lowercase().as_str()))
}

/// `row_to_json(t)` of a query that is called t, as an object of its columns.
fn rows_as_json(select: &mut Select) {
    let mut rows = Vec::new();
    for from in &select.from {
        if let TableFactor::Derived { alias: Some(alias), subquery, .. } = &from.relation
            && let SetExpr::Select(inner) = &*subquery.body
            && let Some(names) = inner.projection.iter().map(column_name).collect::<Option<Vec<_>>>()
        {
            rows.push((alias.name.clone(), names));
        }
    }
    if rows.is_empty() {
        return;
    }
    let _ = visit_expressions_mut(&mut select.projection, |expr| {
        if let Expr::Function(function) = &*expr
            && function.name.0.last().is_some_and(|name| name.to_string().eq_ignore_ascii_case("row_to_json"))
            && let FunctionArguments::List(list) = &function.args
            && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(row)))] = list.args.as_slice()
            && let Some((alias, names)) = rows.iter().find(|(alias, _)| alias.value.eq_ignore_ascii_case(&row.value))
        {
            let pair = |name: &String| {
                let value = Expr::CompoundIdentifier(vec![alias.clone(), Ident::with_quote('"', name)]);
                [Expr::value(Value::SingleQuotedString(name.clone())), value]
            };
            *expr = call_with("json_build_object", names.iter().flat_map(pair).collect());
        }
        ControlFlow::<()>::Continue(())
    });
}

/// `IN (SELECT ... current_setting('search_path') ...)`: the schemas where tables are looked for.
pub(super) fn schemas(expr: &mut Expr) -> Option<Expr> {
    let Expr::InSubquery { expr: inner, subquery, negated } = expr else { return None };
    if !subquery.to_string().to_ascii_lowercase().contains("current_setting('search_path')") {
        return None;
    }
    let searched = call("in_search_path", take(inner));
    Some(if *negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(searched) } } else { searched })
}

/// A function in the place of a table that is a table here; or what such a function counts to.
pub(super) fn table(factor: &mut TableFactor) {
    match factor {
        TableFactor::Table { name, args: args @ Some(_), .. } => {
            let bare = name.0.last().and_then(ObjectNamePart::as_ident).map(|name| name.value.to_ascii_lowercase());
            if let Some((_, table)) = TABLES.iter().find(|(function, _)| Some(*function) == bare.as_deref()) {
                let parts = [CATALOG, table].map(|part| ObjectNamePart::Identifier(Ident::new(part)));
                (*name, *args) = (ObjectName(parts.into()), None);
            } else if let Some(args) = args {
                args.args.iter_mut().for_each(bound);
            }
        }
        TableFactor::Function { args, .. } => args.iter_mut().for_each(bound),
        _ => {}
    }
}

/// How many schemas are searched, as a number.
fn bound(argument: &mut FunctionArg) {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else { return };
    let words = expr.to_string().to_ascii_lowercase().replace("pg_catalog.", "");
    let number = match words.as_str() {
        "array_upper(current_schemas(false), 1)" => "1",
        "array_upper(current_schemas(true), 1)" => "2",
        _ => return,
    };
    *expr = Expr::value(Value::Number(number.into(), false));
}

/// The types of all parameters on the wire, 0 for what nobody says; a cast says it (`$1::oid`). A
/// part of a statement that gives nothing here may be left out, and its parameters still come.
pub(crate) fn oids(statement: &Statement, told: &[u32]) -> Vec<u32> {
    let mut oids = told.to_vec();
    let _ = visit_expressions(statement, |expr| {
        let (value, kind) = match expr {
            Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
                (&**expr, of_sql(data_type))
            }
            value => (value, None),
        };
        if let Some(number) = parameter(value) {
            oids.resize(oids.len().max(number), 0);
            if let Some(kind) = kind
                && (oids[number - 1] == 0 || oids[number - 1] == Type::UNKNOWN.oid())
            {
                oids[number - 1] = kind.oid();
            }
        }
        ControlFlow::<()>::Continue(())
    });
    oids
}

/// The number of a parameter, if it can have one.
fn parameter(expr: &Expr) -> Option<usize> {
    let Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) = expr else { return None };
    let number = name.strip_prefix('$')?.parse().ok()?;
    (1..=usize::from(u16::MAX)).contains(&number).then_some(number)
}
