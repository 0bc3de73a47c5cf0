//! Statements in words that DataFusion has, which mean what PostgreSQL means.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArguments, ObjectName, Query, Select, SelectFlavor,
    SelectItem, TableFactor, UnaryOperator, Value, ValueWithSpan, VisitMut, VisitorMut, WildcardAdditionalOptions,
};

use super::ast::{call_with, take};
use super::{precedence, spans, spelled};
use crate::classed::Classed;

/// Puts a statement into DataFusion's words.
pub(super) fn in_datafusion(statement: &mut impl VisitMut) -> Result<(), Classed> {
    match statement.visit(&mut Rewrite) {
        ControlFlow::Break(refused) => Err(refused),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Rewrite;

impl VisitorMut for Rewrite {
    type Break = Classed;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Classed> {
        spelled::fetch_as_limit(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Classed> {
        // `FROM t` alone has all columns, as in DuckDB.
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
        }
        select.flavor = SelectFlavor::Standard;
        spelled::in_list(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Classed> {
        if let TableFactor::Table { name, alias, args: None, .. } = factor {
            spelled::without_only(name, alias);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Classed> {
        match rewritten(expr) {
            Ok(Some(other)) => *expr = other,
            Ok(None) => {}
            Err(refused) => return ControlFlow::Break(refused),
        }
        ControlFlow::Continue(())
    }
}

/// What takes the place of an expression; `None` if that stays, and was perhaps changed.
fn rewritten(expr: &mut Expr) -> Result<Option<Expr>, Classed> {
    if let Some(bound) = precedence::bound(expr) {
        return Ok(Some(bound));
    }
    Ok(match expr {
        // OPERATOR(pg_catalog.~) is ~.
        Expr::BinaryOp { left, op, right } => {
            if let BinaryOperator::PGCustomBinaryOperator(words) = op
                && let Some(plain) = words.last().and_then(|word| operator(word))
            {
                *op = plain;
            }
            precedence::of_parts(left, op, right)
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } if is_power(expr) => {
            let mut power = take(expr);
            negate_base(&mut power);
            Some(power)
        }
        Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
            escape_as_usual(pattern, escape_char);
            None
        }
        Expr::Collate { expr: inner, collation } => {
            spelled::by_bytes(collation)?;
            Some(take(inner))
        }
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, .. } => {
            if let Some(bytes) = bytes_of(inner, data_type) {
                return Ok(Some(bytes));
            }
            spans::cast(inner, data_type);
            spelled::cast(inner, data_type)?
        }
        Expr::TypedString(text) => {
            spelled::kind(&mut text.data_type);
            None
        }
        Expr::Interval(interval) => {
            spans::literal(interval);
            None
        }
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => spelled::exact_number(digits),
        Expr::SimilarTo { .. } => spelled::similar(expr),
        Expr::Substring { .. } => spelled::matched(expr),
        Expr::Function(Function { name, args: FunctionArguments::Subquery(query), .. }) if is_array(name) => {
            Some(spelled::array_of((**query).clone())?)
        }
        Expr::Function(_) => {
            spelled::renamed(expr);
            None
        }
        _ => None,
    })
}

fn is_power(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::PGExp, .. })
}

/// `-2 ^ 2` is `(-2) ^ 2`: a sign belongs to its number.
fn negate_base(power: &mut Expr) {
    match power {
        Expr::BinaryOp { left, op: BinaryOperator::PGExp, .. } => negate_base(left),
        base => *base = Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(take(base)) },
    }
}

fn is_array(name: &ObjectName) -> bool {
    name.to_string().eq_ignore_ascii_case("array")
}

/// `'\x0102'::bytea` as DataFusion writes bytes.
fn bytes_of(inner: &Expr, data_type: &DataType) -> Option<Expr> {
    let (Expr::Value(value), DataType::Bytea) = (inner, data_type) else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let digits = text.strip_prefix("\\x")?;
    digits
        .bytes()
        .all(|digit| digit.is_ascii_hexdigit())
        .then(|| Expr::value(Value::HexStringLiteral(digits.to_owned())))
}

/// `x LIKE pattern ESCAPE '/'` with the backslash as the escape: DataFusion knows no other.
fn escape_as_usual(pattern: &mut Expr, escape: &mut Option<ValueWithSpan>) {
    let Some(Value::SingleQuotedString(mark)) = escape.take().map(|escape| escape.value) else { return };
    if mark == "\\" {
        return;
    }
    let text = |text: &str| Expr::value(Value::SingleQuotedString(text.to_owned()));
    let replace = |inner, from: &str, to: &str| call_with("replace", vec![inner, text(from), text(to)]);
    let mut usual = replace(take(pattern), "\\", "\\\\");
    if !mark.is_empty() {
        // Twice, the mark is itself: it is kept aside as a character that no text has.
        usual = replace(usual, &mark.repeat(2), "\u{1}");
        usual = replace(replace(usual, &mark, "\\"), "\u{1}", &mark);
    }
    *pattern = usual;
}

fn operator(word: &str) -> Option<BinaryOperator> {
    Some(match word {
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        ">" => BinaryOperator::Gt,
        "<=" => BinaryOperator::LtEq,
        ">=" => BinaryOperator::GtEq,
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "||" => BinaryOperator::StringConcat,
        _ => return None,
    })
}
