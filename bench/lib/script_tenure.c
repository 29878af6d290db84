/* Tenure's side of the workloads. An answer to a grant begins: result OK lease L epoch E. */
#include "script_tenure.h"

#include "../bench.h"
#include "words.h"

#define LEASE_SECONDS "3600"

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

/* ALLOC HOLDER FROM POOL-0 COUNT 3 FROM POOL-1 COUNT 3 FROM POOL-2 COUNT 2 */
static void put_bundle(struct words *w, const struct tenure_job *job, uint32_t index) {
    char pool[64];
    words_count(w, 2 + 4 * WORK_BUNDLE_POOLS);
    WORDS(w, "$5\r\nALLOC\r\n");
    words_holder(w, index, "", 0);
    for (unsigned i = 0; i < WORK_BUNDLE_POOLS; i++) {
        int len = snprintf(pool, sizeof pool, "%s-%u", job->pool, i);
        WORDS(w, "$4\r\nFROM\r\n");
        words_word(w, pool, (size_t)len);
        WORDS(w, "$5\r\nCOUNT\r\n");
        words_number(w, work_bundle_counts[i]);
    }
}

static size_t next_request(const void *ctx, struct load_lane *lane, char *out) {
    const struct tenure_job *job = ctx;
    struct words w = words_of(out);
    if (lane->step == 0 && job->work == WORK_BUNDLE) {
        put_bundle(&w, job, lane->index);
    } else if (lane->step == 0) {
        WORDS(&w, "*3\r\n$5\r\nALLOC\r\n");
        words_text(&w, job->pool);
        words_holder(&w, lane->index, "", 0);
    } else if (job->work == WORK_RENEW) {
        WORDS(&w, "*3\r\n$5\r\nTOUCH\r\n");
        words_word(&w, lane->text, lane->text_len);
        words_number(&w, lane->number);
    } else {
        WORDS(&w, "*4\r\n$7\r\nRELEASE\r\n");
        words_word(&w, lane->text, lane->text_len);
        words_holder(&w, lane->index, "", 0);
        words_number(&w, lane->number);
    }
    return w.len;
}

/* A returning holder gets the lease that it had. */
static bool same_lease(const struct load_lane *lane, const struct load_reply *reply) {
    return lane->text_len == 0 || (lane->text_len == reply->of[4].len &&
                                   memcmp(lane->text, reply->of[4].at, lane->text_len) == 0);
}

static bool granted(const struct tenure_job *job, struct load_lane *lane,
                    const struct load_reply *reply) {
    if (reply->of[4].len > sizeof lane->text ||
        (job->work == WORK_STICKY && !same_lease(lane, reply))) {
        return false;
    }
    memcpy(lane->text, reply->of[4].at, reply->of[4].len);
    lane->text_len = reply->of[4].len;
    lane->number = strtoull(reply->of[6].at, NULL, 10);
    lane->step = job->work == WORK_KEEP ? 0 : 1;
    if (job->grants != NULL) {
        ++*job->grants;
    }
    return true;
}

static bool take_reply(const void *ctx, struct load_lane *lane, const struct load_reply *reply) {
    const struct tenure_job *job = ctx;
    if (job->work == WORK_CONTEND && lane->step == 0 && reply->type == '-') {
        return reply->of[0].len >= 9 && memcmp(reply->of[0].at, "EXHAUSTED", 9) == 0;
    }
    if ((reply->type != '*' && reply->type != '%') || reply->count < 7 || reply->of[2].len != 2 ||
        memcmp(reply->of[2].at, "OK", 2) != 0) {
        return false;
    }
    if (lane->step == 0) {
        return granted(job, lane, reply);
    }
    lane->step = job->work == WORK_RENEW ? 1 : 0;
    return true;
}

struct load_script tenure_script(const struct tenure_job *job) {
    return (struct load_script){.request = next_request,
                                .reply = take_reply,
                                .ctx = job,
                                .hello = job->resp3 ? "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n" : NULL};
}

void tenure_pool_make(uint16_t port, const char *name, uint32_t values, const char *options) {
    char line[192], request[384], answer[64];
    snprintf(line, sizeof line, "POOL CREATE %s RANGE 0 %u LEASE " LEASE_SECONDS "%s%s", name,
             values - 1, options[0] != '\0' ? " " : "", options);
    (void)words_split(line, request);
    load_ask(port, request, answer, sizeof answer);
    if (answer[0] < '0' || answer[0] > '9') { /* an array */
        die(name, answer);
    }
}

static void fill_with(uint16_t port, const struct load_script *script, uint32_t connections,
                      uint32_t depth, uint32_t rounds) {
    if (depth == 0 || rounds == 0) {
        return;
    }
    struct load *load = load_open(port, connections, depth, script);
    for (; rounds > 0; rounds--) {
        load_round(load);
    }
    load_close(load);
}

void tenure_pool_fill(uint16_t port, const char *name, uint32_t held) {
    struct tenure_job job = {.pool = name, .work = WORK_KEEP};
    struct load_script script = tenure_script(&job);
    uint32_t lanes = 64 * 128, rest = held % lanes;
    fill_with(port, &script, 64, 128, held / lanes);
    fill_with(port, &script, 64, rest / 64, 1);
    fill_with(port, &script, 1, rest % 64, 1);
}
