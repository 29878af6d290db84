#!/usr/bin/env bash
# Everything that must pass: the release build and the rules about the source, all tests under the
# address and undefined-behaviour sanitizers, the threaded ones under the thread sanitizer.
#
# Goes on after a failure, so that one run shows all of them. The last line is `N passed, N failed`,
# over all runs; a build that fails counts as one failure. Exits 0 only if nothing failed.
set -euo pipefail
cd "$(dirname "$0")/.."

passed=0
failed=0

# The number in attribute $2 of the <testsuite> element of the JUnit file $1.
junit_number() {
    tr '\n\t' '  ' <"$1" | sed -n 's/.*<testsuite [^>]*[[:space:]]'"$2"'="\([0-9]*\)".*/\1/p'
}

# Builds preset $1 and runs its tests.
run() {
    local preset=$1 report
    report=$PWD/build/test-$preset.xml
    echo "== $preset: build"
    rm -f "$report"
    if ! cmake --preset "$preset" >"build/configure-$preset.log" 2>&1; then
        cat "build/configure-$preset.log"
        failed=$((failed + 1))
        return
    fi
    if ! cmake --build --preset "$preset"; then
        failed=$((failed + 1))
        return
    fi
    echo "== $preset: test"
    local status=0
    ctest --preset "$preset" --output-junit "$report" || status=$?
    if [ ! -f "$report" ]; then
        failed=$((failed + 1))
        return
    fi
    local tests failures skipped disabled
    tests=$(junit_number "$report" tests)
    failures=$(junit_number "$report" failures)
    skipped=$(junit_number "$report" skipped)
    disabled=$(junit_number "$report" disabled)
    passed=$((passed + tests - failures - skipped - disabled))
    failed=$((failed + failures))
    if [ "$status" -ne 0 ] && [ "$failures" -eq 0 ]; then
        failed=$((failed + 1))
    fi
}

mkdir -p build
tools/deps.sh test
if command -v ninja >/dev/null; then
    export CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja} # it may have been installed just now
fi
for preset in release dev tsan; do
    run "$preset"
done

echo
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
