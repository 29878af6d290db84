#!/usr/bin/env bash
# libtenure.a is built after the objects that it is made of, which belong to other targets. If the build does not know
# that, make with several jobs may begin with it, and finds no rule to make them.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

mkdir -p "$tree/.cmake/api/v1/query"
: >"$tree/.cmake/api/v1/query/codemodel-v2"
cmake -S "$root" -B "$tree" -DTENURE_TESTS=OFF >"$tree/said" || {
    cat "$tree/said"
    exit 1
}

python3 - "$tree/.cmake/api/v1/reply" <<'PY'
import glob
import json
import sys


def after(name):
    """The targets that are built before this one."""
    (path,) = glob.glob("%s/target-%s-*.json" % (sys.argv[1], name))
    with open(path, encoding="utf-8") as file:
        return {one["id"].split("::")[0] for one in json.load(file).get("dependencies", [])}


missing = after("tenure_shared") - after("tenure_static")
if not after("tenure_shared") or missing:
    sys.exit("FAILED: libtenure.a may be built before %s" % (sorted(missing) or "anything"))
PY
