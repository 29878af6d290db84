#!/usr/bin/env bash
# Sensors in large numbers, against the release build: never two of one while the server is killed again
# and again, the right ones after many toggles, and what a thousand cost. Takes some minutes.
#
#   tools/sensors-campaign.sh
#
# SENSORS (50), KILLS (100), TOGGLES (10000), HERD (1000) and SEED can be set in the environment.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/deps.sh test
cmake --preset release >/dev/null
cmake --build --preset release
dummy=build/sensor_dummy
cc -std=c17 -D_GNU_SOURCE -O2 -Wall -Wextra tests/lib/sensor_dummy.c -o "$dummy"

export TENURE_BUILD_DIR=$PWD/build TENURE_SOURCE_DIR=$PWD SENSOR_TEST_DUMMY=$PWD/$dummy
export SENSOR_TEST_SENSORS=${SENSORS:-50} SENSOR_TEST_KILLS=${KILLS:-100} SENSOR_TEST_TOGGLES=${TOGGLES:-10000}
export SENSOR_TEST_HERD=${HERD:-1000} SENSOR_TEST_SEED=${SEED:-$RANDOM}
echo "seed $SENSOR_TEST_SEED"
/usr/bin/python3 tests/e2e/sensor_campaign.py
started=$SECONDS
/usr/bin/python3 tests/e2e/sensor_kill_test.py
printf '%-44s %d s\n' "$SENSOR_TEST_KILLS kills among $SENSOR_TEST_SENSORS sensors" $((SECONDS - started))
started=$SECONDS
/usr/bin/python3 tests/e2e/sensor_broker_test.py
printf '%-44s %d s\n' "$SENSOR_TEST_TOGGLES toggles through a broker that restarts" $((SECONDS - started))
