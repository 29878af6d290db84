#!/usr/bin/env bash
# Runs every libFuzzer target of tests/fuzz for the given number of seconds, two at a time.
#
#   tools/fuzz.sh SECONDS [TARGET...]
#
# Seeds come from tests/fuzz/corpus/NAME; new inputs are added to build/fuzz/corpus/NAME, and an
# input that makes a target fail stays in build/fuzz/, for a new test. One line is printed for
# each target; its whole output is in build/fuzz/NAME.log. Ends with 1 if there was a finding.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    for source in tests/fuzz/*_fuzz.c; do
        names+=("$(basename "$source" .c)")
    done
fi
tools/deps.sh fuzz
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target "${names[@]}"

# A figure of libFuzzer's last words.
stat_of() {
    sed -n "s/^stat::$2: *//p" "$1" | tail -1
}

run() {
    local name=$1 log=build/fuzz/$1.log corpus=("build/fuzz/corpus/$1") found=none status=0
    mkdir -p "${corpus[0]}"
    if [ -d "tests/fuzz/corpus/$name" ]; then
        corpus+=("tests/fuzz/corpus/$name")
    fi
    # Twenty seconds for one input is a hang; two gigabytes is a leak, or a size that was believed.
    "build/fuzz/targets/$name" -max_total_time="$seconds" -print_final_stats=1 -timeout=20 \
        -rss_limit_mb=2048 -artifact_prefix="build/fuzz/$name-" "${corpus[@]}" >"$log" 2>&1 ||
        status=1
    if [ "$status" -ne 0 ]; then
        found=$(sed -n 's/^.*Test unit written to //p' "$log" | tail -1)
        found=${found:-"see $log"}
    fi
    printf '%-20s %10s execs %8s exec/s %6s new units   findings: %s\n' "$name" \
        "$(stat_of "$log" number_of_executed_units)" \
        "$(stat_of "$log" average_exec_per_sec)" "$(stat_of "$log" new_units_added)" "$found"
    return "$status"
}

status=0
running=0
for name in "${names[@]}"; do
    if [ "$running" -eq 2 ]; then
        wait -n || status=1
        running=1
    fi
    run "$name" &
    running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
    wait -n || status=1
    running=$((running - 1))
done
exit "$status"
