#!/usr/bin/env bash
# Runs ci/stops.py with what its doors and tables need: the driver of Flight SQL, writers of Iceberg
# and DuckLake, and the wheels of target/wheels if they were built. What PyPI does not give us is
# `skipped`.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/venv.sh
python="${PYTHON:-python3}"
if venv_of stops 'adbc-driver-flightsql>=1.8,<2' 'adbc-driver-manager>=1.8,<2' 'pyarrow>=20' \
    'pyiceberg[sql-sqlite,pyarrow,pyiceberg-core]>=0.12,<0.13' duckdb==1.5.5 duckdb-extension-ducklake==1.5.5 \
    duckdb-extension-sqlite-scanner==1.5.5; then
    python="$venv/bin/python"
    wheels=(target/wheels/pagecast*.whl)
    if [ -e "${wheels[0]}" ]; then
        "$venv/bin/pip" install --quiet --no-index --no-deps --force-reinstall "${wheels[@]}"
    fi
fi
exec "$python" ci/stops.py "$@"
