//! What changes nothing but the connection: settings, transactions, and names that are let go.

use datafusion::sql::sqlparser::ast::{
    CloseCursor, ContextModifier, DiscardObject, Expr, Ident, ObjectName, Set, SetSessionParamKind, Statement as Ast,
    Value,
};

use crate::problem::Problem;

/// What a connection can be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) enum Own {
    Begin,
    /// Whether another transaction begins at once.
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    Set(Vec<(String, String)>),
    /// The same up to the end of the transaction.
    SetLocal(Vec<(String, String)>),
    Reset(String),
    ResetAll,
    /// `None`: all.
    Deallocate(Option<String>),
    Close(Option<String>),
    Discard,
    /// What PostgreSQL has and what means nothing here.
    Nothing(&'static str),
}

/// What changes nothing but the connection.
pub(super) fn own(ast: &Ast) -> Result<Option<Own>, Problem> {
    Ok(Some(match ast {
        Ast::StartTransaction { .. } => Own::Begin,
        Ast::Commit { chain, .. } => Own::Commit { chain: *chain },
        Ast::Rollback { savepoint: Some(name), .. } => Own::RollbackTo(name.value.clone()),
        Ast::Rollback { chain, .. } => Own::Rollback { chain: *chain },
        Ast::Savepoint { name } => Own::Savepoint(name.value.clone()),
        Ast::ReleaseSavepoint { name } => Own::Release(name.value.clone()),
        Ast::Deallocate { name, .. } => Own::Deallocate(unless_all(name)),
        Ast::Close { cursor: CloseCursor::All } => Own::Close(None),
        Ast::Close { cursor: CloseCursor::Specific { name } } => Own::Close(Some(name.value.clone())),
        Ast::Discard { object_type: DiscardObject::ALL } => Own::Discard,
        Ast::Discard { object_type: DiscardObject::PLANS } => Own::Nothing("DISCARD PLANS"),
        Ast::Discard { object_type: DiscardObject::SEQUENCES } => Own::Nothing("DISCARD SEQUENCES"),
        Ast::Discard { object_type: DiscardObject::TEMP } => Own::Nothing("DISCARD TEMP"),
        Ast::Set(set) if is_local(set) => Own::SetLocal(assignments(set)?),
        Ast::Set(set) => Own::Set(assignments(set)?),
        Ast::Reset(reset) => self::reset_words(&reset.to_string()),
        Ast::LISTEN { .. } => Own::Nothing("LISTEN"),
        Ast::UNLISTEN { .. } => Own::Nothing("UNLISTEN"),
        _ => return Ok(None),
    }))
}

fn unless_all(name: &Ident) -> Option<String> {
    let all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
    (!all).then(|| name.value.clone())
}

pub(super) fn reset(name: &ObjectName) -> Own {
    reset_words(&format!("RESET {name}"))
}

fn reset_words(words: &str) -> Own {
    let name = words.split_once(' ').map_or("", |(_, name)| name.trim()).trim_matches('"');
    if name.eq_ignore_ascii_case("all") { Own::ResetAll } else { Own::Reset(name.to_owned()) }
}

/// Whether a SET lasts as long as its transaction.
fn is_local(set: &Set) -> bool {
    let local = |scope: &Option<ContextModifier>| matches!(scope, Some(ContextModifier::Local));
    match set {
        Set::SingleAssignment { scope, .. } => local(scope),
        Set::MultipleAssignments { assignments } => assignments.iter().any(|set| local(&set.scope)),
        Set::SetTimeZone { local, .. } => *local,
        _ => false,
    }
}

/// Names and values of a SET.
fn assignments(set: &Set) -> Result<Vec<(String, String)>, Problem> {
    let one = |name: &ObjectName, values: &[Expr]| {
        let value: Vec<_> = values.iter().map(plain).collect();
        (name.to_string().replace('"', ""), value.join(", "))
    };
    Ok(match set {
        Set::SingleAssignment { variable, values, .. } => vec![one(variable, values)],
        Set::MultipleAssignments { assignments } => {
            assignments.iter().map(|set| one(&set.name, std::slice::from_ref(&set.value))).collect()
        }
        Set::SetTimeZone { value, .. } => vec![("TimeZone".to_owned(), plain(value))],
        Set::SetNames { charset_name, .. } => vec![("client_encoding".to_owned(), charset_name.value.clone())],
        Set::SetNamesDefault {} => vec![("client_encoding".to_owned(), "UTF8".to_owned())],
        // Whoever only reads what nobody changes sees the same at every level.
        Set::SetTransaction { .. } => Vec::new(),
        Set::SetRole { role_name: None, .. } => Vec::new(),
        Set::SetSessionParam(SetSessionParamKind::Generic(generic)) => {
            let names = generic.names.iter();
            names.map(|name| (name.to_string(), generic.value.to_string())).collect()
        }
        other => return Err(super::refused(&other.to_string())),
    })
}

/// The value of a setting, without quotes.
fn plain(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            // Some quote what is quoted already.
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => unquoted(text).to_owned(),
            other => other.to_string(),
        },
        Expr::Identifier(name) => unquoted(&name.value).to_owned(),
        other => other.to_string(),
    }
}

/// The text in a pair of quotes, or all of it.
fn unquoted(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    inner('\'').or_else(|| inner('"')).unwrap_or(text)
}
