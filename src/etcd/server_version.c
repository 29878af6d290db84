#include "etcd/server_version.h"

#include <stdbool.h>
#include <stddef.h>

#define NUMBER_MAX 999u

/* Reads a number of at most three digits and advances *at. */
static bool number_read(const char **at, unsigned *ret_number) {
    unsigned number = 0;
    const char *from = *at;
    while (**at >= '0' && **at <= '9' && number <= NUMBER_MAX / 10) {
        number = number * 10 + (unsigned)(**at - '0');
        (*at)++;
    }
    *ret_number = number;
    return *at != from;
}

static bool point_read(const char **at) {
    bool there = **at == '.';
    *at += there;
    return there;
}

enum etcd_fitness etcd_version_judge(const char *version) {
    unsigned major;
    unsigned minor;
    unsigned patch;
    if (!number_read(&version, &major) || !point_read(&version) || !number_read(&version, &minor) ||
        !point_read(&version) || !number_read(&version, &patch)) {
        return ETCD_UNKNOWN; /* a suffix such as "-rc.0" or "+git" does not matter */
    }
    if (major < 3 || (major == 3 && minor < 4)) {
        return ETCD_TOO_OLD;
    }
    if (major > 3 || minor > 6) {
        return ETCD_UNKNOWN;
    }
    return minor == 5 && patch <= 2 ? ETCD_FAULTY : ETCD_FIT;
}
