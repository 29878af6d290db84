/* The seeds that a simulation plays, from its environment.
 *
 *   TENURE_SEED=n       start with this seed
 *   TENURE_SEEDS=a..b   play all of these (or n alone)
 *   TENURE_SECONDS=s    start no new seed after this time */
#ifndef TESTS_SIM_SEEDS_H
#define TESTS_SIM_SEEDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

struct seeds {
    uint64_t first;
    uint64_t last;    /* 0: not given */
    uint64_t seconds; /* 0: no limit */
    time_t began;
};

static inline uint64_t seeds_number(const char *name, uint64_t standard) {
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 0) : standard;
}

static inline struct seeds seeds_given(uint64_t first) {
    struct seeds seeds = {.first = seeds_number("TENURE_SEED", first),
                          .seconds = seeds_number("TENURE_SECONDS", 0),
                          .began = time(NULL)};
    char *text = getenv("TENURE_SEEDS");
    if (text != NULL && text[0] != '\0') {
        seeds.first = seeds.last = strtoull(text, &text, 0);
        if (text[0] == '.' && text[1] == '.') {
            seeds.last = strtoull(text + 2, NULL, 0);
        }
    }
    return seeds;
}

/* The last seed to play, where the program plays `count` seeds by itself. */
static inline uint64_t seeds_last(const struct seeds *seeds, uint64_t count) {
    return seeds->last != 0 ? seeds->last : seeds->first + count - 1;
}

static inline bool seeds_time_is_up(const struct seeds *seeds) {
    return seeds->seconds > 0 && (uint64_t)(time(NULL) - seeds->began) >= seeds->seconds;
}

#endif
