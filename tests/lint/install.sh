#!/usr/bin/env bash
# What `cmake --install` leaves is a library one can use: found by pkg-config, linked both ways, and
# showing no name but tenure_*.
set -euo pipefail
build=${TENURE_BUILD_DIR:?set by ctest}
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}

DESTDIR="$work" cmake --install "$build" --prefix /opt/tenure >/dev/null
prefix=$work/opt/tenure
pc=$(find "$prefix" -name tenure.pc)
[ -n "$pc" ] || fail "no tenure.pc"
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir tenure)
for file in libtenure.so libtenure.so.0 libtenure.a; do
    [ -e "$libdir/$file" ] || fail "no $file"
done
readelf -d "$libdir/libtenure.so" | grep -q 'SONAME.*\[libtenure\.so\.0\]' || fail "wrong soname"

# Sanitizers and profilers add names of their own to what they instrument.
if ! grep -Eq '^(TENURE_SANITIZE:STRING=.+|TENURE_COVERAGE:BOOL=ON)' "$build/CMakeCache.txt"; then
    foreign=$({ nm -D --defined-only "$libdir/libtenure.so"
                nm -g --defined-only "$libdir/libtenure.a"; } |
        awk 'NF == 3 && $3 !~ /^tenure_/ { print $3 }')
    [ -z "$foreign" ] || fail "foreign names:" "$foreign"
fi

for file in man/man1/tenure.1 man/man8/tenured.8 bash-completion/completions/tenure \
    zsh/site-functions/_tenure; do
    [ -s "$prefix/share/$file" ] || fail "no share/$file"
done

for program in bin/tenured bin/tenure libexec/tenure/tenure-guardian; do
    [ -x "$prefix/$program" ] || fail "no $program"
done

if [ ! -f "$root/include/tenure.h" ]; then
    exit 0
fi
[ -f "$prefix/include/tenure.h" ] || fail "no tenure.h"
printf '#include <tenure.h>\nint main(void) { return 0; }\n' >"$work/strict.c"
read -ra cflags <<<"$(pkg-config --cflags tenure)"
read -ra shared <<<"$(pkg-config --libs tenure)"
gcc -std=c99 -pedantic -Wall -Wextra -Werror "${cflags[@]}" -o "$work/strict" "$work/strict.c" ||
    fail "tenure.h does not stand alone in strict C99"
for source in "$root"/examples/*.c; do
    [ -e "$source" ] || continue
    gcc -D_GNU_SOURCE -std=c17 "${cflags[@]}" -o "$work/with_so" "$source" "${shared[@]}" -pthread ||
        fail "$source does not link with libtenure.so"
    gcc -D_GNU_SOURCE -std=c17 "${cflags[@]}" -o "$work/with_a" "$source" "$libdir/libtenure.a" \
        -pthread || fail "$source does not link with libtenure.a"
done
