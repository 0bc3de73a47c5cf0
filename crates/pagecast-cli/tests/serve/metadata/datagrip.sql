-- DataGrip: the introspection of IntelliJ's tools.
SELECT current_database() AS a, current_schemas(false) AS b;
SHOW TRANSACTION ISOLATION LEVEL;
SELECT N.oid::bigint AS id, datname AS name, D.description, datistemplate AS is_template, datallowconn AS allow_connections,
    pg_catalog.pg_get_userbyid(N.datdba) AS "owner"
    FROM pg_catalog.pg_database N
    LEFT JOIN pg_catalog.pg_shdescription D ON N.oid = D.objoid
    ORDER BY CASE WHEN datname = pg_catalog.current_database() THEN -1::bigint ELSE N.oid::bigint END;
SELECT N.oid::bigint AS id, N.xmin AS state_number, nspname AS name, D.description, pg_catalog.pg_get_userbyid(N.nspowner) AS "owner"
    FROM pg_catalog.pg_namespace N LEFT JOIN pg_catalog.pg_description D ON N.oid = D.objoid
    ORDER BY CASE WHEN nspname = pg_catalog.current_schema() THEN -1::bigint ELSE N.oid::bigint END;
SELECT pg_catalog.pg_is_in_recovery() AS is_in_recovery, current_setting('server_version_num')::int AS version;
SELECT oid::bigint, pg_catalog.pg_is_other_temp_schema(oid) AS other FROM pg_catalog.pg_namespace;
SELECT T.relkind AS table_kind, T.relname AS table_name, T.oid AS table_id, T.xmin AS table_state_number, false AS table_with_oids,
    T.reltablespace AS tablespace_id, T.reloptions AS options, T.relpersistence AS persistence,
    (SELECT pg_catalog.array_agg(inhparent::bigint ORDER BY inhseqno)::varchar FROM pg_catalog.pg_inherits WHERE T.oid = inhrelid) AS ancestors,
    (SELECT pg_catalog.array_agg(inhrelid::bigint ORDER BY inhrelid)::varchar FROM pg_catalog.pg_inherits WHERE T.oid = inhparent) AS successors,
    T.relispartition AS is_partition, pg_catalog.pg_get_partkeydef(T.oid) AS partition_key,
    pg_catalog.pg_get_expr(T.relpartbound, T.oid) AS partition_expression, T.relam AS am_id, pg_catalog.pg_get_userbyid(T.relowner) AS "owner"
    FROM pg_catalog.pg_class T WHERE relnamespace = 2200::oid AND relkind IN ('r', 'm', 'v', 'f', 'p') ORDER BY table_kind, table_id;
WITH T AS (SELECT DISTINCT T.oid AS table_id, T.relname AS table_name FROM pg_catalog.pg_class T, pg_catalog.pg_attribute A
        WHERE T.relnamespace = 2200::oid AND T.relkind IN ('r', 'm', 'v', 'f', 'p') AND A.attrelid = T.oid)
    SELECT T.table_id, C.attnum AS column_position, C.attname AS column_name, C.xmin AS column_state_number, C.atttypmod AS type_mod,
        C.attndims AS dimensions_number, pg_catalog.format_type(C.atttypid, C.atttypmod) AS type_spec, C.atttypid AS type_id,
        C.attnotnull AS mandatory, pg_catalog.pg_get_expr(D.adbin, T.table_id) AS column_default_expression,
        NOT C.attislocal AS column_is_inherited, C.attisdropped AS column_is_dropped, C.attidentity AS identity_kind
    FROM T JOIN pg_catalog.pg_attribute C ON T.table_id = C.attrelid
    LEFT JOIN pg_catalog.pg_attrdef D ON (C.attrelid, C.attnum) = (D.adrelid, D.adnum)
    WHERE attnum > 0 ORDER BY table_id, attnum;
-- empty
SELECT tab.oid AS table_id, tab.relkind AS table_kind, ind_stor.relname AS index_name, ind_head.indexrelid AS index_id, ind_stor.xmin AS state_number,
    ind_head.indisunique AS is_unique, ind_head.indisprimary AS is_primary, pg_catalog.pg_get_expr(ind_head.indpred, ind_head.indrelid) AS condition
    FROM pg_catalog.pg_class tab JOIN pg_catalog.pg_index ind_head ON ind_head.indrelid = tab.oid
    JOIN pg_catalog.pg_class ind_stor ON tab.relnamespace = ind_stor.relnamespace AND ind_stor.oid = ind_head.indexrelid
    WHERE tab.relnamespace = 2200::oid AND tab.relkind IN ('r', 'm', 'v', 'p') AND ind_stor.relkind IN ('i', 'I');
