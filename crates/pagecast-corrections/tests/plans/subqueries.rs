//! Subqueries in expressions against a naive evaluation, row by row and with three values.

use datafusion::common::Result;
use datafusion::prelude::SessionContext;

use crate::{Value, rows_in_order as rows};

type Truth = Option<bool>;
type Row = (Value, Value);

/// `t (k, a)`, the outer table.
const OUTER: [Row; 6] = [
    (Some(1), Some(10)),
    (Some(2), Some(20)),
    (Some(3), None),
    (None, Some(10)),
    (Some(2), Some(10)),
    (Some(4), Some(5)),
];
/// `u (k, b)`, the inner one; `e` has its columns and no rows.
const INNER: [Row; 7] = [
    (Some(1), Some(10)),
    (Some(1), None),
    (Some(2), Some(5)),
    (Some(3), None),
    (Some(3), Some(20)),
    (None, Some(20)),
    (Some(2), Some(20)),
];

fn values(rows: &[Row]) -> String {
    let value = |value: Value| value.map_or("NULL".to_owned(), |value| value.to_string());
    let rows: Vec<_> = rows.iter().map(|&(one, other)| format!("({}, {})", value(one), value(other))).collect();
    rows.join(", ")
}

async fn session() -> Result<SessionContext> {
    let ctx = crate::session()?;
    for (name, column, rows) in [("t", "a", &OUTER[..]), ("u", "b", &INNER[..]), ("o", "b", &INNER[..1])] {
        ctx.sql(&format!("CREATE TABLE {name} (k BIGINT, {column} BIGINT) AS VALUES {}", values(rows))).await?;
    }
    ctx.sql("CREATE TABLE e AS SELECT * FROM u WHERE k > 100").await?;
    Ok(ctx)
}

