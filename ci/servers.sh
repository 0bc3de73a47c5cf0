#!/usr/bin/env bash
# The pool over object stores of the field, on loopback; with the word `clients`, the command and
# the DataFusion host. The first server is built once, by Go, and kept in the user's cache folder;
# the second is there after `make s3s-fs`. Where one is missing, its tests say `skipped`.
set -euo pipefail
cd "$(dirname "$0")/.."
tools="${XDG_CACHE_HOME:-$HOME/.cache}/pagecast/tools"
export PATH="$tools/bin:$PATH"
if ! command -v versitygw >/dev/null && command -v go >/dev/null; then
    GOBIN="$tools/bin" go install -p 1 github.com/versity/versitygw/cmd/versitygw@v1.8.0 ||
        echo "skipped: versitygw cannot be built here" >&2
fi
if [ "${1:-}" = clients ]; then
    # One build for both.
    stores=pagecast-cli/s3,pagecast-cli/gcs,pagecast-cli/azure,pagecast-cli/http,pagecast-datafusion/s3
    built=(--locked -p pagecast-cli -p pagecast-datafusion --features "$stores")
    cargo test "${built[@]}" --test remote
    cargo test "${built[@]}" --test host objects::servers
else
    cargo test --locked --manifest-path crates/pagecast/servers/Cargo.toml "$@"
fi
