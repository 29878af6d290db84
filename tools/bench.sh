#!/usr/bin/env bash
# Runs the benchmark programs of the release build, all but that of the cluster (it kills an owner fifty
# times) or those named, one after the other.
#
#   tools/bench.sh [NAME...]
#
# A program prints one line per measurement on stdout, five fields separated by tabs: name, value,
# unit, ratio, reference (what the ratio is to; - where there is none). Remarks go to stderr. The
# lines are collected in build/bench.tsv, below a header, and shown as a table.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=()
if [ $# -gt 0 ]; then
    for name in "$@"; do
        programs+=("build/bench/$name")
    done
else
    for source in bench/*.c; do
        [ -e "$source" ] || continue
        name=$(basename "$source" .c)
        [ "$name" != cluster ] || continue
        programs+=("build/bench/$name")
    done
fi
if [ ${#programs[@]} -eq 0 ]; then
    echo "nothing to measure yet: bench/ has no programs"
    exit 0
fi

tsv=build/bench.tsv
lines=build/bench.lines
status=0
printf 'name\tvalue\tunit\tratio\treference\n' >"$tsv"
for program in "${programs[@]}"; do
    echo "== $program" >&2
    if ! "$program" >"$lines"; then
        echo "bench: $program failed" >&2
        status=1
    fi
    if ! awk -F '\t' -v program="$program" '
        NF == 5 { print; next }
        { print "bench: " program ": not five fields: " $0 >"/dev/stderr"; bad = 1 }
        END { exit bad }' "$lines" >>"$tsv"; then
        status=1
    fi
done
rm -f "$lines"

# The table: text to the left, numbers to the right.
awk -F '\t' '
    { for (i = 1; i <= 5; i++) { cell[NR, i] = $i; if (length($i) > width[i]) width[i] = length($i) } }
    END {
        format = "%-" width[1] "s  %" width[2] "s %-" width[3] "s  %" width[4] "s  %s\n"
        for (row = 1; row <= NR; row++) {
            printf format, cell[row, 1], cell[row, 2], cell[row, 3], cell[row, 4], cell[row, 5]
        }
    }' "$tsv"
exit "$status"
