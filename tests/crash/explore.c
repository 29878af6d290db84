/* Enumerating, telling apart and starting; see explore.h. */
#include "crash/explore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "crash/after.h"
#include "crash/name.h"

/* What a start from a state gave: the same for ever. */
struct seen {
    uint64_t key; /* 0: free */
    uint64_t hash;
    size_t loaded;
};

struct explore {
    const struct workload *work;
    const struct explore_options *options;
    struct explore_stats *stats;
    struct seen *seen;
    size_t seen_count, seen_capacity;
    struct tn_prng prng;
    char name[NAME_BYTES];
    bool failed;
    bool late;
};

/* One tape being walked. What is known of its ledger before its first note is what was known before. */
struct level {
    struct explore *x;
    struct ledger ledger; /* the ledger at this point */
    struct after *after;
    unsigned depth;
    size_t op;
    const struct choice *choices;
    size_t choice_count;
    uint8_t picks[CHOICES_MAX];
};

/* ---- States seen ---- */

static struct seen *seen_slot(struct explore *x, uint64_t key) {
    size_t at = (size_t)key & (x->seen_capacity - 1);
    while (x->seen[at].key != 0 && x->seen[at].key != key) {
        at = (at + 1) & (x->seen_capacity - 1);
    }
    return &x->seen[at];
}

static void seen_grow(struct explore *x) {
    struct seen *old = x->seen;
    size_t count = x->seen_capacity;
    x->seen_capacity = count * 2;
    x->seen = calloc(x->seen_capacity, sizeof *x->seen);
    TN_ASSERT(x->seen != NULL);
    for (size_t i = 0; i < count; i++) {
        if (old[i].key != 0) {
            *seen_slot(x, old[i].key) = old[i];
        }
    }
    free(old);
}

static struct seen *seen_find(struct explore *x, uint64_t key) {
    if (x->seen_count * 2 >= x->seen_capacity) {
        seen_grow(x);
    }
    return seen_slot(x, key == 0 ? 1 : key);
}

/* ---- Failing ---- */

static void level_name(const struct level *level, char start, char out[NAME_BYTES]) {
    snprintf(out, NAME_BYTES, "%s", level->x->name);
    name_add_state(out, level->op, level->picks, level->choice_count);
    if (start != '\0') {
        name_add_start(out, start);
    }
}

static void level_failed(const struct level *level, char start, const char *text) {
    struct explore *x = level->x;
    if (x->failed) {
        return;
    }
    x->failed = true;
    char name[NAME_BYTES];
    level_name(level, start, name);
    fprintf(stderr,
            "FAILED %s seed %llu: the power went after operation %zu; %zu batches acknowledged, "
            "%zu tried: %s\nagain: states_test --replay '%s'\n",
            workload_name(x->work->kind), (unsigned long long)x->work->seed, level->op,
            level->ledger.acked, level->ledger.tried, text, name);
}

/* What came back fits what was promised here. */
static bool level_judge(const struct level *level, char start, size_t loaded, uint64_t hash) {
    char text[160];
    if (loaded < level->ledger.acked || loaded > level->ledger.tried) {
        snprintf(text, sizeof text, "%zu batches are there", loaded);
        level_failed(level, start, text);
        return false;
    }
    if (ledger_hash(&level->ledger, loaded) != hash) {
        level_failed(level, start, "batches are there that were given up");
        return false;
    }
    return true;
}

/* ---- Starting ---- */

// NOLINTBEGIN(misc-no-recursion): as deep as the options say

static void explore_tape(struct explore *x, const struct image *image, const struct tape *tape,
                         const struct ledger *ledger, const struct ledger *before, unsigned depth);

/* One start; what it does to the disk may be explored in turn. */
static bool level_start(const struct level *level, const struct image *image,
                        enum workload_start start, bool nested, struct workload_result *result) {
    struct explore *x = level->x;
    struct ledger fork;
    struct tape *tape = tape_new(image, image->hash + (uint64_t)start);
    ledger_fork(&fork, &level->ledger, ledger_tip(&level->ledger), level->ledger.acked);
    x->stats->starts += 1;
    bool right = workload_start(x->work, tape, &fork, start, result);
    if (!right) {
        level_failed(level, (char)start, result->text);
    } else if (nested) {
        size_t len = strlen(x->name);
        char name[NAME_BYTES];
        level_name(level, (char)start, name);
        memcpy(x->name, name, sizeof name);
        explore_tape(x, image, tape, &fork, &level->ledger, level->depth + 1);
        x->name[len] = '\0';
    }
    ledger_free(&fork);
    tape_free(tape);
    return right;
}

