/* Parking: a thread sleeps on a word until another one changes it.
 *
 * One word per sleeper, or one counter for a few of them: the thread that changes the word wakes exactly
 * those that sleep on it, without a mutex that they would all fight for. The word is an ordinary
 * atomic; all ordering comes from the loads and stores of the callers. Waits may end early for no
 * reason: callers look at the word again. */
#ifndef TN_ENGINE_PARK_H
#define TN_ENGINE_PARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef _Atomic uint32_t engine_park_word;

/* Sleeps unless the word has already changed from `seen`. */
void engine_park_wait(engine_park_word *word, uint32_t seen);

/* The same, for at most `ns` nanoseconds (of time during which the machine is not suspended). False
 * if that is over. */
bool engine_park_wait_ns(engine_park_word *word, uint32_t seen, uint64_t ns);

static inline bool engine_park_wait_ms(engine_park_word *word, uint32_t seen, uint64_t ms) {
    return engine_park_wait_ns(word, seen, ms * 1000000u);
}

/* Wakes everyone who sleeps on the word. The word may be gone by the time of this call: a wake-up
 * of whatever is at that address then is harmless. */
void engine_park_wake(engine_park_word *word);

/* Changes a counter word and wakes its sleepers. */
static inline void engine_park_bump(engine_park_word *word) {
    atomic_fetch_add_explicit(word, 1, memory_order_seq_cst);
    engine_park_wake(word);
}

/* Asks for the shortest time slices for the calling thread: after a sleep it soon gets a processor, even if
 * threads that compute without a pause have all of them. Only a hint: Linux before 6.12 ignores it, and
 * threads of another scheduling policy than the default keep theirs. */
void engine_park_wakes_early(void);

#endif
