#!/usr/bin/env bash
# Delta tables of Spark: read, pruned and changed by the pagecast command beside Spark's own reader
# and writer. What follows goes to pytest. PyPI gives Spark, Maven the jars of Delta.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/venv.sh
export PAGECAST_IVY="$cache/ivy"
java -version >/dev/null 2>&1 ||
    { echo "skipped: no JVM for Spark (apt-get install openjdk-17-jre-headless)"; exit 0; }
venv_of delta-spark pyspark==3.5.9 delta-spark==3.3.2 'pytest>=8,<9' || exit 0
: "${PAGECAST:?the pagecast command}"
"$venv/bin/python" -m pytest -p no:cacheprovider -rs --tb=short -q hosts/delta/spark "$@"
