-- Statements that take minutes and must be stopped at any time, for `ci/stops.py` and `stops.rs`.
--
-- `--- name` begins one. Words in brackets say where it makes sense alone: [shell], [server],
-- [python] (who has packages that write such tables), [long] (not in CI: one rule of the planner
-- takes seconds where nothing is optimized). Statements before its last one set it up. `<<3|, |x#>>` is
-- `x0, x1, x2`, and may be in another's text. `{out}` is an empty folder.
--
-- s(k, p, s) has 300,000 rows, and t 1,000. The tables many_* are of many files.

--- nested loop
SELECT count(*) FROM s a, s b WHERE a.p + b.p = 0.5;
--- nested loop, left
SELECT count(*) FROM s a LEFT JOIN s b ON a.p + b.p = 0.5 OR a.k = -b.k - 1;
--- nested loop, right
SELECT count(*) FROM s a RIGHT JOIN s b ON a.p + b.p = 0.5;
--- nested loop, full
SELECT count(*) FROM s a FULL JOIN s b ON a.p + b.p = 0.5;
--- nested loop, semi
SELECT count(*) FROM s a WHERE EXISTS (SELECT 1 FROM s b WHERE b.p * a.p = -1);
--- nested loop, anti
SELECT count(*) FROM s a WHERE NOT EXISTS (SELECT 1 FROM s b WHERE b.p * a.p = -1);
--- nested loop, mark
SELECT count(*) FROM s a WHERE a.k < 0 OR EXISTS (SELECT 1 FROM s b WHERE b.p * a.p = -1);
--- nested loop that keeps half
SELECT count(*) FROM s a, s b, s c WHERE a.k < b.k;
--- cross
SELECT sum(a.k * b.k * c.k) FROM s a, s b, s c;
--- cross of a few rows with endless ones
SELECT sum(t.k * r.value) FROM t, range(1000000000000) r;
--- hash whose filter no row passes
SELECT count(*) FROM s a JOIN s b ON a.k % 2 = b.k % 2 AND a.p + b.p < 0;
--- hash of few keys
SELECT sum(a.k * b.k) FROM s a JOIN s b ON a.k % 2 = b.k % 2;
--- hash, left
SELECT sum(a.k * b.k) FROM s a LEFT JOIN s b ON a.k % 2 = b.k % 2 AND a.p + b.p < 0;
--- hash, right
SELECT sum(a.k * b.k) FROM s a RIGHT JOIN s b ON a.k % 2 = b.k % 2 AND a.p + b.p < 0;
--- hash, full
SELECT sum(a.k * b.k) FROM s a FULL JOIN s b ON a.k % 2 = b.k % 2 AND a.p + b.p < 0;
--- hash, semi
SELECT count(*) FROM s a WHERE EXISTS (SELECT 1 FROM s b WHERE a.k % 2 = b.k % 2 AND a.p + b.p < 0);
--- hash, anti
SELECT count(*) FROM s a WHERE NOT EXISTS (SELECT 1 FROM s b WHERE a.k % 2 = b.k % 2 AND a.p + b.p < 0);
--- hash, mark
SELECT count(*) FROM s a
WHERE a.k < 0 OR EXISTS (SELECT 1 FROM s b WHERE a.k % 2 = b.k % 2 AND a.p + b.p < 0);
--- hash of which no key is found
SELECT count(*) FROM range(1000000000000) r JOIN s ON r.value = -s.k - 1;
--- hash whose table is large
SELECT count(*) FROM range(30000000) a JOIN range(1000000000000) b ON a.value * 7 % 1000003 = b.value;
--- hash of texts
SELECT count(*) FROM s a JOIN (SELECT 'x' || value AS s FROM range(1000000000000)) b ON a.s = b.s;
--- anti that knows NULL
SELECT count(*) FROM range(1000000000000) r WHERE r.value * 2 + 1000000 NOT IN (SELECT k * 2 + 1 FROM s);
--- merge [shell]
SET datafusion.optimizer.prefer_hash_join = false;
SELECT sum(a.k * b.k) FROM s a JOIN s b ON a.k % 2 = b.k % 2;
--- merge, full [shell]
SET datafusion.optimizer.prefer_hash_join = false;
SELECT sum(a.k * b.k) FROM s a FULL JOIN s b ON a.k % 2 = b.k % 2 AND a.p + b.p < 0;
--- merge, semi [shell]
SET datafusion.optimizer.prefer_hash_join = false;
SELECT count(*) FROM s a WHERE EXISTS (SELECT 1 FROM s b WHERE a.k % 2 = b.k % 2 AND a.p + b.p < 0);
--- merge, anti [shell]
SET datafusion.optimizer.prefer_hash_join = false;
SELECT count(*) FROM s a WHERE NOT EXISTS (SELECT 1 FROM s b WHERE a.k % 2 = b.k % 2 AND a.p + b.p < 0);
--- piecewise merge [shell]
SET datafusion.optimizer.enable_piecewise_merge_join = true;
SELECT sum(a.k * b.k) FROM s a JOIN s b ON a.k < b.k;
--- correlated count
SELECT sum((SELECT count(*) FROM s b WHERE b.k < a.k AND b.k % 3 = a.k % 3)) FROM s a;
--- lateral
SELECT sum(b.n) FROM s a, LATERAL (SELECT s.p AS n FROM s WHERE s.k % 7 = a.k % 7) b;

