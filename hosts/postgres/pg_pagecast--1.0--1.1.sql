-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION pg_pagecast UPDATE TO '1.1'" to load this file. \quit

-- Since when is counted, as the server's own statistics say it.
DROP VIEW pg_pagecast_stats;
DROP FUNCTION pg_pagecast_stats();

CREATE FUNCTION pg_pagecast_stats(OUT registered bigint, OUT refused bigint, OUT finished bigint, OUT suspended bigint,
    OUT reaped bigint, OUT steered bigint, OUT predictions bigint, OUT by_uses bigint, OUT evictions bigint,
    OUT kept bigint, OUT hits bigint, OUT reads bigint, OUT saved bigint, OUT active bigint, OUT stats_reset timestamptz)
RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE;

CREATE VIEW pg_pagecast_stats AS SELECT * FROM pg_pagecast_stats();
COMMENT ON VIEW pg_pagecast_stats IS 'counters since stats_reset, when the server started or pg_pagecast_reset() was called, and the scans registered now';

REVOKE ALL ON FUNCTION pg_pagecast_stats() FROM PUBLIC;
REVOKE ALL ON pg_pagecast_stats FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_pagecast_stats() TO pg_monitor;
GRANT SELECT ON pg_pagecast_stats TO pg_monitor;
