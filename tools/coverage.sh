#!/usr/bin/env bash
# Line coverage of src/ by the tests, file by file, least covered first. Needs gcov (part of gcc).
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset coverage >/dev/null
find build/coverage -name '*.gcda' -delete
cmake --build --preset coverage
status=0
ctest --preset coverage || status=$?

mapfile -t notes < <(find build/coverage/CMakeFiles/tenure_objects.dir -name '*.gcno' | sort)
gcov --no-output "${notes[@]}" 2>/dev/null | awk -v root="$PWD/" '
    /^File / {
        file = substr($0, 7, length($0) - 7)
        sub(root, "", file)
    }
    /^Lines executed:/ && file ~ /^src\/.*\.c$/ {
        split(substr($2, 10), percent, "%")
        printf "%6.2f %% of %5d lines  %s\n", percent[1], $4, file
        lines += $4
        covered += percent[1] * $4 / 100
        file = ""
    }
    END { if (lines > 0) printf "~%6.2f %% of %5d lines  all\n", 100 * covered / lines, lines }
' | sort | tr -d '~'
exit "$status"
