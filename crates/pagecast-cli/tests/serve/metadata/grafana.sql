-- Grafana: its query builder, the test of a data source, and a panel with time.
SELECT 1;
SELECT current_setting('server_version_num')::int / 100 AS version;
-- empty
SELECT extversion FROM pg_extension WHERE extname = 'timescaledb';
SELECT CASE WHEN quote_ident(table_schema) IN (
            SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
            FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
                array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
            string_to_array(current_setting('search_path'), ',') s)
        THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
    FROM information_schema.tables
    WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache', '_timescaledb_catalog',
        '_timescaledb_internal', '_timescaledb_config', 'timescaledb_information', 'timescaledb_experimental')
    ORDER BY CASE WHEN quote_ident(table_schema) IN (
            SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
            FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
                array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
            string_to_array(current_setting('search_path'), ',') s)
        THEN 0 ELSE 1 END, 1;
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
    WHERE CASE WHEN array_length(parse_ident('nation'), 1) = 2
        THEN quote_ident(table_schema) = (parse_ident('nation'))[1] AND quote_ident(table_name) = (parse_ident('nation'))[2]
        ELSE quote_ident(table_name) = 'nation' AND quote_ident(table_schema) IN (
            SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
            FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
                array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
            string_to_array(current_setting('search_path'), ',') s)
        END;
SELECT quote_ident(column_name) FROM information_schema.columns WHERE quote_ident(table_name) = 'orders'
    AND data_type IN ('date', 'timestamp without time zone', 'timestamp with time zone', 'bigint', 'integer', 'double precision', 'real');
SELECT quote_ident(column_name) FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 'orders'
    AND udt_name IN ('text', 'varchar', 'char', 'bpchar') ORDER BY column_name;
SELECT floor(extract(epoch FROM o_orderdate::timestamp) / 86400) * 86400 AS "time", avg(o_totalprice) AS "value"
    FROM orders WHERE o_orderdate BETWEEN '1995-01-01T00:00:00Z' AND '1995-02-01T00:00:00Z' GROUP BY 1 ORDER BY 1;
SELECT o_orderdate AS "time", o_totalprice FROM orders
    WHERE extract(epoch FROM o_orderdate) >= 788918400 AND extract(epoch FROM o_orderdate) <= 791596800 ORDER BY 1 LIMIT 5;
