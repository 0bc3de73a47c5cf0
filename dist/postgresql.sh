#!/usr/bin/env bash
# Builds the package for one PostgreSQL, inside the Debian that dist/build.sh made for it.
set -euo pipefail
cd /build
major=$1 version=$2
make="make -s -C hosts/postgres PG_CONFIG=/usr/lib/postgresql/$major/bin/pg_config PREDICTOR=/build/libpagecast_predictor.a"
$make
$make install DESTDIR=/build/root
strip --strip-unneeded "root/usr/lib/postgresql/$major/lib/pg_pagecast.so"
mkdir -p out "root/usr/share/doc/postgresql-$major-pagecast"
cat LICENSE-MIT LICENSE-APACHE > "root/usr/share/doc/postgresql-$major-pagecast/copyright"
bash dist/deb.sh root "postgresql-$major-pagecast" "$version" "scans of PostgreSQL $major say what they will read next" out "postgresql-$major"
