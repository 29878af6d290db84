#!/usr/bin/env bash
# Plays rounds of tests/nemesis against the release build for the given number of seconds.
#
#   tools/nemesis.sh SECONDS
#
# TENURE_SEED is the first round's seed (1 otherwise). A failure prints what plays and what judges it
# again, and keeps its files under TMPDIR.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
tools/deps.sh test
cmake --preset sim >/dev/null
cmake --build build/sim --target tests-nemesis
TENURE_BUILD_DIR=build/sim TENURE_SECONDS=$seconds build/sim/tests/nemesis/lin_test
