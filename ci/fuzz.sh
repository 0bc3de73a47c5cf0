#!/usr/bin/env bash
# Readers of what anybody may have written under libFuzzer, each for FUZZ_SECONDS (20 unless set),
# where a nightly compiler is installed; libFuzzer needs its instrumentation. `ci/fuzz.sh store
# flash` runs some of the targets. cargo-fuzz is built once and kept, like the corpora, in the
# user's cache folder. Bounded twins run everywhere: crates/pagecast-sim/tests/hostile_traces.rs,
# hosts/kv/tests/crashes/corrupt.rs, crates/pagecast-cli/tests/serve/hostile.rs, and of
# crates/pagecast/tests writes/double.rs and flash/damage.rs.
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
root="$(cd "$(dirname "$0")/.." && pwd)"
# Threads of pools that end while the process does pass for leaks.
for target in ${@:-trace store double_write flash frames}; do
    mkdir -p "$cache/fuzz-$target"
    cd "$root/fuzz"
    # That of Delta tables builds DataFusion once more, and only where it is asked for: in the
    # versions of the workspace, so that it needs no list of its own.
    if [ "$target" = delta ]; then cd "$root/hosts/delta/fuzz" && cp "$root/Cargo.lock" .; fi
    CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$cache/target}/fuzz" cargo +nightly fuzz run "$target" "$cache/fuzz-$target" -- \
        -max_total_time="${FUZZ_SECONDS:-20}" -max_len=8192 -timeout=20 -rss_limit_mb=2048 -detect_leaks=0 -verbosity=0 -print_final_stats=1
done
