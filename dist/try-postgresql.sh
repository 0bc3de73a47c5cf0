#!/usr/bin/env bash
# Three lines for the extension that is just installed, in the server that Debian made.
set -euo pipefail
major=$1
settings=/etc/postgresql/$major/main/postgresql.conf
printf "shared_preload_libraries = 'pg_pagecast'\nshared_buffers = 16MB\n" >> "$settings"
pg_ctlcluster "$major" main start
trap 'pg_ctlcluster -m fast "$major" main stop' EXIT
ask() { su postgres -c "psql -XAtq -v ON_ERROR_STOP=1 -c \"$1\""; }
ask 'CREATE EXTENSION pg_pagecast'
ask 'CREATE TABLE t AS SELECT n, repeat(chr(120), 500) FROM generate_series(1, 20000) AS n'
ask 'SELECT count(*) FROM t' | grep -x 20000
[ "$(ask 'SELECT registered FROM pg_pagecast_stats')" -gt 0 ] && echo "PostgreSQL $major: the scan said what it would read"
