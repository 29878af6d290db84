#!/usr/bin/env bash
# Builds the Debian packages with dpkg-buildpackage, from a copy of the tracked files, and checks them
# with lintian: any tag above "info" fails. The packages are then in build/deb.
#
#   tools/deb.sh [DIRECTORY]      (default: build/deb)
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-build/deb}
version=$(sed -n 's/^project(tenure VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
packaged=$(sed -n '1s/^tenure (\([0-9.]*\)-.*/\1/p' packaging/debian/changelog)
if [ "$version" != "$packaged" ]; then
    echo "deb: CMakeLists.txt says version $version, packaging/debian/changelog says $packaged" >&2
    exit 1
fi

rm -rf "$out"
tree=$out/tenure-$version
mkdir -p "$tree"
# Untracked files of a working copy count as well, ignored ones do not. Without git, everything counts.
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$tree"
else
    tar -c --exclude=./build --exclude=./data . | tar -x -C "$tree"
fi
cp -r packaging/debian "$tree/debian"
cp packaging/tenured.service "$tree/debian/tenure.tenured.service"

if ! (cd "$tree" && dpkg-buildpackage --build=binary --no-sign) >"$out/build.log" 2>&1; then
    tail -n 60 "$out/build.log"
    echo "deb: the build failed; all of its output: $out/build.log" >&2
    exit 1
fi
lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$out"/*.changes
ls -l "$out"/*.deb
