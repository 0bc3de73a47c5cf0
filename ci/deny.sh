#!/usr/bin/env bash
# cargo-deny over licences, sources, bans and advisories. The database of advisories is fetched from
# its git host; a copy that is there already is used where that cannot be reached, and without one
# the advisories are `skipped`. The tool is built once and kept in the user's cache folder.
set -euo pipefail
tools="${XDG_CACHE_HOME:-$HOME/.cache}/pagecast/tools"
export PATH="$tools/bin:$PATH"
if ! command -v cargo-deny >/dev/null; then
    CARGO_TARGET_DIR="$tools/build" cargo install --quiet --locked --root "$tools" cargo-deny
    rm -rf "$tools/build"
fi
fetch=()
# All that cargo-deny does in a workspace of ours, each by the same rules.
deny() {
    cargo deny "${fetch[@]}" --all-features check "$@"
    cargo deny "${fetch[@]}" --manifest-path hosts/distributed/Cargo.toml --all-features check \
        -A license-not-encountered -A license-exception-not-encountered "$@"
}
deny bans licenses sources

database=https://github.com/RustSec/advisory-db
said="$(GIT_TERMINAL_PROMPT=0 timeout 60 git ls-remote --exit-code "$database" HEAD 2>&1)" && reached=0 || reached=$?
# What git says of a network that is not there; all else is a fault of ours.
no_network='Could not resolve|Failed to connect|Could not connect|Connection (refused|timed out|reset)'
no_network="$no_network|unreachable|proxy|tunnel"
if [ "$reached" = 0 ]; then
    deny advisories
elif [ "$reached" != 124 ] && ! grep -qE "$no_network" <<< "$said"; then
    echo "error: $database: $said" >&2
    exit 1
elif compgen -G "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs/*/crates" >/dev/null; then
    echo "advisories: $database cannot be reached, by the copy that is here" >&2
    fetch=(--offline)
    deny advisories
else
    echo "skipped: advisories: no database at $database (${said:-no answer in a minute})" >&2
fi
