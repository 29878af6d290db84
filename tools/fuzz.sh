#!/usr/bin/env bash
# Runs every libFuzzer target of tests/fuzz for the given number of seconds.
#
#   tools/fuzz.sh SECONDS
#
# Seeds come from tests/fuzz/corpus/NAME; what is found grows in build/fuzz/corpus/NAME, and an
# input that breaks something is left in build/fuzz/ for a test to be made of it.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shopt -s nullglob
sources=(tests/fuzz/*_fuzz.c)
if [ ${#sources[@]} -eq 0 ]; then
    echo "nothing to fuzz yet: tests/fuzz has no targets"
    exit 0
fi
tools/deps.sh fuzz
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz

status=0
for source in "${sources[@]}"; do
    name=$(basename "$source" .c)
    corpus=("build/fuzz/corpus/$name")
    mkdir -p "${corpus[0]}"
    if [ -d "tests/fuzz/corpus/$name" ]; then
        corpus+=("tests/fuzz/corpus/$name")
    fi
    echo "== $name, $seconds s"
    if ! "build/fuzz/targets/$name" -max_total_time="$seconds" -print_final_stats=1 \
        -artifact_prefix="build/fuzz/$name-" "${corpus[@]}"; then
        status=1
    fi
done
exit "$status"
