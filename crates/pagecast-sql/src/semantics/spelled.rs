//! SQL of PostgreSQL in words that DataFusion has, which mean the same.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, CharacterLength, DataType, ExactNumberInfo, Expr, FunctionArgumentClause,
    FunctionArguments, GroupByExpr, Ident, LimitClause, ObjectName, ObjectNamePart, OrderByExpr, OrderByKind, Query,
    Select, SelectItem, SetExpr, Subscript, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins,
    UnaryOperator, Value, VisitMut, VisitorMut,
};

use super::ast::{call, call_with, counts, take};
use crate::classed::Classed;
use crate::values::decimals;

/// `FETCH FIRST 5 ROWS ONLY` is `LIMIT 5`.
pub(super) fn fetch_as_limit(query: &mut Query) {
    let Some(fetch) = query.fetch.take_if(|fetch| !fetch.with_ties && !fetch.percent) else { return };
    let limit = Some(fetch.quantity.unwrap_or_else(|| number("1")));
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit: already, .. }) => *already = limit,
        other => *other = Some(LimitClause::LimitOffset { limit, offset: None, limit_by: Vec::new() }),
    }
}

fn number(digits: &str) -> Expr {
    Expr::value(Value::Number(digits.to_owned(), false))
}

fn text(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

/// `FROM ONLY t` is `FROM t`: no table here has others below it.
pub(super) fn without_only(name: &mut ObjectName, alias: &mut Option<TableAlias>) {
    let is_only = match name.0.as_slice() {
        [ObjectNamePart::Identifier(word)] => word.quote_style.is_none() && word.value.eq_ignore_ascii_case("only"),
        _ => false,
    };
    if is_only && let Some(table) = alias.take_if(|alias| !alias.explicit && alias.columns.is_empty()) {
        name.0 = vec![ObjectNamePart::Identifier(table.name)];
    }
}

/// What stands in the list of a SELECT and makes rows, or asks whether there are some.
pub(super) fn in_list(select: &mut Select) {
    for item in &mut select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
        if let Expr::Function(function) = expr
            && function.name.to_string().eq_ignore_ascii_case("generate_series")
            && function.over.is_none()
        {
            *expr = call("unnest", take(expr));
        }
        if let ControlFlow::Break(()) = expr.visit(&mut Exists::default()) {
            return;
        }
    }
}

/// Goes over what belongs to one query, and to none in it.
#[derive(Default)]
struct Exists {
    depth: usize,
}

impl VisitorMut for Exists {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0 {
            exists_as_value(expr);
        }
        ControlFlow::Continue(())
    }
}

/// Text is compared by its bytes here, as in the locale C.
pub(super) fn by_bytes(collation: &ObjectName) -> Result<(), Classed> {
    let name = collation.0.last().and_then(ObjectNamePart::as_ident).map_or("", |name| name.value.as_str());
    match name.to_ascii_lowercase().as_str() {
        "default" | "c" | "posix" | "ucs_basic" | "c.utf8" | "c.utf-8" => Ok(()),
        _ => Err(Classed::new("0A000", format!("text is compared by its bytes here; write COLLATE \"C\", not {name}"))),
    }
}

/// A cast to a type that DataFusion has in other words; the expression that it becomes, if it is no
/// cast any more.
pub(super) fn cast(inner: &mut Expr, data_type: &mut DataType) -> Result<Option<Expr>, Classed> {
    if let Some(cut) = cut(inner, data_type)? {
        return Ok(Some(cut));
    }
    exact(inner, data_type);
    kind(data_type);
    Ok(None)
}

/// `EXISTS (...)` as a value: DataFusion has it as a condition alone.
fn exists_as_value(expr: &mut Expr) {
    let Expr::Exists { subquery, negated } = expr else { return };
    let negated = *negated;
    let mut inner = std::mem::replace(&mut **subquery, query_of(Vec::new(), Vec::new()));
    let op = if negated { BinaryOperator::Eq } else { BinaryOperator::Gt };
    let counted = Expr::BinaryOp { left: Box::new(call_star("count")), op, right: Box::new(number("0")) };
    // What belongs to the row outside is looked for in the query itself, and not in one around it.
    if inner.limit_clause.is_none()
        && let SetExpr::Select(select) = &mut *inner.body
        && matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty())
        && select.distinct.is_none()
        && select.having.is_none()
        && !select.projection.iter().any(|item| counts(&item.to_string()))
    {
        select.projection = vec![SelectItem::UnnamedExpr(counted)];
        inner.order_by = None;
        *expr = Expr::Subquery(Box::new(inner));
        return;
    }
    let query = query_of(vec![counted], vec![derived(inner, None)]);
    *expr = Expr::Subquery(Box::new(query));
}

