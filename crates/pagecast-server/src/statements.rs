//! What a client's text asks for: rows, a change of its own settings, or something that is refused.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ParamValues;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::{LogicalPlan, Statement as PlanStatement};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, ExplainStatement, ResetStatement, Statement as Parsed};
use datafusion::sql::sqlparser::ast::{
    CloseCursor, Declare, DescribeAlias, DiscardObject, Expr, FetchDirection, Ident, ObjectName, Set,
    SetSessionParamKind, Statement as Ast, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use pagecast_sql::formats::Format;
use pagecast_sql::query::{Ended, Query};
use pagecast_sql::{Fault, syntax};
use pagecast_sql::{shape, weight};
use pgwire::api::Type;

use super::problem::Problem;
use super::rewrite;
use super::settings::Settings;
use super::types;

/// Columns that a SELECT may list, as in PostgreSQL.
const WIDEST: usize = 1664;

/// Columns that a message describes.
const MOST_COLUMNS: usize = i16::MAX as usize;

/// Parameters that messages can count.
const MOST_PARAMETERS: usize = u16::MAX as usize;

/// How DataFusion says that two columns have one name.
const TWINS: &str = "Projections require unique expression names";

/// A statement that can run, again and again.
pub(super) struct Statement {
    pub(super) work: Work,
    /// What others see of it.
    pub(super) text: Arc<str>,
    /// Of each parameter its type on the wire and in the plan.
    pub(super) parameters: Vec<(u32, DataType)>,
}

/// What a statement does.
pub(super) enum Work {
    /// Nothing: there is no statement.
    Empty,
    /// Something with the connection alone.
    Own(Own),
    Rows(Box<Rows>),
    /// Makes a portal of a statement that gives rows.
    Declare {
        name: String,
        statement: Arc<Statement>,
    },
    /// Rows of a portal: so many, 0 for all.
    Fetch {
        name: String,
        limit: usize,
    },
}

/// A statement that gives rows.
pub(super) struct Rows {
    pub(super) plan: LogicalPlan,
    pub(super) schema: SchemaRef,
    /// The names of its columns.
    pub(super) names: Vec<String>,
    /// The word that says that it is done; the number of rows follows that of SELECT.
    pub(super) tag: &'static str,
}

/// What a connection can be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Own {
    Begin,
    Commit,
    Rollback,
    Savepoint,
    Release,
    RollbackTo,
    Set(Vec<(String, String)>),
    Reset(String),
    ResetAll,
    /// `None`: all.
    Deallocate(Option<String>),
    Close(Option<String>),
    Discard,
    /// What PostgreSQL has and what means nothing here.
    Nothing(&'static str),
}

/// The statements of a text.
pub(super) fn parse(sql: &str) -> Result<Vec<Parsed>, Problem> {
    let dialect = PostgreSqlDialect {};
    let shape = shape::of(sql, &dialect);
    if shape.columns > WIDEST {
        let columns = shape.columns;
        return Err(Problem::error("54011", format!("a SELECT lists {columns} columns, and the limit is {WIDEST}")));
    }
    shape.check().map_err(|fault| Problem::error("54001", fault.what))?;
    match DFParser::parse_sql_with_dialect(sql, &dialect) {
        Ok(statements) => {
            statements.iter().try_for_each(weight::check).map_err(|what| Problem::error("54001", what))?;
            Ok(statements.into())
        }
        Err(_) => {
            let fault = syntax::statements_of(sql, &dialect).err();
            Err(fault.map_or_else(|| Problem::error("42601", "this is no SQL"), |fault| misspelled(sql, &fault)))
        }
    }
}

fn misspelled(sql: &str, fault: &Fault) -> Problem {
    let before: usize = sql.lines().take(fault.line as usize - 1).map(|line| line.chars().count() + 1).sum();
    let position = Some(before + fault.column as usize);
    Problem { position, ..Problem::error("42601", fault.what.clone()) }
}

impl Statement {
    pub(super) fn empty() -> Self {
        Self::of(Work::Empty, Vec::new())
    }

    /// Plans a statement whose parameters have these types on the wire, 0 for what it decides.
    pub(super) async fn plan(
        ctx: &SessionContext,
        parsed: Parsed,
        oids: &[u32],
        settings: &Settings,
    ) -> Result<Self, Problem> {
        let parsed = match parsed {
            Parsed::Statement(ast) => *ast,
            Parsed::Reset(ResetStatement::Variable(name)) => return Ok(Self::own(reset(&name))),
            Parsed::Explain(explain) => explained_query(explain)?,
            other => return Err(refused(&other.to_string())),
        };
        if let Some(own) = own(&parsed)? {
            return Ok(Self::own(own));
        }
        let parsed = match parsed {
            Ast::Declare { stmts } => {
                let (name, query) = declared(stmts)?;
                let query = Parsed::Statement(Box::new(query));
                let statement = Box::pin(Self::plan(ctx, query, oids, settings)).await?;
                let parameters = statement.parameters.clone();
                return Ok(Self::of(Work::Declare { name, statement: Arc::new(statement) }, parameters));
            }
            Ast::Fetch { name, direction, into: None, .. } => {
                let work = Work::Fetch { name: name.value, limit: limit(&direction)? };
                return Ok(Self::of(work, Vec::new()));
            }
            other => other,
        };
        let (ast, tag) = readable(parsed, settings)?;
        let names = rewrite::column_names(&ast);
        let oids = &rewrite::oids(&ast, oids);
        let ast = rewrite::for_datafusion(ast)?;
        let (plan, parameters) = match typed(ctx, ast.clone(), oids).await {
            Err(problem) if problem.message.starts_with(TWINS) => match rewrite::with_own_names(ast) {
                Some(ast) => typed(ctx, ast, oids).await?,
                None => return Err(problem),
            },
            typed => typed?,
        };
        let only_reads = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        only_reads.verify_plan(&plan).map_err(|error| Problem { code: "25006", ..Problem::of(&error) })?;
        let schema = Arc::clone(plan.schema().inner());
        if schema.fields().len() > MOST_COLUMNS {
            let columns = schema.fields().len();
            let what = format!("the result has {columns} columns, and a message holds {MOST_COLUMNS}");
            return Err(Problem::error("54011", what));
        }
        let names = names.filter(|names| names.len() == schema.fields().len());
        let names = names.unwrap_or_else(|| schema.fields().iter().map(|field| field.name().clone()).collect());
        Ok(Self::of(Work::Rows(Box::new(Rows { plan, schema, names, tag })), parameters))
    }

    fn of(work: Work, parameters: Vec<(u32, DataType)>) -> Self {
        Self { work, text: Arc::from(""), parameters }
    }

    fn own(own: Own) -> Self {
        Self::of(Work::Own(own), Vec::new())
    }
}

impl Rows {
    /// Begins to execute the statement with these parameters.
    pub(super) async fn execute(
        &self,
        ctx: &SessionContext,
        values: ParamValues,
        bound: bool,
    ) -> Result<Query, Problem> {
        let (ctx, plan) = (ctx.clone(), self.plan.clone());
        let execute = async move {
            let plan = if bound { plan.with_param_values(values)? } else { plan };
            let rows: SendableRecordBatchStream = ctx.execute_logical_plan(plan).await?.execute_stream().await?;
            Ok(rows)
        };
        Ok(Query::run(execute).await?)
    }
}

/// The plan of a statement, and its parameters. What the client does not say of them the statement
/// does, and of what neither says anything it is text.
async fn typed(ctx: &SessionContext, ast: Ast, oids: &[u32]) -> Result<(LogicalPlan, Vec<(u32, DataType)>), Problem> {
    let told: Vec<Option<DataType>> = oids.iter().map(|&oid| types::of_parameter(oid)).collect();
    let (plan, found) = match plan(ctx, ast.clone()).await {
        Ok(plan) => {
            let found = plan.get_parameter_types().map_err(|error| Problem::of(&error))?;
            (Some(plan), found)
        }
        // It may be that the types are what is missing.
        Err(Ended::Failed(_)) if told.iter().any(Option::is_some) => (None, HashMap::new()),
        Err(ended) => return Err(explained(ended)),
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
        None => with_types(ctx, ast, &kinds).await?,
    };
    let on_wire = |(number, kind): (usize, DataType)| match oids.get(number) {
        Some(&oid) if oid != 0 && oid != Type::UNKNOWN.oid() => (oid, kind),
        _ => (types::of_arrow(&kind).oid(), kind),
    };
    Ok((plan, kinds.into_iter().enumerate().map(on_wire).collect()))
}

async fn plan(ctx: &SessionContext, ast: Ast) -> Result<LogicalPlan, Ended> {
    let state = ctx.state();
    Query::plan(async move { state.statement_to_plan(Parsed::Statement(Box::new(ast))).await }).await
}

async fn with_types(ctx: &SessionContext, ast: Ast, kinds: &[DataType]) -> Result<LogicalPlan, Problem> {
    let data_types = kinds.iter().map(types::in_sql).collect();
    let prepare = Ast::Prepare { name: Ident::new("statement"), data_types, statement: Box::new(ast) };
    match plan(ctx, prepare).await.map_err(explained)? {
        LogicalPlan::Statement(PlanStatement::Prepare(prepared)) => Ok(Arc::unwrap_or_clone(prepared.input)),
        plan => Ok(plan),
    }
}

/// An error of planning. A file in the place of a table is refused by its name.
fn explained(ended: Ended) -> Problem {
    let problem = Problem::from(ended);
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

/// What changes nothing but the connection.
fn own(ast: &Ast) -> Result<Option<Own>, Problem> {
    Ok(Some(match ast {
        Ast::StartTransaction { .. } => Own::Begin,
        Ast::Commit { .. } => Own::Commit,
        Ast::Rollback { savepoint: Some(_), .. } => Own::RollbackTo,
        Ast::Rollback { .. } => Own::Rollback,
        Ast::Savepoint { .. } => Own::Savepoint,
        Ast::ReleaseSavepoint { .. } => Own::Release,
        Ast::Deallocate { name, .. } => Own::Deallocate(unless_all(name)),
        Ast::Close { cursor: CloseCursor::All } => Own::Close(None),
        Ast::Close { cursor: CloseCursor::Specific { name } } => Own::Close(Some(name.value.clone())),
        Ast::Discard { object_type: DiscardObject::ALL } => Own::Discard,
        Ast::Discard { object_type: DiscardObject::PLANS } => Own::Nothing("DISCARD PLANS"),
        Ast::Discard { object_type: DiscardObject::SEQUENCES } => Own::Nothing("DISCARD SEQUENCES"),
        Ast::Discard { object_type: DiscardObject::TEMP } => Own::Nothing("DISCARD TEMP"),
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

fn reset(name: &ObjectName) -> Own {
    reset_words(&format!("RESET {name}"))
}

fn reset_words(words: &str) -> Own {
    let name = words.split_once(' ').map_or("", |(_, name)| name.trim()).trim_matches('"');
    if name.eq_ignore_ascii_case("all") { Own::ResetAll } else { Own::Reset(name.to_owned()) }
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
        other => return Err(refused(&other.to_string())),
    })
}

/// The value of a setting, without quotes.
fn plain(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        Expr::Identifier(name) => name.value.clone(),
        other => other.to_string(),
    }
}

/// Name and query of a cursor.
fn declared(mut declared: Vec<Declare>) -> Result<(String, Ast), Problem> {
    let cursor = declared.pop().filter(|_| declared.is_empty());
    if cursor.as_ref().is_some_and(|cursor| cursor.hold == Some(true)) {
        return Err(Problem::error("0A000", "cursors end with their transaction"));
    }
    let cursor = cursor.and_then(|mut cursor| Some((cursor.names.pop()?, cursor.for_query?, cursor.scroll)));
    match cursor {
        Some((_, _, Some(true))) => Err(forward_only()),
        Some((name, query, _)) => Ok((name.value, Ast::Query(query))),
        None => Err(Problem::error("0A000", "a cursor is declared as DECLARE name CURSOR FOR SELECT ...")),
    }
}

fn forward_only() -> Problem {
    Problem::error("0A000", "cursors go forward only")
}

/// How many rows a FETCH wants, 0 for all.
fn limit(direction: &FetchDirection) -> Result<usize, Problem> {
    let number = |value: &ValueWithSpan| match &value.value {
        Value::Number(number, _) => number.to_string().parse().ok().filter(|&count| count > 0),
        _ => None,
    };
    match direction {
        FetchDirection::Next | FetchDirection::Forward { limit: None } => Ok(1),
        FetchDirection::All | FetchDirection::ForwardAll => Ok(0),
        FetchDirection::Count { limit } | FetchDirection::Forward { limit: Some(limit) } => {
            number(limit).ok_or_else(forward_only)
        }
        _ => Err(forward_only()),
    }
}

/// An EXPLAIN that DataFusion's parser has read by itself. Of its options it is ANALYZE and VERBOSE
/// that are understood here.
fn explained_query(explain: ExplainStatement) -> Result<Ast, Problem> {
    let (analyze, verbose) = (explain.options.analyze, explain.options.verbose);
    match *explain.statement {
        Parsed::Statement(statement) => Ok(Ast::Explain {
            describe_alias: DescribeAlias::Explain,
            analyze,
            verbose,
            query_plan: false,
            estimate: false,
            statement,
            format: None,
            options: None,
        }),
        other => Err(refused(&other.to_string())),
    }
}

/// A statement that gives rows, and the word for it.
fn readable(ast: Ast, settings: &Settings) -> Result<(Ast, &'static str), Problem> {
    match ast {
        Ast::Query(_) => Ok((ast, "SELECT")),
        Ast::Explain { ref statement, .. } if !matches!(**statement, Ast::Query(_)) => Err(refused(&ast.to_string())),
        Ast::Explain { .. } | Ast::ExplainTable { .. } => Ok((ast, "EXPLAIN")),
        Ast::ShowVariable { variable } => shown(variable, settings).map(|ast| (ast, "SHOW")),
        Ast::ShowTables { .. } | Ast::ShowColumns { .. } | Ast::ShowFunctions { .. } => Ok((ast, "SHOW")),
        other => Err(refused(&other.to_string())),
    }
}

/// `SHOW name` as a query.
fn shown(variable: Vec<Ident>, settings: &Settings) -> Result<Ast, Problem> {
    let words: Vec<_> = variable.iter().map(|word| word.value.as_str()).collect();
    let name = match words.join(" ").to_ascii_lowercase().as_str() {
        "transaction isolation level" => "transaction_isolation".to_owned(),
        "time zone" => "TimeZone".to_owned(),
        "session authorization" => "session_authorization".to_owned(),
        _ => words.join("."),
    };
    let Some(sql) = settings.shown(&name) else { return Ok(Ast::ShowVariable { variable }) };
    match parse(&sql)?.pop() {
        Some(Parsed::Statement(ast)) => Ok(*ast),
        _ => Err(Problem::error("XX000", format!("{name} cannot be shown"))),
    }
}

/// Refuses a statement that is not for readers, by its first words.
fn refused(sql: &str) -> Problem {
    let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
    let kept = sql.split_whitespace().take_while(is_name).take(3);
    let words: Vec<_> = kept.take_while(|word| word.chars().all(|c| c.is_ascii_uppercase() || c == '_')).collect();
    let words = if words.is_empty() { "this statement".to_owned() } else { words.join(" ") };
    Problem::error("25006", format!("{words} is refused: clients of pagecast serve read tables, and change nothing"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn own_of(sql: &str) -> Own {
        match parse(sql).unwrap().pop().unwrap() {
            Parsed::Statement(ast) => own(&ast).unwrap().unwrap(),
            Parsed::Reset(ResetStatement::Variable(name)) => reset(&name),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn settings_are_the_connections_own() {
        let set = |name: &str, value: &str| Own::Set(vec![(name.to_owned(), value.to_owned())]);
        assert_eq!(own_of("SET statement_timeout = '5s'"), set("statement_timeout", "5s"));
        assert_eq!(own_of("SET LOCAL statement_timeout TO 100"), set("statement_timeout", "100"));
        assert_eq!(own_of("SET TIME ZONE 'UTC'"), set("TimeZone", "UTC"));
        assert_eq!(own_of("SET search_path TO a, b"), set("search_path", "a, b"));
        assert_eq!(own_of("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"), Own::Set(vec![]));
        assert_eq!(own_of("RESET ALL"), Own::ResetAll);
        assert_eq!(own_of("RESET statement_timeout"), Own::Reset("statement_timeout".to_owned()));
        assert_eq!(own_of("DEALLOCATE ALL"), Own::Deallocate(None));
        assert_eq!(own_of("ROLLBACK TO SAVEPOINT a"), Own::RollbackTo);
    }

    #[test]
    fn what_writes_is_refused_by_its_name() {
        for (sql, words) in [
            ("COPY t TO '/tmp/x'", "COPY"),
            ("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc'", "CREATE EXTERNAL TABLE"),
            ("INSERT INTO t VALUES (1)", "INSERT INTO"),
            ("DROP TABLE t", "DROP TABLE"),
            ("CREATE VIEW v AS SELECT 1", "CREATE VIEW"),
        ] {
            let parsed = parse(sql).unwrap().pop().unwrap();
            let problem = refused(&parsed.to_string());
            assert_eq!(problem.code, "25006");
            assert!(problem.message.starts_with(words), "{}", problem.message);
        }
    }

    #[test]
    fn a_fault_has_a_place() {
        let problem = parse("SELECT 1,\n FROM FROM t").unwrap_err();
        assert_eq!((problem.code, problem.position.is_some()), ("42601", true));
    }
}
