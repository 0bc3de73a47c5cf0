//! Columns of one name in one SELECT, and casts of one value to several types.
//!
//! DataFusion wants a name of its own for each column of a list, calls a cast by what is cast, and
//! refuses `SELECT x, x`, `GROUP BY t::date, t::time` and `min(t::date), min(t::time)`. A statement
//! that is refused for that is planned once more, with marks that tell such columns apart. The last
//! step of its plan takes the marks away, so that columns have the names that they were given.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::{Result, TableReference};
use datafusion::logical_expr::{Expr as Planned, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, Statement, Visit, VisitMut, Visitor, VisitorMut,
};

use super::ast::{call, folded, take};

/// No one sees it where a plan is shown, and no one types it.
const MARK: char = '\u{2063}';

/// Whether DataFusion refuses a statement for columns of one name.
pub fn are_refused(message: &str) -> bool {
    ["Projections require unique expression names", "Schema contains duplicate"]
        .iter()
        .any(|refusal| message.contains(refusal))
}

/// Tells columns apart that have one name.
pub fn tell_apart(statement: &mut Statement) {
    // The columns of what is made have the names that somebody gave; a row is put in by places.
    let names = matches!(statement, Statement::Query(_) | Statement::Insert(_));
    let _ = VisitMut::visit(statement, &mut Apart { names, kept: None });
}

/// The same below a query that is written to a file, whose own columns keep their names.
pub(super) fn tell_apart_below(query: &mut Query) {
    let mut body = &*query.body;
    while let SetExpr::SetOperation { left, .. } = body {
        body = left;
    }
    let kept = if let SetExpr::Select(select) = body { Some(std::ptr::from_ref(&**select)) } else { None };
    let _ = VisitMut::visit(query, &mut Apart { names: true, kept });
}

/// The plan, whose columns have the names that they were given.
///
/// # Errors
///
/// The plan takes no projection.
pub fn unmarked(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !plan.schema().fields().iter().any(|field| field.name().contains(MARK)) {
        return Ok(plan);
    }
    let columns: Vec<Planned> = plan
        .schema()
        .columns()
        .into_iter()
        .map(|column| match column.name.split_once(MARK) {
            // Of two with one name each is of a table of its own.
            Some((name, mark)) => {
                let (table, name) = (TableReference::bare(format!("{MARK}{mark}")), name.to_owned());
                Planned::Column(column).alias_qualified(Some(table), name)
            }
            None => Planned::Column(column),
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

struct Apart {
    names: bool,
    /// The list that keeps its names, by its place.
    kept: Option<*const Select>,
}

impl VisitorMut for Apart {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let names: Vec<Option<Name>> = select.projection.iter().map(Name::of).collect();
        let mut casts = Casts::default();
        let _ = Visit::visit(&*select, &mut casts);
        if casts.of.values().any(|types| types.len() > 1) {
            let _ = VisitMut::visit(select, &mut Wrapped(&casts));
        }
        if !self.names || self.kept == Some(std::ptr::from_ref(select)) {
            return ControlFlow::Continue(());
        }
        let is_all = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        let has_all = select.projection.iter().any(is_all);
        for (at, item) in select.projection.iter_mut().enumerate() {
            let Some(name) = &names[at] else { continue };
            let is_twin = (0..names.len()).any(|other| other != at && names[other].as_ref() == Some(name));
            let is_wrapped = name.is_cast && matches!(item, SelectItem::UnnamedExpr(Expr::Function(_)));
            if !(is_twin || is_wrapped || has_all && name.is_column) {
                continue;
            }
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                let alias = Ident::with_quote('"', format!("{}{MARK}{at}", name.shown));
                *item = SelectItem::ExprWithAlias { expr: take(expr), alias };
            }
        }
        ControlFlow::Continue(())
    }
}

/// How a column of a list is called.
#[derive(Debug)]
struct Name {
    shown: String,
    is_column: bool,
    is_cast: bool,
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.shown == other.shown
    }
}

impl Name {
    fn of(item: &SelectItem) -> Option<Self> {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
            _ => return None,
        };
        let is_cast = matches!(expr, Expr::Cast { .. });
        let column = alias.map_or_else(|| column(expr), |alias| Some(folded(alias)));
        let is_column = column.is_some();
        Some(Self { shown: column.unwrap_or_else(|| without_casts(expr)), is_column, is_cast })
    }
}

/// The column that an expression is, or is a cast of.
fn column(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(folded(name)),
        Expr::CompoundIdentifier(names) => names.last().map(folded),
        Expr::Cast { expr, .. } | Expr::Nested(expr) => column(expr),
        _ => None,
    }
}

