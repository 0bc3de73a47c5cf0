#!/usr/bin/env bash
# The pool's tests under ThreadSanitizer, and the ring of queued hits under Miri, where a nightly
# compiler has what they need. ThreadSanitizer sees only what is compiled for it. With the standard
# library's source everything is; without it what goes through std's own locks is left out
# (threads.supp), and the pool's protocol, whose locks are compiled along, is checked.
set -euo pipefail
cd "$(dirname "$0")/.."
skipped() { echo "$1: skipped: $2"; }
rustup run nightly rustc --version >/dev/null 2>&1 || { skipped "check-threads" "no nightly compiler (rustup toolchain install nightly)"; exit 0; }
sysroot="$(rustc +nightly --print sysroot)"
host="$(rustc +nightly -vV | sed -n 's/host: //p')"
target_dir="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/pagecast/target}"

if ls "$sysroot/lib/rustlib/$host/lib/"*tsan* >/dev/null 2>&1; then
    # System calls through libc: the tool sees memory that is mapped anew only there.
    flags="-Zsanitizer=thread --cfg rustix_use_libc"
    build=()
    if [ -d "$sysroot/lib/rustlib/src/rust/library" ]; then
        build=(-Zbuild-std)
        options="halt_on_error=0"
    else
        echo "ThreadSanitizer: without the standard library's source (rustup component add rust-src --toolchain nightly)"
        flags="$flags -Cunsafe-allow-abi-mismatch=sanitizer"
        options="suppressions=$PWD/ci/threads.supp"
    fi
    CARGO_TARGET_DIR="$target_dir/threads" RUSTFLAGS="$flags" TSAN_OPTIONS="$options" \
        cargo +nightly test --locked ${build[@]+"${build[@]}"} --target "$host" -p pagecast \
        --no-fail-fast --test reads --test writes --test resize
else
    skipped "ThreadSanitizer" "not for $host"
fi

if cargo +nightly miri --version >/dev/null 2>&1; then
    CARGO_TARGET_DIR="$target_dir/miri" cargo +nightly miri test --locked -p pagecast-core --lib --features std hit_ring
else
    skipped "Miri" "not installed (rustup component add miri --toolchain nightly)"
fi
