-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION pg_pagecast" to load this file. \quit

CREATE FUNCTION pg_pagecast_scans(OUT pid integer, OUT scan integer, OUT database oid, OUT relation oid, OUT kind text,
    OUT "position" bigint, OUT speed double precision, OUT blocks_left bigint, OUT expected_end timestamptz,
    OUT chunks integer, OUT chunks_done integer, OUT chunks_waited_for integer, OUT chunks_shared bigint)
RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED ROWS 10;

CREATE FUNCTION pg_pagecast_chunks(OUT database oid, OUT relation oid, OUT first_block bigint, OUT blocks bigint, OUT resident boolean,
    OUT wanted_by integer)
RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE ROWS 1024;

CREATE FUNCTION pg_pagecast_relations(OUT database oid, OUT relation oid, OUT hits bigint, OUT reads bigint, OUT saved bigint)
RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE ROWS 100;

CREATE FUNCTION pg_pagecast_buffers(OUT tablespace oid, OUT filenode oid, OUT buffers bigint, OUT predicted bigint)
RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE ROWS 200;

CREATE FUNCTION pg_pagecast_stats(OUT registered bigint, OUT refused bigint, OUT finished bigint, OUT suspended bigint,
    OUT reaped bigint, OUT steered bigint, OUT predictions bigint, OUT by_uses bigint, OUT evictions bigint,
    OUT kept bigint, OUT hits bigint, OUT reads bigint, OUT saved bigint, OUT active bigint, OUT stats_reset timestamptz,
    OUT chunks bigint, OUT chunks_shared bigint, OUT bytes_spared bigint)
RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE ROWS 1;

CREATE FUNCTION pg_pagecast_expected(OUT statement bigint, OUT queryid bigint, OUT database oid, OUT relation oid, OUT kind text,
    OUT last_run timestamptz, OUT expected timestamptz, OUT trust double precision, OUT runs bigint, OUT came bigint,
    OUT failed bigint, OUT blocks bigint)
RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE ROWS 20;

CREATE FUNCTION pg_pagecast_forget(statement bigint) RETURNS boolean AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE;

CREATE FUNCTION pg_pagecast_reset() RETURNS void AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE;

CREATE VIEW pg_pagecast_scans AS
    SELECT s.pid, s.scan, CASE WHEN s.database = d.oid THEN s.relation::regclass END AS relation, s.kind, s."position", s.speed,
           s.blocks_left, s.expected_end, s.database, s.chunks, s.chunks_done, s.chunks_waited_for, s.chunks_shared
    FROM pg_pagecast_scans() s, pg_database d WHERE d.datname = current_database();

CREATE VIEW pg_pagecast_chunks AS
    SELECT c.relation::regclass AS relation, c.wanted_by, count(*) AS chunks, count(*) FILTER (WHERE c.resident) AS resident,
           sum(c.blocks)::bigint AS blocks
    FROM pg_pagecast_chunks() c JOIN pg_database d ON d.oid = c.database WHERE d.datname = current_database()
    GROUP BY c.relation, c.wanted_by;

CREATE VIEW pg_pagecast_relations AS
    SELECT c.oid::regclass AS relation, coalesce(b.buffers, 0) AS buffers, r.hits, r.reads, coalesce(b.predicted, 0) AS predicted, r.saved
    FROM pg_class c
    JOIN pg_database d ON d.datname = current_database()
    LEFT JOIN pg_pagecast_buffers() b ON b.filenode = pg_relation_filenode(c.oid)
         AND b.tablespace = CASE c.reltablespace WHEN 0 THEN d.dattablespace ELSE c.reltablespace END
    JOIN pg_pagecast_relations() r ON r.relation = c.oid AND r.database = d.oid;

CREATE VIEW pg_pagecast_expected AS
    SELECT e.statement, e.queryid, CASE WHEN e.database = d.oid THEN e.relation::regclass END AS relation, e.kind, e.last_run, e.expected,
           e.trust, e.runs, e.came, e.failed, e.blocks, e.database
    FROM pg_pagecast_expected() e, pg_database d WHERE d.datname = current_database();

CREATE VIEW pg_pagecast_stats AS SELECT * FROM pg_pagecast_stats();

