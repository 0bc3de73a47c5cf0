#!/usr/bin/env bash
# The trace readers under libFuzzer for FUZZ_SECONDS (20 unless set), where a nightly compiler and cargo-fuzz are installed.
# The corpus grows in the user's cache folder. The tests hold a bounded twin that runs everywhere.
set -euo pipefail
seconds="${FUZZ_SECONDS:-20}"
rustup run nightly rustc --version >/dev/null 2>&1 || { echo "fuzz: skipped: no nightly compiler (rustup toolchain install nightly)"; exit 0; }
cargo fuzz --version >/dev/null 2>&1 || { echo "fuzz: skipped: no cargo-fuzz (cargo install cargo-fuzz)"; exit 0; }
cache="${XDG_CACHE_HOME:-$HOME/.cache}/pagecast"
mkdir -p "$cache/fuzz-trace"
cd "$(dirname "$0")/../fuzz"
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$cache/target}/fuzz" cargo +nightly fuzz run trace "$cache/fuzz-trace" -- \
    -max_total_time="$seconds" -max_len=8192 -timeout=20 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1
