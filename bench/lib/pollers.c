/* Threads that sleep, ask and wait for the reply. */
#include "pollers.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../bench.h"
#include "load.h"
#include "loopback.h"
#include "words.h"

struct poller {
    pthread_t thread;
    int socket;
    char attempt[LOAD_REQUEST_MAX], release[LOAD_REQUEST_MAX];
    size_t attempt_len, release_len;
    uint64_t first_ns, end_ns; /* of this turn */
    struct pollers_count count;
};

struct pollers {
    unsigned count;
    struct poller *of;
};

static _Noreturn void die(const char *what) {
    fprintf(stderr, "bench: a client that polls: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int connect_to(uint16_t port) {
    int made = loopback_connect(port);
    if (made < 0) {
        die("cannot connect");
    }
    return made;
}

/* Returns the first byte of the reply, which is one line. */
static char ask(struct poller *poller, const char *request, size_t len) {
    char reply[256] = "";
    size_t got = 0;
    if (send(poller->socket, request, len, MSG_NOSIGNAL) != (ssize_t)len) {
        die("cannot send");
    }
    poller->count.commands++;
    while (got == 0 || reply[got - 1] != '\n') {
        ssize_t more = recv(poller->socket, reply + got, sizeof reply - got, 0);
        if (more <= 0) {
            die("cannot receive");
        }
        got += (size_t)more;
    }
    if (reply[0] == '-') {
        fprintf(stderr, "bench: not the expected reply: %.*s", (int)got, reply);
        exit(1);
    }
    return reply[0];
}

static void sleep_until(uint64_t ns) {
    struct timespec until = {.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
    }
}

static void *poll_run(void *ctx) {
    struct poller *poller = ctx;
    uint64_t next_ns = poller->first_ns;
    while (next_ns < poller->end_ns) {
        sleep_until(next_ns);
        if (ask(poller, poller->attempt, poller->attempt_len) == '+') {
            poller->count.grants++;
            (void)ask(poller, poller->release, poller->release_len);
        }
        next_ns = bench_now_ns() + POLLERS_PAUSE_NS;
    }
    return NULL;
}

struct pollers *pollers_open(uint16_t port, unsigned count, const char *delete_sha) {
    struct pollers *pollers = malloc(sizeof *pollers);
    struct poller *of = calloc(count, sizeof *of);
    if (pollers == NULL || of == NULL) {
        die("no memory");
    }
    *pollers = (struct pollers){.count = count, .of = of};
    for (unsigned i = 0; i < count; i++) {
        char words[96];
        of[i].socket = connect_to(port);
        snprintf(words, sizeof words, "SET polled p/%u NX PX 3600000", i);
        of[i].attempt_len = words_split(words, of[i].attempt);
        snprintf(words, sizeof words, "EVALSHA %s 1 polled p/%u", delete_sha, i);
        of[i].release_len = words_split(words, of[i].release);
    }
    return pollers;
}

void pollers_close(struct pollers *pollers) {
    for (unsigned i = 0; i < pollers->count; i++) {
        (void)close(pollers->of[i].socket);
    }
    free(pollers->of);
    free(pollers);
}

struct pollers_count pollers_turn(struct pollers *pollers, uint64_t ns) {
    uint64_t start = bench_now_ns();
    struct pollers_count sum = {0};
    for (unsigned i = 0; i < pollers->count; i++) {
        struct poller *poller = &pollers->of[i];
        poller->first_ns = start + (uint64_t)POLLERS_PAUSE_NS * i / pollers->count;
        poller->end_ns = start + ns;
        poller->count = (struct pollers_count){0};
        errno = pthread_create(&poller->thread, NULL, poll_run, poller);
        if (errno != 0) {
            die("cannot start a thread");
        }
    }
    for (unsigned i = 0; i < pollers->count; i++) {
        (void)pthread_join(pollers->of[i].thread, NULL);
        sum.grants += pollers->of[i].count.grants;
        sum.commands += pollers->of[i].count.commands;
    }
    return sum;
}
