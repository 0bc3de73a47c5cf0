#!/usr/bin/env bash
# DuckLake tables of DuckDB: read by the pagecast command beside DuckDB itself. What follows goes to
# pytest. PyPI gives DuckDB and its extensions.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/venv.sh
duckdb=1.5.5
venv_of ducklake "duckdb==$duckdb" "duckdb-extension-ducklake==$duckdb" \
    "duckdb-extension-sqlite-scanner==$duckdb" 'pytest>=8,<9' || exit 0
: "${PAGECAST:?the pagecast command, built with --features ducklake}"
"$venv/bin/python" -m pytest -p no:cacheprovider -rs --tb=short -q hosts/ducklake/strangers "$@"
