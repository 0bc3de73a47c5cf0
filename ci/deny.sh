#!/usr/bin/env bash
# cargo-deny over licences, sources and bans. Advisories need a database that is fetched from the
# network: left to a machine that has one. The tool is built once and kept in the user's cache
# folder.
set -euo pipefail
tools="${XDG_CACHE_HOME:-$HOME/.cache}/pagecast/tools"
export PATH="$tools/bin:$PATH"
if ! command -v cargo-deny >/dev/null; then
    CARGO_TARGET_DIR="$tools/build" cargo install --quiet --locked --root "$tools" cargo-deny
    rm -rf "$tools/build"
fi
cargo deny --all-features check bans licenses sources
# A workspace of its own, by the same rules.
cargo deny --manifest-path hosts/distributed/Cargo.toml --all-features check \
    -A license-not-encountered -A license-exception-not-encountered bans licenses sources
