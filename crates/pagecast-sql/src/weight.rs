//! How large the plan of a statement gets.
//!
//! DataFusion writes the query of a WITH out wherever it is named: thirty of them, each of which
//! names the one before twice, are a billion scans. And each join has a list of all columns to its
//! left. Nobody can end a planner, so both are counted before it begins.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, ObjectName, Query, Select, SelectItem, SetExpr, Statement as Ast, Visit, Visitor,
};

/// Tables that a statement may read, each as often as it is named when all is written out.
const MOST_TABLES: u64 = 1000;

/// Columns that the joins of a statement may list together.
const MOST_COLUMNS: u64 = 4_000_000;

/// Sets of keys of a GROUP BY: those of a CUBE of nine. The planner has all of them in memory.
const MOST_SETS: u64 = 512;

/// Columns of a table, about which the text says nothing.
const OF_A_TABLE: u64 = 64;

/// Fails if the plan of `statement` would be larger than anybody should work on.
///
/// # Errors
///
/// Says what was counted, and what is the limit.
pub fn check(statement: &Statement) -> Result<(), String> {
    let ast = match statement {
        Statement::Explain(explain) => return check(&explain.statement),
        Statement::Statement(ast) => ast,
        _ => return Ok(()),
    };
    let Weight { tables, columns, sets, .. } = of(ast);
    if sets > MOST_SETS {
        return Err(format!(
            "a GROUP BY has {sets} sets of keys, of {MOST_SETS} at most: group by fewer, or name the sets"
        ));
    }
    if tables > MOST_TABLES {
        return Err(format!("the statement reads {tables} tables with all WITH written out, of {MOST_TABLES} at most"));
    }
    if columns > MOST_COLUMNS {
        return Err(format!("the joins list {columns} columns together, of {MOST_COLUMNS} at most: select fewer"));
    }
    Ok(())
}

fn of(ast: &Ast) -> Weight {
    let mut weigher = Weigher { scopes: vec![Weight::default()], ..Weigher::default() };
    _ = ast.visit(&mut weigher);
    weigher.scopes.drain(..).fold(Weight::default(), Weight::and)
}

/// What stands in a query, in a SELECT of it, or behind the name of one.
#[derive(Clone, Copy, Default, Debug)]
struct Weight {
    tables: u64,
    /// That it gives; while it is read, those of the tables joined so far.
    width: u64,
    /// That all joins list.
    columns: u64,
    /// Of the GROUP BY that has most.
    sets: u64,
}

impl Weight {
    /// With a table joined to it.
    fn joined(self, table: Self) -> Self {
        let width = self.width.saturating_add(table.width);
        Self {
            tables: self.tables.saturating_add(table.tables),
            width,
            columns: self.columns.saturating_add(table.columns).saturating_add(width),
            sets: self.sets.max(table.sets),
        }
    }

    /// Beside another query, of which nothing is joined.
    fn and(self, other: Self) -> Self {
        Self {
            tables: self.tables.saturating_add(other.tables),
            width: self.width,
            columns: self.columns.saturating_add(other.columns),
            sets: self.sets.max(other.sets),
        }
    }
}

/// Adds up while a tree is walked: queries and the SELECTs in them are scopes.
#[derive(Default)]
struct Weigher {
    scopes: Vec<Weight>,
    /// The queries of WITH that may be named here.
    named: HashMap<String, Weight>,
    /// Those of the queries outside, to come back to.
    outside: Vec<HashMap<String, Weight>>,
    /// Which query a name is that of: by its place in memory, as long as the tree is walked.
    names: HashMap<*const Query, String>,
}

