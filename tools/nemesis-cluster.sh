#!/usr/bin/env bash
# Plays tests/nemesis/cluster_test against the release build: three nodes, three members of etcd, and so
# many mishaps. A failure prints what plays and what judges it again, and keeps its files under TMPDIR.
#
#   tools/nemesis-cluster.sh MISHAPS SEED
set -euo pipefail
cd "$(dirname "$0")/.."

tools/deps.sh test
cmake --preset sim >/dev/null
cmake --build build/sim --target test_nemesis_cluster tenured tenure-guardian
TENURE_BUILD_DIR=build/sim TENURE_MISHAPS=${1:-500} TENURE_SEED=${2:-1} \
    build/sim/tests/nemesis/cluster_test
