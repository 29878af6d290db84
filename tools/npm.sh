#!/usr/bin/env bash
# Installs what tests/e2e/package.json names into build/npm/node_modules, once, and prints that path.
#
# Tests of several builds may call it at the same time: one installs, the others wait for it. Does
# nothing (and needs no network) when the packages of this very file are there.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p build/npm
exec 9>build/npm/.lock
flock 9
if ! cmp -s tests/e2e/package.json build/npm/installed.json; then
    rm -rf build/npm/node_modules build/npm/installed.json
    cp tests/e2e/package.json build/npm/package.json
    npm install --no-package-lock --no-audit --no-fund --loglevel=error --fetch-retries=5 \
        --prefix build/npm >&2
    cp tests/e2e/package.json build/npm/installed.json
fi
echo "$PWD/build/npm/node_modules"
