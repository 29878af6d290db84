#!/usr/bin/env bash
# Builds the library with the planted bugs in and runs each of them until the simulation finds it, or
# has not within the number of seeds that tests/sim/plants.def states. Prints the table; exits 1 if
# one was not found.
#
#   tools/plants.sh [NAME]     all of them, or one
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset sim >/dev/null
cmake --build --preset sim --target test_sim_plants
TENURE_BUILD_DIR=$PWD/build/sim TENURE_SOURCE_DIR=$PWD TENURE_PLANTS=${1:-all} \
    build/sim/tests/sim/plants_test
