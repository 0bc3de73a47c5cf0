//! Parts of statements.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, Value,
};

/// The expression, for which a null stands from now on.
pub fn take(inner: &mut Expr) -> Expr {
    std::mem::replace(inner, Expr::value(Value::Null))
}

/// A function of one argument.
pub fn call(name: &str, argument: Expr) -> Expr {
    call_with(name, vec![argument])
}

/// A function of these arguments.
pub fn call_with(name: &str, arguments: Vec<Expr>) -> Expr {
    let list = FunctionArgumentList {
        duplicate_treatment: None,
        args: arguments.into_iter().map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).collect(),
        clauses: Vec::new(),
    };
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A name as PostgreSQL keeps it: in small letters, unless it is quoted.
pub fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() }
}

/// Whether an expression makes one row of many.
pub fn counts(expr: &str) -> bool {
    let lower = expr.to_ascii_lowercase();
    // What a subquery counts makes no row of this one.
    if lower.contains("select ") {
        return false;
    }
    ["count(", "sum(", "max(", "min(", "avg(", "array_agg(", "string_agg(", "json_agg(", "bool_or(", "bool_and("]
        .iter()
        .any(|call| lower.contains(call))
}
