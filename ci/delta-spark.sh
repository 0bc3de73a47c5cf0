#!/usr/bin/env bash
# Delta tables of Spark: read, pruned and changed by the pagecast command beside Spark's own reader
# and writer. What follows goes to pytest. PyPI gives Spark, Maven the jars of Delta, into the
# user's cache folder. Says `skipped` where a JVM, Python or the packages are not there.
set -euo pipefail
cd "$(dirname "$0")/.."
cache="${XDG_CACHE_HOME:-$HOME/.cache}/pagecast"
venv="$cache/venv-delta-spark"
wanted="pyspark==3.5.9 delta-spark==3.3.2 pytest>=8,<9"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1 PAGECAST_IVY="$cache/ivy"
skip() { echo "skipped: $1"; exit 0; }

java -version >/dev/null 2>&1 || skip "no JVM for Spark (apt-get install openjdk-17-jre-headless)"
if [ "$(cat "$venv/wanted" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$venv"
    "${PYTHON:-python3}" -m venv "$venv" || skip "no Python with venv"
    # shellcheck disable=SC2086
    "$venv/bin/pip" install --quiet $wanted || skip "PyPI has no $wanted for us"
    echo "$wanted" > "$venv/wanted"
fi
: "${PAGECAST:?the pagecast command}"
"$venv/bin/python" -m pytest -p no:cacheprovider -rs --tb=short -q hosts/delta/spark "$@"
