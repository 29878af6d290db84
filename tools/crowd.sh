#!/usr/bin/env bash
# Ten thousand hostile sockets against the release build, and an honest client beside them, for about the
# given number of seconds: a table, and an error if memory passes its stated bound. Then connections that
# send requests without end, at the release build and at redis-server in turn, for as long again.
#
#   tools/crowd.sh SECONDS
#
# CROWD_SOCKETS (9900), CROWD_RATE (3000, things that they do in a second) and CROWD_FLOODS ("16 200 5000",
# connections that flood) can be set; with CROWD_REALTIME=1 the server and the honest client of the first
# part go before everything else on the machine.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/deps.sh crowd
cmake --preset release >/dev/null
cmake --build --preset release --target tenured
export TENURE_BUILD_DIR=$PWD/build CROWD_SECONDS=${1:-60}
/usr/bin/python3 tests/e2e/crowd_campaign.py
exec /usr/bin/python3 tests/e2e/crowd_flood.py
