#!/usr/bin/env bash
# What a newcomer's first minutes cost: `bash ci/first-minutes.sh [command...]`. It clones this
# checkout's last commit, and runs each command there with an empty target folder: `make build` and
# `make demo`, unless others are given. It prints wall time, processor time and crates compiled of
# each, and the size of the binary, and writes target/bench/first-minutes.json. Crates that cargo
# has downloaded before are not downloaded again.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p target/bench
to=$PWD/target/bench/first-minutes.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet --no-hardlinks . "$work/clone"
export CARGO_TARGET_DIR=$work/target CARGO_TERM_COLOR=never TIMEFORMAT='%R %U %S'

[ $# -gt 0 ] || set -- 'make build' 'make demo'
steps=
for command in "$@"; do
    echo "$ $command"
    { time (cd "$work/clone" && bash -c "$command" 2>&1 | tee "$work/printed" >&3); } 3>&1 2> "$work/time" || {
        echo "first-minutes: \`$command\` failed"
        exit 1
    }
    read -r wall user system < <(tail -1 "$work/time")
    crates=$(grep -c '^ *Compiling ' "$work/printed" || true)
    cpu=$(awk "BEGIN { print $user + $system }")
    steps+="${steps:+, }{\"command\": \"$command\", \"wall_s\": $wall, \"cpu_s\": $cpu, \"crates\": $crates}"
    printf '%s: %.1f minutes, %.1f of the processors, %s crates\n' "$command" \
        "$(awk "BEGIN { print $wall / 60 }")" "$(awk "BEGIN { print $cpu / 60 }")" "$crates"
done
bytes=$(wc -c < "$work/target/release/pagecast" 2>/dev/null || echo 0)
echo "the binary has $((bytes >> 20)) MiB"
printf '{"steps": [%s], "binary_bytes": %s}\n' "$steps" "$bytes" > "$to"
echo "wrote ${to#"$PWD"/}"
