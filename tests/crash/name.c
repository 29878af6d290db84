/* Names of states; see name.h. */
#include "crash/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "crash/after.h"

void name_begin(char out[NAME_BYTES], const char *workload, uint64_t seed) {
    snprintf(out, NAME_BYTES, "%s/%llu/w", workload, (unsigned long long)seed);
}

static char pick_letter(uint8_t pick) {
    if (pick == PICK_GARBAGE) {
        return 'x';
    }
    if (pick == PICK_PHYSICAL) {
        return 'p';
    }
    return pick == PICK_HALF ? 'h' : (char)('0' + pick);
}

void name_add_state(char out[NAME_BYTES], size_t op, const uint8_t *picks, size_t count) {
    size_t len = strlen(out);
    len += (size_t)snprintf(out + len, NAME_BYTES - len, "%zu:", op);
    for (size_t i = 0; i < count;) {
        size_t run = 1;
        while (i + run < count && picks[i + run] == picks[i]) {
            run += 1;
        }
        TN_ASSERT(len + 24 < NAME_BYTES);
        len += (size_t)snprintf(out + len, NAME_BYTES - len, "%c", pick_letter(picks[i]));
        if (run > 1) {
            len += (size_t)snprintf(out + len, NAME_BYTES - len, "~%zu%s", run,
                                    i + run < count ? "," : "");
        }
        i += run;
    }
}

void name_add_start(char out[NAME_BYTES], char start) {
    size_t len = strlen(out);
    snprintf(out + len, NAME_BYTES - len, "/%c", start);
}

bool name_read_state(const char **at, size_t *ret_op, uint8_t *picks, size_t capacity,
                     size_t *ret_count) {
    char *end;
    *ret_op = strtoul(*at, &end, 10);
    if (end == *at || *end != ':') {
        return false;
    }
    const char *next = end + 1;
    size_t count = 0;
    while (*next != '\0' && *next != '/') {
        uint8_t pick = *next == 'x'   ? PICK_GARBAGE
                       : *next == 'p' ? PICK_PHYSICAL
                       : *next == 'h' ? PICK_HALF
                                      : (uint8_t)(*next - '0');
        size_t run = 1;
        next += 1;
        if (*next == '~') {
            run = strtoul(next + 1, &end, 10);
            next = *end == ',' ? end + 1 : end;
        }
        if (run > capacity - count) {
            return false;
        }
        memset(picks + count, pick, run);
        count += run;
    }
    *at = next;
    *ret_count = count;
    return true;
}
