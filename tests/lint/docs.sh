#!/usr/bin/env bash
# The documents keep the rules of tools/check-docs.py, and the checker finds each kind of violation where we
# plant one.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

if ! "$root/tools/check-docs.py" "$root"; then
    echo "FAILED: the documents break the rules above"
    exit 1
fi

mkdir -p "$copy/docs/decisions" "$copy/src/kernel" "$copy/src/config" "$copy/tests/unit"
touch "$copy/tests/unit/good_test.c"
echo '    X(SLOW, "slow_seconds", "server", DURATION, "30", 1, 2, 1, "DURATION", "x")' >"$copy/src/config/config.h"
cat >"$copy/src/kernel/result.h" <<'END'
    X(OK,             COMMITTED, 200,  0, "done") \
    X(EXISTS,         COMMITTED, 409, 10, "it already exists") \
    X(TABLE_FULL,     COMMITTED, 507, 37, "the table is full") \
    X(NOAUTH,         REJECTED,  401, 44, "not logged in")
END
cat >"$copy/docs/protocol.md" <<'END'
# The protocol

| 409 | `EXISTS` |
| 507 | what ends in `_FULL` |
END
cat >"$copy/docs/a.md" <<'END'
# A page

## A heading, `quoted`

[here](#a-heading-quoted) [there](protocol.md#the-protocol) [outside](https://example.org/none)
[no page](none.md) [no heading](protocol.md#none) src/kernel/result.h src/kernel/none.c
`slow_seconds` (30) `slow_seconds` (31) `slow_second = 3` `TENURE_SLOW_SECONDS` `TENURE_SLOWEST_SECONDS` `tenure_none_total` `unit/good` `unit/none`
END
printf '# 1. Good\n\n2026-11-19\n\n## Context\n\n## Decision\n\n## Consequences\n' >"$copy/docs/decisions/0001-good.md"
printf '# 3. Bad\n\nDate unknown\n\n## Context\n\n## Consequences\n' >"$copy/docs/decisions/0002-bad.md"
"$root/tools/check-docs.py" "$copy" >"$copy/found" && echo "FAILED: nothing was found" && exit 1
cat >"$copy/expected" <<'END'
docs/a.md:6: link: none.md does not exist
docs/a.md:6: link: no heading is #none
docs/a.md:6: path: src/kernel/none.c does not exist
docs/a.md:7: name: slow_second is not in the source
docs/a.md:7: name: TENURE_SLOWEST_SECONDS is not in the source
docs/a.md:7: name: tenure_none_total is not in the source
docs/a.md:7: name: there is no test unit/none
docs/a.md:7: default: that of slow_seconds is 30
docs/decisions/0002-bad.md:1: decision: the title does not begin with "# 2. "
docs/decisions/0002-bad.md:3: decision: the title is not followed by the date
docs/decisions/0002-bad.md:1: decision: the sections are not ## Context, ## Decision, ## Consequences
docs/protocol.md:1: status: the table does not show NOAUTH at 401
END
diff "$copy/expected" "$copy/found"
