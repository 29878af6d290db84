#!/usr/bin/env bash
# Everything that must pass: the release build and the linters, all tests under the address and
# undefined-behavior sanitizers, the threaded tests under the thread sanitizer.
#
# Continues after a failure, so that one run shows all failures. At the end it lists the failed tests again,
# each with the end of its output, and the seconds that each preset took. The last line is
# `N passed, N failed`, over all runs; a build that fails counts as one failure. Exits 0 only if nothing
# failed.
#
# A test that fails has failed: nothing is played again. One that comes and goes has a race to be found.
set -euo pipefail
cd "$(dirname "$0")/.."

passed=0
failed=0
failures=() # those of them that have a name: preset and test
tail_lines=60
times=() # of the presets

# The number in attribute $2 of the <testsuite> element of the JUnit file $1.
junit_number() {
    tr '\n\t' '  ' <"$1" | sed -n 's/.*<testsuite [^>]*[[:space:]]'"$2"'="\([0-9]*\)".*/\1/p'
}

# Where ctest keeps what it knows about the last run of preset $1.
ctest_logs() {
    local tree=build/$1
    [ "$1" != release ] || tree=build
    echo "$tree/Testing/Temporary"
}

# The file for what test $2 of preset $1 printed when it failed.
output_file() {
    echo "build/failed-$1-${2//\//-}.log"
}

# What test $2 of preset $1 printed just now.
output_of() {
    awk -v head=" Testing: $2" '
        /^[0-9]+\/[0-9]+ Testing: / { inside = substr($0, index($0, " Testing: ")) == head }
        inside' "$(ctest_logs "$1")/LastTest.log"
}

# Shows the end of the output of each failure, then lists the failures.
tell_failures() {
    local failure
    for failure in "${failures[@]}"; do
        echo
        echo "== failed: $failure"
        tail -n "$tail_lines" "$(output_file "${failure%% *}" "${failure#* }")"
    done
    echo
    printf 'failed: %s\n' "${failures[@]}"
}

# Keeps the output of the tests $2... of preset $1, which failed.
note_failures() {
    local preset=$1 name
    shift
    for name in "$@"; do
        output_of "$preset" "$name" >"$(output_file "$preset" "$name")"
        failures+=("$preset $name")
    done
}

# Builds preset $1 and runs its tests.
run() {
    local preset=$1 report names
    report=$PWD/build/test-$preset.xml
    names=$(ctest_logs "$preset")/LastTestsFailed.log
    echo "== $preset: build"
    rm -f "$report" "$names"
    if ! cmake --preset "$preset" >"build/configure-$preset.log" 2>&1; then
        cat "build/configure-$preset.log"
        echo "== $preset: cannot be configured"
        failed=$((failed + 1))
        return
    fi
    if ! cmake --build --preset "$preset"; then
        echo "== $preset: cannot be built"
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
    local tests failing skipped disabled
    tests=$(junit_number "$report" tests)
    failing=$(junit_number "$report" failures)
    skipped=$(junit_number "$report" skipped)
    disabled=$(junit_number "$report" disabled)
    passed=$((passed + tests - failing - skipped - disabled))
    failed=$((failed + failing))
    if [ "$status" -ne 0 ] && [ "$failing" -eq 0 ]; then
        failed=$((failed + 1))
    fi
    if [ -f "$names" ]; then # number:name
        mapfile -t names < <(cut -d: -f2- "$names")
        note_failures "$preset" "${names[@]}"
    fi
}

mkdir -p build
tools/deps.sh lint # its packages are those of the tests, and the linters
if command -v ninja >/dev/null; then
    export CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja} # it may have been installed just now
fi
# The analyzer of clang-tidy looks at recent changes; `make lint` has it look at everything.
export TENURE_TIDY_COMMITS=${TENURE_TIDY_COMMITS:-8}
for preset in release dev tsan; do
    begin=$SECONDS
    run "$preset"
    times+=("$preset=$((SECONDS - begin))")
done

[ "${#failures[@]}" -eq 0 ] || tell_failures
echo
echo "seconds: ${times[*]}"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
