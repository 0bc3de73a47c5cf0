#!/usr/bin/env bash
# Three lines for the command that is just installed: a file is written, read, and served.
set -euo pipefail
pagecast=$1
folder=$(mktemp -d) server=
trap 'kill $server 2>/dev/null || true; rm -rf "$folder"' EXIT
$pagecast --version
$pagecast sql -c "COPY (SELECT value AS n FROM generate_series(1, 1000)) TO '$folder/numbers.parquet'" > /dev/null
$pagecast sql --data "$folder" -c 'SELECT count(*) AS rows, sum(n) AS sum FROM numbers' | tee "$folder/said"
grep -q 500500 "$folder/said"
$pagecast serve --data "$folder" --memory 64MiB --listen 127.0.0.1:54320 > "$folder/log" 2>&1 &
server=$!
for _ in $(seq 50); do (exec 3<> /dev/tcp/127.0.0.1/54320) 2>/dev/null && break; sleep 0.1; done
# What a client of PostgreSQL asks first is whether there is TLS; N is the answer of one without.
exec 3<> /dev/tcp/127.0.0.1/54320
printf '\x00\x00\x00\x08\x04\xd2\x16\x2f' >&3
[ "$(head -c 1 <&3)" = N ] && echo "the server answers"
