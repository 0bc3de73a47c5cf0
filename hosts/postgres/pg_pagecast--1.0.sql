-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION pg_pagecast" to load this file. \quit

CREATE FUNCTION pg_pagecast_scans(OUT pid integer, OUT scan integer, OUT database oid, OUT relation oid, OUT kind text,
    OUT "position" bigint, OUT speed double precision, OUT blocks_left bigint, OUT expected_end timestamptz)
RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;

CREATE FUNCTION pg_pagecast_relations(OUT database oid, OUT relation oid, OUT hits bigint, OUT reads bigint, OUT saved bigint)
RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE;

CREATE FUNCTION pg_pagecast_buffers(OUT tablespace oid, OUT filenode oid, OUT buffers bigint, OUT predicted bigint)
RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE;

CREATE FUNCTION pg_pagecast_stats(OUT registered bigint, OUT refused bigint, OUT finished bigint, OUT suspended bigint,
    OUT reaped bigint, OUT steered bigint, OUT predictions bigint, OUT by_uses bigint, OUT evictions bigint,
    OUT kept bigint, OUT hits bigint, OUT reads bigint, OUT saved bigint, OUT active bigint)
RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE;

CREATE FUNCTION pg_pagecast_reset() RETURNS void AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE;

CREATE VIEW pg_pagecast_scans AS
    SELECT s.pid, s.scan, CASE WHEN s.database = d.oid THEN s.relation::regclass END AS relation, s.kind, s."position", s.speed,
           s.blocks_left, s.expected_end, s.database
    FROM pg_pagecast_scans() s, pg_database d WHERE d.datname = current_database();
COMMENT ON VIEW pg_pagecast_scans IS
    'registered scans; scan is the plan node, position and blocks_left are blocks, speed is blocks per second';

CREATE VIEW pg_pagecast_relations AS
    SELECT c.oid::regclass AS relation, coalesce(b.buffers, 0) AS buffers, r.hits, r.reads, coalesce(b.predicted, 0) AS predicted, r.saved
    FROM pg_class c
    JOIN pg_database d ON d.datname = current_database()
    LEFT JOIN pg_pagecast_buffers() b ON b.filenode = pg_relation_filenode(c.oid)
         AND b.tablespace = CASE c.reltablespace WHEN 0 THEN d.dattablespace ELSE c.reltablespace END
    JOIN pg_pagecast_relations() r ON r.relation = c.oid AND r.database = d.oid;
COMMENT ON VIEW pg_pagecast_relations IS
    'relations of this database that registered scans have read: pages in shared buffers, of these wanted by a scan; what scans found, read, and found only because it was kept';

CREATE VIEW pg_pagecast_stats AS SELECT * FROM pg_pagecast_stats();
COMMENT ON VIEW pg_pagecast_stats IS 'counters since the server started or pg_pagecast_reset(), and the scans registered now';

-- As pg_buffercache has it: nobody but those who watch the server.
REVOKE ALL ON FUNCTION pg_pagecast_scans(), pg_pagecast_relations(), pg_pagecast_buffers(), pg_pagecast_stats(), pg_pagecast_reset()
    FROM PUBLIC;
REVOKE ALL ON pg_pagecast_scans, pg_pagecast_relations, pg_pagecast_stats FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_pagecast_scans(), pg_pagecast_relations(), pg_pagecast_buffers(), pg_pagecast_stats() TO pg_monitor;
GRANT SELECT ON pg_pagecast_scans, pg_pagecast_relations, pg_pagecast_stats TO pg_monitor;
