#!/usr/bin/env bash
# Everything that must pass: the release build and the rules about the source, all tests under the
# address and undefined-behaviour sanitizers, the threaded ones under the thread sanitizer.
#
# Goes on after a failure, so that one run shows all of them. In the end it says once more what failed,
# and the end of what each of those printed. The last line is `N passed, N failed`, over all runs; a
# build that fails counts as one failure. Exits 0 only if nothing failed.
#
# One end-to-end test of a run may fail once: it is played again, alone, and if it holds then it is
# told of as unsteady, with what it printed. These play real programs against each other on a machine
# that others use as well. What a sanitizer or an assertion said is not forgiven, nor a test of any
# other kind, nor a second one.
set -euo pipefail
cd "$(dirname "$0")/.."

passed=0
failed=0
failures=() # those of them that have a name: preset and test
unsteady=() # the same, of what held when it was played again
tail_lines=60

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

# Heads each of $2... (preset and test) with $1 and shows what it printed; then says the names again.
tell() {
    local head=$1 failure
    shift
    for failure in "$@"; do
        echo
        echo "== $head: $failure"
        tail -n "$tail_lines" "$(output_file "${failure%% *}" "${failure#* }")"
    done
    echo
    printf "$head: %s\n" "$@"
}

# Whether test $2 of preset $1, which has just failed, may be played again and holds then.
holds_again() {
    local file
    file=$(output_file "$1" "$2")
    [[ $2 == e2e/* ]] && [ "${#unsteady[@]}" -eq 0 ] &&
        ! grep -qE 'Sanitizer|runtime error:|assertion failed:' "$file" &&
        echo "== $1: $2 again, alone" && ctest --preset "$1" -R "^$2\$"
}

# What to make of each of the tests $2... of preset $1, which failed.
judge() {
    local preset=$1 name
    shift
    for name in "$@"; do
        output_of "$preset" "$name" >"$(output_file "$preset" "$name")"
    done
    for name in "$@"; do
        if [ $# -eq 1 ] && holds_again "$preset" "$name"; then
            unsteady+=("$preset $name")
            passed=$((passed + 1))
            failed=$((failed - 1))
        else
            failures+=("$preset $name")
        fi
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
        judge "$preset" "${names[@]}"
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

[ "${#unsteady[@]}" -eq 0 ] || tell unsteady "${unsteady[@]}"
[ "${#failures[@]}" -eq 0 ] || tell failed "${failures[@]}"
echo
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
