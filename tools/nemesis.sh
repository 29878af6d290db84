#!/usr/bin/env bash
# Plays tests/nemesis against the release build for about the given number of seconds: rounds for the
# judges of linearizability, and beside them kills for the ledger, a thousand in twenty minutes.
#
#   tools/nemesis.sh SECONDS
#
# TENURE_SEED is the first seed of both (1 otherwise). A failure prints what plays and what judges it
# again, and keeps its files under TMPDIR.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
kills=$((seconds * 1000 / 1200))
tools/deps.sh test
cmake --preset sim >/dev/null
cmake --build build/sim --target tests-nemesis
export TENURE_BUILD_DIR=build/sim

TENURE_TRIES=3 build/sim/tests/nemesis/judges_test
TENURE_KILLS=$((kills < 50 ? 50 : kills)) build/sim/tests/nemesis/kill_test &
killer=$!
status=0
TENURE_SECONDS=$seconds build/sim/tests/nemesis/lin_test || status=1
wait "$killer" || status=1
exit "$status"
