/* What the unit tests of the base room share: the seed, memory as the owners give it, and a way to
 * see an assertion fail.
 *
 * Random sequences start from TENURE_SEED if it is set, else from a fixed seed; either way it is
 * printed before anything can go wrong, so that a failure can be played again. */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/prng.h"

static inline struct tn_prng unit_random(void) {
    const char *text = getenv("TENURE_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 20240229;
    fprintf(stderr, "TENURE_SEED=%llu\n", (unsigned long long)seed);
    struct tn_prng random;
    tn_prng_seed(&random, seed);
    return random;
}

static inline uint32_t unit_below(struct tn_prng *random, uint32_t n) {
    return (uint32_t)tn_prng_below(random, n);
}

/* Zero-filled and aligned to 64, as tables want it; never empty. */
static inline void *unit_memory(size_t len) {
    size_t rounded = (len + 64) & ~(size_t)63;
    void *memory = aligned_alloc(64, rounded);
    assert_non_null(memory);
    memset(memory, 0, rounded);
    return memory;
}

/* True if the call ends in an abort; it happens in a child, so nothing changes here. */
static inline bool unit_aborts(void (*call)(void *), void *ctx) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fclose(stderr);
        call(ctx);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#endif
