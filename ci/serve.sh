#!/usr/bin/env bash
# `pagecast serve` and clients as people have them: psql, psycopg, SQLAlchemy and JDBC. PyPI and
# Maven give what is not there, into the user's cache folder; what cannot be had is `skipped`.
# SERVE_LOAD_SECONDS is how long the clients of the load test come and go.
set -euo pipefail
cd "$(dirname "$0")/.."
venv="${XDG_CACHE_HOME:-$HOME/.cache}/pagecast/venv-serve"
wanted="psycopg[binary]>=3.2,<4 SQLAlchemy>=2.0,<3"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
if [ "$(cat "$venv/wanted" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$venv"
    # shellcheck disable=SC2086
    if "${PYTHON:-python3}" -m venv "$venv" && "$venv/bin/pip" install --quiet $wanted; then
        echo "$wanted" > "$venv/wanted"
    else
        echo "skipped: PyPI has no psycopg and SQLAlchemy for us" >&2
        rm -rf "$venv"
    fi
fi
[ -x "$venv/bin/python" ] && export PAGECAST_PYTHON="$venv/bin/python"
jar="${XDG_CACHE_HOME:-$HOME/.cache}/pagecast/tools/postgresql-42.7.7.jar"
if [ ! -e "$jar" ] && command -v mvn >/dev/null && command -v java >/dev/null; then
    mvn --batch-mode --quiet dependency:copy -Dartifact=org.postgresql:postgresql:42.7.7 \
        -DoutputDirectory="$(dirname "$jar")" || echo "skipped: Maven has no driver for us" >&2
fi
[ -e "$jar" ] && export PAGECAST_JDBC="$jar"
cargo clippy --locked -p pagecast-cli --features serve --all-targets -- -D warnings
cargo test --locked -p pagecast-cli --features serve --bin pagecast
cargo test --locked -p pagecast-cli --features serve --test serve -- --nocapture "$@"
