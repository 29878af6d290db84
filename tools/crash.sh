#!/usr/bin/env bash
# The campaign of crash states, optimised, on all processors: workloads with seeds from SEED on, until
# the time is over. A failure prints the state's name and how to start from it again; exits 1 then.
#
#   tools/crash.sh SECONDS [SEED]
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
seed=${2:-1}
cmake --preset sim >/dev/null
cmake --build build/sim --target test_crash_states
build/sim/tests/crash/states_test --seconds "$seconds" --seed "$seed"
