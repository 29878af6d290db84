#!/usr/bin/env bash
# Long random runs of tests/sim, optimised, on all processors. A failure prints its seed and the
# command that plays it again; exits 1 if there was one.
#
#   tools/sim.sh FIRST..LAST [SECONDS] [PROGRAM]...
#
# The seeds are dealt out in runs of equal length. After SECONDS a run begins no new seed; without it
# the seeds decide. PROGRAM is model, world, ...: all of them if none is named.
set -euo pipefail
cd "$(dirname "$0")/.."

seeds=${1:-1..1000}
seconds=${2:-}
shift $(($# > 2 ? 2 : $#))
first=${seeds%%..*}
last=${seeds##*..}
runs=$(nproc)

cmake --preset sim >/dev/null
cmake --build --preset sim
if [ $# -eq 0 ]; then
    for path in build/sim/tests/sim/*_test; do
        name=$(basename "$path" _test)
        [ "$name" = plants ] || set -- "$@" "$name"
    done
fi

failed=0
pids=()
for program in "$@"; do
    each=$(((last - first + runs) / runs))
    pids=()
    for ((from = first; from <= last; from += each)); do
        to=$((from + each - 1))
        TENURE_SEEDS=$from..$((to < last ? to : last)) TENURE_SECONDS=$seconds \
            "build/sim/tests/sim/${program}_test" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || failed=1
    done
done
exit "$failed"
