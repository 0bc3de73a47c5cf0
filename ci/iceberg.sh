#!/usr/bin/env bash
# Runs a command with what writes Iceberg tables for its tests: pyiceberg, and Spark with Iceberg's
# runtime. PyPI and Maven give them, into the user's cache folder; what cannot be had is `skipped`.
set -euo pipefail
cd "$(dirname "$0")/.."
cache="${XDG_CACHE_HOME:-$HOME/.cache}/pagecast"
venv="$cache/venv-iceberg"
wanted="pyiceberg[sql-sqlite,pyarrow,pyiceberg-core]>=0.12,<0.13 pyspark>=3.5.5,<3.6"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
if [ "$(cat "$venv/wanted" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$venv"
    # shellcheck disable=SC2086
    if "${PYTHON:-python3}" -m venv "$venv" && "$venv/bin/pip" install --quiet $wanted; then
        echo "$wanted" > "$venv/wanted"
    else
        rm -rf "$venv"
        echo "skipped: PyPI has no $wanted for us"
        exit 0
    fi
fi
artifact=org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.1
jar="$cache/tools/$(cut -d: -f2,3 <<< "$artifact" | tr : -).jar"
if [ ! -e "$jar" ] && command -v mvn >/dev/null && command -v java >/dev/null; then
    mvn --batch-mode --quiet dependency:copy -Dartifact="$artifact" -DoutputDirectory="$cache/tools" >&2 || true
fi
if [ -e "$jar" ] && command -v java >/dev/null; then
    export ICEBERG_SPARK_JAR="$jar"
else
    echo "skipped: no Java, or Maven has no $artifact for us"
fi
export PATH="$venv/bin:$PATH"
exec "$@"
