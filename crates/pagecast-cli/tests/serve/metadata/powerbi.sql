-- Power BI: Npgsql's look at types, and the connector's own at information_schema.
SELECT version();
SELECT ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull, t.elemtypoid
    FROM (
        SELECT typ.oid, typ.typnamespace, typ.typname, typ.typtype, typ.typrelid, typ.typnotnull, typ.relkind,
            elemtyp.oid AS elemtypoid, elemtyp.typname AS elemtypname, elemcls.relkind AS elemrelkind,
            CASE WHEN elemproc.proname = 'array_recv' THEN 'a' ELSE elemtyp.typtype END AS elemtyptype
        FROM (
            SELECT typ.oid, typnamespace, typname, typrelid, typnotnull, relkind, typelem AS elemoid,
                CASE WHEN proc.proname = 'array_recv' THEN 'a' ELSE typ.typtype END AS typtype,
                CASE WHEN proc.proname = 'array_recv' THEN typ.typelem
                    WHEN typ.typtype = 'r' THEN rngsubtype WHEN typ.typtype = 'm' THEN 0
                    WHEN typ.typtype = 'd' THEN typ.typbasetype END AS elemtypoid
            FROM pg_type AS typ
            LEFT JOIN pg_class AS cls ON (cls.oid = typ.typrelid)
            LEFT JOIN pg_proc AS proc ON proc.oid = typ.typreceive
            LEFT JOIN pg_range ON (pg_range.rngtypid = typ.oid)
        ) AS typ
        LEFT JOIN pg_type AS elemtyp ON elemtyp.oid = elemtypoid
        LEFT JOIN pg_class AS elemcls ON (elemcls.oid = elemtyp.typrelid)
        LEFT JOIN pg_proc AS elemproc ON elemproc.oid = elemtyp.typreceive
    ) AS t
    JOIN pg_namespace AS ns ON (ns.oid = typnamespace)
    WHERE typtype IN ('b', 'r', 'm', 'e', 'd') OR (typtype = 'c' AND relkind = 'c')
        OR (typtype = 'p' AND typname IN ('record', 'void', 'unknown'))
        OR (typtype = 'a' AND (elemtyptype IN ('b', 'r', 'm', 'e', 'd') OR (elemtyptype = 'p' AND elemtypname IN ('record', 'void'))
            OR (elemtyptype = 'c' AND elemrelkind = 'c')))
    ORDER BY CASE WHEN typtype IN ('b', 'e', 'p') THEN 0 WHEN typtype = 'c' THEN 1 WHEN typtype = 'r' THEN 2
        WHEN typtype = 'm' THEN 3 WHEN typtype = 'a' THEN 4 WHEN typtype = 'd' AND elemtyptype <> 'a' THEN 5
        WHEN typtype = 'd' AND elemtyptype = 'a' THEN 6 END;
-- empty
SELECT typ.oid, att.attname, att.atttypid FROM pg_type AS typ
    JOIN pg_namespace AS ns ON (ns.oid = typ.typnamespace)
    JOIN pg_class AS cls ON (cls.oid = typ.typrelid)
    JOIN pg_attribute AS att ON (att.attrelid = typ.typrelid)
    WHERE (typ.typtype = 'c' AND cls.relkind = 'c') AND attnum > 0 AND NOT attisdropped ORDER BY typ.oid, att.attnum;
-- empty
SELECT pg_type.oid, enumlabel FROM pg_enum JOIN pg_type ON pg_type.oid = enumtypid ORDER BY oid, enumsortorder;
SELECT character_set_name FROM information_schema.character_sets;
SELECT TABLE_CATALOG, TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM INFORMATION_SCHEMA.tables
    WHERE TABLE_SCHEMA NOT IN ('information_schema', 'pg_catalog') ORDER BY TABLE_SCHEMA, TABLE_NAME;
SELECT COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE,
    CASE WHEN (data_type LIKE '%unsigned%') THEN DATA_TYPE || ' unsigned' ELSE DATA_TYPE END AS DATA_TYPE
    FROM INFORMATION_SCHEMA.columns WHERE TABLE_SCHEMA = 'public' AND TABLE_NAME = 'lineitem'
    ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION;
-- empty
SELECT pkcol.COLUMN_NAME AS PK_COLUMN_NAME, fkcol.TABLE_SCHEMA AS FK_TABLE_SCHEMA, fkcol.TABLE_NAME AS FK_TABLE_NAME,
    fkcol.COLUMN_NAME AS FK_COLUMN_NAME, fkcol.ORDINAL_POSITION AS ORDINAL,
    fkcon.CONSTRAINT_SCHEMA || '_' || fkcol.TABLE_NAME || '_' || pkcol.TABLE_NAME || '_' || fkcon.CONSTRAINT_NAME AS FK_NAME
    FROM (SELECT DISTINCT constraint_catalog, constraint_schema, unique_constraint_schema, constraint_name, unique_constraint_name
        FROM INFORMATION_SCHEMA.referential_constraints) fkcon
    INNER JOIN INFORMATION_SCHEMA.key_column_usage fkcol ON fkcon.CONSTRAINT_SCHEMA = fkcol.CONSTRAINT_SCHEMA
        AND fkcon.CONSTRAINT_NAME = fkcol.CONSTRAINT_NAME
    INNER JOIN INFORMATION_SCHEMA.key_column_usage pkcol ON fkcon.UNIQUE_CONSTRAINT_SCHEMA = pkcol.CONSTRAINT_SCHEMA
        AND fkcon.UNIQUE_CONSTRAINT_NAME = pkcol.CONSTRAINT_NAME
    WHERE pkcol.TABLE_SCHEMA = 'public' AND pkcol.TABLE_NAME = 'nation' AND pkcol.ORDINAL_POSITION = fkcol.ORDINAL_POSITION
    ORDER BY FK_NAME, fkcol.ORDINAL_POSITION;
-- empty
SELECT i.CONSTRAINT_SCHEMA || '_' || i.CONSTRAINT_NAME AS INDEX_NAME, ii.COLUMN_NAME, ii.ORDINAL_POSITION,
    CASE WHEN i.CONSTRAINT_TYPE = 'PRIMARY KEY' THEN 'Y' ELSE 'N' END AS PRIMARY_KEY
    FROM INFORMATION_SCHEMA.table_constraints i
    INNER JOIN INFORMATION_SCHEMA.key_column_usage ii ON i.CONSTRAINT_SCHEMA = ii.CONSTRAINT_SCHEMA
        AND i.CONSTRAINT_NAME = ii.CONSTRAINT_NAME AND i.TABLE_SCHEMA = ii.TABLE_SCHEMA AND i.TABLE_NAME = ii.TABLE_NAME
    WHERE i.TABLE_SCHEMA = 'public' AND i.TABLE_NAME = 'nation' AND i.CONSTRAINT_TYPE IN ('PRIMARY KEY', 'UNIQUE')
    ORDER BY i.CONSTRAINT_SCHEMA || '_' || i.CONSTRAINT_NAME, ii.TABLE_SCHEMA, ii.TABLE_NAME, ii.ORDINAL_POSITION;
SELECT "$Table"."n_nationkey" AS "n_nationkey", "$Table"."n_name" AS "n_name" FROM "public"."nation" "$Table" LIMIT 4096;
SELECT "rows"."n_regionkey" AS "n_regionkey", sum("rows"."n_nationkey") AS "a0"
    FROM (SELECT "n_regionkey", "n_nationkey" FROM "public"."nation" "$Table") "rows" GROUP BY "n_regionkey" LIMIT 1000001;
