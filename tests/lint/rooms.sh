#!/usr/bin/env bash
# The tree keeps the rules of tools/check-rooms.py, and the checker finds each rule broken where we
# break it: a copy of the tree gets one file per violation and one that only looks like them.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

if ! "$root/tools/check-rooms.py" "$root"; then
    echo "FAILED: the tree breaks the rules above"
    exit 1
fi

cp -r "$root/src" "$root/include" "$root/tools" "$root/ARCHITECTURE.md" "$copy/"
if ! "$root/tools/check-rooms.py" "$copy"; then
    echo "FAILED: a clean copy of src/ is refused"
    exit 1
fi

expected=$copy/expected
: >"$expected"
planted=0

# repeat N LINE
repeat() {
    awk -v n="$1" -v line="$2" 'BEGIN { while (n-- > 0) print line }'
}

# plant ROOM LINE RULE: src/ROOM gets a file with this line, line 1, which breaks this rule.
plant() {
    planted=$((planted + 1))
    local file=src/$1/planted_$planted.c
    mkdir -p "$copy/src/$1"
    printf '%s\n' "$2" >"$copy/$file"
    echo "$file:1: $3: " >>"$expected"
}

# Each room and what it must not reach; the first that come to mind when one is in a hurry.
plant base '#include "os/os.h"' include
plant os '#include "log/log.h"' include
plant kernel '#include "os/os.h"' include
plant kernel '#include "log/log.h"' include
plant log '#include "kernel/kernel.h"' include
plant log '#include "tenure.h"' include
plant engine '#include "server/server.h"' include
plant lib '#include "protocol/resp.h"' include
plant protocol '#include "kernel/kernel.h"' include
plant protocol '#include "engine/engine.h"' include
plant server '#include "kernel/kernel.h"' include
plant supervisor '#include "kernel/lease.h"' include
plant token '#include "process/run.h"' include
plant process '#include "engine/engine.h"' include
plant process '#include "supervisor/plan.h"' include
plant guardian '#include "process/run.h"' include
plant guardian '#include "os/os.h"' include
plant broker '#include "server/server.h"' include
plant supervisor '#include "server/server.h"' include
plant server '#include "config/config.h"' include
plant config '#include "main/notify.h"' include
plant cli '#include "log/log.h"' include
plant kernel '#include "../os/os.h"' include
plant kernel '#include "lease.h"' include
plant elsewhere '#include "base/status.h"' include

# Through a header that the room may use.
printf '#include "%s"\n' base/bytes.h kernel/types.h >"$copy/src/process/planted_near.h"
printf '#include "%s"\n' process/planted_near.h log/segment.h >"$copy/src/process/planted_far.h"
echo "src/process/planted_far.h:2: include: process may not use log/segment.h" >>"$expected"
plant guardian '#include "process/run_frame.h"
#include "process/proc.h"' transitive
sed -i '$d' "$expected"
echo '#include "os/os.h"' >>"$copy/src/process/proc.h"
echo "src/guardian/planted_$planted.c:2: transitive: " >>"$expected"
plant supervisor '#include "process/planted_far.h"' transitive

# Libraries are granted like rooms.
plant kernel '#include <jansson.h>' library
plant token '#include <uv.h>' library
plant guardian '#include <uv.h>' library
plant server '#include <amqp.h>' library

for room in base kernel; do
    for call in malloc calloc realloc free printf time clock_gettime rand; do
        plant "$room" "void f(void) { g($call(1)); }" pure
    done
    plant "$room" 'static float f;' pure
    plant "$room" 'struct s { unsigned a; double b; };' pure
done

for call in write pwrite fsync fdatasync clock_gettime open; do
    plant log "void f(void) { x = $call (1); }" os
    plant engine "void f(void) { if ($call(1)) g(); }" os
done

cp "$copy/src/base/glob.c" "$copy/src/cli/glob.c"
echo "src/cli/glob.c:1: name: there is already src/base/glob.c" >>"$expected"

printf '#include "server/%s.h"\n' access answer buffers client connection count daemon jobs listen \
    >"$copy/src/server/planted_parts.h"
echo "src/server/planted_parts.h:9: gather: " >>"$expected"

plant server '/* See gone_away.c for the reason. */' comment
plant kernel '/* kernel/gone_away.h */' comment

# What an assertion must not do; the calls are spread over lines in the last one.
plant log 'void f(void) { TN_ASSERT(g(1)); }' assert
plant kernel 'void f(int a) { TN_ASSERT(tn_table_take(a) != 0); }' assert
plant server 'void f(void) { TN_ASSERT(uv_timer_init(a, b) == 0); }' assert
plant server 'void f(void *s) { uv_try_write(s, NULL, 0); }' stream
plant server 'void f(void *s) { (void)uv_tcp_nodelay(s, 1); }' stream
plant engine 'void f(struct os *os) { TN_ASSERT(os->sync(os->ctx, 1) == 0); }' assert
plant base 'void f(int a) { TN_ASSERT(a++ < 3); }' assert
plant base 'void f(int a, int b) { TN_ASSERT((a = b) > 0); }' assert
plant base $'void f(int a) { TN_ASSERT(a > 0 &&\n    list_push(a)); }' assert

