//! What a client's text asks for: rows, a change of its own settings, or something that is refused.

mod copy;
mod own;
mod prepared;
mod typed;

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ParamValues;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, ExplainStatement, ResetStatement, Statement as Parsed};
use datafusion::sql::sqlparser::ast::{
    Declare, DescribeAlias, FetchDirection, Ident, Statement as Ast, Value, ValueWithSpan,
};
use pagecast_sql::query::Query;
use pagecast_sql::semantics::{self, Words, twins};
use pagecast_sql::{Fault, patient, shape, syntax, weight};

use super::problem::Problem;
use super::rewrite;
use super::settings::Settings;
pub(super) use copy::{Kind, Layout};
pub(super) use own::Own;
use own::{own, reset};
use typed::typed;

/// Columns that a SELECT may list, as in PostgreSQL.
const WIDEST: usize = 1664;

/// Statements of one text. A thousand of the shortest take 14 MB.
const MOST: usize = 2000;

/// Columns that a message describes.
const MOST_COLUMNS: usize = i16::MAX as usize;

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
    /// Keeps a statement under a name.
    Prepare {
        name: String,
        statement: Arc<Statement>,
        /// How long it is, in bytes.
        bytes: usize,
    },
    /// Runs a statement that has a name, with these values for its parameters.
    Execute {
        name: String,
        values: Vec<Option<String>>,
    },
    /// Sends rows as lines, or as bytes.
    Copy {
        rows: Box<Rows>,
        layout: Layout,
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

/// What a plan takes for each byte of its text, and for each column of each of its nodes.
const OF_TEXT: usize = 8;
const OF_COLUMN: usize = 200;

/// Bytes of a text that others wait for: a millisecond of reading. A longer one has a thread of its
/// own.
const SHORT: usize = 8 << 10;

/// The statements of a text.
pub(super) async fn read(sql: &str) -> Result<Vec<Parsed>, Problem> {
    if sql.len() <= SHORT {
        return parse(sql);
    }
    let sql = sql.to_owned();
    Query::read(async move { parse(&sql) }).await?
}

fn parse(sql: &str) -> Result<Vec<Parsed>, Problem> {
    let dialect = Words;
    let shape = shape::of(sql, &dialect);
    if shape.columns > WIDEST {
        let columns = shape.columns;
        return Err(Problem::error("54011", format!("a SELECT lists {columns} columns, and the limit is {WIDEST}")));
    }
    if shape.statements > MOST {
        let what = format!("{} statements came at once, and the limit is {MOST}: send them in parts", shape.statements);
        return Err(Problem::error("54000", what));
    }
    shape.check().map_err(|fault| Problem::error("54001", fault.what))?;
    match DFParser::parse_sql_with_dialect(sql, &dialect) {
        Ok(statements) => {
            statements.iter().try_for_each(weight::check).map_err(|what| Problem::error("54001", what))?;
            Ok(statements.into())
        }
        Err(_) => {
            if let Some(statements) = copy::parse(sql) {
                let parsed: Vec<_> = statements.into_iter().map(|ast| Parsed::Statement(Box::new(ast))).collect();
                parsed.iter().try_for_each(weight::check).map_err(|what| Problem::error("54001", what))?;
                return Ok(parsed);
            }
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
        Self::does(Work::Empty, Vec::new())
    }

    /// Plans a statement of a text of so many bytes, whose parameters have these types on the wire,
    /// 0 for what it decides.
    pub(super) async fn of(
        ctx: &SessionContext,
        parsed: Parsed,
        bytes: usize,
        oids: &[u32],
        settings: &Settings,
    ) -> Result<Self, Problem> {
        // A planner's future is large, and would be a part of each connection's.
        if bytes <= SHORT {
            return Box::pin(Self::plan(ctx, parsed, oids, settings)).await;
        }
        let (ctx, oids, settings) = (ctx.clone(), oids.to_vec(), settings.clone());
        Query::read(Box::pin(async move { Self::plan(&ctx, parsed, &oids, &settings).await })).await?
    }

    async fn plan(ctx: &SessionContext, parsed: Parsed, oids: &[u32], settings: &Settings) -> Result<Self, Problem> {
        let parsed = match parsed {
            Parsed::Statement(ast) => *ast,
            Parsed::Reset(ResetStatement::Variable(name)) => return Ok(Self::own(reset(&name))),
            Parsed::Explain(explain) => explained_query(explain)?,
            other => return Err(refused(&other.to_string())),
        };
        if let Some(own) = own(&parsed)? {
            return Ok(Self::own(own));
        }
        if let Some((query, layout)) = copy::query(&parsed)? {
            return Self::copied(ctx, &query, layout, settings).await;
        }
        let parsed = match parsed {
            Ast::Prepare { name, data_types, statement } => {
                let (oids, bytes) = (prepared::oids(&data_types)?, statement.to_string().len());
                let mut planned = Box::pin(Self::plan(ctx, Parsed::Statement(statement), &oids, settings)).await?;
                if !matches!(planned.work, Work::Rows(_)) {
                    return Err(Problem::error("0A000", "PREPARE takes a SELECT here"));
                }
                planned.text = Arc::from(format!("PREPARE {name}"));
                let statement = Arc::new(planned);
                return Ok(Self::does(Work::Prepare { name: name.value, statement, bytes }, Vec::new()));
            }
            Ast::Execute { name: Some(name), parameters, using, immediate: false, .. } if using.is_empty() => {
                let name =
                    name.0.last().and_then(|part| part.as_ident()).map_or(String::new(), |name| name.value.clone());
                return Ok(Self::does(Work::Execute { name, values: prepared::constants(&parameters)? }, Vec::new()));
            }
            Ast::Declare { stmts } => {
                let (name, query) = declared(stmts)?;
                let query = Parsed::Statement(Box::new(query));
                let statement = Box::pin(Self::plan(ctx, query, oids, settings)).await?;
                let parameters = statement.parameters.clone();
                return Ok(Self::does(Work::Declare { name, statement: Arc::new(statement) }, parameters));
            }
            Ast::Fetch { name, direction, into: None, .. } => {
                let work = Work::Fetch { name: name.value, limit: limit(&direction)? };
                return Ok(Self::does(work, Vec::new()));
            }
            other => other,
        };
        let (ast, tag) = readable(parsed, settings)?;
        let names = rewrite::column_names(&ast);
        let oids = &rewrite::oids(&ast, oids);
        let ast = understood(ctx, rewrite::of_clients(ast)?)?;
        let (plan, parameters) = match typed(ctx, ast.clone(), oids).await {
            Err(problem) if twins::are_refused(&problem.message) => {
                let mut ast = ast;
                twins::tell_apart(&mut ast);
                let (plan, parameters) = typed(ctx, ast, oids).await?;
                (twins::unmarked(plan).map_err(|error| Problem::of(&error))?, parameters)
            }
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
        Ok(Self::does(Work::Rows(Box::new(Rows { plan, schema, names, tag })), parameters))
    }

    /// A COPY of a query's rows.
    async fn copied(ctx: &SessionContext, query: &str, layout: Layout, settings: &Settings) -> Result<Self, Problem> {
        let parsed = parse(query)?.pop().ok_or_else(|| Problem::error("42601", "COPY wants a query"))?;
        let planned = Box::pin(Self::plan(ctx, parsed, &[], settings)).await?;
        match planned.work {
            Work::Rows(rows) if planned.parameters.is_empty() => {
                Ok(Self::does(Work::Copy { rows, layout }, Vec::new()))
            }
            Work::Rows(_) => Err(Problem::error("42P02", "COPY has no parameters; write the values")),
            _ => Err(Problem::error("0A000", "COPY takes a SELECT here")),
        }
    }

    /// What it takes as long as it is kept, about, if its text has so many bytes.
    pub(super) fn bytes(&self, text: usize) -> usize {
        let plan = match &self.work {
            Work::Rows(rows) | Work::Copy { rows, .. } => OF_COLUMN * rows.columns(),
            Work::Declare { statement, .. } | Work::Prepare { statement, .. } => statement.bytes(0),
            Work::Empty | Work::Own(_) | Work::Execute { .. } | Work::Fetch { .. } => 0,
        };
        OF_TEXT * text + plan
    }

    fn does(work: Work, parameters: Vec<(u32, DataType)>) -> Self {
        Self { work, text: Arc::from(""), parameters }
    }

    fn own(own: Own) -> Self {
        Self::does(Work::Own(own), Vec::new())
    }
}

impl Rows {
    /// Columns of all nodes of the plan.
    fn columns(&self) -> usize {
        let mut columns = 0;
        // It ends in no error: nothing here does.
        let _ = self.plan.apply_with_subqueries(|node| {
            columns += node.schema().fields().len();
            Ok(TreeNodeRecursion::Continue)
        });
        columns
    }

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
            patient::execute(ctx.execute_logical_plan(plan).await?).await
        };
        Ok(Query::run(execute).await?)
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

/// A statement in DataFusion's words.
fn understood(ctx: &SessionContext, ast: Ast) -> Result<Ast, Problem> {
    let mut parsed = Parsed::Statement(Box::new(ast));
    semantics::understood(ctx, &mut parsed)?;
    match parsed {
        Parsed::Statement(ast) => Ok(*ast),
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
        let local = Own::SetLocal(vec![("statement_timeout".to_owned(), "100".to_owned())]);
        assert_eq!(own_of("SET LOCAL statement_timeout TO 100"), local);
        assert_eq!(own_of("SET client_encoding = \"'utf-8'\""), set("client_encoding", "utf-8"));
        assert_eq!(own_of("COMMIT AND CHAIN"), Own::Commit { chain: true });
        assert_eq!(own_of("SET TIME ZONE 'UTC'"), set("TimeZone", "UTC"));
        assert_eq!(own_of("SET search_path TO a, b"), set("search_path", "a, b"));
        assert_eq!(own_of("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"), Own::Set(vec![]));
        assert_eq!(own_of("RESET ALL"), Own::ResetAll);
        assert_eq!(own_of("RESET statement_timeout"), Own::Reset("statement_timeout".to_owned()));
        assert_eq!(own_of("DEALLOCATE ALL"), Own::Deallocate(None));
        assert_eq!(own_of("ROLLBACK TO SAVEPOINT a"), Own::RollbackTo("a".to_owned()));
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
        let problem = parse("SELECT 1,\n FROM t WHERE )").unwrap_err();
        assert_eq!((problem.code, problem.position.is_some()), ("42601", true));
    }
}
