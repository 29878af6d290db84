#!/usr/bin/env bash
# `tenure run` under random interruptions, against the release build: two holders of one value are never alive
# together.
#
#   tools/run-campaign.sh INTERRUPTIONS SECONDS
#
# SEED and CONTENDERS (4) can be set in the environment.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/deps.sh test
cmake --preset release >/dev/null
cmake --build --preset release
dummy=build/sensor_dummy
cc -std=c17 -D_GNU_SOURCE -O2 -Wall -Wextra tests/lib/sensor_dummy.c -o "$dummy"

export TENURE_BUILD_DIR=$PWD/build SENSOR_TEST_DUMMY=$PWD/$dummy
export RUN_TEST_INTERRUPTIONS=${1:-500} RUN_TEST_SECONDS=${2:-3600} RUN_TEST_CONTENDERS=${CONTENDERS:-4}
export RUN_TEST_SEED=${SEED:-$RANDOM}
/usr/bin/python3 tests/e2e/run_campaign.py
