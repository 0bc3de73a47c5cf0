#!/usr/bin/env bash
# Runs a command with what tests ask in other programs: deltalake as a peer for Delta tables, DuckDB
# for rows, and the clients of `pagecast serve`: those of Python, two drivers of JDBC,
# node-postgres, two drivers of Go, Npgsql, and Chromium with Selenium. PyPI, Maven, npm and Go's
# proxy give them, into the user's cache folder, and Debian the browser; what cannot be had is
# `skipped`.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/venv.sh
clients='psycopg[binary]>=3.2,<4 SQLAlchemy>=2.0,<3 selenium>=4.40,<5
    asyncpg>=0.30,<1 pg8000>=1.31,<2 psycopg2-binary>=2.9,<3 adbc-driver-postgresql>=1.8,<2
    adbc-driver-flightsql>=1.8,<2 adbc-driver-manager>=1.8,<2 pyarrow>=20 deltalake>=1.6,<2 duckdb>=1.4,<3'
# shellcheck disable=SC2086
if venv_of serve $clients; then
    export PAGECAST_PYTHON="$venv/bin/python" PAGECAST_ADBC="$venv/bin/python"
fi
drivers=crates/pagecast-cli/tests/serve/drivers
tools="$cache/tools"
mkdir -p "$tools"
if [ ! -d "$tools/node/node_modules/pg" ] && command -v npm >/dev/null; then
    npm install --silent --no-fund --no-audit --prefix "$tools/node" pg@8 >&2 ||
        echo "skipped: npm has no pg for us" >&2
fi
if [ -d "$tools/node/node_modules/pg" ]; then export PAGECAST_NODE="$tools/node/node_modules"; fi
if command -v go >/dev/null; then
    if go build -C "$drivers/go" -o "$tools/clients-in-go" . >&2; then
        export PAGECAST_GO="$tools/clients-in-go"
    else
        echo "skipped: Go's proxy has no drivers for us" >&2
    fi
fi
# Debian has no .NET, but packages of PyPI carry its 3.1 and an Npgsql 4.0.
if venv_of npgsql 'pythonnet>=3.0,<4' dotnetcore2==3.1.23; then
    if [ -e "$venv/npgsql" ] || "$venv/bin/pip" install --quiet --no-deps azureml-dataprep==4.2.2; then
        touch "$venv/npgsql"
        export PAGECAST_NPGSQL="$venv/bin/python"
    else
        echo "skipped: PyPI has no Npgsql for us" >&2
    fi
fi
if ! command -v chromedriver >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends chromium chromium-driver
    } >/dev/null || echo "skipped: Debian has no Chromium for us" >&2
fi
if [ -n "${PAGECAST_PYTHON:-}" ] && command -v chromedriver >/dev/null; then
    export PAGECAST_BROWSER="$PAGECAST_PYTHON"
fi
if jar_of org.postgresql:postgresql:42.7.7; then export PAGECAST_JDBC="$jar"; fi
if jar_of org.apache.arrow:flight-sql-jdbc-driver:18.3.0; then export PAGECAST_FLIGHT_JDBC="$jar"; fi
exec "$@"
