#!/usr/bin/env bash
# Builds the library from a copy of src/ with the bugs of tests/plants in it and searches for each bug: it
# must be found within the number of seeds that its entry states. Prints a table; exits 1 if a bug was
# not found.
#
#   tools/plants.sh [NAME]     all of them, or one
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset sim >/dev/null
cmake --build --preset sim --target test_sim_plants
TENURE_BUILD_DIR=$PWD/build/sim TENURE_SOURCE_DIR=$PWD TENURE_PLANTS=${1:-all} \
    build/sim/tests/sim/plants_test
