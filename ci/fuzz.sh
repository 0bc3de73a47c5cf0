#!/usr/bin/env bash
# The trace readers under libFuzzer for FUZZ_SECONDS (20 unless set), where a nightly compiler is
# installed; libFuzzer needs its instrumentation. cargo-fuzz is built once and kept, like the
# corpus, in the user's cache folder. The tests hold a bounded twin that runs everywhere
# (crates/pagecast-sim/tests/hostile_traces.rs).
set -euo pipefail
skipped() { echo "fuzz: skipped: $1"; exit 0; }
cache="${XDG_CACHE_HOME:-$HOME/.cache}/pagecast"
export PATH="$cache/tools/bin:$PATH"
rustup run nightly rustc --version >/dev/null 2>&1 || skipped "no nightly compiler (rustup toolchain install nightly)"
if ! command -v cargo-fuzz >/dev/null; then
    CARGO_TARGET_DIR="$cache/tools/build" cargo install --quiet --locked --root "$cache/tools" cargo-fuzz ||
        skipped "cargo-fuzz cannot be installed (cargo install cargo-fuzz)"
    rm -rf "$cache/tools/build"
fi
mkdir -p "$cache/fuzz-trace"
cd "$(dirname "$0")/../fuzz"
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$cache/target}/fuzz" cargo +nightly fuzz run trace "$cache/fuzz-trace" -- \
    -max_total_time="${FUZZ_SECONDS:-20}" -max_len=8192 -timeout=20 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1
