#!/usr/bin/env bash
# Runs a command with those who write files and tables for the finder of wrong rows: DuckDB with
# DuckLake, pyarrow, polars, fastparquet, deltalake and pyiceberg, which PyPI gives.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/venv.sh
duckdb=1.5.5
if venv_of writers "duckdb==$duckdb" "duckdb-extension-ducklake==$duckdb" "duckdb-extension-sqlite-scanner==$duckdb" \
    'pyarrow>=20' 'polars>=1,<3' 'fastparquet>=2025.12' 'pandas>=2.2' 'deltalake>=1.6,<2' \
    'pyiceberg[sql-sqlite,pyarrow,pyiceberg-core]>=0.12,<0.13'; then
    export PAGECAST_PYTHON="$venv/bin/python"
fi
exec "$@"
