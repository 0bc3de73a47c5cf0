#!/usr/bin/env bash
# Shows that predictor, forecast, steering and the manager of cooperation need neither std, nor an
# allocator, nor unwinding, and that no panic is left in them once optimized: core-no-std.rs, which
# uses all of them, is linked like a C program, run, and its symbols are looked at.
set -euo pipefail
cd "$(dirname "$0")/.."
target="${CARGO_TARGET_DIR:-target}/no-std"
export CARGO_TARGET_DIR="$target"

# An object file per module: messages for people, which need core's formatting, are then not linked.
# `false` is thin LTO among these files: it removes checks that the release profile would leave.
CARGO_PROFILE_RELEASE_LTO=false RUSTFLAGS="-C panic=abort -C codegen-units=256" cargo build --quiet --locked --release -p pagecast-core --no-default-features
rustc --edition 2024 -C panic=abort -C opt-level=3 -C codegen-units=1 -C link-arg=-lc --crate-type bin -o "$target/predictor" \
    --extern pagecast_core="$target/release/libpagecast_core.rlib" -L "$target/release/deps" ci/core-no-std.rs
"$target/predictor" || { echo "the core without std gives a wrong answer: exit status $?" >&2; exit 1; }

bad=$(nm --demangle "$target/predictor" | grep -E '__rust_alloc|__rg_|\b(alloc|std)::|panic|_Unwind' || true)
if [ -n "$bad" ]; then
    printf 'the core without std brings more than core:\n%s\n' "$bad" >&2
    exit 1
fi
echo "the core runs without std, allocator, unwinding and panics: $(nm "$target/predictor" | grep -c ' [TtWw] ') symbols"

# A target without std says it once more, where one is installed.
for bare in $(rustup target list --installed 2>/dev/null | grep -E -- '-none(-|$)' || true); do
    cargo build --quiet --locked -p pagecast-core --no-default-features --target "$bare"
    echo "builds for $bare"
done