--- sort that spills
SELECT * FROM (SELECT value % 1000003 AS v, repeat('x', 40) AS w, value FROM range(1000000000000))
ORDER BY v, w, value;
--- sort of long texts
SELECT s || repeat('x', 2000) AS w, r.value FROM s, range(100000) r ORDER BY w, value;
--- sort of many columns
SELECT <<60|, |(value * # + 17) % 1009 AS c#>> FROM range(1000000000000) ORDER BY <<60|, |c#>>;
--- first rows
SELECT value % 1000003 AS v, value FROM range(1000000000000) ORDER BY v DESC, value LIMIT 10;
--- first rows, many
SELECT value % 1000003 AS v, value FROM range(1000000000000) ORDER BY v DESC, value LIMIT 1000000;
--- rows after many others
SELECT value FROM range(1000000000000) OFFSET 999999999990;
--- numbered in order
SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY a.p * b.p DESC) AS n FROM s a, t b);

--- sum
SELECT sum(value % 7) FROM range(1000000000000);
--- groups, few
SELECT value % 10 AS g, sum(value), avg(value) FROM range(1000000000000) GROUP BY g;
--- groups that spill
SELECT count(*) FROM (SELECT value, count(*) FROM range(1000000000000) GROUP BY value);
--- groups of texts
SELECT count(*) FROM (SELECT 'x' || value % 5000000 AS g, max(value) FROM range(1000000000000) GROUP BY g);
--- groups of many columns
SELECT count(*) FROM (SELECT <<20|, |value * (# + 3) % 101 AS c#>> FROM range(1000000000000) GROUP BY ALL);
--- groups that all come at once
SELECT sum(n) FROM (SELECT value * 3 % 20000003 AS g, count(*) AS n FROM range(60000000) GROUP BY g);
--- groups in order
SELECT count(*) FROM (SELECT value, sum(value) FROM (SELECT * FROM range(1000000000000) ORDER BY value) GROUP BY value);
--- distinct count
SELECT count(DISTINCT value % 30000000) FROM range(1000000000000);
--- distinct count of groups
SELECT value % 1000 AS g, count(DISTINCT value % 10007) FROM range(1000000000000) GROUP BY g;
--- distinct
SELECT DISTINCT value % 5000000 FROM range(1000000000000);
--- distinct on
SELECT DISTINCT ON (value % 1000) value FROM range(1000000000000) ORDER BY value % 1000, value DESC;
--- median
SELECT median(value * 7919 % 1000003) FROM range(1000000000000);
--- median of groups
SELECT value % 1000 AS g, median(value * 7919 % 1000003) FROM range(1000000000000) GROUP BY g;
--- approximate
SELECT approx_distinct(value), approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY value) FROM range(1000000000000);
--- arrays
SELECT array_agg(value) FROM range(1000000000000);
--- arrays of groups
SELECT value % 3 AS g, array_agg(DISTINCT value % 1000000) FROM range(1000000000000) GROUP BY g;
--- arrays in order
SELECT array_agg(value ORDER BY value % 1009) FROM range(60000000);
--- texts
SELECT string_agg('x' || value, ',') FROM range(1000000000000);
--- cube
SELECT count(*) FROM (SELECT <<8|, |value % (# + 3) AS c#>> FROM range(1000000000000)) GROUP BY CUBE (<<8|, |c#>>);
--- rollup
SELECT count(*) FROM (SELECT <<4|, |value % (# + 30) AS c#>> FROM range(1000000000000)) GROUP BY ROLLUP (<<4|, |c#>>);
--- first of groups
SELECT value % 1000 AS g, first_value(value ORDER BY value % 7919 DESC) FROM range(1000000000000) GROUP BY g;
--- largest groups
SELECT value % 1000003 AS g, max(value) AS m FROM range(1000000000000) GROUP BY g ORDER BY m DESC LIMIT 5;
--- sums of a condition
SELECT <<40|, |sum(value) FILTER (WHERE value % 41 = #)>> FROM range(1000000000000);
--- correlation
SELECT corr(value, value % 7), stddev(value), regr_slope(value, value % 5) FROM range(1000000000000);

--- running sum
SELECT max(w) FROM (SELECT sum(value % 7) OVER (ORDER BY value) AS w FROM range(1000000000000));
--- window of all rows
SELECT max(w) FROM (SELECT sum(a.p) OVER (PARTITION BY a.k % 2) AS w FROM s a, range(1000) b);
--- window of few rows
SELECT max(w) FROM (SELECT avg(p) OVER (ORDER BY k ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS w FROM s, range(100000));
--- window whose end stands
SELECT max(w) FROM (SELECT max(p) OVER (ORDER BY k ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS w FROM s, range(20));
--- window of medians
SELECT max(w) FROM (SELECT median(p) OVER (ORDER BY k ROWS BETWEEN 20000 PRECEDING AND CURRENT ROW) AS w FROM s);
--- window of medians, growing
SELECT max(w) FROM (SELECT median(p) OVER (ORDER BY k) AS w FROM s);
--- window by value
SELECT max(w) FROM (SELECT median(p) OVER (ORDER BY p RANGE BETWEEN 20000 PRECEDING AND 20000 FOLLOWING) AS w FROM s);
--- window by groups
SELECT max(w) FROM (
    SELECT median(p) OVER (ORDER BY k / 3 GROUPS BETWEEN 10000 PRECEDING AND 10000 FOLLOWING) AS w FROM s
);
--- window of distinct values
SELECT max(w) FROM (SELECT count(DISTINCT k % 1000) OVER (ORDER BY k ROWS 20000 PRECEDING) AS w FROM s, range(100));
--- window of arrays
SELECT max(cardinality(w)) FROM (SELECT array_agg(k) OVER (ORDER BY k ROWS 20000 PRECEDING) AS w FROM s);
--- windows of ranks
SELECT max(a), max(b), max(c), max(d) FROM (
    SELECT rank() OVER w AS a, ntile(7) OVER w AS b, percent_rank() OVER w AS c, lag(a.k, 3) OVER w AS d
    FROM s a, range(300) b WINDOW w AS (PARTITION BY a.k % 3 ORDER BY a.p)
);
--- windows, many
SELECT max(w) FROM (SELECT row_number() OVER (PARTITION BY value % 100003 ORDER BY value) AS w FROM range(1000000000000));
--- values at a place
SELECT max(w) FROM (SELECT nth_value(p, 7) OVER (PARTITION BY k % 3 ORDER BY s DESC) AS w FROM s, range(1000));

--- union of all
SELECT count(v) FROM (<<200| UNION ALL |SELECT value % (# + 2) AS v FROM range(100000000000)>>);
--- union of distinct rows
SELECT count(*) FROM (SELECT value % 10007 AS v FROM range(1000000000000) UNION SELECT value % 10009 FROM range(1000000000000));
--- intersection
SELECT count(*) FROM (SELECT value FROM range(1000000000000) INTERSECT SELECT k FROM s);
--- difference
SELECT count(*) FROM (SELECT value % 10007 FROM range(1000000000000) EXCEPT SELECT k FROM t);
--- unnest
SELECT sum(v) FROM (SELECT unnest(range(1, k % 10000)) AS v FROM s, range(1000));
--- unnest of many columns
SELECT sum(v), sum(w) FROM (SELECT unnest(range(1, k)) AS v, unnest(range(1, k + 7)) AS w FROM s);
--- recursive
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r;
--- recursive that grows
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n * 2 + t.k FROM r, t WHERE t.k < 3) SELECT count(*) FROM r;
--- recursive of distinct rows
WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT (n + 1) % 100000007 FROM r) SELECT count(*) FROM r;
--- recursive with a join
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT s.k + 1 FROM r JOIN s ON s.k = r.n % 300000) SELECT count(*) FROM r;
--- filter that no row passes
SELECT * FROM range(1000000000000) WHERE value * 3 % 7 = 8;
--- rows without an end
SELECT value, value * 2, 'x' || value FROM range(1000000000000);
--- case
SELECT sum(CASE <<150| |WHEN value % 307 = # THEN #>> END) FROM range(1000000000000);
--- explained while it runs
EXPLAIN ANALYZE SELECT sum(value) FROM range(1000000000000);
--- summary [shell]
SUMMARIZE SELECT value % 1000003 AS v, 'x' || value AS w FROM range(1000000000000);
--- table of a query [shell]
CREATE TABLE made AS SELECT value % 7 AS v FROM range(1000000000000) WHERE value % 1000 = 0;
--- rows into a table [shell]
CREATE TABLE made (v BIGINT);
INSERT INTO made SELECT value % 7 FROM range(1000000000000) WHERE value % 1000 = 0;
--- prepared [server]
PREPARE q AS SELECT sum(value) FROM range(1000000000000);
EXECUTE q;

--- Parquet
SELECT sum(p), max(s) FROM many_parquet WHERE p * k <> -1;
--- Parquet, sorted
SELECT * FROM many_parquet ORDER BY s, p;
--- CSV
SELECT sum(p), max(s) FROM many_csv WHERE p * k <> -1;
--- JSON
SELECT sum(p), max(s) FROM many_json WHERE p * k <> -1;
--- Arrow
SELECT sum(p), max(s) FROM many_arrow WHERE p * k <> -1;
--- Delta
SELECT sum(p), max(s) FROM many_delta WHERE p * k <> -1;
--- Iceberg [python]
SELECT sum(p), max(s) FROM many_iceberg WHERE p * k <> -1;
--- DuckLake [python]
SELECT sum(p), max(s) FROM many_ducklake WHERE p * k <> -1;
--- copy to Parquet [shell]
COPY (SELECT value, value % 7 AS v FROM range(1000000000000)) TO '{out}/x.parquet';
--- copy to CSV [shell]
COPY (SELECT value, value % 7 AS v FROM range(1000000000000)) TO '{out}/x.csv';
--- copy to JSON [shell]
COPY (SELECT value, value % 7 AS v FROM range(1000000000000)) TO '{out}/x.json';
--- copy to Arrow [shell]
COPY (SELECT value, value % 7 AS v FROM range(1000000000000)) TO '{out}/x.arrow';
--- copy to many files [shell]
COPY (SELECT value, value % 7 AS v FROM range(1000000000000)) TO '{out}/x/' STORED AS PARQUET PARTITIONED BY (v);
--- copy to the client [server]
COPY (SELECT value, value % 7 AS v FROM range(1000000000000)) TO STDOUT;
--- Delta, inserted into [shell]
CREATE EXTERNAL TABLE d (v BIGINT, w BIGINT) STORED AS DELTATABLE LOCATION '{out}/d';
INSERT INTO d SELECT value, value % 7 FROM range(1000000000000);
--- Delta, updated [shell]
CREATE EXTERNAL TABLE d (v BIGINT, w BIGINT) STORED AS DELTATABLE LOCATION '{out}/d';
INSERT INTO d SELECT value, value % 7 FROM range(1000);
UPDATE d SET w = 1 WHERE v IN (SELECT value % 1007 FROM range(1000000000000));

--- planned: IN of many
SELECT count(*) FROM s WHERE k IN (<<300000|, |#>>);
--- planned: IN of many expressions
SELECT count(*) FROM s WHERE k IN (<<30000|, |k + #>>);
--- planned: OR of many
SELECT count(*) FROM s WHERE <<190| OR |p > # AND k IN (<<200|, |k + #>>)>>;
--- planned: AND of many
SELECT count(*) FROM s WHERE <<190| AND |p > # - k AND k IN (<<200|, |k + #>>)>>;
--- planned: sums of many
SELECT <<100|, |sum(<<450| + |k * #>>)>> FROM s;
--- planned: case of many
SELECT <<100|, |sum(CASE <<240| |WHEN k = # THEN # * p>> END)>> FROM s;
--- planned: columns
SELECT * FROM <<8||(SELECT <<1000|, |c# + 1 AS c#>> FROM >>(SELECT <<1000|, |k + # AS c#>> FROM s)<<8||)>> WHERE c1 > c2;
--- planned: aggregates [long]
SELECT <<1600|, |sum(k + #)>> FROM s;
--- planned: windows [long]
SELECT <<500|, |sum(k) OVER (ORDER BY k % (# + 2))>> FROM s;
--- planned: joins of equal keys
SELECT count(*) FROM t t0 <<240| |LEFT JOIN t a# ON a#.k = t0.k>>;
--- planned: joins in a row
SELECT count(*) FROM <<200|, |t a#>> WHERE <<199| AND |a#.k + 1 = a199.k>>;
--- planned: union of many
SELECT count(*) FROM (<<900| UNION ALL |SELECT k + # AS v, s FROM t WHERE k < #>>);
--- planned: union of distinct rows
SELECT count(*) FROM (<<900| UNION |SELECT k + # AS v FROM t WHERE k < #>>);
--- planned: names that are queries
WITH a0 AS (SELECT * FROM t), a1 AS (SELECT x.k FROM a0 x JOIN a0 y ON x.k = y.k),
    a2 AS (SELECT x.k FROM a1 x JOIN a1 y ON x.k = y.k), a3 AS (SELECT x.k FROM a2 x JOIN a2 y ON x.k = y.k),
    a4 AS (SELECT x.k FROM a3 x JOIN a3 y ON x.k = y.k), a5 AS (SELECT x.k FROM a4 x JOIN a4 y ON x.k = y.k),
    a6 AS (SELECT x.k FROM a5 x JOIN a5 y ON x.k = y.k), a7 AS (SELECT x.k FROM a6 x JOIN a6 y ON x.k = y.k),
    a8 AS (SELECT x.k FROM a7 x JOIN a7 y ON x.k = y.k), a9 AS (SELECT x.k FROM a8 x JOIN a8 y ON x.k = y.k)
SELECT count(*) FROM a9;
--- planned: rows
SELECT count(*) FROM (VALUES <<100000|, |(#, 'x#', # + 0.5)>>) v(a, b, c) WHERE a % 2 = 0;
--- planned: subqueries
SELECT <<5|, |(SELECT count(*) FROM s WHERE <<190| OR |k = (SELECT max(k) + # FROM t WHERE k < #)>>)>>;
--- planned: cube [long]
SELECT count(*) FROM (SELECT <<9|, |k % (# + 2) AS c#>> FROM t) GROUP BY CUBE (<<9|, |c#>>);
