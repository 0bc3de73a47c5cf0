#!/usr/bin/env bash
# Runs a command with what writes Iceberg tables for its tests: pyiceberg, and Spark with Iceberg's
# runtime, which PyPI and Maven give.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/venv.sh
venv_of iceberg 'pyiceberg[sql-sqlite,pyarrow,pyiceberg-core]>=0.12,<0.13' 'pyspark>=3.5.5,<3.6' || exit 0
if jar_of org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.1; then export ICEBERG_SPARK_JAR="$jar"; fi
export PATH="$venv/bin:$PATH"
exec "$@"
