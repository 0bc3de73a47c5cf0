#!/usr/bin/env bash
# Runs a command with object stores of the field at hand, for tests on loopback: `bash
# ci/servers.sh cargo test ...`. The first server is built once, by Go, and kept in the user's cache
# folder; the second is there after `make s3s-fs`. Where one is missing, its tests say `skipped`.
set -euo pipefail
cd "$(dirname "$0")/.."
tools="${XDG_CACHE_HOME:-$HOME/.cache}/pagecast/tools"
export PATH="$tools/bin:$PATH"
if ! command -v versitygw >/dev/null && command -v go >/dev/null; then
    GOBIN="$tools/bin" go install -p 1 github.com/versity/versitygw/cmd/versitygw@v1.8.0 ||
        echo "skipped: versitygw cannot be built here" >&2
fi
exec "$@"
