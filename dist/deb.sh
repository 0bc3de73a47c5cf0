#!/usr/bin/env bash
# A Debian package of a folder that has the files where they will lie: `bash dist/deb.sh FOLDER NAME
# VERSION DESCRIPTION TO [PACKAGE...]`. It depends on the packages named, and on those whose
# libraries its programs load, which dpkg-shlibdeps finds.
set -euo pipefail
folder=$(realpath "$1") name=$2 version=$3 description=$4 to=$5
shift 5
arch=$(dpkg --print-architecture)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Without a table of symbols dpkg-shlibdeps would take the newest version of each library.
mkdir -p "$scratch/debian"
printf 'Source: pagecast\n\nPackage: %s\nArchitecture: any\n' "$name" > "$scratch/debian/control"
mapfile -t programs < <(find "$folder" -type f \( -perm -u+x -o -name '*.so' \))
depends=("$@" "$(cd "$scratch" && dpkg-shlibdeps -O "${programs[@]/#/-e}" | sed -n 's/^shlibs:Depends=//p')")

mkdir -p "$folder/DEBIAN"
cat > "$folder/DEBIAN/control" <<CONTROL
Package: $name
Version: $version
Architecture: $arch
Maintainer: The pagecast authors <maintainers@pagecast.invalid>
Homepage: https://github.com/pagecast/pagecast
Section: database
Priority: optional
Depends: $(printf '%s\n' "${depends[@]}" | paste -sd,)
Installed-Size: $(du -sk --exclude=DEBIAN "$folder" | cut -f1)
Description: $description
CONTROL
(cd "$folder" && find . -type f -not -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
chmod -R u=rwX,go=rX "$folder"
dpkg-deb --root-owner-group -Zxz --build "$folder" "$to/${name}_${version}_$arch.deb"
