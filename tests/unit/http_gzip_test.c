/* Accept-Encoding: who gets gzip. */
#include "unit/unit.h"

#include "server/http_parts.h"

static void gzip_is_used_if_it_is_accepted_and_not_liked_less(void **state) {
    (void)state;
    static const char *const yes[] = {"gzip",
                                      "x-gzip",
                                      "GZip",
                                      " gzip ",
                                      "\tgzip\t;\tq=1",
                                      "deflate, gzip",
                                      "br,gzip;q=0.001",
                                      "*",
                                      "*;q=0.5",
                                      "identity;q=0, *",
                                      "gzip;q=0.5, identity;q=0.5",
                                      "gzip;Q=0.3",
                                      "gzip;q=1.000",
                                      ",,gzip"};
    static const char *const no[] = {"",
                                     " ",
                                     ",",
                                     "gzip;q=0",
                                     "gzip;q=0.",
                                     "gzip;q=0.000",
                                     "*;q=0",
                                     "gzip;q=0, *;q=1",
                                     "identity",
                                     "identity;q=0.6, gzip;q=0.5",
                                     "gzi",
                                     "gzipp",
                                     "gzip;q",
                                     "gzip;q=",
                                     "gzip;q=2",
                                     "gzip;q=1.001",
                                     "gzip;q=-1",
                                     "gzip;q=0.5000",
                                     "gzip;q=0,5",
                                     "gzip;level=9",
                                     "br;q=1.0;gzip"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        if (!http_gzip_accepted(yes[i])) {
            fail_msg("'%s' accepts gzip", yes[i]);
        }
    }
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        if (http_gzip_accepted(no[i])) {
            fail_msg("'%s' does not accept gzip", no[i]);
        }
    }
    assert_false(http_gzip_accepted(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gzip_is_used_if_it_is_accepted_and_not_liked_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
