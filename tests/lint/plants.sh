#!/usr/bin/env bash
# Every entry of tests/plants applies to the source as it is, and tools/plants.py refuses entries that do
# not apply. Each case below is one entry for a small tree, with the expected message.
set -euo pipefail
cd "$(dirname "$0")/../.."

failures=0
cases=0
fail() {
    echo "FAILED: $1"
    failures=$((failures + 1))
}

tools/plants.py check || fail "the entries of tests/plants"
if grep -rn 'TN_PLANT\|TENURE_PLANT' src include; then
    fail "a planted bug is in production code"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src/kernel" "$work/tests/plants"
cp tests/plants/plant.h "$work/tests/plants/"
printf 'int once;\nint twice;\nint after;\nint twice;\n' >"$work/src/kernel/a.c"
head=$'plant: BUG\nbug: it breaks\nfound by: model within 5 seeds\nfile: src/kernel/a.c\n'

# entry TEXT: the small tree has this and nothing else in tests/plants.
entry() {
    cases=$((cases + 1))
    printf '%s\n' "$1" >"$work/tests/plants/kernel.plants"
}

# refused WHAT MESSAGE TEXT: the entry is an error, and the message says MESSAGE.
refused() {
    local out
    entry "$3"
    if out=$(tools/plants.py check --root "$work" 2>&1); then
        fail "$1 passes"
    elif [[ $out != *"$2"* ]]; then
        fail "$1: $out"
    fi
}

refused 'an entry that applies twice' 'occur 2 times' \
    "$head"$'-int twice;\n+int thrice = PLANTED;'
refused 'an entry that applies never' 'occur 0 times' \
    "$head"$'-int never;\n+int ever = PLANTED;'
refused 'an entry with wrong context' 'occur 0 times' \
    "$head"$' int after;\n-int once;\n+int ever = PLANTED;'
refused 'an entry for a missing file' 'there is no src/kernel/b.c' \
    "${head/a.c/b.c}"$'-int once;\n+int ever = PLANTED;'
refused 'an entry that is always on' 'do not say PLANTED' \
    "$head"$'-int once;\n+int ever;'
refused 'an entry without old lines' 'has no old lines' \
    "$head"$'+int ever = PLANTED;'
refused 'an entry that nothing finds' 'lacks' \
    $'plant: BUG\nbug: it breaks\nfile: src/kernel/a.c\n-int once;\n+int ever = PLANTED;'
refused 'an entry with an unknown finder' 'within N seeds' \
    "${head/model/luck}"$'-int once;\n+int ever = PLANTED;'
refused 'two entries of one name' 'is repeated' \
    "$head"$'-int once;\n+int ever = PLANTED;\n\n'"$head"$'-int after;\n+int ever = PLANTED;'
refused 'two entries for one line' 'belong to another entry' \
    "$head"$'-int once;\n+int ever = PLANTED;\n\n'"${head/BUG/OTHER}"$'-int once;\n+int x = PLANTED;'
refused 'no entries at all' 'no entries' ''

entry "$head"$'-int twice;\n+int thrice = PLANTED;\n int after;'
tools/plants.py apply "$work/out" --root "$work" || fail 'a good entry is refused'
diff - "$work/out/src/kernel/a.c" <<'END' || fail 'the planted copy is wrong'
#include "plants/plant.h"
int once;
int thrice = TN_PLANTED(BUG);
int after;
int twice;
END
grep -qF 'PLANT(BUG, "src/kernel/a.c", "it breaks", MODEL, 5)' "$work/out/plants.def" ||
    fail 'the table is wrong'

touch -d '2001-01-01' "$work/out/src/kernel/a.c"
touch "$work/out/src/kernel/gone.c"
tools/plants.py apply "$work/out" --root "$work"
[ "$(date -r "$work/out/src/kernel/a.c" +%Y)" = 2001 ] || fail 'an unchanged file is written again'
[ ! -e "$work/out/src/kernel/gone.c" ] || fail 'a file that is gone from src stays in the copy'

echo "$cases cases, $failures problems"
[ "$failures" -eq 0 ]