static bool one_in(uint64_t hash, unsigned shift, unsigned n) {
    return n > 0 && (hash >> shift) % n == 0;
}

/* The other ways to start, for some of the states; which, is up to the state. */
static void state_more(const struct level *level, const struct image *image) {
    static const enum workload_start nested[] = {START_NORMAL, START_APPEND, START_OLDER,
                                                 START_NORMAL};
    struct explore *x = level->x;
    const struct explore_options *options = x->options;
    struct workload_result result;
    uint64_t bits = tn_mix64(image->hash);
    bool log = x->work->kind != WORKLOAD_KEYS && x->work->kind != WORKLOAD_BADKEYS;
    bool engine = x->work->kind == WORKLOAD_ENGINE || x->work->kind == WORKLOAD_BROKEN;
    if (one_in(bits, 0, options->older_in) && log) {
        (void)level_start(level, image, START_OLDER, false, &result);
    }
    if (one_in(bits, 4, options->check_in) && log) {
        (void)level_start(level, image, START_CHECK, false, &result);
    }
    if (one_in(bits, 8, options->again_in) && log) {
        (void)level_start(level, image, START_AGAIN, false, &result);
    }
    if (one_in(bits, 16, options->engine_in) && engine) {
        x->stats->engines += 1;
        (void)level_start(level, image, START_ENGINE, false, &result);
    }
    unsigned rarer = level->depth > 0 ? 8 : 1;
    if (level->depth < options->depth && one_in(bits, 24, options->nested_in * rarer)) {
        enum workload_start start = log ? nested[(bits >> 40) % 4] : START_NORMAL;
        /* What it appends are no commands: nothing for an engine. */
        start = engine && start == START_APPEND ? START_NORMAL : start;
        (void)level_start(level, image, start, true, &result);
    }
}

static void state_visit(struct level *level) {
    struct explore *x = level->x;
    x->stats->states += 1;
    uint64_t key = after_hash(level->after, level->picks);
    struct seen *seen = seen_find(x, key);
    if (seen->key != 0) {
        (void)level_judge(level, START_NORMAL, seen->loaded, seen->hash);
        return;
    }
    struct image image;
    struct workload_result result;
    after_image(level->after, level->picks, &image);
    x->stats->distinct += 1;
    x->stats->nested += level->depth > 0;
    if (level_start(level, &image, START_NORMAL, false, &result) &&
        level_judge(level, START_NORMAL, result.loaded, result.hash)) {
        *seen =
            (struct seen){.key = key == 0 ? 1 : key, .hash = result.hash, .loaded = result.loaded};
        x->seen_count += 1;
        state_more(level, &image);
    }
    image_free(&image);
}

/* ---- Enumerating ---- */

static bool level_goes_on(struct level *level) {
    struct explore *x = level->x;
    if (x->options->deadline_ms != 0 && !x->late && (x->stats->states & 63) == 0) {
        const struct os *os = os_posix();
        x->late = os->clock_boot_ms(os->ctx) >= x->options->deadline_ms;
    }
    return !x->failed && !x->late;
}

/* Newest version of everything, or of nothing. */
static void picks_fill(struct level *level, bool kept) {
    for (size_t i = 0; i < level->choice_count; i++) {
        level->picks[i] = kept ? (uint8_t)(level->choices[i].options - 1) : 0;
    }
}

static void visit_all(struct level *level) {
    picks_fill(level, false);
    size_t at = 0;
    while (at < level->choice_count || level->choice_count == 0) {
        if (!level_goes_on(level)) {
            return;
        }
        state_visit(level);
        at = 0;
        while (at < level->choice_count) {
            level->picks[at] += 1;
            if (level->picks[at] < level->choices[at].options) {
                break;
            }
            level->picks[at] = 0;
            at += 1;
        }
        if (level->choice_count == 0) {
            return;
        }
    }
}

