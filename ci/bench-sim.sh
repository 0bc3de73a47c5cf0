#!/usr/bin/env bash
# Throughput of the simulator against libcachesim, an external tool that is installed from PyPI into
# the user's cache folder and never linked. The trace is the largest open one, at a tenth of its
# pages; BENCH_SIM_RUNS sets the runs.
set -euo pipefail
pagecast=$1
. ci/venv.sh
source=../shared/traces/open/arc-p12-512.txt.gz
trace="$cache/traces/arc-p12-512.oracleGeneral"
if [ ! -f "$trace" ]; then
    [ -f "$source" ] || { echo "skipped: $source is not here"; exit 0; }
    mkdir -p "$cache/traces"
    "$pagecast" trace convert "$source" "$trace"
fi
venv_of sim libcachesim==0.3.5 || exit 0
cat "$trace" >/dev/null
mkdir -p target/bench
"$venv/bin/python" crates/pagecast-sim/bench/against_libcachesim.py --pagecast "$pagecast" --trace "$trace" --name arc-p12-512 \
    --pages 315331 --runs "${BENCH_SIM_RUNS:-5}" --json target/bench/sim.json
