#!/usr/bin/env bash
# What a newcomer waits for: `make demo` in a fresh clone with an empty target folder. It prints
# wall and processor seconds of the build and of the demo, how many crates were built, and the size
# of the binary. Crates are downloaded before, so that the network is not in it.
#
#   bash ci/first-minutes.sh            the last commit
#   bash ci/first-minutes.sh wheel-sql  and what else is made after it, in the same target folder
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git clone --quiet "$(git rev-parse --show-toplevel)" "$folder/pagecast"
cd "$folder/pagecast"
export CARGO_TARGET_DIR=$folder/target
cargo fetch --locked --quiet

# Runs a target of make, shows what it says, and tells what it took.
measure() {
    local TIMEFORMAT="$1: %R s, of processors %U s and %S s in the kernel"
    time make "$1" 2>&1 | tee "$folder/$1.log"
    echo "$1: $(grep -c '^ *Compiling' "$folder/$1.log" || true) crates built"
}

measure build
measure demo
for target in "$@"; do
    measure "$target"
done
ls -l "$CARGO_TARGET_DIR/release/pagecast" | awk '{ printf "the binary: %.0f MB\n", $5 / 1e6 }'
