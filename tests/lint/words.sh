#!/usr/bin/env bash
# The tree keeps to tools/words.txt, and the checker finds each kind of violation where we plant one.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

if ! "$root/tools/check-words.py" "$root"; then
    echo "FAILED: use the words on the right; CONTRIBUTING.md has the glossary"
    exit 1
fi

mkdir -p "$copy/src/base" "$copy/docs/decisions" "$copy/tools"
cp "$root/tools/words.txt" "$copy/tools/"
cat >"$copy/src/base/planted.c" <<'END'
/* The asker has a wish. */
static const char text[] = "at most so many clients";
/* so many words in a comment are allowed, and so are gravel and indoors */
/* A phrase that goes over a line is found all the
 * same, at its first line. */
static const char split[] = "at most so"
                            " many";
END
printf 'This makes no\n  sense.\n' >"$copy/docs/planted.md"
echo 'Waits for ever.' >"$copy/CHANGELOG.md"
echo 'A decision may quote a door.' >"$copy/docs/decisions/0001-planted.md"
"$root/tools/check-words.py" "$copy" >"$copy/found" && echo "FAILED: nothing was found" && exit 1
cat >"$copy/expected" <<'END'
src/base/planted.c:1: asker: client, request
src/base/planted.c:1: wish: requested value
src/base/planted.c:2: so many: name the number or the time
src/base/planted.c:4: all the same: still, nevertheless
src/base/planted.c:6: so many: name the number or the time
docs/planted.md:1: makes no sense: invalid, contradictory
CHANGELOG.md:1: for ever: forever, without end
END
diff "$copy/expected" "$copy/found"
