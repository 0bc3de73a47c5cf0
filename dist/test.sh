#!/usr/bin/env bash
# Installs each artefact of target/dist into an empty place, and runs three lines there: `bash
# dist/test.sh [PART...]` of sums, archive, wheels, debian and postgresql; all where none is named.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/target/dist
python="${PYTHON:-python3}"
source dist/parts.sh
export PIP_DISABLE_PIP_VERSION_CHECK=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The first file of a pattern, which `make dist` made, or ends.
made() { compgen -G "$out/$1" | head -1 | grep . || { echo "no $1 in $out: run make dist first" >&2; exit 1; }; }

test_sums() { (cd "$out" && sha256sum --check --quiet SHA256SUMS) && echo "every sum is right"; }

test_archive() {
    mkdir "$scratch/archive"
    tar -xzf "$(made 'pagecast-*.tar.gz')" -C "$scratch/archive" --strip-components 1
    [ "$(grep -rl closed-loop "$scratch/archive/share"/{bash-completion,zsh,fish} | wc -l)" = 3 ]
    (cd "$scratch/archive" && env -i HOME="$scratch" bash "$OLDPWD/dist/try-command.sh" bin/pagecast)
}

test_wheels() {
    "$python" -m venv "$scratch/venv"
    "$scratch/venv/bin/pip" install --quiet --no-index --find-links "$out" 'pagecast[sql]'
    (cd "$scratch" && env -i venv/bin/python -c '
import array, pagecast
ids = array.array("Q", [1, 2, 3, 1, 4, 1, 2])
assert [row["misses"] for row in pagecast.simulate(ids, "lru,opt", sizes=[2]).rows()] == [6, 5]
pagecast.connect().sql("SELECT 1 + 1 AS two").show()')
}

# Nothing is there but what Debian calls minimal, and what the package says that it depends on.
test_debian() {
    require_chroots || { skip "pagecast.deb: $reason"; return; }
    release_of 15
    chroot_of libgcc-s1 --customize-hook="copy-in $(made 'pagecast_*.deb') dist/try-command.sh /tmp" \
        --customize-hook='chroot "$1" sh -c "dpkg -i /tmp/*.deb && bash /tmp/try-command.sh pagecast && test -s /usr/share/bash-completion/completions/pagecast"'
}

test_postgresql() {
    require_chroots || { skip "postgresql-NN-pagecast.deb: $reason"; return; }
    local major
    for major in $MAJORS; do
        release_of "$major" || { skip "postgresql-$major-pagecast.deb: $reason"; continue; }
        chroot_of "postgresql-$major" --customize-hook="copy-in $(made "postgresql-$major-*.deb") dist/try-postgresql.sh /tmp" \
            --customize-hook="chroot \"\$1\" sh -c 'dpkg -i /tmp/*.deb && bash /tmp/try-postgresql.sh $major'"
    done
}

each test "sums archive wheels debian postgresql" "$@"
echo "tried in ${SECONDS} s"
