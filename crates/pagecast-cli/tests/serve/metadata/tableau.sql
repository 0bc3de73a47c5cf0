-- Tableau: through ODBC, with cursors of the server and queries that it wraps.
SET DateStyle = 'ISO';
SET extra_float_digits = 2;
SET client_encoding = 'UTF8';
-- empty
SELECT oid, typbasetype FROM pg_type WHERE typname = 'lo';
SELECT relname, nspname, relkind FROM pg_catalog.pg_class c, pg_catalog.pg_namespace n
    WHERE relkind IN ('r', 'v', 'm', 'f', 'p') AND nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'pg_temp_1')
        AND n.oid = relnamespace ORDER BY nspname, relname;
SELECT n.nspname, c.relname, a.attname, a.atttypid, t.typname, a.attnum, a.attlen, a.atttypmod, a.attnotnull,
    c.relhasrules, c.relkind, c.oid, pg_get_expr(d.adbin, d.adrelid), CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE 0 END,
    t.typtypmod, 0, attidentity, c.relhassubclass
    FROM (((pg_catalog.pg_class c INNER JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            AND c.relname LIKE 'nation' AND n.nspname LIKE 'public')
        INNER JOIN pg_catalog.pg_attribute a ON (NOT a.attisdropped) AND a.attnum > 0 AND a.attrelid = c.oid)
        INNER JOIN pg_catalog.pg_type t ON t.oid = a.atttypid)
        LEFT OUTER JOIN pg_attrdef d ON a.atthasdef AND d.adrelid = a.attrelid AND d.adnum = a.attnum
    ORDER BY n.nspname, c.relname, attnum;
-- empty
SELECT ta.attname, ia.attnum, ic.relname, n.nspname, tc.relname
    FROM pg_catalog.pg_attribute ta, pg_catalog.pg_attribute ia, pg_catalog.pg_class tc, pg_catalog.pg_index i,
        pg_catalog.pg_namespace n, pg_catalog.pg_class ic
    WHERE tc.relname = 'nation' AND n.nspname = 'public' AND tc.oid = i.indrelid AND n.oid = tc.relnamespace
        AND i.indisprimary = 't' AND ia.attrelid = i.indexrelid AND ta.attrelid = i.indrelid
        AND ta.attnum = i.indkey[ia.attnum - 1] AND (NOT ta.attisdropped) AND (NOT ia.attisdropped) AND ic.oid = i.indexrelid
    ORDER BY ia.attnum;
-- empty
SELECT 'pagecast'::name AS "PKTABLE_CAT", n2.nspname AS "PKTABLE_SCHEM", c2.relname AS "PKTABLE_NAME", a2.attname AS "PKCOLUMN_NAME",
    ref.i AS "KEY_SEQ", cn.conname AS "FK_NAME"
    FROM ((((((SELECT cn.oid, conrelid, conkey, confrelid, confkey, generate_series(array_lower(conkey, 1), array_upper(conkey, 1)) AS i,
                confupdtype, confdeltype, conname, condeferrable, condeferred
            FROM pg_catalog.pg_constraint cn, pg_catalog.pg_class c, pg_catalog.pg_namespace n
            WHERE contype = 'f' AND conrelid = c.oid AND relname = 'nation' AND n.oid = c.relnamespace AND n.nspname = 'public') ref
        INNER JOIN pg_catalog.pg_class c1 ON c1.oid = ref.conrelid)
        INNER JOIN pg_catalog.pg_namespace n1 ON n1.oid = c1.relnamespace)
        INNER JOIN pg_catalog.pg_class c2 ON c2.oid = ref.confrelid)
        INNER JOIN pg_catalog.pg_namespace n2 ON n2.oid = c2.relnamespace)
        INNER JOIN pg_catalog.pg_attribute a2 ON a2.attrelid = c2.oid AND a2.attnum = ref.confkey[ref.i])
        INNER JOIN pg_catalog.pg_constraint cn ON cn.oid = ref.oid
    ORDER BY "PKTABLE_NAME", ref.i;
BEGIN;
DECLARE "SQL_CUR1" CURSOR FOR SELECT "nation"."n_name" AS "n_name", SUM(1) AS "cnt:1" FROM "public"."nation" "nation" GROUP BY 1;
FETCH 100 IN "SQL_CUR1";
CLOSE "SQL_CUR1";
COMMIT;
SELECT CAST("nation"."n_name" AS TEXT) AS "n_name" FROM "public"."nation" "nation" GROUP BY 1 ORDER BY 1 ASC LIMIT 101;
SELECT (CAST(EXTRACT(YEAR FROM "orders"."o_orderdate") AS BIGINT)) AS "yr:o_orderdate:ok", SUM("orders"."o_totalprice") AS "sum:o_totalprice:ok"
    FROM "public"."orders" "orders" GROUP BY 1;
SELECT 1 AS "COL", NULL AS "empty" FROM (SELECT * FROM "public"."region") "t" LIMIT 1;
