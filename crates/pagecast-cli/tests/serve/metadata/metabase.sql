-- Metabase: its synchronisation over JDBC, and the sample of a table.
SELECT n.nspname AS schema, c.relname AS name,
    CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW'
        WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE NULL END AS type,
    d.description AS description, stat.n_live_tup AS estimated_row_count
    FROM pg_catalog.pg_class AS c
    INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid
    LEFT JOIN pg_catalog.pg_description AS d ON (c.oid = d.objoid) AND (d.objsubid = 0) AND (d.classoid = 'pg_class'::regclass)
    LEFT JOIN pg_stat_user_tables AS stat ON (n.nspname = stat.schemaname) AND (c.relname = stat.relname)
    WHERE (c.relnamespace = n.oid) AND (n.nspname !~ '^pg_') AND (n.nspname <> 'information_schema')
        AND c.relkind IN ('r', 'p', 'v', 'f', 'm') AND n.nspname IN ('public')
    ORDER BY type ASC, schema ASC, name ASC;
WITH table_privileges AS (
    SELECT NULL AS role, t.schemaname AS schema, t.objectname AS table,
        pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"."' || t.objectname || '"', 'update') AS update,
        pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"."' || t.objectname || '"', 'select') AS select,
        pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"."' || t.objectname || '"', 'insert') AS insert,
        pg_catalog.has_table_privilege(current_user, '"' || t.schemaname || '"."' || t.objectname || '"', 'delete') AS delete
    FROM (SELECT schemaname, tablename AS objectname FROM pg_catalog.pg_tables
        UNION SELECT schemaname, viewname AS objectname FROM pg_catalog.pg_views
        UNION SELECT schemaname, matviewname AS objectname FROM pg_catalog.pg_matviews) t
    WHERE t.schemaname !~ '^pg_' AND t.schemaname <> 'information_schema'
        AND pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage'))
    SELECT t.* FROM table_privileges t;
SELECT c.column_name AS name,
    CASE WHEN c.udt_schema IN ('public', 'pg_catalog') THEN format('%s', c.udt_name)
        ELSE format('"%s"."%s"', c.udt_schema, c.udt_name) END AS "database-type",
    c.ordinal_position - 1 AS "database-position", c.table_schema AS "table-schema", c.table_name AS "table-name",
    pk.column_name IS NOT NULL AS "pk?",
    col_description(CAST(CAST(format('%I.%I', CAST(c.table_schema AS TEXT), CAST(c.table_name AS TEXT)) AS REGCLASS) AS OID), c.ordinal_position) AS "field-comment",
    ((column_default IS NULL) OR (LOWER(column_default) = 'null')) AND (is_nullable = 'NO')
        AND NOT (((column_default IS NOT NULL) AND (column_default LIKE '%nextval(%')) OR (is_identity <> 'NO')) AS "database-required",
    ((column_default IS NOT NULL) AND (column_default LIKE '%nextval(%')) OR (is_identity <> 'NO') AS "database-is-auto-increment"
    FROM information_schema.columns AS c
    LEFT JOIN (SELECT tc.table_schema, tc.table_name, kc.column_name
        FROM information_schema.table_constraints AS tc
        INNER JOIN information_schema.key_column_usage AS kc ON (tc.constraint_name = kc.constraint_name)
            AND (tc.table_schema = kc.table_schema) AND (tc.table_name = kc.table_name)
        WHERE tc.constraint_type = 'PRIMARY KEY') AS pk
    ON (c.table_schema = pk.table_schema) AND (c.table_name = pk.table_name) AND (c.column_name = pk.column_name)
    WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND c.table_schema IN ('public')
    ORDER BY "table-schema", "table-name", "database-position";
-- empty
SELECT fk_ns.nspname AS "fk-table-schema", fk_table.relname AS "fk-table-name", fk_column.attname AS "fk-column-name",
    pk_ns.nspname AS "pk-table-schema", pk_table.relname AS "pk-table-name", pk_column.attname AS "pk-column-name"
    FROM pg_constraint AS c
    INNER JOIN pg_class AS fk_table ON c.conrelid = fk_table.oid
    INNER JOIN pg_namespace AS fk_ns ON c.connamespace = fk_ns.oid
    INNER JOIN pg_attribute AS fk_column ON c.conrelid = fk_column.attrelid
    INNER JOIN pg_class AS pk_table ON c.confrelid = pk_table.oid
    INNER JOIN pg_namespace AS pk_ns ON pk_table.relnamespace = pk_ns.oid
    INNER JOIN pg_attribute AS pk_column ON c.confrelid = pk_column.attrelid
    WHERE fk_ns.nspname !~ '^information_schema|catalog_history|pg_' AND c.contype = 'f'::char
        AND fk_column.attnum = ANY(c.conkey) AND pk_column.attnum = ANY(c.confkey)
    ORDER BY "fk-table-schema", "fk-table-name";
SELECT nspname AS "TABLE_SCHEM", NULL AS "TABLE_CATALOG" FROM pg_catalog.pg_namespace
    WHERE nspname <> 'pg_toast' AND (nspname !~ '^pg_temp_' OR nspname = (pg_catalog.current_schemas(true))[1])
        AND (nspname !~ '^pg_toast_temp_' OR nspname = replace((pg_catalog.current_schemas(true))[1], 'pg_temp_', 'pg_toast_temp_'))
    ORDER BY "TABLE_SCHEM";
-- empty
SELECT nspname AS schema, typname AS name FROM pg_type t JOIN pg_enum e ON t.oid = e.enumtypid
    JOIN pg_namespace n ON t.typnamespace = n.oid;
SELECT tmp.table_catalog AS "TABLE_CAT", current_setting('TIMEZONE') FROM information_schema.tables tmp LIMIT 1;
SELECT "public"."nation"."n_name" AS "n_name", "public"."nation"."n_regionkey" AS "n_regionkey" FROM "public"."nation" LIMIT 2000;
SELECT DATE_TRUNC('month', "public"."orders"."o_orderdate") AS "o_orderdate", COUNT(*) AS "count"
    FROM "public"."orders" GROUP BY DATE_TRUNC('month', "public"."orders"."o_orderdate")
    ORDER BY DATE_TRUNC('month', "public"."orders"."o_orderdate") ASC;
SELECT SUBSTRING("public"."nation"."n_comment", 1, 1234) AS "substring1" FROM "public"."nation" LIMIT 10000;
SELECT SUBSTRING("public"."nation"."n_name" FROM '[A-M]+') AS "first" FROM "public"."nation" LIMIT 2000;
