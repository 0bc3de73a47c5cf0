-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION pg_pagecast UPDATE TO '1.2'" to load this file. \quit

-- What each view, function and column means, where \d+ and \df+ show it; and how many rows to plan for.
COMMENT ON VIEW pg_pagecast_scans IS 'scans that are registered now: what each reads, where it is, and when it will end';
COMMENT ON COLUMN pg_pagecast_scans.pid IS 'process that reads, or leads the parallel workers that read';
COMMENT ON COLUMN pg_pagecast_scans.scan IS 'plan node, counted as in the server''s own plan trees';
COMMENT ON COLUMN pg_pagecast_scans.relation IS 'table that is read; null in another database';
COMMENT ON COLUMN pg_pagecast_scans.kind IS 'bitmap, sequential, or trailing index (an index scan across the table)';
COMMENT ON COLUMN pg_pagecast_scans."position" IS 'blocks done; of a trailing index scan units of 16 index entries';
COMMENT ON COLUMN pg_pagecast_scans.speed IS 'blocks, or units, per second; before the first measurement what scans of this kind usually have';
COMMENT ON COLUMN pg_pagecast_scans.blocks_left IS 'blocks, or units, still to come';
COMMENT ON COLUMN pg_pagecast_scans.expected_end IS 'when it will have ended at this speed; infinity if that is over ten years away';
COMMENT ON COLUMN pg_pagecast_scans.database IS 'oid of the database';

COMMENT ON VIEW pg_pagecast_relations IS
    'relations of this database that registered scans have read; at most 512 of all databases are counted, and the least read go first: what they had is in the row of function pg_pagecast_relations() that has no relation';
COMMENT ON COLUMN pg_pagecast_relations.relation IS 'table that was read';
COMMENT ON COLUMN pg_pagecast_relations.buffers IS 'its pages in shared buffers';
COMMENT ON COLUMN pg_pagecast_relations.hits IS 'blocks that registered scans found in shared buffers';
COMMENT ON COLUMN pg_pagecast_relations.reads IS 'blocks that registered scans read from the kernel or the device';
COMMENT ON COLUMN pg_pagecast_relations.predicted IS 'of the pages in shared buffers those that a running scan will read';
COMMENT ON COLUMN pg_pagecast_relations.saved IS 'of the blocks found those that the server''s clock would have evicted';

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
COMMENT ON COLUMN pg_pagecast_stats.kept IS 'of the buffers looked at those that the hand would have taken and that were kept from it';
COMMENT ON COLUMN pg_pagecast_stats.hits IS 'blocks that registered scans found in shared buffers';
COMMENT ON COLUMN pg_pagecast_stats.reads IS 'blocks that registered scans read from the kernel or the device';
COMMENT ON COLUMN pg_pagecast_stats.saved IS 'of the blocks found those that the server''s clock would have evicted';
COMMENT ON COLUMN pg_pagecast_stats.active IS 'scans that are registered now';
COMMENT ON COLUMN pg_pagecast_stats.stats_reset IS 'when the server started, or pg_pagecast_reset() was called';

COMMENT ON FUNCTION pg_pagecast_scans() IS 'scans that are registered now, of all databases';
COMMENT ON FUNCTION pg_pagecast_relations() IS
    'blocks that registered scans found, read and found only because they were kept, by relation of all databases; the row without a relation has those of all relations that no place is left for';
COMMENT ON FUNCTION pg_pagecast_buffers() IS 'relations of this database with pages in shared buffers: how many pages, and how many of them a running scan will read; looks at every buffer';
COMMENT ON FUNCTION pg_pagecast_stats() IS 'counters since stats_reset, and the scans registered now';
COMMENT ON FUNCTION pg_pagecast_reset() IS 'sets the counters of pg_pagecast_stats and pg_pagecast_relations back to 0';

ALTER FUNCTION pg_pagecast_scans() ROWS 10;
ALTER FUNCTION pg_pagecast_relations() ROWS 100;
ALTER FUNCTION pg_pagecast_buffers() ROWS 200;
ALTER FUNCTION pg_pagecast_stats() ROWS 1;