COMMENT ON VIEW pg_pagecast_scans IS 'scans that are registered now: what each reads, where it is, and when it will end';
COMMENT ON COLUMN pg_pagecast_scans.pid IS 'process that reads, or leads the parallel workers that read';
COMMENT ON COLUMN pg_pagecast_scans.scan IS 'plan node, counted as in the server''s own plan trees';
COMMENT ON COLUMN pg_pagecast_scans.relation IS 'table that is read; null in another database';
COMMENT ON COLUMN pg_pagecast_scans.kind IS 'bitmap, sequential, cooperative (a sequential scan that takes its chunks in any order), or trailing index (an index scan across the table)';
COMMENT ON COLUMN pg_pagecast_scans."position" IS 'blocks done; of a cooperative scan chunks, of a trailing index scan units of 16 index entries';
COMMENT ON COLUMN pg_pagecast_scans.speed IS 'blocks, chunks or units per second; before the first measurement what scans of this kind usually have';
COMMENT ON COLUMN pg_pagecast_scans.blocks_left IS 'blocks, chunks or units still to come';
COMMENT ON COLUMN pg_pagecast_scans.expected_end IS 'when it will have ended at this speed; infinity if that is over ten years away';
COMMENT ON COLUMN pg_pagecast_scans.database IS 'oid of the database';
COMMENT ON COLUMN pg_pagecast_scans.chunks IS 'chunks that a cooperative scan was registered with; null of other scans';
COMMENT ON COLUMN pg_pagecast_scans.chunks_done IS 'of these, read';
COMMENT ON COLUMN pg_pagecast_scans.chunks_waited_for IS 'of these, still to be read and not in shared buffers, as far as is known';
COMMENT ON COLUMN pg_pagecast_scans.chunks_shared IS 'of those handed out, brought into shared buffers by another scan';

COMMENT ON VIEW pg_pagecast_chunks IS 'chunks of this database''s tables that cooperative scans have still to read, by how many scans want them';
COMMENT ON COLUMN pg_pagecast_chunks.relation IS 'table';
COMMENT ON COLUMN pg_pagecast_chunks.wanted_by IS 'cooperative scans that have still to be handed the chunk; 0 while it is read for the last of them';
COMMENT ON COLUMN pg_pagecast_chunks.chunks IS 'chunks that so many scans want';
COMMENT ON COLUMN pg_pagecast_chunks.resident IS 'of these, in shared buffers, as far as is known';
COMMENT ON COLUMN pg_pagecast_chunks.blocks IS 'blocks of these chunks';

COMMENT ON VIEW pg_pagecast_relations IS
    'relations of this database that registered scans have read; at most 512 of all databases are counted, and the least read go first: what they had is in the row of function pg_pagecast_relations() that has no relation';
COMMENT ON COLUMN pg_pagecast_relations.relation IS 'table that was read';
COMMENT ON COLUMN pg_pagecast_relations.buffers IS 'its pages in shared buffers';
COMMENT ON COLUMN pg_pagecast_relations.hits IS 'blocks that registered scans found in shared buffers';
COMMENT ON COLUMN pg_pagecast_relations.reads IS 'blocks that registered scans read from the kernel or the device';
COMMENT ON COLUMN pg_pagecast_relations.predicted IS 'of the pages in shared buffers those that a scan will read that runs or is expected';
COMMENT ON COLUMN pg_pagecast_relations.saved IS 'of the blocks found those that the server''s clock would have evicted';

COMMENT ON VIEW pg_pagecast_expected IS 'scans of statements that may come back: when each did, and when it is expected';
COMMENT ON COLUMN pg_pagecast_expected.statement IS 'its name for pg_pagecast_forget(); a scan of other literals has another, but for dates, which count by their age';
COMMENT ON COLUMN pg_pagecast_expected.queryid IS 'as in pg_stat_statements; this and the next two are null while no run is expected';
COMMENT ON COLUMN pg_pagecast_expected.relation IS 'table that is read; null in another database';
COMMENT ON COLUMN pg_pagecast_expected.kind IS 'bitmap or sequential, as in pg_pagecast_scans';
COMMENT ON COLUMN pg_pagecast_expected.last_run IS 'when the last run began';
COMMENT ON COLUMN pg_pagecast_expected.expected IS 'when the next is expected; null after the first run, and where it has failed to come';
COMMENT ON COLUMN pg_pagecast_expected.trust IS '0 to 1: share of the forecasts that came true, the later ones weighing more; nothing is kept below 0.1';
COMMENT ON COLUMN pg_pagecast_expected.runs IS 'runs that were seen';
COMMENT ON COLUMN pg_pagecast_expected.came IS 'forecasts that came true';
COMMENT ON COLUMN pg_pagecast_expected.failed IS 'forecasts that did not';
COMMENT ON COLUMN pg_pagecast_expected.blocks IS 'blocks that the next run is expected to read; null while none is expected';
COMMENT ON COLUMN pg_pagecast_expected.database IS 'oid of the database';