-- empty
SELECT T.oid AS table_id, T.relkind AS table_kind, C.oid::bigint AS con_id, C.conname AS con_name, C.contype AS con_kind, C.conkey AS con_columns
    FROM pg_catalog.pg_constraint C JOIN pg_catalog.pg_class T ON C.conrelid = T.oid
    WHERE T.relkind IN ('r', 'v', 'f', 'p') AND relnamespace = 2200::oid AND C.contype IN ('p', 'u', 'f', 'c', 'x') AND connamespace = 2200::oid;
-- empty
SELECT T.oid AS type_id, T.xmin AS type_state_number, T.typname AS type_name, T.typtype AS type_sub_kind, T.typcategory AS type_category,
    T.typrelid AS class_id, T.typbasetype AS base_type_id,
    CASE WHEN T.typtype IN ('c', 'e') THEN NULL ELSE pg_catalog.format_type(T.typbasetype, T.typtypmod) END AS type_def,
    T.typndims AS dimensions_number, T.typdefault AS default_expression, T.typnotnull AS mandatory, pg_catalog.pg_get_userbyid(T.typowner) AS "owner"
    FROM pg_catalog.pg_type T LEFT OUTER JOIN pg_catalog.pg_class C ON T.typrelid = C.oid
    WHERE T.typnamespace = 2200::oid AND (T.typtype IN ('d', 'e') OR C.relkind = 'c'::"char" OR (T.typtype = 'b' AND (T.typelem = 0 OR T.typcategory <> 'A')) OR T.typtype = 'p' AND NOT T.typisdefined)
    ORDER BY 1;
-- empty
WITH languages AS (SELECT oid AS lang_oid, lanname AS lang FROM pg_catalog.pg_language),
    routines AS (SELECT proname AS r_name, prolang AS lang_oid, oid AS r_id, xmin AS r_state_number, proargnames AS arg_names,
            proargmodes AS arg_modes, proargtypes::int[] AS in_arg_types, proallargtypes::int[] AS all_arg_types,
            prorettype AS ret_type_id, proretset AS ret_set, prokind AS kind, provolatile AS volatile_kind, proisstrict AS is_strict
        FROM pg_catalog.pg_proc WHERE pronamespace = 2200::oid)
    SELECT * FROM routines NATURAL JOIN languages;
-- empty
SELECT T.relkind AS view_kind, T.oid AS view_id, pg_catalog.pg_get_viewdef(T.oid, true) AS source_text
    FROM pg_catalog.pg_class T JOIN pg_catalog.pg_namespace N ON T.relnamespace = N.oid
    WHERE N.oid = 2200::oid AND T.relkind IN ('m', 'v');
SELECT R.oid::bigint AS role_id, rolname AS role_name, rolsuper AS is_super, rolinherit AS is_inherit, rolcanlogin AS can_login,
    rolconnlimit AS conn_limit, rolvaliduntil AS valid_until, rolconfig AS config, D.description
    FROM pg_catalog.pg_roles R LEFT JOIN pg_catalog.pg_shdescription D ON D.objoid = R.oid;
-- empty
SELECT E.oid AS id, E.xmin AS state_number, extname AS name, extversion AS version, extnamespace AS schema_id, nspname AS schema_name
    FROM pg_catalog.pg_extension E JOIN pg_namespace N ON E.extnamespace = N.oid LEFT JOIN pg_catalog.pg_description D ON E.oid = D.objoid;
-- empty
SELECT lanname AS name, L.oid AS id FROM pg_catalog.pg_language L ORDER BY lanname;
-- empty
SELECT C.oid AS id, C.xmin AS state_number, C.castsource AS castsource_id, C.casttarget AS casttarget_id FROM pg_catalog.pg_cast C
    LEFT JOIN pg_catalog.pg_proc F ON C.castfunc::oid = F.oid ORDER BY id;
-- empty
SELECT D.objoid AS id, CASE WHEN 'pg_catalog.pg_class'::regclass = D.classoid THEN 'C' ELSE 'O' END AS kind, D.objsubid AS sub_id, D.description
    FROM pg_catalog.pg_description D JOIN pg_catalog.pg_class C ON D.objoid = C.oid WHERE C.relnamespace = 2200::oid ORDER BY 1;
-- empty
SELECT 'x' FROM information_schema.routines WHERE routine_schema = 'public' AND 1 = 0;
SELECT t.* FROM public.nation t LIMIT 501;
