#!/usr/bin/env bash
# DuckLake tables of DuckDB: read by the pagecast command beside DuckDB itself. What follows goes to
# pytest. PyPI gives DuckDB and its extensions, into the user's cache folder. Says `skipped` where
# Python or the packages are not there.
set -euo pipefail
cd "$(dirname "$0")/.."
venv="${XDG_CACHE_HOME:-$HOME/.cache}/pagecast/venv-ducklake"
duckdb=1.5.5
wanted="duckdb==$duckdb duckdb-extension-ducklake==$duckdb duckdb-extension-sqlite-scanner==$duckdb pytest>=8,<9"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
skip() { echo "skipped: $1"; exit 0; }

if [ "$(cat "$venv/wanted" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$venv"
    "${PYTHON:-python3}" -m venv "$venv" || skip "no Python with venv"
    # shellcheck disable=SC2086
    "$venv/bin/pip" install --quiet $wanted || skip "PyPI has no $wanted for us"
    echo "$wanted" > "$venv/wanted"
fi
: "${PAGECAST:?the pagecast command, built with --features ducklake}"
"$venv/bin/python" -m pytest -p no:cacheprovider -rs --tb=short -q hosts/ducklake/strangers "$@"
