//! SQL that clients write for the catalog of PostgreSQL, as DataFusion understands it.

mod empty;
mod known;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement, TableFactor, Value, VisitMut, VisitorMut,
    visit_expressions,
};

use pagecast_sql::semantics::ast::{call, folded, take};

use super::catalog::{self, CATALOG};
use super::problem::Problem;
use empty::{counted, empty, gives_nothing, null_text, reads_catalog, take_most};
use known::{is_function_column, schemas};

pub(super) use known::oids;

/// The functions that may stand where a table does.
const TABLE_FUNCTIONS: &[&str] = &["generate_series", "pagecast_expected", "range", "unnest"];

/// Rewrites what clients ask of the catalog in SQL that DataFusion does not know.
pub(super) fn of_clients(mut statement: Statement) -> Result<Statement, Problem> {
    match statement.visit(&mut Rewrite::default()) {
        ControlFlow::Break(problem) => Err(problem),
        ControlFlow::Continue(()) => Ok(statement),
    }
}

#[derive(Default)]
struct Rewrite {
    /// Of each query around what is visited, whether it reads the catalog.
    catalog: Vec<bool>,
}

impl VisitorMut for Rewrite {
    type Break = Problem;

    /// A query of what is never there has no rows: the rest of it may be SQL that nobody here
    /// knows.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Problem> {
        if empty(&mut query.body) {
            query.order_by = None;
        }
        known::columns(&mut query.body, self.catalog.is_empty());
        self.catalog.push(reads_catalog(&query.body));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Problem> {
        self.catalog.pop();
        ControlFlow::Continue(())
    }

    /// A catalog's table stands for itself, with or without its schema.
    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<Problem> {
        if let [ObjectNamePart::Identifier(name)] = relation.0.as_slice()
            && catalog::has(&name.value)
        {
            relation.0.insert(0, ObjectNamePart::Identifier(Ident::new(CATALOG)));
        }
        ControlFlow::Continue(())
    }

    /// Functions that give tables may read files, or write them.
    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Problem> {
        known::table(factor);
        let name = match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
                without_catalog(name);
                name.to_string()
            }
            TableFactor::TableFunction { expr, .. } => expr.to_string(),
            _ => return ControlFlow::Continue(()),
        };
        if TABLE_FUNCTIONS.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(Problem::error("42501", format!("clients may not call {name} in the place of a table")))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Problem> {
        // DataFusion takes no subquery of which it cannot tell that it has one row at most.
        if let Expr::Subquery(query) = expr {
            let known = match &*query.body {
                SetExpr::Select(select) if gives_nothing(select) => Some(Expr::value(Value::Null)),
                SetExpr::Select(select) => counted(select),
                _ => None,
            };
            match known {
                Some(known) => *expr = known,
                None => take_most(query),
            }
        } else if let Some(list) = schemas(expr) {
            *expr = list;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Problem> {
        match expr {
            Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, .. } => {
                if let Some(other) = cast(inner, data_type) {
                    *expr = other;
                }
            }
            Expr::Function(function) if self.is_array_of_catalog(function) => *expr = null_text(),
            Expr::Function(function) => in_catalog(function),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Rewrite {
    /// Arrays of the catalog's rows are lists of roles and columns, which nobody has here.
    fn is_array_of_catalog(&self, function: &Function) -> bool {
        match &function.args {
            FunctionArguments::Subquery(query) if function.name.to_string().eq_ignore_ascii_case("array") => {
                self.catalog.contains(&true) || reads_catalog(&query.body)
            }
            _ => false,
        }
    }
}

/// A cast to one of the types that only a catalog has. The name of a table as its number is a
/// function; the others are numbers and texts.
fn cast(inner: &mut Expr, data_type: &mut DataType) -> Option<Expr> {
    let (name, is_array) = match data_type {
        DataType::Custom(name, _) => (name.0.last()?.as_ident()?.value.to_ascii_lowercase(), false),
        DataType::Regclass => ("regclass".to_owned(), false),
        DataType::Array(element) => (element_name(element)?, true),
        DataType::Text | DataType::Varchar(_) if is_function_column(inner) => {
            return Some(call("regproc_name", take(inner)));
        }
        _ => return None,
    };
    let is_parameter = matches!(inner, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)));
    let replaced = match name.as_str() {
        "regclass" if is_text(inner) => return Some(call("to_regclass", take(inner))),
        "regclass" => return Some(call("regclass_name", take(inner))),
        "regtype" => return Some(call("regtype_name", take(inner))),
        "regproc" | "regprocedure" if is_text(inner) => return Some(call("to_regproc", take(inner))),
        "regproc" | "text" | "varchar" if is_function_column(inner) => return Some(call("regproc_name", take(inner))),
        "regproc" | "regprocedure" | "regnamespace" | "regrole" => DataType::Text,
        "oid" | "xid" | "cid" => DataType::BigInt(None),
        "int2" => DataType::SmallInt(None),
        "int4" => DataType::Int(None),
        "int8" => DataType::BigInt(None),
        "float4" => DataType::Real,
        "float8" => DataType::Double(datafusion::sql::sqlparser::ast::ExactNumberInfo::None),
        "bool" => DataType::Boolean,
        "name" | "text" | "varchar" | "bpchar" | "char" | "pg_node_tree" | "information_schema.sql_identifier" => {
            DataType::Text
        }
        _ => return None,
    };
    // Arrays of the catalog are texts here, but those that clients send.
    *data_type = match is_array {
        true if is_parameter => DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(replaced), None)),
        true => DataType::Text,
        false => replaced,
    };
    None
}

