#!/usr/bin/env bash
# The release, in target/dist: `bash dist/build.sh [PART...]` of licences, command, wheels,
# postgresql and images; all of them where none is named. What this machine cannot build is
# `skipped`, with the reason. SHA256SUMS has what lies there in the end.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/target/dist
tools="${XDG_CACHE_HOME:-$HOME/.cache}/pagecast/tools"
export PATH="$tools/bin:$PATH" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/pagecast/target}"
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# The same sources give the same archives. Compilers are not told: they would begin anew.
date=$(git log -1 --format=%ct)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Whoever installs it reads all formats.
features=flight,iceberg,ducklake
mkdir -p "$out"
source dist/parts.sh

# A tool of cargo's, built once.
tool() {
    command -v "$1" >/dev/null && return
    CARGO_TARGET_DIR="$tools/build" cargo install --quiet --locked --root "$tools" --version "$2" "${@:3}" "$1"
    rm -rf "$tools/build"
}

# What stands in the command and what its authors ask for. The wheels' own lists are made by
# maturin.
make_licences() {
    tool cargo-about 0.9.3 --features cli
    tool cargo-cyclonedx 0.5.9
    cargo about generate --locked --config dist/about.toml --manifest-path crates/pagecast-cli/Cargo.toml \
        --features "$features" --output-file "$out/licences.html" dist/about.hbs
    cargo cyclonedx --quiet --manifest-path crates/pagecast-cli/Cargo.toml --features "$features" --format json \
        --override-filename pagecast-sbom
    # Where the sources lay is nobody's matter.
    sed "s,$PWD/,,g" crates/pagecast-cli/pagecast-sbom.json > "$out/pagecast-$version.cdx.json"
    find crates hosts -name pagecast-sbom.json -delete
}

# The command with the server: an archive, and a package.
make_command() {
    cargo build --release --locked -p pagecast-cli --features "$features"
    local tree=$scratch/pagecast archive name
    install -D -t "$tree/usr/bin" "$CARGO_TARGET_DIR/release/pagecast"
    # Shells look for each under a name of their own.
    words() { mkdir -p "$(dirname "$tree/usr/share/$2")" && "$tree/usr/bin/pagecast" completions "$1" > "$tree/usr/share/$2"; }
    words bash bash-completion/completions/pagecast
    words zsh zsh/vendor-completions/_pagecast
    words fish fish/vendor_completions.d/pagecast.fish
    install -m 644 -D -t "$tree/usr/share/doc/pagecast" LICENSE-MIT LICENSE-APACHE README.md "$out/licences.html"
    for name in LICENSE NOTICE; do
        install -m 644 crates/pagecast-sim/assets/echarts/$name "$tree/usr/share/doc/pagecast/$name-echarts"
    done
    archive="$out/pagecast-$version-$(uname -m)-linux-gnu.tar.gz"
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$date" --transform "s,^usr,pagecast-$version," \
        -C "$tree" -c usr | gzip -9n > "$archive"
    command -v dpkg-shlibdeps >/dev/null || { skip "pagecast.deb: no dpkg-shlibdeps (Debian: dpkg-dev)"; return; }
    cat LICENSE-MIT LICENSE-APACHE > "$tree/usr/share/doc/pagecast/copyright"
    rm "$tree"/usr/share/doc/pagecast/LICENSE-{MIT,APACHE}
    SOURCE_DATE_EPOCH=$date bash dist/deb.sh "$tree" pagecast "$version" "SQL over Parquet, Delta, Iceberg and DuckLake tables, and a server of them" "$out"
}

make_wheels() {
    local part
    for part in wheel wheel-sql; do bash ci/python.sh $part; done
    rm -f "$out"/*.whl
    cp target/wheels/*.whl "$out"
}

# The predictor is built here, and the rest in each release of Debian with the compiler of that
# release. The package of headers wants LLVM, which nothing here needs; so it is only unpacked.
make_postgresql() {
    local major
    require_chroots || { skip "postgresql-NN-pagecast.deb: $reason"; return; }
    CARGO_TARGET_DIR="$CARGO_TARGET_DIR/postgres" cargo build --quiet --release --locked \
        --manifest-path hosts/postgres/predictor/Cargo.toml
    mkdir -p "$scratch/build/dist"
    git ls-files -z hosts/postgres | tar --null -T - -c | tar -x -C "$scratch/build"
    cp dist/deb.sh dist/postgresql.sh "$scratch/build/dist"
    cp LICENSE-MIT LICENSE-APACHE "$CARGO_TARGET_DIR/postgres/release/libpagecast_predictor.a" "$scratch/build"
    tar -C "$scratch/build" -cf "$scratch/build.tar" .
    for major in $MAJORS; do
        release_of "$major" || { skip "postgresql-$major-pagecast.deb: $reason"; continue; }
        rm -f "$out/postgresql-$major"-*.deb
        chroot_of "postgresql-client-$major,gcc,make,libc6-dev,dpkg-dev" \
            --customize-hook='mkdir "$1/build"' --customize-hook="tar-in $scratch/build.tar /build" \
            --customize-hook="cd \"\$1/build\" && APT_CONFIG=\$MMDEBSTRAP_APT_CONFIG apt-get download -q postgresql-server-dev-$major" \
            --customize-hook='chroot "$1" sh -c "dpkg-deb -x /build/postgresql-server-dev-*.deb /"' \
            --customize-hook="chroot \"\$1\" env SOURCE_DATE_EPOCH=$date bash /build/dist/postgresql.sh $major $version" \
            --customize-hook="sync-out /build/out $out"
    done
}

make_images() {
    docker info >/dev/null 2>&1 || { skip "images: no docker daemon; \`make lint-dist\` checks their descriptions"; return; }
    local major
    docker build --quiet --file dist/server.Dockerfile --tag "pagecast:$version" target/dist
    for major in $MAJORS; do
        compgen -G "$out/postgresql-$major-*.deb" >/dev/null || continue
        docker build --quiet --file dist/postgresql.Dockerfile --build-arg "MAJOR=$major" --tag "pagecast-postgresql:$major" target/dist
    done
}

each make "licences command wheels postgresql images" "$@"
(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum > SHA256SUMS)
ls -l "$out"
echo "made in ${SECONDS} s"