body=$(repeat 69 '    g();')
plant engine $'int f(int a) {\n'"$body"$'\n}' function
plant server "$(repeat 701 'int g(int a);')" file
sed -i '$ s/:1: /:701: /' "$expected"
plant engine "/* $(printf '%0115d' 0) */" line

# None of this breaks a rule.
lawful=src/kernel/lawful.c
cat >"$copy/$lawful" <<'C'
/* malloc(1), printf("x"): in a comment, which may also name state.h and
 * #include "os/os.h" and call write(1) or say double. */
#include <stdint.h>

#include "base/status.h"
#include "kernel/lawful.h"

#define LAWFUL_BEGIN(x) \
    do {                \
        x

static const char *text = "free(1) /* not a comment";
/* clang-format off */
#define LAWFUL_TABLE(X) X(A, 1) /*                     A row of a table may be longer, if clang-format does not break it */
/* clang-format on */
static const char quote = '"', brace = '{'; // rand()
struct lawful {
    uint64_t time, double_count;
    int (*open)(int a);
};

int lawful_free(struct lawful *s) {
    TN_ASSERT(s->time >= 1 && s->time != 2 && (unsigned)lawful_count(s) <= lawful_max(s));
    TN_ASSERT(lawful_is_open(s) == (s->time <= sizeof(struct lawful)));
    return s->open(s->time) + (*s).open(1) + lawful_printf(text, quote, brace);
}
C
printf '%s\n' "int f(int a)" "{" "$(repeat 67 '    g();')" "}" >"$copy/src/kernel/lawful_long.c"
mkdir -p "$copy/src/cli" "$copy/src/protocol" "$copy/src/main" "$copy/src/lib"
printf '#include "%s"\n' log/log.h os/os.h kernel/kernel.h >"$copy/src/cli/check_lawful.c"
printf '#include "%s"\n' base/chunks.h kernel/command.h >"$copy/src/protocol/lawful_protocol.c"
printf '#include "%s"\n' server/server.h kernel/kernel.h >"$copy/src/main/lawful_main.c"
printf '#include "%s"\n' tenure.h engine/engine.h os/os.h >"$copy/src/lib/lawful_lib.c"

printf '#include "%s"\n' process/run_frame.h process/cgroup.h >"$copy/src/guardian/lawful_guardian.c"
printf '#include %s\n' '<uv.h>' '<jansson.h>' '"kernel/types.h"' >"$copy/src/process/lawful_process.c"
printf '#include "%s"\n' token/token.h process/run.h engine/engine.h >"$copy/src/supervisor/lawful_supervisor.c"

# The list and the page: a row that uses what stands below it, a room without a directory, an exception
# that excuses nothing, a row that the table does not have, a directory and a file that are not there.
cat >>"$copy/src/rooms.list" <<'LIST'
attic | base cellar | | where nobody goes
base/bytes.h shows os/os.h
nonsense
LIST
lines=$(wc -l <"$copy/src/rooms.list")
{
    echo "src/rooms.list:$((lines - 2)): list: attic uses cellar, which is not above it"
    echo "src/rooms.list:$((lines - 2)): list: there is no src/attic"
    echo "src/rooms.list:$((lines - 1)): list: the exception for os/os.h in base/bytes.h is not needed"
    echo "src/rooms.list:$lines: list: not a row"
    echo "ARCHITECTURE.md:$(grep -n 'rooms: made from' "$root/ARCHITECTURE.md" | cut -d: -f1): table: "
    echo "ARCHITECTURE.md:1: map: does not name the directory cellar/"
    echo "map: there is no src/base/gone.c"
    echo "map: does not name src/kernel/lawful.c"
    echo "map: there is no no_such_part.c or .h"
    echo "map: has no section ### ... \`src/log/\`"
} >>"$expected"
mkdir "$copy/cellar"
sed -i '/^### .*src.log/s/^###/##/; /^### .*src.os/a \    no_such_part.c' "$copy/ARCHITECTURE.md"
echo "\`src/base/gone.c\`" >>"$copy/ARCHITECTURE.md"

if found=$("$root/tools/check-rooms.py" "$copy"); then
    echo "FAILED: $planted planted violations pass"
    exit 1
fi
failures=0
while read -r line; do
    if ! grep -qF -- "$line" <<<"$found"; then
        echo "FAILED: not found: $line"
        failures=$((failures + 1))
    fi
done <"$expected"
if grep lawful <<<"$found" | grep -v ': map: does not name '; then
    echo "FAILED: complaints about what is allowed"
    failures=$((failures + 1))
fi
echo "$planted violations planted, $failures problems"
[ "$failures" -eq 0 ]