COMMENT ON VIEW pg_pagecast_stats IS 'counters since stats_reset, and the scans registered now';
COMMENT ON COLUMN pg_pagecast_stats.registered IS 'scans that were registered';
COMMENT ON COLUMN pg_pagecast_stats.refused IS 'scans that found no room; raise pg_pagecast.max_scans or pg_pagecast.memory, the server''s log says which';
COMMENT ON COLUMN pg_pagecast_stats.finished IS 'registrations that ended with their scan or its query';
COMMENT ON COLUMN pg_pagecast_stats.suspended IS 'registrations that ended because their scan had not moved for two seconds';
COMMENT ON COLUMN pg_pagecast_stats.reaped IS 'registrations that ended because their process was gone';
COMMENT ON COLUMN pg_pagecast_stats.steered IS 'buffers looked at ahead of the clock''s hand';
COMMENT ON COLUMN pg_pagecast_stats.predictions IS 'of the buffers looked at those that a scan wanted';
COMMENT ON COLUMN pg_pagecast_stats.by_uses IS 'of the buffers looked at those that were judged by their usage counts';
COMMENT ON COLUMN pg_pagecast_stats.evictions IS 'of the buffers looked at those that were left for the hand to take';
COMMENT ON COLUMN pg_pagecast_stats.kept IS 'of the buffers looked at those that the hand would have taken and that were kept from it for a scan';
COMMENT ON COLUMN pg_pagecast_stats.hits IS 'blocks that registered scans found in shared buffers';
COMMENT ON COLUMN pg_pagecast_stats.reads IS 'blocks that registered scans read from the kernel or the device';
COMMENT ON COLUMN pg_pagecast_stats.saved IS 'of the blocks found those that the server''s clock would have evicted';
COMMENT ON COLUMN pg_pagecast_stats.active IS 'scans that are registered now';
COMMENT ON COLUMN pg_pagecast_stats.stats_reset IS 'when the server started, or pg_pagecast_reset() was called';
COMMENT ON COLUMN pg_pagecast_stats.chunks IS 'chunks handed to cooperative scans';
COMMENT ON COLUMN pg_pagecast_stats.chunks_shared IS 'of these, found in shared buffers because another scan had read them';
COMMENT ON COLUMN pg_pagecast_stats.bytes_spared IS 'bytes of the shared chunks, which were not read once more';

COMMENT ON FUNCTION pg_pagecast_scans() IS 'scans that are registered now, of all databases';
COMMENT ON FUNCTION pg_pagecast_relations() IS
    'blocks that registered scans found, read and found only because they were kept, by relation of all databases; the row without a relation has those of all relations that no place is left for';
COMMENT ON FUNCTION pg_pagecast_buffers() IS 'relations of this database with pages in shared buffers: how many pages, and how many of them a scan will read that runs or is expected; looks at every buffer';
COMMENT ON FUNCTION pg_pagecast_expected() IS 'scans of statements that may come back, of all databases';
COMMENT ON FUNCTION pg_pagecast_forget(bigint) IS 'forgets a scan of pg_pagecast_expected, and expects it no more; whether it was known';
COMMENT ON FUNCTION pg_pagecast_stats() IS 'counters since stats_reset, and the scans registered now';
COMMENT ON FUNCTION pg_pagecast_reset() IS 'sets the counters of pg_pagecast_stats and pg_pagecast_relations back to 0';
COMMENT ON FUNCTION pg_pagecast_chunks() IS 'chunks that cooperative scans have still to read, of all databases; the relation is null where its scan is not shown in pg_pagecast_scans';

-- As pg_buffercache has it: nobody but those who watch the server.
REVOKE ALL ON FUNCTION pg_pagecast_scans(), pg_pagecast_chunks(), pg_pagecast_relations(), pg_pagecast_buffers(), pg_pagecast_stats(),
    pg_pagecast_reset(), pg_pagecast_expected(), pg_pagecast_forget(bigint) FROM PUBLIC;
REVOKE ALL ON pg_pagecast_scans, pg_pagecast_chunks, pg_pagecast_relations, pg_pagecast_stats, pg_pagecast_expected FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_pagecast_scans(), pg_pagecast_chunks(), pg_pagecast_relations(), pg_pagecast_buffers(), pg_pagecast_stats(),
    pg_pagecast_expected() TO pg_monitor;
GRANT SELECT ON pg_pagecast_scans, pg_pagecast_chunks, pg_pagecast_relations, pg_pagecast_stats, pg_pagecast_expected TO pg_monitor;