fn element_name(element: &datafusion::sql::sqlparser::ast::ArrayElemTypeDef) -> Option<String> {
    use datafusion::sql::sqlparser::ast::ArrayElemTypeDef::{AngleBracket, Parenthesis, SquareBracket};
    match element {
        SquareBracket(inner, _) | AngleBracket(inner) | Parenthesis(inner) => match &**inner {
            DataType::Custom(name, _) => Some(name.0.last()?.as_ident()?.value.to_ascii_lowercase()),
            _ => None,
        },
        _ => None,
    }
}

fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::SingleQuotedString(_) | Value::Placeholder(_)),
        Expr::Nested(inner) => is_text(inner),
        Expr::Cast { data_type: DataType::Text | DataType::Varchar(_), .. } => true,
        Expr::BinaryOp { op: BinaryOperator::StringConcat, .. } => true,
        _ => false,
    }
}

/// `pg_catalog.upper(x)` is `upper(x)`. The catalog's own lists are texts, for which DataFusion's
/// functions of arrays have no place.
fn in_catalog(function: &mut Function) {
    if without_catalog(&mut function.name) && function.name.to_string().eq_ignore_ascii_case("array_to_string") {
        function.name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new("catalog_array_to_string"))]);
    }
}

/// Takes the schema away that PostgreSQL's own names have. Says whether it was there.
fn without_catalog(name: &mut ObjectName) -> bool {
    let [schema, bare] = name.0.as_slice() else { return false };
    let is_catalog = schema.as_ident().is_some_and(|schema| schema.value.eq_ignore_ascii_case(CATALOG));
    if is_catalog {
        *name = ObjectName(vec![bare.clone()]);
    }
    is_catalog
}

/// The parameters that stand for a list, as in `= ANY($1)`.
pub(super) fn lists(statement: &Statement) -> Vec<String> {
    let mut lists = Vec::new();
    let _ = visit_expressions(statement, |expr| {
        if let Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } = expr
            && let Expr::Value(value) = &**right
            && let Value::Placeholder(name) = &value.value
        {
            lists.push(name.clone());
        }
        ControlFlow::<()>::Continue(())
    });
    lists
}

/// The names that PostgreSQL gives to the columns of a query; `None` where they depend on tables.
pub(super) fn column_names(statement: &Statement) -> Option<Vec<String>> {
    let select = top_select(statement)?;
    select.projection.iter().map(column_name).collect()
}

fn top_select(statement: &Statement) -> Option<&Select> {
    match statement {
        Statement::Query(query) => match &*query.body {
            SetExpr::Select(select) => Some(select),
            _ => None,
        },
        _ => None,
    }
}

fn column_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(expr) => Some(name_of(expr).unwrap_or_else(|| "?column?".to_owned())),
        _ => None,
    }
}

fn name_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(folded(name)),
        Expr::CompoundIdentifier(names) => names.last().map(folded),
        Expr::Function(function) => function.name.0.last().and_then(ObjectNamePart::as_ident).map(folded),
        Expr::Cast { expr, .. } | Expr::Nested(expr) | Expr::Collate { expr, .. } => name_of(expr),
        Expr::Case { .. } => Some("case".to_owned()),
        Expr::Extract { .. } => Some("extract".to_owned()),
        _ => None,
    }
}
