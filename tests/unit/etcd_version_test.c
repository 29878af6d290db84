/* Which versions of etcd are accepted, and the messages about the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "etcd/server_version.h"

static void versions_are_judged(void **state) {
    static const struct {
        const char *version;
        enum etcd_fitness fitness;
    } rows[] = {
        {"3.4.0", ETCD_FIT},         {"3.4.23", ETCD_FIT},
        {"3.4.32+git", ETCD_FIT},    {"3.5.3", ETCD_FIT},
        {"3.6.0-rc.0", ETCD_FIT},    {"3.5.0", ETCD_FAULTY},
        {"3.5.2", ETCD_FAULTY},      {"3.5.21", ETCD_FIT},
        {"3.3.27", ETCD_TOO_OLD},    {"2.3.8", ETCD_TOO_OLD},
        {"0.4.9", ETCD_TOO_OLD},     {"3.7.0", ETCD_UNKNOWN},
        {"4.0.0", ETCD_UNKNOWN},     {"", ETCD_UNKNOWN},
        {"3", ETCD_UNKNOWN},         {"3.4", ETCD_UNKNOWN},
        {"3.4.", ETCD_UNKNOWN},      {"three.4.5", ETCD_UNKNOWN},
        {"-3.4.5", ETCD_UNKNOWN},    {"3..4", ETCD_UNKNOWN},
        {"10000.4.5", ETCD_UNKNOWN}, {"3.4294967300.0", ETCD_UNKNOWN},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (etcd_version_judge(rows[i].version) != rows[i].fitness) {
            fail_msg("%s", rows[i].version);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(versions_are_judged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
