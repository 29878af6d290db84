#!/usr/bin/env bash
# Formatting, static analysis, shell scripts, the types of the Python client and the rules between
# the rooms. Goes on after a failure, so that one run shows all of them.
#
#   tools/lint.sh [format|tidy|cppcheck|shell|python|rooms]...      all, if none is named
# shellcheck disable=SC2317 # functions are called through step()
set -euo pipefail
cd "$(dirname "$0")/.."

status=0
step() {
    echo "== $1"
    shift
    if ! "$@"; then
        status=1
    fi
}

dirs=()
for dir in src include examples bench tests; do
    if [ -d "$dir" ]; then
        dirs+=("$dir")
    fi
done
mapfile -t code < <(find "${dirs[@]}" -name '*.[ch]' | sort)
# Fuzz targets are built by clang alone and are not in the compilation database.
mapfile -t units < <(find "${dirs[@]}" -name '*.c' -not -path 'tests/fuzz/*' | sort)

# One file a run: clang-tidy 14 invents uninitialised va_lists when it is given several.
tidy() {
    cmake --preset dev >/dev/null
    # And one way to compile it: sources that the planted build compiles again would count as several.
    mkdir -p build/lint
    python3 - build/dev/compile_commands.json >build/lint/compile_commands.json <<'EOF'
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    entries = {entry["file"]: entry for entry in reversed(json.load(file))}
json.dump(list(entries.values()), sys.stdout)
EOF
    printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p build/lint \
        --extra-arg=-Wno-unknown-warning-option 2> >(grep -v 'warnings generated' >&2 || true)
}

check_cpp() {
    cppcheck --quiet --std=c17 --language=c --enable=warning,performance,portability \
        --inline-suppr --suppressions-list=.cppcheck-suppressions --error-exitcode=1 \
        -j "$(nproc)" -D_GNU_SOURCE -D__BYTE_ORDER__=1234 -D__ORDER_LITTLE_ENDIAN__=1234 \
        -I src -I include -I tests "${units[@]}"
}

check_python() {
    # Debian's, whatever else is on the path.
    /usr/bin/mypy --strict --python-version 3.9 --cache-dir build/mypy clients/python/tenure.py &&
        /usr/bin/mypy --strict --cache-dir build/mypy tools/check-rooms.py
}

if [ $# -eq 0 ]; then
    set -- format tidy cppcheck shell python rooms
fi
for name in "$@"; do
    case "$name" in
    format) step "clang-format" clang-format --dry-run -Werror "${code[@]}" ;;
    tidy) step "clang-tidy" tidy ;;
    cppcheck) step "cppcheck" check_cpp ;;
    shell) step "shellcheck" shellcheck .ci/run tools/*.sh tests/lint/*.sh ;;
    python) step "mypy" check_python ;;
    rooms) step "rooms" tools/check-rooms.py ;;
    *)
        echo "lint: there is no '$name'" >&2
        exit 2
        ;;
    esac
done
exit "$status"