/// What DataFusion calls an expression by: casts do not show.
fn without_casts(expr: &Expr) -> String {
    struct Bare;
    impl VisitorMut for Bare {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Cast { expr: inner, .. } = expr {
                *expr = take(inner);
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = expr.clone();
    let _ = VisitMut::visit(&mut expr, &mut Bare);
    expr.to_string()
}

/// Of each value the types that it is cast to.
#[derive(Default)]
struct Casts {
    of: HashMap<String, Vec<String>>,
}

impl Casts {
    /// Which of the types of its value a cast is to.
    fn place(&self, expr: &Expr) -> usize {
        let known = cast(expr).and_then(|(value, to)| self.of.get(&value)?.iter().position(|other| *other == to));
        known.unwrap_or_default()
    }
}

impl Visitor for Casts {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Some((value, to)) = cast(expr) {
            let types = self.of.entry(value).or_default();
            if !types.contains(&to) {
                types.push(to);
            }
        }
        ControlFlow::Continue(())
    }
}

/// What is cast, and how.
fn cast(expr: &Expr) -> Option<(String, String)> {
    let Expr::Cast { expr: inner, data_type, kind, .. } = expr else { return None };
    Some((column(inner).unwrap_or_else(|| without_casts(inner)), format!("{kind:?} {data_type}")))
}

/// The first of one value, which is that value: the optimizer takes it away again.
const WRAPPER: &str = "coalesce";

struct Wrapped<'a>(&'a Casts);

impl VisitorMut for Wrapped<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        for _ in 0..self.0.place(expr) {
            *expr = call(WRAPPER, take(expr));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::assert_batches_eq;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use crate::semantics::{configured, frame, install};

    fn session() -> SessionContext {
        let ctx = SessionContext::new_with_config(configured(SessionConfig::new()));
        install(&ctx).unwrap();
        ctx
    }

    #[tokio::test]
    async fn columns_of_one_name_stand_in_one_list() {
        let t = "(VALUES (1, TIMESTAMP '2024-01-02 03:04:05'), (2, TIMESTAMP '2024-01-02 13:04:05')) AS t (x, at)";
        let ctx = session();
        for (sql, lines) in [
            ("SELECT 1, 1", vec!["+---+---+", "| 1 | 1 |", "+---+---+", "| 1 | 1 |", "+---+---+"]),
            (
                &format!("SELECT x, x FROM {t} ORDER BY x LIMIT 1"),
                vec!["+---+---+", "| x | x |", "+---+---+", "| 1 | 1 |", "+---+---+"],
            ),
            (
                &format!("SELECT x AS a, -x AS a FROM {t} WHERE x = 1"),
                vec!["+---+----+", "| a | a  |", "+---+----+", "| 1 | -1 |", "+---+----+"],
            ),
            (
                &format!("SELECT count(*), count(*), sum(x), sum(x) FROM {t}"),
                vec![
                    "+----------+----------+--------+--------+",
                    "| count(*) | count(*) | sum(x) | sum(x) |",
                    "+----------+----------+--------+--------+",
                    "| 2        | 2        | 3      | 3      |",
                    "+----------+----------+--------+--------+",
                ],
            ),
            (
                &format!("SELECT at::date, at::time, count(*) AS n FROM {t} GROUP BY 1, 2 ORDER BY 2 LIMIT 1"),
                vec![
                    "+------------+----------+---+",
                    "| at         | at       | n |",
                    "+------------+----------+---+",
                    "| 2024-01-02 | 03:04:05 | 1 |",
                    "+------------+----------+---+",
                ],
            ),
            (
                &format!("SELECT min(at::date) AS d, max(at::time) AS l, min(at::text) AS m FROM {t}"),
                vec![
                    "+------------+----------+---------------------+",
                    "| d          | l        | m                   |",
                    "+------------+----------+---------------------+",
                    "| 2024-01-02 | 13:04:05 | 2024-01-02 03:04:05 |",
                    "+------------+----------+---------------------+",
                ],
            ),
            (
                &format!("SELECT *, x FROM {t} WHERE x = 1"),
                vec![
                    "+---+---------------------+---+",
                    "| x | at                  | x |",
                    "+---+---------------------+---+",
                    "| 1 | 2024-01-02T03:04:05 | 1 |",
                    "+---+---------------------+---+",
                ],
            ),
            (
                &format!("SELECT x, x FROM {t} UNION ALL SELECT x, x + 5 FROM {t} ORDER BY 2 DESC LIMIT 2"),
                vec!["+---+---+", "| x | x |", "+---+---+", "| 2 | 7 |", "| 1 | 6 |", "+---+---+"],
            ),
            (
                &format!("SELECT * FROM (SELECT x, at, x FROM {t}) u WHERE at < '2024-01-02 10:00'"),
                vec![
                    "+---+---------------------+---+",
                    "| x | at                  | x |",
                    "+---+---------------------+---+",
                    "| 1 | 2024-01-02T03:04:05 | 1 |",
                    "+---+---------------------+---+",
                ],
            ),
        ] {
            let rows = frame(&ctx, sql).await.unwrap().collect().await.unwrap();
            assert_batches_eq!(lines, &rows);
        }
    }

    #[tokio::test]
    async fn rows_with_one_value_twice_are_put_in() {
        let ctx = session();
        for sql in ["CREATE TABLE t (a INT, b INT)", "INSERT INTO t SELECT 1, 1"] {
            frame(&ctx, sql).await.unwrap().collect().await.unwrap();
        }
        let rows = frame(&ctx, "SELECT a, b FROM t").await.unwrap().collect().await.unwrap();
        assert_batches_eq!(["+---+---+", "| a | b |", "+---+---+", "| 1 | 1 |", "+---+---+"], &rows);
        let made = frame(&ctx, "CREATE TABLE u AS SELECT a, a FROM t").await;
        assert!(made.unwrap_err().to_string().contains("require unique expression names"));
    }
}