impl Weigher {
    fn scope(&mut self) -> &mut Weight {
        // There is always one: the statement's.
        if self.scopes.is_empty() {
            self.scopes.push(Weight::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }
}

fn folded(name: &Ident) -> String {
    name.value.to_lowercase()
}

/// Columns that a query gives, of which SELECT said how many its list has.
fn width(body: &SetExpr, of_select: u64) -> u64 {
    match body {
        SetExpr::Values(values) => values.rows.first().map_or(0, |row| row.content.len() as u64),
        _ => of_select,
    }
}

/// Sets of keys that a GROUP BY is written out to.
fn sets(group_by: &GroupByExpr) -> u64 {
    let GroupByExpr::Expressions(keys, _) = group_by else { return 1 };
    let of_key = |key: &Expr| match key {
        Expr::Cube(keys) => 1_u64.checked_shl(keys.len() as u32).unwrap_or(u64::MAX),
        Expr::Rollup(keys) => keys.len() as u64 + 1,
        Expr::GroupingSets(sets) => sets.len() as u64,
        _ => 1,
    };
    keys.iter().map(of_key).fold(1, u64::saturating_mul)
}

impl Visitor for Weigher {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.outside.push(self.named.clone());
        for named in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.names.insert(&raw const *named.query, folded(&named.alias.name));
        }
        self.scopes.push(Weight::default());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let mut of_query = self.scopes.pop().unwrap_or_default();
        of_query.width = width(&query.body, of_query.width);
        self.named = self.outside.pop().unwrap_or_default();
        match self.names.remove(&std::ptr::from_ref(query)) {
            Some(name) => drop(self.named.insert(name, of_query)),
            None => {
                let scope = self.scope();
                *scope = scope.joined(of_query);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, _: &Select) -> ControlFlow<()> {
        self.scopes.push(Weight::default());
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let of_select = self.scopes.pop().unwrap_or_default();
        let item = |item: &SelectItem| match item {
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => of_select.width,
            _ => 1,
        };
        let width = select.projection.iter().map(item).fold(0, u64::saturating_add);
        let scope = self.scope();
        let sets = sets(&select.group_by).max(scope.and(of_select).sets);
        *scope = Weight { width, sets, ..scope.and(of_select) };
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let name = match &relation.0[..] {
            [name] => name.as_ident().map(folded),
            _ => None,
        };
        let table = Weight { tables: 1, width: OF_A_TABLE, ..Weight::default() };
        let table = name.and_then(|name| self.named.get(&name).copied()).unwrap_or(table);
        let scope = self.scope();
        *scope = scope.joined(Weight { tables: table.tables.max(1), ..table });
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::sql::parser::DFParser;

    use super::*;

    fn weighed(sql: &str) -> Result<(), String> {
        check(&DFParser::parse_sql(sql).unwrap()[0])
    }

    /// Named queries, each of which reads the one before it `times`.
    fn doubling(named: usize, select: &str, from: &str) -> String {
        let named: String = (1..named)
            .map(|at| format!(", t{at} AS (SELECT {select} FROM {})", from.replace('?', &format!("t{}", at - 1))))
            .collect();
        format!("WITH t0 AS (SELECT 1 AS x){named}")
    }

    #[test]
    fn what_grows_by_doubling_is_refused() {
        for sql in [
            doubling(30, "a.x", "? a, ? b") + " SELECT count(*) FROM t29",
            doubling(30, "*", "? AS a CROSS JOIN ? AS b") + " SELECT count(*) FROM t29",
            doubling(30, "x", "(SELECT x FROM ? WHERE x IN (SELECT x FROM ?)) AS s") + " SELECT * FROM t29",
            format!("EXPLAIN {} SELECT * FROM t29", doubling(30, "a.x", "? a, ? b")),
            format!("CREATE VIEW v AS {} SELECT * FROM t29", doubling(30, "a.x", "? a, ? b")),
        ] {
            assert!(weighed(&sql).is_err_and(|why| why.contains(" tables with all WITH")), "{sql:.100}");
        }
        // A wide query, joined to itself.
        let columns: Vec<String> = (0..1600).map(|at| format!("1 AS c{at}")).collect();
        let joined: Vec<String> = (0..200).map(|at| format!("w AS w{at}")).collect();
        let wide = format!("WITH w AS (SELECT {}) SELECT 1 FROM {}", columns.join(", "), joined.join(", "));
        assert!(weighed(&wide).is_err_and(|why| why.contains("columns together")));
    }

    #[test]
    fn sets_of_keys_are_counted() {
        for (keys, is_refused) in [
            ("CUBE (1, 2, 3, 4, 5, 6, 7, 8, 9)", false),
            ("CUBE (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)", true),
            ("CUBE (1, 2, 3, 4, 5), ROLLUP (1, 2, 3, 4, 5, 6, 7, 8), GROUPING SETS ((1), (2))", true),
            ("ROLLUP (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)", false),
        ] {
            let sql = format!("SELECT * FROM (SELECT count(*) FROM t GROUP BY {keys}) AS s JOIN u ON true");
            assert_eq!(weighed(&sql).is_err_and(|why| why.contains("sets of keys")), is_refused, "{sql}");
        }
    }

    #[test]
    fn what_people_write_is_not() {
        for sql in [
            "SELECT * FROM t",
            "WITH a AS (SELECT * FROM t), b AS (SELECT * FROM a JOIN a AS c USING (id)) SELECT * FROM b, a",
            &doubling(9, "a.x", "? a, ? b"),
            &format!("SELECT 1{}", " UNION ALL SELECT a FROM t".repeat(900)),
            &format!("SELECT * FROM t{}", (0..200).map(|at| format!(" JOIN u AS u{at} ON a = b")).collect::<String>()),
            // A name counts where it is known alone.
            &format!("SELECT * FROM ({} SELECT * FROM t8) AS s, t8, t8 AS u", doubling(9, "a.x", "? a, ? b")),
        ] {
            let sql =
                if sql.ends_with(')') && sql.starts_with("WITH") { format!("{sql} SELECT 1") } else { sql.to_owned() };
            assert_eq!(weighed(&sql), Ok(()), "{sql:.100}");
        }
    }
}
