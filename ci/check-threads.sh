#!/usr/bin/env bash
# Tests of the core and the pool under ThreadSanitizer and Miri, where a nightly compiler and what they need are installed.
# ThreadSanitizer sees only what is compiled for it. With the standard library's source (rustup component add rust-src)
# that is everything; without it the library's own locks are opaque, and THREADS_STD_OPAQUE tells the build to use
# parking_lot's, which are compiled along (see core's sync.rs).
set -euo pipefail
cd "$(dirname "$0")/.."
skipped() { echo "$1: skipped: $2"; }
target_dir="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/pagecast/target}"
