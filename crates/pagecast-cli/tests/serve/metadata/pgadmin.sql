-- pgAdmin: its connection, its tree, the dashboard, and a table's properties.
SET DateStyle = ISO; SET client_min_messages = notice;
SELECT set_config('bytea_output', 'hex', false) FROM pg_settings WHERE name = 'bytea_output';
SELECT oid AS id, rolname AS name, rolsuper AS is_superuser,
    CASE WHEN rolsuper THEN true ELSE rolcreaterole END AS can_create_role,
    CASE WHEN rolsuper THEN true ELSE rolcreatedb END AS can_create_db
    FROM pg_catalog.pg_roles WHERE rolname = current_user;
SELECT db.oid AS did, db.datname, db.datallowconn, pg_encoding_to_char(db.encoding) AS serverencoding,
    has_database_privilege(db.oid, 'CREATE') AS cancreate, datistemplate
    FROM pg_catalog.pg_database db WHERE db.datname = current_database();
SELECT db.oid AS did, db.oid, db.datname AS name, ta.spcname AS spcname, db.datallowconn, db.datistemplate AS is_template,
    pg_catalog.has_database_privilege(db.oid, 'CREATE') AS cancreate, datdba AS owner, descr.description
    FROM pg_catalog.pg_database db
    LEFT OUTER JOIN pg_catalog.pg_tablespace ta ON db.dattablespace = ta.oid
    LEFT OUTER JOIN pg_catalog.pg_shdescription descr ON (db.oid = descr.objoid AND descr.classoid = 'pg_database'::regclass)
    WHERE db.oid > 0::OID ORDER BY datname;
SELECT CASE WHEN usesuper THEN pg_catalog.pg_is_in_recovery() ELSE FALSE END AS inrecovery,
    CASE WHEN usesuper AND pg_catalog.pg_is_in_recovery() THEN pg_is_wal_replay_paused() ELSE FALSE END AS isreplaypaused
    FROM pg_catalog.pg_user WHERE usename = current_user;
SELECT nsp.oid, nsp.nspname AS name, pg_catalog.has_schema_privilege(nsp.oid, 'CREATE') AS can_create,
    pg_catalog.has_schema_privilege(nsp.oid, 'USAGE') AS has_usage, des.description
    FROM pg_catalog.pg_namespace nsp
    LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid = nsp.oid AND des.classoid = 'pg_namespace'::regclass)
    WHERE nspname NOT LIKE E'pg\\_%' AND NOT ((nsp.nspname = 'pg_catalog' AND EXISTS
            (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'pg_class' AND relnamespace = nsp.oid LIMIT 1))
        OR (nsp.nspname = 'information_schema' AND EXISTS
            (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'tables' AND relnamespace = nsp.oid LIMIT 1)))
    ORDER BY nspname;
SELECT rel.oid, rel.relname AS name,
    (SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid = rel.oid AND tgisinternal = FALSE) AS triggercount,
    (SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid = rel.oid AND tgisinternal = FALSE AND tgenabled = 'O') AS has_enable_triggers,
    (CASE WHEN rel.relkind = 'p' THEN true ELSE false END) AS is_partitioned,
    (SELECT count(1) FROM pg_catalog.pg_inherits WHERE inhrelid = rel.oid LIMIT 1) AS is_inherits, des.description
    FROM pg_catalog.pg_class rel
    LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid = rel.oid AND des.objsubid = 0 AND des.classoid = 'pg_class'::regclass)
    WHERE rel.relkind IN ('r', 's', 't', 'p') AND rel.relnamespace = 2200::oid AND NOT rel.relispartition ORDER BY rel.relname;
