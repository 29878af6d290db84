#!/usr/bin/env bash
# Builds a server from a copy of the tree with the bugs of tests/plants in it and runs the clients of
# tests/nemesis against it, with one bug active at a time: the clients must find those in
# tests/nemesis/plants.txt. The judges are built from the real tree. Prints a table; exits 1 if a bug was
# not found within five rounds.
#
#   tools/nemesis-plants.sh [NAME...]     all of them, or these
set -euo pipefail
cd "$(dirname "$0")/.."

tools/deps.sh test
cmake --preset sim >/dev/null
cmake --build build/sim --target tests-nemesis
# The copy: src/ with the bugs, and everything else as a link to the original.
tree=$PWD/build/planted/tree
mkdir -p "$tree"
tools/plants.py apply "$tree"
for path in *; do
    case "$path" in
    src | build | data) ;;
    *) ln -sfn "$PWD/$path" "$tree/$path" ;;
    esac
done
cmake -S "$tree" -B build/planted -DCMAKE_BUILD_TYPE=Release -DTENURE_TESTS=OFF >/dev/null
cmake --build build/planted --target tenured
if [ $# -eq 0 ]; then
    mapfile -t names <tests/nemesis/plants.txt
    set -- "${names[@]}"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
for name in "$@"; do
    found=
    for seed in 1 2 3 4 5; do
        if ! TENURE_BUILD_DIR=build/planted TENURE_PLANT=$name TENURE_SEED=$seed TENURE_SECONDS=1 \
            TMPDIR=$work build/sim/tests/nemesis/lin_test >"$work/out" 2>&1; then
            found="round $seed: $(sed -n 's/^seed [0-9]*: //p' "$work/out" | head -1 | cut -c1-100)"
            break
        fi
    done
    printf '%-24s %s\n' "$name" "${found:-not found}"
    [ -n "$found" ] || status=1
    rm -rf "$work"/tenure-nemesis-*
done
exit "$status"