/* One of the samples: the first ones are the corners. */
static void picks_sample(struct level *level, size_t sample) {
    struct tn_prng *prng = &level->x->prng;
    size_t count = level->choice_count;
    size_t one = (size_t)tn_prng_below(prng, count);
    uint64_t odds = 1 + tn_prng_below(prng, 15); /* of 16 */
    switch (sample < 2 ? sample : 2 + tn_prng_below(prng, 5)) {
    case 0:
    case 1:
        picks_fill(level, sample == 1);
        return;
    case 2:
    case 3: { /* one thing kept, or lost */
        bool kept = odds % 2 == 0;
        picks_fill(level, kept);
        level->picks[one] = kept ? 0 : (uint8_t)(level->choices[one].options - 1);
        return;
    }
    case 4: /* a first part */
        picks_fill(level, true);
        memset(level->picks + one, 0, count - one);
        return;
    default:
        break;
    }
    for (size_t i = 0; i < count; i++) {
        bool kept = tn_prng_below(prng, 16) < odds;
        level->picks[i] =
            kept ? (uint8_t)(1 + tn_prng_below(prng, level->choices[i].options - 1)) : 0;
    }
}

/* A sector that was being written comes back as garbage, or half written, or with the whole
 * physical sector around it lost. */
static void picks_garble(struct level *level) {
    struct tn_prng *prng = &level->x->prng;
    for (unsigned i = 0; i < 3; i++) {
        size_t at = (size_t)tn_prng_below(prng, level->choice_count);
        const struct choice *choice = &level->choices[at];
        if (choice->kind == CHOICE_SECTOR) {
            uint64_t luck = tn_prng_below(prng, 4);
            bool physical = luck >= 2 && after_is_log(level->after, choice->inode);
            level->picks[at] = physical ? PICK_PHYSICAL : luck % 2 == 0 ? PICK_GARBAGE : PICK_HALF;
        }
    }
}

static void visit_point(struct level *level) {
    const struct explore_options *options = level->x->options;
    size_t combinations_max = options->combinations_max >> (2 * level->depth);
    size_t samples = options->samples >> level->depth;
    level->choices = after_choices(level->after, &level->choice_count);
    size_t combinations = 1;
    for (size_t i = 0; i < level->choice_count && combinations <= combinations_max; i++) {
        combinations *= level->choices[i].options;
    }
    bool all = combinations <= combinations_max;
    if (all) {
        visit_all(level);
    }
    for (size_t i = 0; i < samples && !all && level_goes_on(level); i++) {
        picks_sample(level, i);
        state_visit(level);
    }
    for (size_t i = 0; i < samples / 8 && level->choice_count > 0 && level_goes_on(level); i++) {
        picks_sample(level, 2);
        picks_garble(level);
        state_visit(level);
    }
}

static void explore_tape(struct explore *x, const struct image *image, const struct tape *tape,
                         const struct ledger *ledger, const struct ledger *before, unsigned depth) {
    struct level *level = calloc(1, sizeof *level);
    TN_ASSERT(level != NULL);
    *level = (struct level){.x = x, .after = after_new(image), .depth = depth};
    ledger_fork(&level->ledger, ledger, ledger_tip(before), before->acked);
    size_t count;
    const struct tape_op *ops = tape_ops(tape, &count);
    for (level->op = 0; level->op < count && level_goes_on(level); level->op++) {
        const struct tape_op *op = &ops[level->op];
        after_apply(level->after, op);
        if (op->kind == TAPE_NOTE) {
            ledger_free(&level->ledger);
            ledger_fork(&level->ledger, ledger, op->tip, op->acked);
        }
        x->stats->operations += 1;
        visit_point(level);
    }
    after_free(level->after);
    ledger_free(&level->ledger);
    free(level);
}

// NOLINTEND(misc-no-recursion)

bool explore_workload(enum workload_kind kind, uint64_t seed, const struct explore_options *options,
                      struct explore_stats *stats) {
    struct workload work;
    workload_run(&work, kind, seed);
    struct explore x = {.work = &work, .options = options, .stats = stats, .seen_capacity = 4096};
    x.seen = calloc(x.seen_capacity, sizeof *x.seen);
    TN_ASSERT(x.seen != NULL);
    tn_prng_seed(&x.prng, seed);
    name_begin(x.name, workload_name(kind), seed);
    if (work.wrong[0] != '\0') {
        fprintf(stderr, "FAILED %s seed %llu: without any crash: %s\n", workload_name(kind),
                (unsigned long long)seed, work.wrong);
        x.failed = true;
    } else {
        explore_tape(&x, NULL, work.tape, &work.ledger, &(struct ledger){0}, 0);
    }
    stats->workloads += 1;
    free(x.seen);
    workload_free(&work);
    return !x.failed;
}
