#!/usr/bin/env bash
# Ten thousand hostile sockets against the release build, and an honest client beside them, for about the
# given number of seconds: a table, and an error if memory passes its stated bound.
#
#   tools/crowd.sh SECONDS
#
# CROWD_SOCKETS (9900) and CROWD_RATE (3000, things that they do in a second) can be set; with CROWD_REALTIME=1
# the server and the honest client go before everything else on the machine.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/deps.sh test
cmake --preset release >/dev/null
cmake --build --preset release --target tenured
export TENURE_BUILD_DIR=$PWD/build CROWD_SECONDS=${1:-60}
exec /usr/bin/python3 tests/e2e/crowd_campaign.py