SELECT DISTINCT att.attname AS name, att.attnum AS "OID", pg_catalog.format_type(ty.oid, NULL) AS datatype,
    att.attnotnull AS not_null, CASE WHEN att.atthasdef OR att.attidentity != '' OR ty.typdefault IS NOT NULL THEN True ELSE False END AS has_default_val,
    des.description, seq.seqtypid
    FROM pg_catalog.pg_attribute att
    JOIN pg_catalog.pg_type ty ON ty.oid = atttypid
    JOIN pg_catalog.pg_namespace tn ON tn.oid = ty.typnamespace
    JOIN pg_catalog.pg_class cl ON cl.oid = att.attrelid
    JOIN pg_catalog.pg_namespace na ON na.oid = cl.relnamespace
    LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = ty.typelem
    LEFT OUTER JOIN pg_catalog.pg_attrdef def ON adrelid = att.attrelid AND adnum = att.attnum
    LEFT OUTER JOIN (pg_catalog.pg_depend JOIN pg_catalog.pg_class cs ON classid = 'pg_class'::regclass AND objid = cs.oid AND cs.relkind = 'S')
        ON refobjid = att.attrelid AND refobjsubid = att.attnum
    LEFT OUTER JOIN pg_catalog.pg_namespace ns ON ns.oid = cs.relnamespace
    LEFT OUTER JOIN pg_catalog.pg_index pi ON pi.indrelid = att.attrelid AND indisprimary
    LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid = att.attrelid AND des.objsubid = att.attnum AND des.classoid = 'pg_class'::regclass)
    LEFT OUTER JOIN pg_catalog.pg_sequence seq ON cs.oid = seq.seqrelid
    WHERE att.attrelid = 16384::oid AND att.attnum > 0 AND att.attisdropped IS FALSE ORDER BY att.attnum;
-- empty
SELECT cls.oid, cls.relname AS name FROM pg_catalog.pg_index idx
    JOIN pg_catalog.pg_class cls ON cls.oid = indexrelid
    LEFT JOIN pg_catalog.pg_depend dep ON (dep.classid = cls.tableoid AND dep.objid = cls.oid AND dep.refobjsubid = '0' AND dep.deptype = 'i')
    WHERE indrelid = 16384::oid ORDER BY cls.relname;
SELECT 'session_stats' AS chart_name, pg_catalog.row_to_json(t) AS chart_data FROM (SELECT
    (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = 'pagecast') AS "Total",
    (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE state = 'active' AND datname = 'pagecast') AS "Active",
    (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE state = 'idle' AND datname = 'pagecast') AS "Idle") t;
SELECT (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = 'pagecast') AS "Total",
    (SELECT sum(xact_commit) FROM pg_catalog.pg_stat_database WHERE datname = 'pagecast') AS "Commits",
    (SELECT sum(blks_hit) FROM pg_catalog.pg_stat_database WHERE datname = 'pagecast') AS "Hits";
SELECT pid, datname, usename, application_name, client_addr, pg_catalog.to_char(backend_start, 'YYYY-MM-DD HH24:MI:SS TZ') AS backend_start,
    state, wait_event_type || ': ' || wait_event AS wait_event, array_to_string(pg_catalog.pg_blocking_pids(pid), ', ') AS blocking_pids, query,
    pg_catalog.to_char(query_start, 'YYYY-MM-DD HH24:MI:SS TZ') AS query_start, CASE WHEN state = 'active' THEN 1 ELSE 0 END AS active_since
    FROM pg_catalog.pg_stat_activity WHERE datname = 'pagecast' ORDER BY pid;
-- empty
SELECT pid, locktype, datname, relation::regclass, page, tuple, virtualxid, transactionid, classid::regclass, objid, mode, granted
    FROM pg_catalog.pg_locks l LEFT OUTER JOIN pg_catalog.pg_database d ON (l.database = d.oid) WHERE datname = 'pagecast' ORDER BY pid, locktype;
SELECT name, setting, category, unit, short_desc, boot_val, reset_val FROM pg_show_all_settings() ORDER BY category;
SELECT name, category, setting, unit, short_desc FROM pg_catalog.pg_settings ORDER BY category;
-- empty
SELECT gss_authenticated, encrypted FROM pg_catalog.pg_stat_gssapi WHERE pid = pg_backend_pid();
SELECT version();
