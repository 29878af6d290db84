#!/usr/bin/env bash
# Builds a server with the planted bugs in (src/base/plant.h) and lets the clients of tests/nemesis at
# it, with one of them alive at a time: those in tests/nemesis/plants.txt must be found. The judges are
# built without them. Prints the table; exits 1 if one was not found within five rounds.
#
#   tools/nemesis-plants.sh [NAME...]     all of them, or these
set -euo pipefail
cd "$(dirname "$0")/.."

tools/deps.sh test
cmake --preset sim >/dev/null
cmake --build build/sim --target tests-nemesis
cmake -S . -B build/planted -DCMAKE_BUILD_TYPE=Release -DTENURE_TESTS=OFF \
    -DCMAKE_C_FLAGS=-DTN_PLANT_ON >/dev/null
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
