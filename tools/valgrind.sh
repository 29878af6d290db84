#!/usr/bin/env bash
# Valgrind's memcheck over the tests of the kernel, which the sanitizers' build has seen already: it also
# notices what was never written and is decided by. Built without sanitizers, as for coverage.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset coverage >/dev/null
cmake --build --preset coverage
passed=0
failed=0
for test in build/coverage/tests/unit/kernel_*_test; do
    if valgrind --quiet --error-exitcode=9 "$test"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "valgrind: $test"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
