#!/usr/bin/env bash
# Line and branch coverage of src/ by the tests, file by file, least covered first. Needs gcov (part of
# gcc). What is not about kernel, log and engine (end-to-end tests) can be left out, which takes minutes less:
#
#   tools/coverage.sh [-v] [CTEST ARGUMENTS...]        such as: tools/coverage.sh -E '^e2e/'
#
# -v lists the branches of kernel and log that nothing took.
set -euo pipefail
cd "$(dirname "$0")/.."

verbose=()
if [ "${1:-}" = -v ]; then
    verbose=(-v)
    shift
fi
cmake --preset coverage >/dev/null
find build/coverage -name '*.gcda' -delete
cmake --build --preset coverage
status=0
ctest --preset coverage "$@" || status=$?

# The rooms of the embedded library: those that src/lib may use, and itself.
read -ra rooms < <(awk -F '|' '$1 ~ /^lib *$/ { sub(/include/, "", $2); print $2, "lib" }' src/rooms.list)
dirs=("${rooms[@]/#/build/coverage/CMakeFiles/tenure_}")
mapfile -t notes < <(find "${dirs[@]/%/.dir}" -name '*.gcno' | sort)
python3 tools/coverage.py "${verbose[@]}" . "${notes[@]}"
exit "$status"
