-- Superset: the inspector of SQLAlchemy, and its own look at a result.
SELECT pg_catalog.version();
SELECT current_schema();
SHOW transaction isolation level;
SHOW standard_conforming_strings;
SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname NOT LIKE 'pg\_%' ORDER BY nspname;
SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class
    JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
    WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p']) AND pg_catalog.pg_class.relpersistence != 't'
        AND pg_catalog.pg_namespace.nspname = 'public';
-- empty
SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class
    JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
    WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['v', 'm']) AND pg_catalog.pg_class.relpersistence != 't'
        AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != 'pg_catalog';
SELECT pg_catalog.pg_attribute.attname AS name,
    pg_catalog.format_type(pg_catalog.pg_attribute.atttypid, pg_catalog.pg_attribute.atttypmod) AS format_type,
    (SELECT pg_catalog.pg_get_expr(pg_catalog.pg_attrdef.adbin, pg_catalog.pg_attrdef.adrelid) AS pg_get_expr_1
        FROM pg_catalog.pg_attrdef WHERE pg_catalog.pg_attrdef.adrelid = pg_catalog.pg_attribute.attrelid
            AND pg_catalog.pg_attrdef.adnum = pg_catalog.pg_attribute.attnum AND pg_catalog.pg_attribute.atthasdef) AS "default",
    pg_catalog.pg_attribute.attnotnull AS not_null, pg_catalog.pg_class.relname AS table_name,
    pg_catalog.pg_description.description AS comment, pg_catalog.pg_attribute.attgenerated AS generated,
    (SELECT json_build_object('always', pg_catalog.pg_attribute.attidentity = 'a', 'start', pg_catalog.pg_sequence.seqstart) AS json_build_object_1
        FROM pg_catalog.pg_sequence WHERE pg_catalog.pg_attribute.attidentity != ''
            AND pg_catalog.pg_sequence.seqrelid = CAST(CAST(pg_catalog.pg_get_serial_sequence(CAST(CAST(pg_catalog.pg_attribute.attrelid AS REGCLASS) AS TEXT), pg_catalog.pg_attribute.attname) AS REGCLASS) AS OID)) AS identity_options
    FROM pg_catalog.pg_class
    LEFT OUTER JOIN pg_catalog.pg_attribute ON pg_catalog.pg_class.oid = pg_catalog.pg_attribute.attrelid
        AND pg_catalog.pg_attribute.attnum > 0 AND NOT pg_catalog.pg_attribute.attisdropped
    LEFT OUTER JOIN pg_catalog.pg_description ON pg_catalog.pg_description.objoid = pg_catalog.pg_attribute.attrelid
        AND pg_catalog.pg_description.objsubid = pg_catalog.pg_attribute.attnum
    JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
    WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm']) AND pg_catalog.pg_namespace.nspname = 'public'
    ORDER BY pg_catalog.pg_class.relname, pg_catalog.pg_attribute.attnum;
-- empty
SELECT pg_catalog.pg_type.typname AS name, pg_catalog.pg_type_is_visible(pg_catalog.pg_type.oid) AS visible,
    pg_catalog.pg_namespace.nspname AS schema, lbl_agg.labels AS labels
    FROM pg_catalog.pg_type JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_type.typnamespace
    LEFT OUTER JOIN (SELECT pg_catalog.pg_enum.enumtypid AS enumtypid,
            array_agg(CAST(pg_catalog.pg_enum.enumlabel AS TEXT) ORDER BY pg_catalog.pg_enum.enumsortorder) AS labels
        FROM pg_catalog.pg_enum GROUP BY pg_catalog.pg_enum.enumtypid) AS lbl_agg ON pg_catalog.pg_type.oid = lbl_agg.enumtypid
    WHERE pg_catalog.pg_type.typtype = 'e' ORDER BY pg_catalog.pg_namespace.nspname, pg_catalog.pg_type.typname;
-- empty
SELECT attr.conrelid, array_agg(CAST(attr.attname AS TEXT) ORDER BY attr.ord) AS cols, attr.conname, min(attr.description) AS description
    FROM (SELECT con.conrelid AS conrelid, con.conname AS conname, con.conindid AS conindid, con.description AS description,
            con.ord AS ord, pg_catalog.pg_attribute.attname AS attname
        FROM pg_catalog.pg_attribute JOIN (SELECT pg_catalog.pg_constraint.conrelid AS conrelid, pg_catalog.pg_constraint.conname AS conname,
                pg_catalog.pg_constraint.conindid AS conindid, unnest(pg_catalog.pg_constraint.conkey) AS attnum,
                generate_subscripts(pg_catalog.pg_constraint.conkey, 1) AS ord, pg_catalog.pg_description.description AS description
            FROM pg_catalog.pg_constraint
            LEFT OUTER JOIN pg_catalog.pg_description ON pg_catalog.pg_description.objoid = pg_catalog.pg_constraint.oid
            WHERE pg_catalog.pg_constraint.contype = 'p' AND pg_catalog.pg_constraint.conrelid IN (16384)) AS con
        ON pg_catalog.pg_attribute.attnum = con.attnum AND pg_catalog.pg_attribute.attrelid = con.conrelid
        WHERE con.conrelid IN (16384)) AS attr
    GROUP BY attr.conrelid, attr.conname ORDER BY attr.conrelid, attr.conname;
SELECT pg_catalog.pg_class.relname, pg_catalog.pg_description.description FROM pg_catalog.pg_class
    LEFT OUTER JOIN pg_catalog.pg_description ON pg_catalog.pg_class.oid = pg_catalog.pg_description.objoid
        AND pg_catalog.pg_description.objsubid = 0
    WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm']) AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid);
-- empty
SELECT pg_get_viewdef(c.oid) AS view_def FROM pg_class c LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'public' AND c.relname = 'nation' AND c.relkind IN ('v', 'm');
-- empty
SELECT table_name FROM information_schema.views WHERE table_schema = 'public';
SELECT DATE_TRUNC('year', o_orderdate) AS __timestamp, sum(o_totalprice) AS total FROM public.orders
    GROUP BY DATE_TRUNC('year', o_orderdate) ORDER BY total DESC LIMIT 100;
SELECT DATE_TRUNC('hour', at) + INTERVAL '5 minutes' * FLOOR(EXTRACT(MINUTE FROM at) / 5) AS at, COUNT(*) AS count
    FROM (SELECT o_orderdate::timestamp AS at FROM orders) AS virtual_table
    GROUP BY DATE_TRUNC('hour', at) + INTERVAL '5 minutes' * FLOOR(EXTRACT(MINUTE FROM at) / 5) LIMIT 10000;
-- empty
SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = -1;