/// A subquery, and its values for an outer row.
type Subquery = (&'static str, fn(Row) -> Vec<Value>);

fn of(keep: impl Fn(Value) -> Truth) -> Vec<Value> {
    INNER.iter().filter(|(k, _)| keep(*k) == Some(true)).map(|(_, b)| *b).collect()
}

fn same(k: Value) -> Vec<Value> {
    of(|inner| Some(inner? == k?))
}

const SUBQUERIES: [Subquery; 12] = [
    ("SELECT b FROM u", |_| of(|_| Some(true))),
    ("SELECT b FROM u WHERE b IS NOT NULL", |_| of(|_| Some(true)).into_iter().filter(Option::is_some).collect()),
    ("SELECT b FROM e", |_| Vec::new()),
    ("SELECT b FROM u WHERE u.k = t.k", |(k, _)| same(k)),
    ("SELECT b FROM u WHERE u.k < t.k", |(k, _)| of(|inner| Some(inner? < k?))),
    ("SELECT b FROM u WHERE 5 < t.a", |(_, a)| of(|_| Some(5 < a?))),
    ("SELECT max(b) FROM u WHERE u.k = t.k", |(k, _)| vec![same(k).into_iter().flatten().max()]),
    ("SELECT count(*) * 5 FROM u WHERE u.k = t.k", |(k, _)| vec![Some(same(k).len() as i64 * 5)]),
    ("SELECT b FROM u WHERE u.k = t.k ORDER BY b DESC NULLS FIRST LIMIT 1 OFFSET 1", |(k, _)| {
        let mut found = same(k);
        found.sort_by_key(|value| value.map_or(i64::MIN, |value| -value));
        found.into_iter().skip(1).take(1).collect()
    }),
    ("SELECT 5 * count(*) OVER () FROM u WHERE u.k = t.k", |(k, _)| {
        vec![Some(same(k).len() as i64 * 5); same(k).len()]
    }),
    ("SELECT b FROM u WHERE u.k = t.k UNION ALL SELECT k * 5 FROM u WHERE k = 2", |(k, _)| {
        same(k).into_iter().chain([Some(10), Some(10)]).collect()
    }),
    ("SELECT b FROM u WHERE NOT EXISTS (SELECT 1 FROM u x WHERE x.k = u.k AND x.k = t.k)", |(k, _)| {
        of(|inner| Some(inner.is_none() || inner != k))
    }),
];

/// A condition with a subquery, and its value for one of the subquery's rows' values.
type Condition = (&'static str, fn(Row, &[Value]) -> Truth);

fn any(values: &[Value], compares: impl Fn(i64) -> Truth) -> Truth {
    let found: Vec<Truth> = values.iter().map(|value| compares((*value)?)).collect();
    if found.contains(&Some(true)) { Some(true) } else { (!found.contains(&None)).then_some(false) }
}

const CONDITIONS: [Condition; 8] = [
    ("t.a IN (#)", |(_, a), values| any(values, |value| Some(a? == value))),
    ("t.a NOT IN (#)", |(_, a), values| any(values, |value| Some(a? == value)).map(|found| !found)),
    ("NULL IN (#)", |_, values| any(values, |_| None)),
    ("10 NOT IN (#)", |_, values| any(values, |value| Some(value == 10)).map(|found| !found)),
    ("EXISTS (#)", |_, values| Some(!values.is_empty())),
    ("NOT EXISTS (#)", |_, values| Some(values.is_empty())),
    ("t.a < ANY (#)", |(_, a), values| any(values, |value| Some(a? < value))),
    ("t.a >= ALL (#)", |(_, a), values| any(values, |value| Some(a? < value)).map(|found| !found)),
];

/// What stands around a condition.
type Around = (&'static str, fn(Row, Truth) -> Truth);

fn or(one: Truth, other: Truth) -> Truth {
    match (one, other) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

fn not(one: Truth) -> Truth {
    one.map(|one| !one)
}

fn is(column: Value, value: i64) -> Truth {
    Some(column? == value)
}

const AROUND: [Around; 10] = [
    ("?", |_, c| c),
    ("NOT (?)", |_, c| not(c)),
    ("(?) OR t.a = 10", |(_, a), c| or(c, is(a, 10))),
    ("(?) AND t.k = 2", |(k, _), c| not(or(not(c), not(is(k, 2))))),
    ("NOT ((?) OR t.a = 10)", |(_, a), c| not(or(c, is(a, 10)))),
    ("(?) IS NULL", |_, c| Some(c.is_none())),
    ("(?) IS NOT NULL", |_, c| Some(c.is_some())),
    ("(?) = false", |_, c| not(c)),
    ("CASE WHEN ? THEN true ELSE t.k = 2 END", |(k, _), c| if c == Some(true) { c } else { is(k, 2) }),
    ("coalesce(?, t.k = 3)", |(k, _), c| c.or(is(k, 3))),
];

fn number(truth: Truth) -> Value {
    truth.map(i64::from)
}

/// Where it stands, and the rows that the statement then has.
type Place = (&'static str, fn(&[(Row, Truth)]) -> Vec<Vec<Value>>);

const PLACES: [Place; 7] = [
    ("SELECT k, a FROM t WHERE @", |rows| {
        rows.iter().filter(|(_, w)| *w == Some(true)).map(|((k, a), _)| vec![*k, *a]).collect()
    }),
    ("SELECT k, a, @ FROM t", |rows| rows.iter().map(|((k, a), w)| vec![*k, *a, number(*w)]).collect()),
    ("SELECT count(*) FILTER (WHERE @), count(@) FROM t", |rows| {
        let count = |keep: fn(&Truth) -> bool| Some(rows.iter().filter(|(_, w)| keep(w)).count() as i64);
        vec![vec![count(|w| *w == Some(true)), count(Option::is_some)]]
    }),
    ("SELECT t.k, t.a, o.b FROM t LEFT JOIN o ON @", |rows| {
        rows.iter().map(|((k, a), w)| vec![*k, *a, w.filter(|w| *w).map(|_| 10)]).collect()
    }),
    ("SELECT t.k, t.a, o.b FROM t JOIN o ON o.k < 5 AND @", |rows| {
        rows.iter().filter(|(_, w)| *w == Some(true)).map(|((k, a), _)| vec![*k, *a, Some(10)]).collect()
    }),
    ("SELECT k, a, count(*) OVER (PARTITION BY @) FROM t", |rows| {
        let count = |like: Truth| Some(rows.iter().filter(|(_, w)| *w == like).count() as i64);
        rows.iter().map(|((k, a), w)| vec![*k, *a, count(*w)]).collect()
    }),
    ("SELECT k, a FROM (SELECT k, a, @ AS w FROM t ORDER BY @ NULLS LAST LIMIT 6) q WHERE w IS NULL", |rows| {
        rows.iter().filter(|(_, w)| w.is_none()).map(|((k, a), _)| vec![*k, *a]).collect()
    }),
];

#[tokio::test]
async fn subqueries_have_three_values_wherever_they_stand() {
    let ctx = session().await.unwrap();
    let mut turn = 0;
    for (subquery, values) in SUBQUERIES {
        for (condition, truth) in CONDITIONS {
            for (around, value) in AROUND {
                // One in four, so that each meets each other, and each place.
                turn += 1;
                if turn % 4 != 0 {
                    continue;
                }
                let (place, answer) = PLACES[(turn + turn / PLACES.len()) % PLACES.len()];
                let sql = place.replace('@', around).replace('?', condition).replace('#', subquery);
                let evaluated: Vec<_> = OUTER.iter().map(|&row| (row, value(row, truth(row, &values(row))))).collect();
                let mut right = answer(&evaluated);
                right.sort();
                assert_eq!(rows(&ctx, &sql).await, right, "{sql}");
            }
        }
    }
}

/// How often a row comes of `m` copies on the left and `n` on the right.
type Copies = (&'static str, fn(usize, usize) -> usize);

#[tokio::test]
async fn set_operations_count_copies() {
    let ctx = session().await.unwrap();
    let operations: [Copies; 4] = [
        ("EXCEPT ALL", |m, n| m.saturating_sub(n)),
        ("INTERSECT ALL", |m, n| m.min(n)),
        ("EXCEPT", |m, n| usize::from(m > 0 && n == 0)),
        ("INTERSECT", |m, n| usize::from(m > 0 && n > 0)),
    ];
    let sides = [("k", "u", "t"), ("k, b", "u", "u"), ("b", "u", "o"), ("k % 2", "u", "t"), ("b", "u", "e")];
    for (operation, copies) in operations {
        for (columns, left, right) in sides {
            let of = async |table: &str| rows(&ctx, &format!("SELECT {columns} FROM {table}")).await;
            let (left_rows, right_rows) = (of(left).await, of(right).await);
            let count = |rows: &[Vec<Value>], row: &Vec<Value>| rows.iter().filter(|other| *other == row).count();
            let mut distinct = left_rows.clone();
            distinct.dedup();
            let times = |row: &Vec<Value>| copies(count(&left_rows, row), count(&right_rows, row));
            let wanted: Vec<_> = distinct.iter().flat_map(|row| vec![row.clone(); times(row)]).collect();
            let sql = format!("SELECT {columns} FROM {left} {operation} SELECT {columns} FROM {right}");
            assert_eq!(rows(&ctx, &sql).await, wanted, "{sql}");
        }
    }
}

#[tokio::test]
async fn a_scalar_subquery_has_one_row() {
    let ctx = session().await.unwrap();
    let sql = "SELECT k, (SELECT b FROM u WHERE u.k = t.k AND b > 5) FROM t";
    let value = |k: Value| same(k).into_iter().flatten().find(|b| *b > 5);
    let mut right: Vec<_> = OUTER.iter().map(|(k, _)| vec![*k, value(*k)]).collect();
    right.sort();
    assert_eq!(rows(&ctx, sql).await, right);
    let fault = ctx.sql("SELECT k, (SELECT b FROM u WHERE u.k = t.k) FROM t").await.unwrap().collect().await;
    assert!(fault.unwrap_err().to_string().contains("more than one row"));
}

#[tokio::test]
async fn keys_of_a_join_have_an_equality_each() {
    let ctx = session().await.unwrap();
    // In two steps, and in one.
    for sql in [
        "SELECT t.k, t.a, u.k FROM t JOIN u ON t.k IS NOT DISTINCT FROM u.k WHERE t.a IS NULL AND t.a = u.b",
        "SELECT t.k, t.a, u.k FROM u JOIN t ON (t.k IS NOT DISTINCT FROM u.k) AND (t.a = u.b)",
        "SELECT t.k, t.a, u.k FROM t JOIN u ON t.k IS NOT DISTINCT FROM u.k WHERE t.a = u.b",
    ] {
        let pairs = OUTER.iter().flat_map(|outer| INNER.iter().map(move |inner| (outer, inner)));
        let same = pairs.filter(|(outer, inner)| outer.0 == inner.0 && outer.1.is_some() && outer.1 == inner.1);
        let same = same.filter(|(outer, _)| !sql.contains("IS NULL") || outer.1.is_none());
        let mut right: Vec<_> = same.map(|(outer, inner)| vec![outer.0, outer.1, inner.0]).collect();
        right.sort();
        assert_eq!(rows(&ctx, sql).await, right, "{sql}");
    }
}