/// `count(*)`.
fn call_star(name: &str) -> Expr {
    use datafusion::sql::sqlparser::ast::{FunctionArg, FunctionArgExpr};
    let mut call = call_with(name, Vec::new());
    if let Expr::Function(function) = &mut call
        && let FunctionArguments::List(list) = &mut function.args
    {
        list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Wildcard));
    }
    call
}

fn derived(query: Query, column: Option<&str>) -> TableWithJoins {
    let column = column.map(|name| TableAliasColumnDef { name: Ident::new(name), data_type: None });
    let alias =
        TableAlias { explicit: true, name: Ident::new("inner_rows"), columns: column.into_iter().collect(), at: None };
    let relation = TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(alias), sample: None };
    TableWithJoins { relation, joins: Vec::new() }
}

/// `SELECT expressions FROM tables`.
fn query_of(expressions: Vec<Expr>, from: Vec<TableWithJoins>) -> Query {
    let select = Select {
        select_token: datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection: expressions.into_iter().map(SelectItem::UnnamedExpr).collect(),
        exclude: None,
        into: None,
        from,
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: datafusion::sql::sqlparser::ast::SelectFlavor::Standard,
    };
    Query {
        with: None,
        body: Box::new(SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// `ARRAY(SELECT x ... ORDER BY y)` as `array_agg(x ORDER BY y)` of the same rows.
pub(super) fn array_of(mut query: Query) -> Result<Expr, Classed> {
    let order = order_of(&mut query)?;
    let plain = matches!(&*query.body, SetExpr::Select(select) if is_plain(select))
        && query.limit_clause.is_none()
        && query.fetch.is_none();
    if plain && let SetExpr::Select(select) = &mut *query.body {
        let (item, alias) = match select.projection.pop() {
            Some(SelectItem::UnnamedExpr(item)) => (item, None),
            Some(SelectItem::ExprWithAlias { expr, alias }) => (expr, Some(alias)),
            _ => return Err(one_column()),
        };
        if !select.projection.is_empty() {
            return Err(one_column());
        }
        let order = order.into_iter().map(|by| of_item(by, &item, alias.as_ref())).collect();
        select.projection = vec![SelectItem::UnnamedExpr(gathered(item, order))];
        return Ok(call("array_or_empty", Expr::Subquery(Box::new(query))));
    }
    if !order.is_empty() {
        return Err(Classed::new(
            "0A000",
            "ARRAY(SELECT ...) with ORDER BY takes plain rows here; write (SELECT array_agg(x ORDER BY x) FROM (...) AS t(x))",
        ));
    }
    let element = Expr::Identifier(Ident::new("element"));
    let query = query_of(vec![gathered(element, Vec::new())], vec![derived(query, Some("element"))]);
    Ok(call("array_or_empty", Expr::Subquery(Box::new(query))))
}

fn one_column() -> Classed {
    Classed::new("42601", "subquery must return only one column")
}

/// Whether a row of the result is a row of the tables.
fn is_plain(select: &Select) -> bool {
    let groups = matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let makes_rows = |item: &SelectItem| {
        let text = item.to_string().to_ascii_lowercase();
        counts(&text) || ["unnest(", "generate_series(", " over "].iter().any(|word| text.contains(word))
    };
    groups
        && select.distinct.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && !select.projection.iter().any(makes_rows)
}

fn order_of(query: &mut Query) -> Result<Vec<OrderByExpr>, Classed> {
    match query.order_by.take().map(|order| order.kind) {
        None => Ok(Vec::new()),
        Some(OrderByKind::Expressions(order)) => Ok(order),
        Some(OrderByKind::All(_)) => Err(Classed::new("0A000", "ORDER BY ALL is not answered in ARRAY(SELECT ...)")),
    }
}

/// What is sorted by, where it is the column itself, by its number or its name.
fn of_item(mut by: OrderByExpr, item: &Expr, alias: Option<&Ident>) -> OrderByExpr {
    let is_item = match &by.expr {
        Expr::Value(value) => matches!(&value.value, Value::Number(..)),
        Expr::Identifier(name) => alias.is_some_and(|alias| alias.value == name.value),
        _ => false,
    };
    if is_item {
        by.expr = item.clone();
    }
    by
}

fn gathered(item: Expr, order: Vec<OrderByExpr>) -> Expr {
    let mut gathered = call("array_agg", item);
    if let Expr::Function(function) = &mut gathered
        && let FunctionArguments::List(list) = &mut function.args
        && !order.is_empty()
    {
        list.clauses.push(FunctionArgumentClause::OrderBy(order));
    }
    gathered
}

/// `x SIMILAR TO 'a%'` as a regular expression; `None` where the pattern is no constant.
pub(super) fn similar(expr: &mut Expr) -> Option<Expr> {
    let Expr::SimilarTo { negated, expr: inner, pattern, escape_char } = expr else { return None };
    let Expr::Value(value) = &**pattern else { return None };
    let Value::SingleQuotedString(pattern) = &value.value else { return None };
    let escape = match escape_char.as_ref().map(|escape| &escape.value) {
        None => Some('\\'),
        Some(Value::SingleQuotedString(mark)) => mark.chars().next(),
        Some(_) => return None,
    };
    let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
    let right = Box::new(text(&regular(pattern, escape)));
    Some(Expr::BinaryOp { left: Box::new(take(inner)), op, right })
}

/// `substring(x from 'a+')`: the part of a text that a pattern finds, or its first group;
/// `None` where the pattern is no constant.
pub(super) fn matched(expr: &mut Expr) -> Option<Expr> {
    let Expr::Substring { expr: inner, substring_from: Some(pattern), substring_for: None, .. } = expr else {
        return None;
    };
    let Expr::Value(value) = &**pattern else { return None };
    let Value::SingleQuotedString(_) = &value.value else { return None };
    let found = call_with("regexp_match", vec![take(inner), take(pattern)]);
    let first = AccessExpr::Subscript(Subscript::Index { index: number("1") });
    Some(Expr::CompoundFieldAccess { root: Box::new(found), access_chain: vec![first] })
}

fn regular(pattern: &str, escape: Option<char>) -> String {
    let (mut regular, mut class) = (String::from("^(?s:"), false);
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            mark if Some(mark) == escape => {
                if let Some(literal) = characters.next() {
                    if !literal.is_alphanumeric() && literal != '_' {
                        regular.push('\\');
                    }
                    regular.push(literal);
                }
            }
            ']' => {
                class = false;
                regular.push(']');
            }
            '[' => {
                class = true;
                regular.push('[');
            }
            other if class => regular.push(other),
            '%' => regular.push_str(".*"),
            '_' => regular.push('.'),
            special @ ('.' | '^' | '$' | '\\') => regular.extend(['\\', special]),
            other => regular.push(other),
        }
    }
    regular + ")$"
}

/// Types as PostgreSQL has them: `float` is double precision, and a timestamp has microseconds.
pub(super) fn kind(data_type: &mut DataType) {
    match data_type {
        DataType::Float(info) => {
            let real = matches!(info, ExactNumberInfo::Precision(bits) if *bits <= 24);
            *data_type = if real { DataType::Real } else { DataType::Double(ExactNumberInfo::None) };
        }
        DataType::Timestamp(digits @ None, _) => *digits = Some(6),
        DataType::Array(element) => {
            use datafusion::sql::sqlparser::ast::ArrayElemTypeDef::{AngleBracket, Parenthesis, SquareBracket};
            match element {
                SquareBracket(inner, _) | AngleBracket(inner) | Parenthesis(inner) => kind(inner),
                datafusion::sql::sqlparser::ast::ArrayElemTypeDef::None => {}
            }
        }
        _ => {}
    }
}

/// `x::varchar(3)` is the first three characters of a text.
fn cut(inner: &mut Expr, data_type: &DataType) -> Result<Option<Expr>, Classed> {
    let length = match data_type {
        DataType::Varchar(length) | DataType::CharacterVarying(length) | DataType::CharVarying(length) => {
            match length {
                Some(CharacterLength::IntegerLength { length, .. }) => *length,
                _ => return Ok(None),
            }
        }
        DataType::Char(None) | DataType::Character(None) => 1,
        DataType::Char(Some(CharacterLength::IntegerLength { length: 1, .. }))
        | DataType::Character(Some(CharacterLength::IntegerLength { length: 1, .. })) => 1,
        DataType::Char(_) | DataType::Character(_) => {
            return Err(Classed::new("0A000", "char(n) fills up with blanks; write varchar(n) or text"));
        }
        _ => return Ok(None),
    };
    Ok(Some(call_with("left", vec![as_text(take(inner)), number(&length.to_string())])))
}

fn as_text(inner: Expr) -> Expr {
    let expr = Box::new(inner);
    Expr::Cast { kind: CastKind::DoubleColon, expr, data_type: DataType::Text, array: false, format: None }
}

/// `12345678901234567890.5::numeric` with all of its digits, which a floating point has not.
fn exact(inner: &mut Expr, data_type: &mut DataType) {
    let (DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info)) = data_type else { return };
    let Some(digits) = literal(inner) else { return };
    let digits = digits.trim_end_matches('.');
    let plain = digits.trim_start_matches(['-', '+']);
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    if !whole.bytes().chain(fraction.bytes()).all(|digit| digit.is_ascii_digit()) {
        return;
    }
    // A numeric that says nothing of its digits has ten behind the point here, or more if it has.
    if matches!(info, ExactNumberInfo::None) && (fraction.len() > 10 || whole.len() > 28) {
        let scale = fraction.len().max(if whole.len() > 28 { 0 } else { 10 });
        let precision = if whole.len() + scale > 38 { 76 } else { 38 };
        *info = ExactNumberInfo::PrecisionAndScale(precision, scale as i64);
    }
    *inner = text(digits);
}

