#!/usr/bin/env bash
# The pool and the core must compile on other Unix systems too. Checked for every such target whose
# std is installed.
set -euo pipefail
checked=0
for target in aarch64-apple-darwin x86_64-apple-darwin x86_64-unknown-freebsd aarch64-unknown-linux-gnu; do
    if [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] && [ "$(rustc -vV | sed -n 's/host: //p')" != "$target" ]; then
        cargo check --locked --target "$target" -p pagecast-core -p pagecast
        checked=$((checked + 1))
    fi
done
[ "$checked" -gt 0 ] || echo "skipped: no std of another Unix target is installed here"
