/* The search for a text in events: compared with the obvious one, and linear in the bytes looked at. */
#include "unit/unit.h"

#include <ctype.h>

#include "base/prng.h"
#include "server/event_search.h"

static bool obvious(struct tn_bytes whole, struct tn_bytes part) {
    for (uint32_t at = 0; at + part.len <= whole.len; at++) {
        uint32_t same = 0;
        while (same < part.len && tolower(whole.at[at + same]) == tolower(part.at[same])) {
            same++;
        }
        if (same == part.len) {
            return true;
        }
    }
    return false;
}

static struct tn_bytes some(struct tn_prng *prng, uint8_t *out, uint32_t most) {
    static const char letters[] = "aAbB";
    uint32_t len = (uint32_t)tn_prng_below(prng, most + 1);
    for (uint32_t i = 0; i < len; i++) {
        out[i] = (uint8_t)letters[tn_prng_below(prng, 4)];
    }
    return tn_bytes_of(out, len);
}

static void it_finds_what_the_obvious_search_finds(void **state) {
    struct tn_prng prng;
    uint8_t wholes[64], parts[12];
    uint32_t found = 0;
    (void)state;
    tn_prng_seed(&prng, 1);
    for (uint32_t i = 0; i < 20000; i++) {
        struct tn_bytes whole = some(&prng, wholes, sizeof wholes);
        struct tn_bytes part = some(&prng, parts, sizeof parts);
        struct server_search search;
        server_search_set(&search, part);
        bool is = obvious(whole, part);
        assert_int_equal(server_search_in(&search, whole), is);
        assert_int_equal(search.looked, whole.len);
        found += is;
    }
    assert_in_range(found, 2000, 18000);
}

static void the_longest_text_is_found_at_the_end(void **state) {
    uint8_t part[KERNEL_NOTE_MAX];
    uint8_t whole[4096];
    struct server_search search;
    (void)state;
    memset(part, 'a', sizeof part);
    part[sizeof part - 1] = 'b';
    memset(whole, 'A', sizeof whole);
    server_search_set(&search, tn_bytes_of(part, sizeof part));
    assert_false(server_search_in(&search, tn_bytes_of(whole, sizeof whole)));
    whole[sizeof whole - 1] = 'B';
    assert_true(server_search_in(&search, tn_bytes_of(whole, sizeof whole)));
    assert_false(server_search_in(&search, tn_bytes_of(whole, sizeof part - 1)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_finds_what_the_obvious_search_finds),
        cmocka_unit_test(the_longest_text_is_found_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