/// A number with an exponent, or too large for bigint, as one with a point, which is a numeric. One
/// with more digits than that has is a double.
pub(super) fn exact_number(digits: &mut String) -> Option<Expr> {
    let exponent = digits.contains(['e', 'E']);
    if !exponent && (digits.contains('.') || digits.parse::<i64>().is_ok()) {
        return None;
    }
    match decimals::digits(digits) {
        Some((whole, fraction)) if whole.len() + fraction.len() <= 38 => *digits = format!("0{whole}.{fraction}"),
        _ if exponent => {
            let expr = Box::new(text(digits));
            let data_type = DataType::Double(ExactNumberInfo::None);
            return Some(Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None });
        }
        _ => {}
    }
    None
}

/// The digits of a number that stands in the statement.
fn literal(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => literal(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => literal(expr).map(|digits| format!("-{digits}")),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Some(digits.to_string()),
            Value::SingleQuotedString(digits) => Some(digits.trim().to_owned()),
            _ => None,
        },
        _ => None,
    }
}

/// Functions under the names that DataFusion has for them.
pub(super) fn renamed(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let FunctionArguments::List(list) = &mut function.args else { return };
    let name = function.name.to_string().to_ascii_lowercase();
    match (name.as_str(), list.args.len()) {
        ("sign", 1) => function.name.0 = vec![ObjectNamePart::Identifier(Ident::new("signum"))],
        ("mod", 2) => {
            use datafusion::sql::sqlparser::ast::{FunctionArg, FunctionArgExpr};
            let mut sides = std::mem::take(&mut list.args).into_iter().filter_map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(Box::new(Expr::Nested(Box::new(expr)))),
                _ => None,
            });
            if let (Some(left), Some(right)) = (sides.next(), sides.next()) {
                *expr = Expr::Nested(Box::new(Expr::BinaryOp { left, op: BinaryOperator::Modulo, right }));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_regular_expressions() {
        assert_eq!(regular("a(b|c)%_", Some('\\')), "^(?s:a(b|c).*.)$");
        assert_eq!(regular("1.5\\%[a.]", Some('\\')), "^(?s:1\\.5\\%[a.])$");
    }
}
