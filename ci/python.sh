#!/usr/bin/env bash
# The Python packages. Of the simulator `wheel` builds target/wheels, `test` installs it into a
# fresh virtual environment and runs its tests there, `bench` measures it, with the flags that
# follow. Of SQL `wheel-sql`, `test-sql` and `bench-sql` do the same; its tests take an unoptimized
# build. `bench-peers`, `bench-memory` and `bench-clickbench` measure it beside other engines. Tools
# come from PyPI. Says `skipped` where Python, its venv module or PyPI is not there.
set -euo pipefail
what=$1
. ci/venv.sh
# Where ci/servers.sh keeps the S3 server.
export PATH="$PATH:$cache/tools/bin"
MOST_BYTES=$((5 << 20))
MOST_BYTES_OF_SQL=$((60 << 20))
skip() { echo "skipped: $1"; exit 0; }

python="${PYTHON:-python3}"
"$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    skip "no Python from 3.11 on with venv"

# What the licences demand stands in the wheel; the files must lie beside its manifest. Those of
# the crates in it are there after `make dist`.
licences() {
    mkdir -p "$1/licenses"
    cp LICENSE-MIT LICENSE-APACHE "$1/licenses/"
    cp target/dist/licences.html "$1/licenses/LICENSES-crates.html" 2>/dev/null || true
}

build() {
    venv_of python-build 'maturin>=1.16,<2' || exit 0
    licences hosts/python
    cp crates/pagecast-sim/assets/echarts/LICENSE hosts/python/licenses/LICENSE-echarts
    cp crates/pagecast-sim/assets/echarts/NOTICE hosts/python/licenses/NOTICE-echarts
    rm -f target/wheels/pagecast-*.whl
    "$venv/bin/maturin" build --release --locked --manifest-path hosts/python/Cargo.toml \
        --interpreter "$python" --out target/wheels
    wheel=$(echo target/wheels/pagecast-*.whl)
    bytes=$(wc -c < "$wheel")
    echo "built $wheel, $bytes bytes of at most $MOST_BYTES"
    [ "$bytes" -le "$MOST_BYTES" ]
}

# The wheel of SQL, with the flags that follow.
build_sql() {
    venv_of python-build 'maturin>=1.16,<2' || exit 0
    licences hosts/python/sql
    rm -f target/wheels/pagecast_sql-*.whl
    "$venv/bin/maturin" build --locked --manifest-path hosts/python/sql/Cargo.toml \
        --interpreter "$python" --out target/wheels "$@"
    wheel_of_sql=$(echo target/wheels/pagecast_sql-*.whl)
    bytes=$(wc -c < "$wheel_of_sql")
    echo "built $wheel_of_sql, $bytes bytes"
}

# The wheel alone into a fresh environment, and five lines that need nothing else.
install_fresh() {
    venv=$1
    local began=$SECONDS
    "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet --no-index "$wheel"
    "$venv/bin/python" - <<'LINES'
import array, pagecast
ids = array.array("Q", [1, 2, 3, 1, 4, 1, 2])
result = pagecast.simulate(ids, "lru,opt", sizes=[2, 3])
assert [row["misses"] for row in result.rows()] == [6, 5, 5, 4]
print("pagecast", pagecast.__version__, "replays")
LINES
    # Shown and not judged: the machine may have other work.
    echo "installed and run in $((SECONDS - began)) s, where a minute is the goal"
}

case $what in
wheel) build ;;
test)
    build
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    install_fresh "$scratch/venv"
    "$scratch/venv/bin/pip" install --quiet pytest numpy pyarrow polars 'pandas>=3' tqdm ||
        skip "PyPI has no pytest, numpy, pyarrow, polars, pandas, tqdm for us"
    export PAGECAST_ROOT=$PWD
    "$scratch/venv/bin/python" -m pytest --rootdir hosts/python -c hosts/python/pyproject.toml hosts/python/tests
    ;;
bench)
    build
    cargo build --release --locked -p pagecast-cli --no-default-features
    venv_of python-bench numpy libcachesim==0.3.5 || exit 0
    "$venv/bin/pip" install --quiet --no-index --force-reinstall "$wheel"
    mkdir -p target/bench
    "$venv/bin/python" hosts/python/bench/speed.py --pagecast "$CARGO_TARGET_DIR/release/pagecast" \
        --json target/bench/python.json "${@:2}"
    ;;
wheel-sql)
    build_sql --release
    [ "$bytes" -le "$MOST_BYTES_OF_SQL" ] || { echo "at most $MOST_BYTES_OF_SQL are wanted" >&2; exit 1; }
    ;;
test-sql)
    build
    build_sql --profile dev
    # On what `make test-host` has built.
    cargo build --locked -p pagecast-cli --features flight,iceberg,ducklake
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    "$python" -m venv "$scratch/venv"
    "$scratch/venv/bin/pip" install --quiet --no-index --find-links target/wheels 'pagecast[sql]'
    "$scratch/venv/bin/python" -c 'import pagecast; pagecast.connect().sql("SELECT 1 AS alone").show()'
    "$scratch/venv/bin/pip" install --quiet pytest numpy pyarrow polars 'pandas>=3' duckdb ||
        skip "PyPI has no pytest, numpy, pyarrow, polars, pandas, duckdb for us"
    export PAGECAST_ROOT=$PWD PAGECAST="$CARGO_TARGET_DIR/debug/pagecast"
    "$scratch/venv/bin/python" -m pytest --rootdir hosts/python/sql -c hosts/python/sql/pyproject.toml \
        hosts/python/sql/tests
    ;;
bench-sql)
    build
    build_sql --release
    cargo build --release --locked -p pagecast-cli
    venv_of python-bench-sql numpy pyarrow || exit 0
    "$venv/bin/pip" install --quiet --no-index --force-reinstall --no-deps "$wheel" "$wheel_of_sql"
    mkdir -p target/bench
    "$venv/bin/python" hosts/python/sql/bench/sql.py --pagecast "$CARGO_TARGET_DIR/release/pagecast" \
        --json target/bench/python-sql.json "${@:2}"
    ;;
bench-peers)
    build
    build_sql --release
    venv_of python-peers pyarrow duckdb==2.0.1 datafusion==55.0.0 tpchgen-cli==4.0.0 || exit 0
    "$venv/bin/pip" install --quiet --no-index --force-reinstall --no-deps "$wheel" "$wheel_of_sql"
    cargo build --release --locked --manifest-path hosts/peers/caches/Cargo.toml
    PYTHONPATH=hosts/postgres:hosts/peers "$venv/bin/python" -m peers --data "$cache/data/peers" \
        --program "$CARGO_TARGET_DIR/release/pagecast-peers" "${@:2}"
    ;;
bench-memory | bench-clickbench)
    build_sql --release
    cargo build --release --locked -p pagecast-cli --features flight
    venv_of python-memory pyarrow duckdb==2.0.1 datafusion==55.0.0 'psycopg[binary]' || exit 0
    "$venv/bin/pip" install --quiet --no-index --force-reinstall --no-deps "$wheel_of_sql"
    PYTHONPATH=hosts/postgres:hosts/peers "$venv/bin/python" -m "peers.${what#bench-}" \
        --data "$cache/data/${what#bench-}" --pagecast "$CARGO_TARGET_DIR/release/pagecast" "${@:2}"
    ;;
*) echo "usage: $0 wheel|test|bench|wheel-sql|test-sql|bench-sql|bench-peers|bench-memory|bench-clickbench" >&2; exit 2 ;;
esac
